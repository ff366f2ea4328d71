use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{Event, Metadata, Subscriber, span};

use super::{Full, Refusals};

/// Counts events, which are lines of the log.
#[derive(Debug, Default, Clone)]
struct Log(Arc<AtomicU64>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_flood_of_connections_that_come_to_nothing_is_a_line_for_each_kind() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let mut refusals = Refusals::default();
        for _ in 0..1_000 {
            refusals.not_accepted(std::io::Error::from_raw_os_error(24));
            refusals.note(Full::Peer);
            refusals.note(Full::Node);
        }
        assert_eq!((refusals.not_accepted, log.0.load(Ordering::Relaxed)), (1_000, 0));
        refusals.log();
        assert_eq!(log.0.load(Ordering::Relaxed), 2);
        refusals.log();
    });
    assert_eq!(log.0.load(Ordering::Relaxed), 2, "it was logged twice");
}
