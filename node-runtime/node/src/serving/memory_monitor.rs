//! Looks at how much memory workers hold, and ends those that hold more than all their functions may have.
//!
//! A call has its arena, which is wiped and given back. But code that got past the compiler can write to any
//! of its window's memory, most of which is no function's: the kernel gives it pages, and nothing takes
//! them back while the worker lives.
//!
//! Must never end a worker for what its functions may have.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mfaas_abi::limits::BULK_FRAME_BYTES_MAX;
use mfaas_ident::Class;

use super::dispatcher::Dispatcher;
use super::process::WorkerKind;
use super::supervisor::WorkerSupervisor;

/// How often, while the node runs.
const LOOK: Duration = Duration::from_secs(1);
/// What a worker holds besides its functions' memory, several times what was seen.
const WORKER_BYTES: u64 = 64 << 20;

/// Starts the thread; it ends with the dispatcher, or when the node stops.
pub(super) fn start(
    dispatcher: Weak<Dispatcher>,
    supervisor: Arc<WorkerSupervisor>,
    kind: WorkerKind,
    over: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let monitor = move || {
        while !over.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
            let Some(dispatcher) = dispatcher.upgrade() else { return };
            supervisor.end_large(|slab| bytes_max(kind, dispatcher.planned_bytes(kind.class, slab)));
        }
    };
    std::thread::Builder::new().name("memory-monitor".to_owned()).spawn(monitor).map(drop)
}

/// What a worker may hold: itself, the largest arena, and the data of all that lies in its window, of which
/// `planned_bytes` of each bank are taken.
fn bytes_max(kind: WorkerKind, planned_bytes: u64) -> u64 {
    let bodies = match kind.class {
        // They are among what was seen.
        Class::Micro => 0,
        // A request in the call's memory, and the answer that is made of what it left.
        Class::Bulk => 2 * BULK_FRAME_BYTES_MAX as u64,
    };
    WORKER_BYTES + bodies + kind.memory_max.as_bytes() + planned_bytes
}
