//! One trace from `mfaas deploy` to the load on a node, and on to a call, as a collector receives it by OTLP; and a collector that is
//! away, which nobody waits for.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mfaas_harness::{Stack, package, wait_for};
use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as AnyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use serde_json::Value;

const ECHO: &str = "pub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n";
/// What a CI job hands on.
const JOB: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A span as it came.
#[derive(Debug, Clone)]
struct Span {
    service: String,
    name: String,
    trace: String,
    id: Vec<u8>,
    parent: Vec<u8>,
    took_ns: u64,
    attributes: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Received {
    spans: Vec<Span>,
    /// Service and text of each line.
    lines: Vec<(String, String)>,
}

/// Takes what programs send; or takes connections and never answers.
struct Collector {
    url: String,
    received: Arc<Mutex<Received>>,
    is_silent: Arc<AtomicBool>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { url, received: Arc::default(), is_silent: Arc::default() };
        let (received, is_silent) = (Arc::clone(&collector.received), Arc::clone(&collector.is_silent));
        std::thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming().flatten() {
                if is_silent.load(Ordering::Relaxed) {
                    unanswered.push(stream);
                    continue;
                }
                let (received, is_silent) = (Arc::clone(&received), Arc::clone(&is_silent));
                std::thread::spawn(move || converse(stream, &received, &is_silent));
            }
        });
        collector
    }

    fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap().spans.clone()
    }

    fn of_trace(&self, trace: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.trace == trace).collect()
    }
}

/// One request after the other, as HTTP/1.1 has them.
fn converse(stream: TcpStream, received: &Mutex<Received>, is_silent: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap().to_owned();
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            } else if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        if is_silent.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_secs(600));
        }
        let mut received = received.lock().unwrap();
        match path.as_str() {
            "/v1/traces" => take_spans(&mut received, &body),
            "/v1/logs" => take_lines(&mut received, &body),
            _ => panic!("nothing is expected at {path}"),
        }
        drop(received);
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

fn text_of(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.clone()?.value? {
        AnyValue::StringValue(text) => Some(text),
        _ => None,
    }
}

fn service(resource: Option<&Resource>) -> String {
    text_of(&resource.unwrap().attributes, "service.name").unwrap()
}

fn take_spans(received: &mut Received, body: &[u8]) {
    for of_resource in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
        let service = service(of_resource.resource.as_ref());
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let attributes = span.attributes.iter().map(|attribute| attribute.key.clone());
            let attributes = attributes
                .filter_map(|key| text_of(&span.attributes, &key).map(|text| (key, text)))
                .collect();
            received.spans.push(Span {
                service: service.clone(),
                name: span.name,
                trace: span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect(),
                id: span.span_id,
                parent: span.parent_span_id,
                took_ns: span.end_time_unix_nano.checked_sub(span.start_time_unix_nano).unwrap(),
                attributes,
            });
        }
    }
}

fn take_lines(received: &mut Received, body: &[u8]) {
    for of_resource in ExportLogsServiceRequest::decode(body).unwrap().resource_logs {
        let service = service(of_resource.resource.as_ref());
        for record in of_resource.scope_logs.into_iter().flat_map(|scope| scope.log_records) {
            let body = record.body.and_then(|body| body.value);
            let Some(AnyValue::StringValue(text)) = body else { panic!("a line without text: {body:?}") };
            received.lines.push((service.clone(), text));
        }
    }
}

/// `mfaas up` anew, with these variables.
fn up_again(stack: &Stack, variables: &[(&str, &str)]) {
    let _ = stack.down().ok();
    let home = stack.home().to_str().unwrap();
    let seed = stack.home().join("seed");
    let seed = seed.to_str().unwrap();
    let arguments = ["up", "--detach", "--home", home, "--seed", seed, "--metrics-listen", "127.0.0.1:0"];
    let ports = ["--http-port", "0", "--node-port", "0", "--ingress-port", "0"];
    let _ = stack.cli_with(arguments.into_iter().chain(ports), variables).ok();
}

