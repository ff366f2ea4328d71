#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::{Arc, Mutex};

use super::*;

#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What stands in the log after `says`.
fn logged(json: bool, says: impl FnOnce()) -> String {
    let written = Written::default();
    let makes = written.clone();
    let form = if json { Form::Json } else { Form::Text };
    let log = tracing_subscriber::fmt().with_writer(Lines::new(move || makes.clone(), form));
    if json {
        tracing::subscriber::with_default(log.json().finish(), says);
    } else {
        tracing::subscriber::with_default(log.with_ansi(false).finish(), says);
    }
    String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
}

/// Every way in which a value stands in an event, with every end of a line and what steers a terminal.
#[test]
fn no_value_ends_a_line_or_steers_a_terminal() {
    let hostile = "x\nFORGED\r\n\u{85}\u{2028}\u{2029}\u{b}\u{c}\u{1b}[2J\u{9b}31m\u{7f}\0end";
    for json in [false, true] {
        let text = logged(json, || {
            tracing::info!(shown = %hostile, debugged = ?hostile, plain = hostile, "{hostile}");
        });
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(text.ends_with('\n') && text.contains("FORGED") && text.contains("end"), "{text:?}");
        let steers = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
        assert!(!text.contains(steers), "{text:?}");
    }
}

/// Has room for so many bytes, like a disk.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (room, written) = &mut *self.0.lock().unwrap();
        let taken = bytes.len().min(*room);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *room -= taken;
        written.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_find_no_room_are_counted_and_told_once_there_is_room_again() {
    for (form, says) in [(Form::Text, "lines=3 cause=\"no storage space\""), (Form::Json, "\"lines\":3,")] {
        let disk = Disk::default();
        let lines = Lines::new(
            {
                let disk = disk.clone();
                move || disk.clone()
            },
            form,
        );
        let line = |text: &str| lines.make_writer().write_all(text.as_bytes());
        let room = |bytes: usize| disk.0.lock().unwrap().0 = bytes;
        room(10);
        for text in ["whole\n", "cut here\n", "missing\n", "missing\n"] {
            line(text).unwrap();
        }
        room(1_000);
        line("after\n").unwrap();
        line("and then\n").unwrap();
        let written = String::from_utf8(disk.0.lock().unwrap().1.clone()).unwrap();
        let told: Vec<&str> = written.lines().collect();
        assert_eq!((told[0], told[1], told[3], told[4]), ("whole", "cut ", "after", "and then"), "{written}");
        assert!(told[2].contains(says) && told.len() == 5, "{written}");
    }
}

/// A real one, and a real reader that went away: the event must neither fail nor panic.
#[test]
fn a_full_disk_and_a_reader_that_is_gone_end_nobody() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (reader, pipe) = io::pipe().unwrap();
    drop(reader);
    let pipe = std::fs::File::from(std::os::fd::OwnedFd::from(pipe));
    for out in [full, pipe] {
        let lines = Lines::new(move || out.try_clone().unwrap(), Form::Text);
        lines.make_writer().write_all(b"an event\n").unwrap();
        assert_eq!(lines.losses.missing_lines(), 1);
    }
}

#[test]
fn what_is_harmless_stays_as_it_is() {
    let text = logged(false, || tracing::info!(path = "C:\\größe", "an event"));
    assert!(text.contains("an event path=\"C:\\\\größe\"") && text.lines().count() == 1, "{text:?}");
    assert!(matches!(escaped("größe\\n"), Cow::Borrowed("größe\\n")));
}
