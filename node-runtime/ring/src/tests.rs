//! Both ends in one process, and both against a peer that writes anything anywhere.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mfaas_abi::Status;
use mfaas_abi::limits::{FRAME_BYTES_MAX, LOG_BYTES_MAX, PANIC_BYTES_MAX};
use proptest::prelude::*;

use crate::map::Mapping;
use crate::{
    Answer, Completion, Geometry, HostEnd, Job, Next, RingError, Submission, WorkerEnd, WorkerState, create,
    take_inherited,
};

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(10);

fn ring(slots: u32) -> (OwnedFd, HostEnd, WorkerEnd) {
    let (fd, host) = create(Geometry::new(slots).expect("a power of two"), 7).expect("a ring");
    let worker = WorkerEnd::attach(&fd).expect("our own ring");
    (fd, host, worker)
}

fn answer<'a>(response: &'a [u8], logs: &'a [u8], message: &'a [u8]) -> Answer<'a> {
    Answer { status: Status::Ok, cold: true, response, logs, message, wall_ns: 1, cpu_ns: 2, memory_bytes: 3 }
}

fn submit(host: &mut HostEnd, call_id: u64, frame: &[u8]) -> Result<(), RingError> {
    host.submit(Submission { call_id, function: 5, frame })
}

fn take(worker: &mut WorkerEnd, buffer: &mut [u8]) -> Job {
    match worker.next(buffer, LONG).expect("an honest host") {
        Next::Call(job) => job,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_goes_there_and_its_answer_back() {
    let (_fd, mut host, mut worker) = ring(2);
    let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
    assert_eq!(worker.generation(), 7);
    submit(&mut host, 42, b"request").expect("room");
    let job = take(&mut worker, &mut buffer);
    assert_eq!((job.call_id, job.function, &buffer[..job.frame_bytes]), (42, 5, &b"request"[..]));
    assert!(!host.wait(SHORT).expect("a wait"), "nothing is answered yet");
    worker.reply(&answer(b"response", b"logs", b"message")).expect("within limits");
    assert!(host.wait(LONG).expect("a wait"));
    let expected = Completion {
        call_id: 42,
        status: Status::Ok,
        cold: true,
        response: b"response".to_vec(),
        logs: b"logs".to_vec(),
        message: b"message".to_vec(),
        wall_ns: 1,
        cpu_ns: 2,
        memory_bytes: 3,
    };
    assert_eq!(host.collect().expect("an honest worker"), Some(expected));
    assert_eq!(host.collect().expect("an honest worker"), None);
}

#[test]
fn readers_wipe_what_they_read() {
    let (fd, mut host, mut worker) = ring(1);
    let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
    let secret = [0xc5; 1_000];
    submit(&mut host, 1, &secret).expect("room");
    take(&mut worker, &mut buffer);
    worker.reply(&answer(&secret, &secret, &secret)).expect("within limits");
    host.collect().expect("an honest worker");
    let view = Mapping::attach(&fd).expect("our own ring");
    let left =
        view.words().iter().filter(|word| word.load(Ordering::Relaxed) == u64::from_ne_bytes([0xc5; 8]));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_full_ring_says_so_and_goes_on_after_collecting() {
    let (_fd, mut host, mut worker) = ring(2);
    let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
    submit(&mut host, 1, b"").expect("room");
    submit(&mut host, 2, b"").expect("room");
    assert!(matches!(submit(&mut host, 3, b""), Err(RingError::Full)));
    take(&mut worker, &mut buffer);
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    assert!(matches!(submit(&mut host, 3, b""), Err(RingError::Full)), "answered is not collected");
    assert_eq!(host.collect().expect("an honest worker").map(|done| done.call_id), Some(1));
    submit(&mut host, 3, b"").expect("room");
    assert_eq!(host.in_flight(), 2);
}

#[test]
fn the_largest_of_everything_fits_and_one_byte_more_does_not() {
    let (_fd, mut host, mut worker) = ring(1);
    let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
    let frame = vec![1; FRAME_BYTES_MAX + 1];
    assert!(matches!(submit(&mut host, 1, &frame), Err(RingError::TooLarge { .. })));
    submit(&mut host, 1, &frame[..FRAME_BYTES_MAX]).expect("room");
    assert_eq!(take(&mut worker, &mut buffer).frame_bytes, FRAME_BYTES_MAX);
    let (logs, message) = ([2; LOG_BYTES_MAX], [3; PANIC_BYTES_MAX]);
    let too_large = answer(&frame, b"", b"");
    assert!(matches!(worker.reply(&too_large), Err(RingError::TooLarge { .. })));
    worker.reply(&answer(&frame[..FRAME_BYTES_MAX], &logs, &message)).expect("within limits");
    let done = host.collect().expect("an honest worker").expect("answered");
    assert_eq!(
        (done.response.len(), done.logs, done.message),
        (FRAME_BYTES_MAX, logs.to_vec(), message.to_vec())
    );
}

#[test]
fn two_threads_pass_many_calls() {
    const CALLS: u64 = 20_000;
    let (_fd, mut host, mut worker) = ring(4);
    let worker = std::thread::spawn(move || {
        let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
        worker.set_state(WorkerState::Ready);
        loop {
            match worker.next(&mut buffer, LONG).expect("an honest host") {
                Next::Call(job) => {
                    worker.reply(&answer(&buffer[..job.frame_bytes], b"", b"")).expect("within limits");
                }
                Next::Idle => {}
                Next::Stop => return worker.set_state(WorkerState::Stopped),
            }
        }
    });
    let (mut sent, mut received) = (0, 0);
    while received < CALLS {
        while sent < CALLS && submit(&mut host, sent, &sent.to_le_bytes()).is_ok() {
            sent += 1;
        }
        assert!(host.wait(LONG).expect("a wait"));
        while let Some(done) = host.collect().expect("an honest worker") {
            assert_eq!((done.call_id, &*done.response), (received, &received.to_le_bytes()[..]));
            received += 1;
        }
    }
    host.stop();
    worker.join().expect("the worker ends");
    assert_eq!(host.worker_state().expect("known"), WorkerState::Stopped);
}

#[test]
fn stop_comes_after_what_was_submitted() {
    let (_fd, mut host, mut worker) = ring(2);
    let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
    submit(&mut host, 1, b"last").expect("room");
    host.stop();
    take(&mut worker, &mut buffer);
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    assert_eq!(worker.next(&mut buffer, LONG).expect("an honest host"), Next::Stop);
}

#[test]
fn waits_end_at_their_timeout() {
    let (_fd, mut host, mut worker) = ring(1);
    let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
    let start = Instant::now();
    assert_eq!(worker.next(&mut buffer, SHORT).expect("an honest host"), Next::Idle);
    assert!(!host.wait(SHORT).expect("a wait"));
    assert!(start.elapsed() >= 2 * SHORT && start.elapsed() < LONG);
    let (_, mut collector) = host.split();
    assert_eq!(collector.wait_started(SHORT).expect("a wait"), WorkerState::Starting);
    worker.set_state(WorkerState::Ready);
    assert_eq!(collector.wait_started(LONG).expect("a wait"), WorkerState::Ready);
    assert_eq!((collector.oldest_in_flight(), collector.heartbeat()), (None, 1));
}

#[test]
fn a_worker_refuses_memory_of_another_size() {
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("other", flags).expect("a memfd");
    assert!(matches!(WorkerEnd::attach(&fd), Err(RingError::Violation(_))), "not sealed");
    rustix::fs::ftruncate(&fd, 8_192).expect("a size");
    let seals = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW;
    rustix::fs::fcntl_add_seals(&fd, seals).expect("sealed");
    assert!(matches!(WorkerEnd::attach(&fd), Err(RingError::Violation(_))), "not a ring's size");
}

#[test]
fn only_powers_of_two_are_geometries() {
    for slots in [0, 3, 65, 128, u32::MAX] {
        assert!(matches!(Geometry::new(slots), Err(RingError::Geometry(_))), "{slots}");
    }
    for slots in [1, 2, 64] {
        assert_eq!(Geometry::new(slots).expect("a power of two").slots(), slots);
    }
}

#[test]
fn a_descriptor_is_taken_once() {
    assert!(take_inherited(1).is_err(), "a standard stream");
    assert!(take_inherited(1_000_000).is_err(), "not open");
    // A descriptor of this test, given up so that it is nobody's.
    let (fd, _host, _worker) = ring(1);
    let number = std::os::fd::IntoRawFd::into_raw_fd(fd);
    assert!(take_inherited(number).is_ok());
    assert!(take_inherited(number).is_err(), "taken, closed or both");
}

/// Writes by a peer: which word of the header and records, and what.
fn scribbles() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let value = prop_oneof![any::<u64>(), 0u64..4, Just(u64::MAX), any::<u32>().prop_map(u64::from)];
    // The header takes 512 words; records follow at once.
    proptest::collection::vec(((0usize..80).prop_union(512usize..544), value), 1..40)
}

proptest! {
    #[test]
    fn random_bytes_from_a_worker_never_panic_the_host(scribbles in scribbles(), honest in 0u32..4) {
        let (fd, mut host, mut worker) = ring(4);
        let evil = Mapping::attach(&fd).expect("our own ring");
        let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
        for call_id in 0..4 {
            submit(&mut host, call_id, b"frame").expect("room");
        }
        for _ in 0..honest {
            take(&mut worker, &mut buffer);
            worker.reply(&answer(b"response", b"", b"")).expect("within limits");
        }
        let mut collected = 0;
        for (word, value) in scribbles {
            evil.words()[word].store(value, Ordering::SeqCst);
            let _ = host.worker_state();
            let _ = host.wait(Duration::ZERO);
            if let Ok(Some(done)) = host.collect() {
                prop_assert_eq!(done.call_id, collected, "ids are the host's own");
                prop_assert!(done.response.len() <= FRAME_BYTES_MAX && done.logs.len() <= LOG_BYTES_MAX);
                collected += 1;
            }
            prop_assert!(collected <= 4, "never more answers than calls");
        }
    }

    #[test]
    fn random_bytes_from_a_host_never_panic_the_worker(scribbles in scribbles()) {
        let (fd, _host, mut worker) = ring(4);
        let evil = Mapping::attach(&fd).expect("our own ring");
        let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
        for (word, value) in scribbles {
            evil.words()[word].store(value, Ordering::SeqCst);
            if let Ok(Next::Call(job)) = worker.next(&mut buffer, Duration::ZERO) {
                prop_assert!(job.frame_bytes <= FRAME_BYTES_MAX);
                worker.reply(&answer(b"", b"", b"")).expect("within limits");
            }
        }
    }
}
