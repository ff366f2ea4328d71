use chrono::{DateTime, TimeDelta, Utc};
use mfaas_catalog::QueuePlace;
use mfaas_wire::{DeploymentState, Event, EventKind};

use super::{EventRow, event_rows, place, waited_ms, whole_ms};

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
    assert_eq!(rows[1].when(), "from 2.00 to 60.00 s on the timeline");
    // One that has ended, or is between two stages, has no bar that grows.
    assert_eq!(bars(&event_rows(running(), received(), None))[1], (2_000, 2_000));
    let between = vec![event(1, "unpack", Started), event(2, "audit", Finished)];
    assert_eq!(bars(&event_rows(between, received(), Some(now))), [(1_000, 1_000), (1_988, 2_000)]);
    assert_eq!(whole_ms(&[]), 1);
}

#[test]
fn a_wait_of_three_days_is_told_apart_and_leaves_the_stages_their_scale() {
    use EventKind::{Finished, Started, State};
    let days = TimeDelta::days(3);
    let at = |seq: i64, stage, kind, after| {
        let mut event = event(seq, stage, kind);
        event.at += after;
        event
    };
    let mut waiting = event(2, "dependencies", State);
    waiting.state = Some(DeploymentState::Waiting);
    let events = |last| {
        vec![
            event(1, "audit", Finished),
            waiting.clone(),
            at(3, "receive", State, days),
            at(4, "compile", Started, days),
            at(6, "compile", last, days),
        ]
    };
    let rows = event_rows(events(Finished), received(), None);
    let bars: Vec<_> = rows.iter().map(|row| (row.begin_ms, row.end_ms)).collect();
    // From the wait at 2 s to the next event, a second later than the three days, is left out.
    assert_eq!(bars, [(988, 1_000), (2_000, 2_000), (2_000, 2_000), (4_988, 5_000)]);
    assert_eq!((whole_ms(&rows), waited_ms(&rows)), (5_000, days.num_milliseconds() + 1_000));
    let told: Vec<_> = rows.iter().map(EventRow::waited).collect();
    assert_eq!(told, [None, Some("3 days".to_owned()), None, None]);
    // What runs goes on after it on the same scale, and a wait that is not over is not left out.
    let now = received() + days + TimeDelta::seconds(9);
    let running = event_rows(events(Started), received(), Some(now));
    assert_eq!(running.last().map(|row| (row.begin_ms, row.end_ms)), Some((5_000, 8_000)));
    assert_eq!(waited_ms(&event_rows(vec![waiting], received(), None)), 0);
}

#[test]
fn places_are_ordinals_and_say_when_not_all_was_counted() {
    let words = |number| place(QueuePlace { place: number, of: 200, is_cut: false });
    let heads: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(words).into();
    let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
    assert_eq!(heads, expected.map(|head| format!("{head} of 200")));
    assert_eq!(place(QueuePlace { place: 3, of: 200, is_cut: true }), "at least 3rd of at least 200");
}