#[test]
fn one_trace_leads_from_a_deploy_to_its_load_and_a_collector_that_is_away_holds_up_nobody() {
    let collector = Collector::start();
    let sends = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "200")];
    let stack = &Stack::start();
    up_again(stack, &sends);

    let package = package("traced", ECHO, "");
    let arguments = ["deploy", "--json", package.path().to_str().unwrap()];
    let variables = [sends.as_slice(), &[("TRACEPARENT", JOB)]].concat();
    let report = stack.cli_with(arguments, &variables).ok().json();
    let deployment = report["id"].as_str().unwrap().to_owned();
    deploy_is_one_trace(&collector, &deployment);
    calls_are_traced_as_their_callers_ask(stack, &collector);
    let lines = || collector.received.lock().unwrap().lines.clone();
    wait_for("the signer's line", Duration::from_secs(30), || {
        let accepted = ("mfaas-signer".to_owned(), "a deployment is accepted".to_owned());
        lines().contains(&accepted).then_some(())
    });

    // The collector takes connections and says nothing.
    collector.is_silent.store(true, Ordering::Relaxed);
    package.set_source(&ECHO.replace("r.to_vec()", "[r, b\"!\"].concat()"));
    let began = std::time::Instant::now();
    let _ = stack.cli_with(arguments, &sends).ok();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(stack.invoke("traced", "x").ok().stdout, "x!");
    wait_for("what was lost to be counted", Duration::from_secs(60), || {
        let lost = "mfaas_telemetry_dropped_total{signal=\"spans\",reason=\"failed\"} ";
        scrape(stack, "builder").lines().any(|line| line.starts_with(lost)).then_some(())
    });
}

fn deploy_is_one_trace(collector: &Collector, deployment: &str) {
    let expected = [
        ("mfaas", "deploy"),
        ("mfaas-server", "receive"),
        ("mfaas-builder", "build"),
        ("mfaas-signer", "sign"),
        ("mfaas-node", "load"),
    ];
    let spans = wait_for("the spans of all programs", Duration::from_secs(60), || {
        let spans = collector.of_trace(&JOB[3..35]);
        let is_there = |(service, name)| {
            spans.iter().any(|span| (span.service.as_str(), span.name.as_str()) == (service, name))
        };
        expected.into_iter().all(is_there).then_some(spans)
    });
    let root = spans.iter().find(|span| span.name == "deploy").unwrap();
    assert_eq!(root.parent, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7], "it hangs under the job");
    for span in spans.iter().filter(|span| span.name != "deploy") {
        assert_eq!(span.parent, root.id, "{span:?}");
        assert_eq!(span.attributes["mfaas.deployment"], deployment, "{span:?}");
        assert!(span.took_ns <= root.took_ns, "{span:?}");
    }
    let of = |name: &str| spans.iter().filter(|span| span.name == name).count();
    assert_eq!([of("receive"), of("build"), of("sign"), of("load")], [1; 4], "{spans:?}");
    let load = spans.iter().find(|span| span.name == "load").unwrap();
    assert_eq!(load.attributes["mfaas.function"], "default/traced@1");
}

/// A call has a span where its caller has one that is kept, and none otherwise.
fn calls_are_traced_as_their_callers_ask(stack: &Stack, collector: &Collector) {
    let url = format!("{}/f/default/traced", stack.ingress());
    let traces = [
        "11111111111111111111111111111111",
        "22222222222222222222222222222222",
        "33333333333333333333333333333333",
    ];
    let call = |trace: &str, flags: &str| {
        let place = format!("00-{trace}-00f067aa0ba902b7-{flags}");
        let answer = stack.request("POST", &url, &[("traceparent", &place)], b"x".to_vec());
        assert_eq!((answer.status, answer.text().as_str()), (200, "x"));
    };
    call(traces[0], "00");
    call(traces[1], "no");
    assert_eq!(stack.request("POST", &url, &[], b"x".to_vec()).status, 200);
    call(traces[2], "01");
    let spans = wait_for("the span of the call", Duration::from_secs(30), || {
        Some(collector.of_trace(traces[2])).filter(|spans| !spans.is_empty())
    });
    assert_eq!((spans.len(), spans[0].name.as_str(), spans[0].service.as_str()), (1, "invoke", "mfaas-node"));
    assert_eq!(spans[0].attributes["mfaas.function"], "default/traced@1");
    assert_eq!(spans[0].attributes["http.response.status_code"], "200");
    let of_calls = collector.spans().into_iter().filter(|span| span.name == "invoke").count();
    assert_eq!(of_calls, 1, "others were not asked for");
}

fn scrape(stack: &Stack, program: &str) -> String {
    let path = stack.home().join(format!("run/{program}/ready.json"));
    let ready: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let url = format!("http://{}/metrics", ready["metrics"].as_str().unwrap());
    stack.request("GET", &url, &[], vec![]).text()
}
