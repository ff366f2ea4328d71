//! The bombs that end quickly, and each limit of the cage with a lowered value. All of them, with
//! the values in force, are run by the program `mfaas-bombs`.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::OnceLock;

use mfaas_bombs::bomb::Bomb;
use mfaas_bombs::installed::Installed;
use mfaas_bombs::run::run;

fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| Installed::get(None).unwrap())
}

#[test]
fn quick_bombs_are_ended_by_a_limit_that_the_answer_names() {
    let quick: Vec<Bomb> = Bomb::all().unwrap().into_iter().filter(|bomb| bomb.expect.quick).collect();
    assert!(quick.len() >= 15, "{} bombs are quick", quick.len());
    for bomb in quick {
        let ending = run(&bomb, installed(), &[]).unwrap();
        let faults = ending.faults(&bomb.expect);
        assert!(faults.is_empty(), "{}: {faults:?}", bomb.name);
    }
}

#[test]
fn each_limit_of_the_cage_is_named_with_its_value() {
    let rows = [
        ("const-copies", "cpu_seconds_max=1", "1 s", "MF0402"),
        ("const-copies", "wall_seconds_max=2", "2 s", "MF0403"),
        ("format-doubling", "memory_bytes_max=402653184", "384 MiB", "MF0404"),
        ("error-flood", "output_bytes_max=65536", "64 KiB", "MF0405"),
        ("data-200-mib", "file_bytes_max=8388608", "8 MiB", "MF0405"),
    ];
    for (name, lowered, value, code) in rows {
        let limit = lowered.split_once('=').unwrap().0;
        let bomb = Bomb::named(name).unwrap().expecting(limit, code);
        let ending = run(&bomb, installed(), &[lowered]).unwrap();
        let faults = ending.faults(&bomb.expect);
        assert!(faults.is_empty(), "{name} with {lowered}: {faults:?}");
        assert_eq!(ending.limit, Some((limit.to_owned(), value.to_owned())));
    }
}

#[test]
fn there_are_thirty_bombs_and_no_file_is_large() {
    let bombs = Bomb::all().unwrap();
    assert!(bombs.len() >= 32, "{} bombs", bombs.len());
    for bomb in &bombs {
        assert!(!bomb.source().unwrap().is_empty(), "{}", bomb.name);
        assert!(!bomb.expect.what.is_empty(), "{}", bomb.name);
    }
}
