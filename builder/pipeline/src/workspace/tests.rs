#![allow(clippy::unwrap_used, reason = "tests")]

use super::InstanceDirectory;

const INSTANCES: usize = 8;
const TIMES: usize = 200;

#[test]
fn an_instance_that_starts_removes_no_other_that_starts() {
    let work = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for instance in 0..INSTANCES {
            let work = work.path();
            scope.spawn(move || {
                for time in 0..TIMES {
                    let directory = InstanceDirectory::make(work, &format!("{instance}-{time}")).unwrap();
                    std::fs::write(directory.path().join("scratch"), "").unwrap();
                }
            });
        }
    });
}
