//! What workers of bulk functions are promised, by how much memory there is.

use super::{BulkWorkers, WORKER_OVERHEAD_BYTES};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn of(workers: Option<BulkWorkers>) -> Option<(usize, u64)> {
    workers.map(|workers| (workers.count, workers.memory_max.as_bytes()))
}

#[test]
fn no_more_memory_is_promised_than_there_is() {
    let whole = GIB + WORKER_OVERHEAD_BYTES;
    for bytes in [0, 1, 64 * MIB, 400 * MIB, 512 * MIB, GIB, whole - 1, whole, 2 * whole, 100 * whole] {
        for count in [0, 1, 2, 7, 64] {
            for workers in
                [BulkWorkers::within(bytes, count), BulkWorkers::as_many_as_fit(bytes, count.max(1))]
            {
                let Some((count, memory)) = of(workers) else { continue };
                assert!(count as u64 * (memory + WORKER_OVERHEAD_BYTES) <= bytes, "{bytes} {count} {memory}");
                assert!((64 * MIB..=GIB).contains(&memory) && memory.is_multiple_of(4_096));
            }
        }
    }
    assert_eq!(of(BulkWorkers::as_many_as_fit(3 * whole, 2)), Some((2, GIB)));
    assert_eq!(of(BulkWorkers::as_many_as_fit(3 * whole, 8)), Some((3, GIB)));
    let small = WORKER_OVERHEAD_BYTES + 100 * MIB;
    assert_eq!(of(BulkWorkers::as_many_as_fit(small, 8)), Some((1, 100 * MIB)));
    assert_eq!(of(BulkWorkers::as_many_as_fit(WORKER_OVERHEAD_BYTES, 8)), None);
    assert_eq!(of(BulkWorkers::within(2 * small, 2)), Some((2, 100 * MIB)));
    assert_eq!(of(BulkWorkers::within(GIB, 0)), None, "the operator wants none");
}
