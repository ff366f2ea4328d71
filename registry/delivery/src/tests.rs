//! The wire forms, and that limits hold.

#![allow(clippy::unwrap_used, reason = "tests")]

use mfaas_ident::{Digest, Epoch};
use mfaas_rules::{Finding, Layer, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Availability, BanAnswer, BanNotice, Condition, ControllerReport, CpuUsed, DeploymentState, Diagnostic,
    Directives, Event, EventKind, ISOLATION_CORES_MAX, ISOLATION_INTERVAL_MS_MAX, IsolationReport,
    IsolationSettings, JoinRequest, JoinResponse, Kill, LOAD_CORES_MAX, LOAD_INTERVAL_MS_MAX, LOG_LINES_MAX,
    Level, LoadReport, LogBatch, LogLevel, MessageError, NODE_PROTOCOL, REPORT_REFUSED_MAX, RUN_BUCKETS,
    RUN_EDGES_NS, Report, SetState, SettingsRefused, Stage, USAGE_NUMBER_MAX, USAGE_ROWS_MAX, UsageReport,
    UsageRow,
};

fn report() -> Report {
    Report {
        protocol: NODE_PROTOCOL,
        boot: uuid::Uuid::nil(),
        sequence: 1,
        epoch: Epoch(3),
        set: SetState::Current,
        ingress_url: "http://127.0.0.1:7800".to_owned(),
        condition: Condition::Active,
        workers: 2,
        protection: "full".to_owned(),
        set_digest: None,
        functions: 0,
        versions: 0,
        loaded: Vec::new(),
        refused_total: 0,
        refused_first: None,
        refused: Vec::new(),
        problems: Vec::new(),
    }
}

/// What a node of the release before sends, and what is read from it.
#[test]
fn a_report_of_the_release_before_lists_what_is_loaded() {
    let mut json = serde_json::to_value(Report { protocol: 2, ..report() }).unwrap();
    for new in ["set_digest", "functions", "versions", "refused_total", "refused_first"] {
        json.as_object_mut().unwrap().remove(new);
    }
    let row = serde_json::json!({
        "tenant": "acme", "function": "hello", "version": 1, "digest": Digest::of(b"an artifact"),
    });
    json["loaded"] = serde_json::json!(vec![row; REPORT_REFUSED_MAX + 1]);
    let read: Report = serde_json::from_value(json).unwrap();
    assert_eq!((read.check(), read.versions()), (Ok(()), 1_001));
    assert!(read.lists_all_refused());
    let now = Report { protocol: NODE_PROTOCOL, ..read };
    assert_eq!(now.check(), Err(MessageError::TooLarge { what: "rows" }));
    let many = Report { refused_total: 1, ..report() };
    assert!(!many.lists_all_refused() && report().lists_all_refused());
    assert!(!many.lists_what_aliases_name(), "a node that does not say");
    assert!(Report { refused_first: Some(0), ..many.clone() }.lists_what_aliases_name());
    assert!(!Report { refused_first: Some(1), ..many }.lists_what_aliases_name());
}

#[test]
fn an_event_carries_only_what_it_has() {
    let json = serde_json::to_value(Event::finished(Stage::Compile, 270, 250)).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"seq": 0, "stage": "compile", "kind": "finished", "wall_ms": 270, "cpu_ms": 250})
    );
    let state = serde_json::to_value(Event::state(Stage::Sign, DeploymentState::Admitted)).unwrap();
    assert_eq!(state["state"], "admitted");
    let back: Event = serde_json::from_value(state).unwrap();
    assert_eq!(back, Event::state(Stage::Sign, DeploymentState::Admitted));
}

#[test]
fn states_end_streams_when_nothing_more_comes() {
    let ends: Vec<_> = ["received", "building", "built", "admitted", "refused", "waiting", "failed"]
        .map(|word| DeploymentState::parse(word).unwrap())
        .into_iter()
        .filter(|state| state.ends_stream())
        .map(DeploymentState::as_str)
        .collect();
    assert_eq!(ends, ["admitted", "refused", "waiting", "failed"]);
    assert!(!DeploymentState::Waiting.is_final());
    assert_eq!(DeploymentState::parse("done"), None);
}

