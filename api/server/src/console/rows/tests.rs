use chrono::Utc;
use mfaas_wire::{Event, EventKind};

use super::event_rows;

fn event(seq: i64, stage: &str, kind: EventKind) -> Event {
    let wall_ms = (kind == EventKind::Finished).then_some(12.0);
    Event {
        seq,
        at: Utc::now(),
        stage: stage.to_owned(),
        kind,
        wall_ms,
        cpu_ms: None,
        state: None,
        diagnostics: Vec::new(),
        version: None,
    }
}

#[test]
fn an_ended_stage_takes_the_place_of_its_beginning_and_a_retry_keeps_its_own() {
    use EventKind::{Finished, Started};
    let rows = event_rows(vec![
        event(1, "unpack", Started),
        event(2, "unpack", Finished),
        event(3, "compile", Started),
        event(4, "unpack", Started),
        event(5, "unpack", Finished),
        event(6, "sign", Finished),
    ]);
    let shown: Vec<_> = rows.iter().map(|row| (row.seq, row.stage.as_str(), row.wall_ms.as_str())).collect();
    assert_eq!(shown, [(2, "unpack", "12"), (3, "compile", ""), (5, "unpack", "12"), (6, "sign", "12")]);
}
