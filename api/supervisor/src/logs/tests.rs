#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn log_in(dir: &tempfile::TempDir, form: Form) -> Log {
    Log::at(dir.path().join("server.log"), form)
}

fn read(dir: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(dir.path().join(name)).unwrap()
}

/// A program of its own writes faster than files are set aside.
#[test]
fn a_running_program_loses_and_splits_no_line_while_files_are_set_aside() {
    const LINES: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = io::pipe().unwrap();
    let copying = Copying::start(reader, Arc::new(Mutex::new(log_in(&dir, Form::Text)))).unwrap();
    let status = std::process::Command::new("seq")
        .args(["-f", "%07.0f a line that is as long as lines of logs are, more or less", &LINES.to_string()])
        .stdout(writer)
        .status()
        .unwrap();
    assert!(status.success());
    copying.finish();
    let files: Vec<String> =
        ["server.log.2", "server.log.1", "server.log"].iter().map(|name| read(&dir, name)).collect();
    assert!(files.iter().all(|text| text.len() as u64 <= FILE_BYTES_MAX && text.ends_with('\n')));
    let mut expected = 1;
    for line in files.iter().flat_map(|text| text.lines()) {
        assert_eq!(line, format!("{expected:07} a line that is as long as lines of logs are, more or less"));
        expected += 1;
    }
    assert_eq!(expected, LINES + 1);
}

#[test]
fn files_are_bounded_in_size_and_number() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = log_in(&dir, Form::Text);
    let line = [vec![b'x'; (FILE_BYTES_MAX / 2) as usize], vec![b'\n']].concat();
    for _ in 0..2 * (OLD_FILES_MAX + 3) {
        log.append(&line);
    }
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["server.log", "server.log.1", "server.log.2", "server.log.3", "server.log.4"]);
    for name in names {
        assert!(std::fs::metadata(dir.path().join(name)).unwrap().len() <= FILE_BYTES_MAX);
    }
}

/// Neither a directory that is not there nor a file that somebody removed ends a log.
#[test]
fn lines_that_cannot_be_written_are_counted_and_told_once() {
    for form in [Form::Text, Form::Json] {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::at(dir.path().join("later/server.log"), form);
        log.append(b"one\ntwo\n");
        log.append(b"three\n");
        std::fs::create_dir(dir.path().join("later")).unwrap();
        log.append(b"four\n");
        log.append(b"five\n");
        let text = read(&dir, "later/server.log");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), &lines[1..]), (3, ["four", "five"].as_slice()), "{text}");
        let told = match form {
            Form::Text => lines[0].contains("lines=3 cause=\"No such file"),
            Form::Json => {
                let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
                line["fields"]["lines"] == 3 && line["level"] == "WARN"
            }
        };
        assert!(told, "{text}");
        std::fs::remove_file(dir.path().join("later/server.log")).unwrap();
        log.append(b"six\n");
        assert_eq!(read(&dir, "later/server.log"), "six\n");
    }
}

#[test]
fn lines_are_whole_whatever_a_program_does() {
    let mut text = b"half".to_vec();
    assert_eq!(whole_lines(&mut text), b"");
    text.extend(b" and half\nnext");
    assert_eq!((whole_lines(&mut text), text), (b"half and half\n".to_vec(), b"next".to_vec()));
    let mut long = vec![b'x'; LINE_BYTES_MAX];
    assert_eq!((whole_lines(&mut long).len(), long.len()), (LINE_BYTES_MAX + 1, 0));

    let dir = tempfile::tempdir().unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    let copying = Copying::start(reader, Arc::new(Mutex::new(log_in(&dir, Form::Text)))).unwrap();
    writer.write_all(b"whole\ncut").unwrap();
    drop(writer);
    copying.finish();
    assert_eq!(read(&dir, "server.log"), "whole\ncut\n");
}