#[test]
fn a_finding_travels_in_its_parts_and_is_drawn_where_it_is_shown() {
    let finding =
        Finding::new(codes::MF0301, Layer::Lexer, "`unsafe` is not allowed").hint("Write safe Rust.");
    let diagnostic = Diagnostic::from(&finding);
    assert_eq!((diagnostic.message, diagnostic.hint), (finding.message, finding.hint));
    assert_eq!(diagnostic.rendered, "");
}

#[test]
fn a_taken_over_node_is_held_to_the_limits() {
    assert_eq!(report().check(), Ok(()));
    let long = Report { ingress_url: "x".repeat(501), ..report() };
    assert_eq!(long.check(), Err(MessageError::TooLarge { what: "ingress_url" }));
    for found in [0, NODE_PROTOCOL + 1] {
        let other = Report { protocol: found, ..report() };
        assert_eq!(other.check(), Err(MessageError::Protocol { found }));
    }
    let line = serde_json::json!({
        "at": "2027-01-01T00:00:00Z", "tenant": "acme", "function": "hello", "version": 1, "level": "info",
        "text": "x",
    });
    let batch = |lines: Vec<serde_json::Value>| -> LogBatch {
        serde_json::from_value(serde_json::json!({
            "protocol": 1, "boot": uuid::Uuid::nil(), "first": 0, "dropped": 0, "lines": lines,
        }))
        .unwrap()
    };
    assert_eq!(batch(vec![line.clone()]).check(), Ok(()));
    assert!(batch(vec![line.clone(); LOG_LINES_MAX + 1]).check().is_err());
    let mut long = batch(vec![line]);
    long.lines[0].text = "x".repeat(4_097);
    assert_eq!(long.check(), Err(MessageError::TooLarge { what: "text" }));
}

#[test]
fn a_node_of_the_release_before_is_still_read() {
    let mut json = serde_json::to_value(report()).unwrap();
    json["protocol"] = 1.into();
    json.as_object_mut().unwrap().remove("condition");
    let old: Report = serde_json::from_value(json).unwrap();
    assert_eq!((old.check(), old.condition), (Ok(()), Condition::Active));
}

fn row(number: u32) -> UsageRow {
    serde_json::from_value(serde_json::json!({
        "tenant": "acme", "function": "hello", "version": number, "calls": 3, "cpu_ns": 20, "run_ns": 30,
        "queue_ns": 5, "run_ns_max": 20, "memory_bytes_max": 1, "kills": {"panicked": 1, "lost": 2},
    }))
    .unwrap()
}

fn usage(rows: Vec<UsageRow>) -> UsageReport {
    UsageReport { protocol: NODE_PROTOCOL, boot: uuid::Uuid::nil(), sequence: 1, rows }
}

#[test]
fn usage_that_cannot_be_is_refused() {
    assert_eq!(usage(vec![row(1), row(2)]).check(), Ok(()));
    let refused = |change: fn(&mut UsageRow)| {
        let mut bad = row(1);
        change(&mut bad);
        usage(vec![bad]).check().unwrap_err()
    };
    let contradiction = MessageError::Contradiction { what: "the numbers of a row" };
    assert_eq!(refused(|row| row.cpu_ns = 31), contradiction, "more CPU time than time");
    assert_eq!(refused(|row| row.calls = 2), contradiction, "more kills than calls");
    assert_eq!(refused(|row| row.kills.extend([(Kill::Denied, 1)])), contradiction);
    let large = MessageError::TooLarge { what: "a number of a row" };
    assert_eq!(refused(|row| row.queue_ns = USAGE_NUMBER_MAX + 1), large);
    assert_eq!(refused(|row| row.kills.extend([(Kill::Denied, u64::MAX)])), large);
    assert_eq!(refused(|row| row.runs = vec![2, 2]), contradiction, "more run times than calls");
    assert_eq!(refused(|row| row.runs = vec![USAGE_NUMBER_MAX + 1]), large);
    let buckets = MessageError::TooLarge { what: "buckets of a row" };
    assert_eq!(refused(|row| row.runs = vec![0; RUN_BUCKETS + 1]), buckets);
    let twice = usage(vec![row(1), row(1)]).check();
    assert_eq!(twice, Err(MessageError::Contradiction { what: "rows" }));
    let many = (1..).take(USAGE_ROWS_MAX + 1).map(row).collect();
    assert_eq!(usage(many).check(), Err(MessageError::TooLarge { what: "rows" }));
    let negative = serde_json::to_value(row(1)).map(|mut json| {
        json["cpu_ns"] = (-1).into();
        serde_json::from_value::<UsageRow>(json)
    });
    assert!(negative.unwrap().is_err());
}

