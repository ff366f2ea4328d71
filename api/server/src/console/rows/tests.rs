use chrono::{DateTime, TimeDelta, Utc};
use mfaas_wire::{Event, EventKind};

use super::{EventRow, event_rows, whole_ms};

fn received() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH
}

/// One event at every second.
fn event(seq: i64, stage: &str, kind: EventKind) -> Event {
    let wall_ms = (kind == EventKind::Finished).then_some(12.0);
    Event {
        seq,
        at: received() + TimeDelta::seconds(seq),
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
    let events = vec![
        event(1, "unpack", Started),
        event(2, "unpack", Finished),
        event(3, "compile", Started),
        event(4, "unpack", Started),
        event(5, "unpack", Finished),
        event(6, "sign", Finished),
    ];
    let rows = event_rows(events, received(), None);
    let shown: Vec<_> = rows.iter().map(|row| (row.seq, row.stage.as_str(), row.wall_ms.as_str())).collect();
    assert_eq!(shown, [(2, "unpack", "12"), (3, "compile", ""), (5, "unpack", "12"), (6, "sign", "12")]);
}

#[test]
fn bars_stand_where_the_stages_ran_and_only_the_last_stage_of_a_running_deployment_goes_on() {
    use EventKind::{Finished, Started, State};
    let now = received() + TimeDelta::seconds(60);
    let bars = |rows: &[EventRow]| -> Vec<_> { rows.iter().map(|row| (row.begin_ms, row.end_ms)).collect() };
    let running =
        || vec![event(1, "compile", Started), event(2, "compile", Started), event(3, "claim", State)];
    let rows = event_rows(running(), received(), Some(now));
    assert_eq!(bars(&rows), [(1_000, 1_000), (2_000, 60_000), (3_000, 3_000)]);
    assert_eq!(whole_ms(&rows), 60_000);
    assert_eq!((rows[0].width_ms(&60_000), rows[1].width_ms(&60_000)), (300, 58_000));
    assert_eq!((rows[0].left_ms(&1_000), rows[1].left_ms(&60_000)), (995, 2_000));
    assert_eq!(rows[1].when(), "from 2.00 to 60.00 s after the upload");
    // One that has ended, or is between two stages, has no bar that grows.
    assert_eq!(bars(&event_rows(running(), received(), None))[1], (2_000, 2_000));
    let between = vec![event(1, "unpack", Started), event(2, "audit", Finished)];
    assert_eq!(bars(&event_rows(between, received(), Some(now))), [(1_000, 1_000), (1_988, 2_000)]);
    assert_eq!(whole_ms(&[]), 1);
}
