#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use mfaas_abi::{Level, log_entry_header};
use mfaas_dispatch::FunctionId;
use mfaas_ident::{Access, TenantName};

use super::*;
use crate::agent::testing::key;
use crate::image::ImageKey;

const PATIENCE: Duration = Duration::from_secs(30);

fn served(id: u32, tenant: &str) -> Arc<Served> {
    let key = ImageKey { tenant: TenantName::parse(tenant).unwrap(), ..key("hello", 1) };
    Arc::new(Served::for_test(FunctionId(id), key, Access::Tenant))
}

fn record(text: &str) -> Vec<u8> {
    [&log_entry_header(Level::Info, text.len() as u16)[..], text.as_bytes()].concat()
}

/// The text of the tenant's lines, taken from the sink until there are so many.
fn lines(sink: &LogSink, tenant: &str, wanted: usize) -> Vec<String> {
    let (deadline, mut texts) = (Instant::now() + PATIENCE, Vec::new());
    while texts.len() < wanted && Instant::now() < deadline {
        match sink.batch(uuid::Uuid::nil()) {
            Some(batch) => {
                sink.taken(&batch);
                let of_tenant = batch.lines.into_iter().filter(|line| line.tenant.as_str() == tenant);
                texts.extend(of_tenant.map(|line| line.text));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    texts
}

/// Calls that log all they may, faster than they are read, and one of a neighbour's now and then.
#[test]
fn a_flood_of_calls_costs_a_neighbour_no_line() {
    let sink = Arc::new(LogSink::default());
    let log_forwarder = LogForwarder::start(Arc::clone(&sink)).unwrap();
    let (loud, quiet) = (served(1, "loud"), served(2, "neighbour"));
    let flood = record(&"flood ".repeat(12)).repeat(200);
    for number in 0..60 {
        for _ in 0..100 {
            log_forwarder.function_output(&loud, flood.clone(), Vec::new());
        }
        log_forwarder.function_output(&quiet, record(&format!("line {number}")), Vec::new());
    }
    let texts = lines(&sink, "neighbour", 60);
    assert_eq!(texts, (0..60).map(|number| format!("line {number}")).collect::<Vec<_>>());
}