/// A server of the release before knows no field that it was not told of.
#[test]
fn a_row_without_run_times_is_that_of_the_release_before() {
    assert!(serde_json::to_value(row(1)).unwrap().get("runs").is_none());
    let told = UsageRow { runs: vec![1, 2], ..row(1) };
    let json = serde_json::to_value(&told).unwrap();
    assert_eq!(json["runs"], serde_json::json!([1, 2]));
    assert_eq!(serde_json::from_value::<UsageRow>(json).unwrap(), told);
    assert!(RUN_EDGES_NS.is_sorted() && RUN_BUCKETS == RUN_EDGES_NS.len() + 1);
}

#[test]
fn load_that_cannot_be_is_refused_and_a_later_node_may_say_more() {
    let json = serde_json::json!({
        "protocol": NODE_PROTOCOL, "interval_ms": 10_000, "cpu_ns": 2_000_000_000_u64, "cores": 2, "running": 1,
        "waiting": 0, "processes": 3, "pools": 1, "pools_busy": 1, "resident": 10, "resident_bytes": 40_960,
        "said_by_a_later_node": true,
    });
    let load: LoadReport = serde_json::from_value(json).unwrap();
    assert_eq!(load.check(), Ok(()));
    let refused = |load: LoadReport| load.check().unwrap_err();
    let large = |what| MessageError::TooLarge { what };
    assert_eq!(
        refused(LoadReport { protocol: NODE_PROTOCOL + 1, ..load }),
        MessageError::Protocol { found: NODE_PROTOCOL + 1 }
    );
    assert_eq!(refused(LoadReport { interval_ms: 0, ..load }), large("interval_ms"));
    assert_eq!(refused(LoadReport { interval_ms: LOAD_INTERVAL_MS_MAX + 1, ..load }), large("interval_ms"));
    assert_eq!(refused(LoadReport { cores: LOAD_CORES_MAX + 1, ..load }), large("cores"));
    assert_eq!(refused(LoadReport { cores: 0, ..load }), large("cores"));
    assert_eq!(refused(LoadReport { waiting: u64::MAX, ..load }), large("a count"));
    assert_eq!(refused(LoadReport { resident_bytes: u64::MAX, ..load }), large("resident_bytes"));
    assert_eq!(
        refused(LoadReport { cpu_ns: u64::MAX, ..load }),
        MessageError::Contradiction { what: "cpu_ns" }
    );
}

#[test]
fn words_of_kills_are_those_of_the_wire() {
    for kill in Kill::ALL {
        assert_eq!(serde_json::to_value(kill).unwrap(), kill.as_str());
        assert_eq!(Kill::parse(kill.as_str()), Some(kill));
    }
    let words = [
        "panicked",
        "over_budget",
        "stack_overflow",
        "out_of_memory",
        "denied",
        "fault",
        "aborted",
        "bad_output",
        "lost",
        "overdue",
    ];
    assert_eq!(Kill::ALL.map(Kill::as_str), words);
}

#[test]
fn directives_of_another_protocol_are_refused() {
    let directives = |protocol: u32| -> Directives {
        serde_json::from_value(
            serde_json::json!({"protocol": protocol, "availability": "draining", "bans": []}),
        )
        .unwrap()
    };
    assert_eq!(directives(NODE_PROTOCOL).check(), Ok(()));
    assert_eq!(
        directives(NODE_PROTOCOL + 1).check(),
        Err(MessageError::Protocol { found: NODE_PROTOCOL + 1 })
    );
}

#[test]
fn unknown_fields_and_bad_names_are_refused() {
    let mut json = serde_json::to_value(report()).unwrap();
    json["surprise"] = true.into();
    assert!(serde_json::from_value::<Report>(json).is_err());
    let join = serde_json::json!({"protocol": 1, "name": "../etc", "token": "t", "csr_pem": "c"});
    assert!(serde_json::from_value::<JoinRequest>(join).is_err());
}

#[test]
fn a_join_token_does_not_show_in_debug_output() {
    let join: JoinRequest = serde_json::from_value(
        serde_json::json!({"protocol": 1, "name": "node-a", "token": "secret", "csr_pem": "c"}),
    )
    .unwrap();
    assert!(!format!("{join:?}").contains("secret"));
}

/// Programs of the release before read and write these names.
#[test]
fn fields_with_a_new_name_keep_the_one_on_the_wire() {
    let report = serde_json::to_value(report()).unwrap();
    assert_eq!((&report["cage_level"], report.get("protection")), (&serde_json::json!("full"), None));
    let json = serde_json::json!({
        "protocol": NODE_PROTOCOL, "told": uuid::Uuid::nil(),
        "ban": {
            "tenant": "acme", "function": "hello", "version": 1, "digest": Digest::of(b"an artifact"),
            "crashes": 3, "since": "2027-01-02T03:04:05Z",
        },
    });
    let notice: BanNotice = serde_json::from_value(json.clone()).unwrap();
    assert_eq!((notice.notice_id, serde_json::to_value(&notice).unwrap()), (uuid::Uuid::nil(), json));
}

/// The word of a stage is the same in events, in the database and in metrics.
#[test]
fn a_stage_has_one_word() {
    for stage in Stage::ALL {
        assert_eq!(serde_json::to_value(stage).unwrap(), stage.as_str());
        assert_eq!(Stage::parse(stage.as_str()), Some(stage));
    }
    assert_eq!(Stage::parse("linking"), None);
    let words = [
        "receive",
        "claim",
        "unpack",
        "audit",
        "dependencies",
        "expand",
        "compile",
        "link",
        "inspect",
        "load",
        "sign",
        "publish",
    ];
    assert_eq!(Stage::ALL.map(Stage::as_str), words);
}

/// Nodes and servers of other releases read and write these words.
#[test]
fn words_of_the_wire_stay_as_they_are() {
    let words: Vec<_> = DeploymentState::ALL.iter().map(|state| state.as_str()).collect();
    assert_eq!(words, ["received", "building", "built", "admitted", "refused", "waiting", "failed"]);
    let kinds = [EventKind::Started, EventKind::Finished, EventKind::Diagnostic, EventKind::State];
    assert_eq!(kinds.map(EventKind::as_str), ["started", "finished", "diagnostic", "state"]);
    let levels = [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];
    assert_eq!(levels.map(LogLevel::as_str), ["debug", "info", "warn", "error"]);
    assert_eq!([Level::Error, Level::Warning].map(Level::as_str), ["error", "warning"]);
    assert_eq!(Availability::ALL.map(Availability::as_str), ["active", "cordoned", "draining"]);
    let conditions = [Condition::Active, Condition::Cordoned, Condition::Draining, Condition::Drained];
    assert_eq!(conditions.map(Condition::as_str), ["active", "cordoned", "draining", "drained"]);
}

/// Reads what release 0.2.0 wrote (tests/releases), and demands that the same written today is the same bytes: then programs of
/// that release read what ours write.
fn same_as_release_before<T: Serialize + DeserializeOwned>(
    file: &str,
    check: impl Fn(&T) -> Result<(), MessageError>,
) {
    let path = format!("{}/../../tests/releases/0.2.0/{file}", env!("CARGO_MANIFEST_DIR"));
    let written = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let read: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(check(&read), Ok(()), "{file}");
    assert_eq!(serde_json::to_string(&read).unwrap(), written, "{file}");
}

#[test]
fn messages_are_those_of_the_release_before() {
    same_as_release_before("join.json", JoinRequest::check);
    same_as_release_before("report.json", Report::check);
    same_as_release_before("logs.json", LogBatch::check);
    same_as_release_before("ban.json", BanNotice::check);
    same_as_release_before("usage.json", UsageReport::check);
    same_as_release_before("directives.json", Directives::check);
    same_as_release_before::<JoinResponse>("join-answer.json", |_| Ok(()));
    same_as_release_before::<BanAnswer>("ban-answer.json", |_| Ok(()));
}

fn isolation() -> IsolationReport {
    let json = serde_json::json!({
        "protocol": NODE_PROTOCOL, "from_a_later_node": true,
        "controller": {
            "mode": "blind", "off": false, "cores": 8, "buffer_cores": 2, "idle_cores": 3, "secondary_cores": 0, "killed": 1,
            "used": {"interval_ms": 10_000, "primary_us": 4_200_000, "secondary_us": 20_000_000},
            "memory_bytes": 5, "revision": 7, "from_a_later_node": true,
        },
        "refused": {"revision": 8, "code": "MF1103", "message": "too many"},
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn what_a_machine_says_of_isolation_is_possible() {
    let told = isolation();
    assert_eq!(told.check(), Ok(()));
    assert_eq!(told.controller.as_ref().unwrap().used.unwrap().in_cores(), (0.42, 2.0));
    let silent = serde_json::json!({ "protocol": NODE_PROTOCOL });
    assert_eq!(serde_json::from_value::<IsolationReport>(silent).unwrap().check(), Ok(()));

    let refused = |change: fn(&mut ControllerReport)| {
        let mut told = isolation();
        change(told.controller.as_mut().unwrap());
        told.check().unwrap_err()
    };
    let large = |what| MessageError::TooLarge { what };
    assert_eq!(refused(|said| said.cores = 0), large("cores"));
    assert_eq!(refused(|said| said.cores = ISOLATION_CORES_MAX + 1), large("cores"));
    assert_eq!(refused(|said| said.memory_bytes = Some(u64::MAX)), large("memory_bytes"));
    let changes: [fn(&mut ControllerReport); 3] =
        [|said| said.buffer_cores = 9, |said| said.secondary_cores = 9, |said| said.idle_cores = Some(9)];
    for change in changes {
        assert_eq!(refused(change), MessageError::Contradiction { what: "more cores than there are" });
    }
    let used = |interval_ms, primary_us, secondary_us| {
        let mut told = isolation();
        told.controller.as_mut().unwrap().used = Some(CpuUsed { interval_ms, primary_us, secondary_us });
        told.check()
    };
    assert_eq!(used(0, 0, 0), Err(large("interval_ms")));
    assert_eq!(used(ISOLATION_INTERVAL_MS_MAX + 1, 0, 0), Err(large("interval_ms")));
    assert_eq!(used(1, u64::MAX, 0), Err(MessageError::Contradiction { what: "CPU time" }));
    assert_eq!(used(1, 0, u64::MAX), Err(MessageError::Contradiction { what: "CPU time" }));
    let mut told = isolation();
    told.protocol = NODE_PROTOCOL + 1;
    assert_eq!(told.check(), Err(MessageError::Protocol { found: NODE_PROTOCOL + 1 }));
    for (code, message, what) in
        [("c".repeat(17), String::new(), "code"), (String::new(), "m".repeat(501), "message")]
    {
        let mut told = isolation();
        told.refused = Some(SettingsRefused { revision: 8, code, message });
        assert_eq!(told.check(), Err(large(what)));
    }
}

#[test]
fn settings_of_a_site_are_those_that_some_machine_could_have() {
    let settings = |buffer_cores, memory_bytes| {
        IsolationSettings { buffer_cores, memory_bytes, ..IsolationSettings::default() }.check()
    };
    assert_eq!(settings(Some(ISOLATION_CORES_MAX), Some(0)), Ok(()));
    for cores in [0, ISOLATION_CORES_MAX + 1] {
        assert_eq!(settings(Some(cores), None), Err(MessageError::TooLarge { what: "buffer_cores" }));
    }
    assert_eq!(settings(None, Some(u64::MAX)), Err(MessageError::TooLarge { what: "memory_bytes" }));
    // What is absent is not stored, so that it takes nothing away from what was set before.
    let off = IsolationSettings { off: Some(true), ..IsolationSettings::default() };
    assert_eq!(serde_json::to_string(&off).unwrap(), "{\"off\":true}");
}
