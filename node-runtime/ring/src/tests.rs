//! Both ends in one process; further down the model of the protocols, any order of calls against a
//! plain queue, and peers that write anything anywhere.

mod hostile;
mod local_api;
mod model;
mod questions;
mod queue;
mod waits;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mfaas_abi::Status;
use mfaas_abi::limits::{
    BULK_BODY_BYTES_MAX, BULK_FRAME_BYTES_MAX, FRAME_BYTES_MAX, LOG_BYTES_MAX, PANIC_BYTES_MAX,
};

use crate::clock::{Rate, ticks};
use crate::map::Mapping;
use crate::{
    Answer, Completion, Geometry, HostEnd, Job, Next, RingError, SMALL_BYTES_MAX, Submission, WorkerEnd,
    WorkerState, create, take_inherited,
};

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(10);

pub(crate) fn ring(slots: u32) -> (OwnedFd, HostEnd, WorkerEnd) {
    let (fd, host) = create(Geometry::new(slots).expect("a power of two")).expect("a ring");
    let worker = WorkerEnd::attach(&fd).expect("our own ring");
    (fd, host, worker)
}

pub(crate) fn answer<'a>(response: &'a [u8], logs: &'a [u8], message: &'a [u8]) -> Answer<'a> {
    Answer {
        status: Status::Ok,
        cold: true,
        waits: false,
        response,
        logs,
        message,
        inline: b"",
        wall_ns: 1,
        cpu_ns: 2,
        memory_bytes: 3,
    }
}

/// A call as most tests submit it.
pub(crate) const CALL: Submission<'static> = Submission {
    call_id: 1,
    function: 5,
    budget_us: 9,
    memory_bytes: 11,
    frame: b"",
    resumes: false,
    may_ask: false,
    yields: false,
};

fn submit(host: &mut HostEnd, call_id: u64, frame: &[u8]) -> Result<(), RingError> {
    host.submit(Submission { call_id, frame, ..CALL })
}

/// What goes on is no request, and what waits is no answer: both ends are told.
#[test]
fn a_call_that_waits_and_goes_on_is_told_from_others() {
    let (_fd, mut host, mut worker) = ring(2);
    for (resumes, waits) in [(false, true), (true, true), (true, false)] {
        let call = Submission { frame: b"state", resumes, ..CALL };
        host.submit(call).expect("room");
        let (job, frame) = take(&mut worker);
        assert_eq!((job.resumes, &*frame), (resumes, &b"state"[..]));
        worker.reply(&Answer { waits, ..answer(b"aside", b"", b"") }).expect("within limits");
        let done = collect(&mut host).expect("it is answered");
        assert_eq!((done.waits, &*done.response), (waits, &b"aside"[..]));
    }
    submit(&mut host, 2, b"").expect("room");
    take(&mut worker);
    let both = Answer { waits: true, status: Status::Panicked, ..answer(b"", b"", b"") };
    worker.reply(&both).expect("within limits");
    let said = host.collect(&mut Completion::new());
    assert!(matches!(said, Err(RingError::Violation(_))), "it has ended or waits: {said:?}");
}

fn collect(host: &mut HostEnd) -> Option<Completion> {
    let mut completion = Completion::new();
    host.collect(&mut completion).expect("a benign worker").then_some(completion)
}

/// The next call with its frame.
pub(crate) fn take(worker: &mut WorkerEnd) -> (Job, Vec<u8>) {
    match worker.next(LONG).expect("a benign host") {
        Next::Call(job) => {
            let mut frame = vec![0; job.frame_bytes];
            assert_eq!(worker.take_frame(&mut frame).expect("a call is taken"), job.frame_bytes);
            (job, frame)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_goes_there_and_its_answer_back() {
    let (_fd, mut host, mut worker) = ring(2);
    submit(&mut host, 42, b"request").expect("room");
    let (job, frame) = take(&mut worker);
    assert_eq!(
        job,
        Job {
            call_id: 42,
            function: 5,
            budget_us: 9,
            memory_bytes: 11,
            frame_bytes: 7,
            resumes: false,
            may_ask: false,
            yields: false
        }
    );
    assert_eq!(frame, b"request");
    assert!(!host.wait(SHORT).expect("a wait"), "nothing is answered yet");
    worker.reply(&answer(b"response", b"logs", b"message")).expect("within limits");
    assert!(host.wait(LONG).expect("a wait"));
    let expected = Completion {
        call_id: 42,
        status: Status::Ok,
        cold: true,
        waits: false,
        refusal: 0,
        response: b"response".to_vec(),
        logs: b"logs".to_vec(),
        message: b"message".to_vec(),
        inline: Vec::new(),
        wall_ns: 1,
        cpu_ns: 2,
        memory_bytes: 3,
    };
    assert_eq!(collect(&mut host), Some(expected));
    assert_eq!(collect(&mut host), None);
}

/// A hint, which the host may take back; it takes nothing and believes no length.
#[test]
fn a_look_ahead_changes_nothing() {
    let (fd, mut host, mut worker) = ring(2);
    assert_eq!(worker.look_ahead(), None);
    submit(&mut host, 1, b"one").expect("room");
    assert_eq!(worker.look_ahead(), Some(5), "before any is taken");
    assert!(matches!(worker.next(LONG), Ok(Next::Call(_))));
    assert_eq!(worker.look_ahead(), None);
    submit(&mut host, 2, &[7; 2_000]).expect("room");
    let view = Mapping::attach(&fd).expect("our own ring");
    let second = view.submission(1);
    for lie in [0, 1 << 20, u64::MAX] {
        let said = second.frame_bytes.swap(lie, Ordering::Relaxed);
        assert_eq!(worker.look_ahead(), Some(5), "{lie} bytes");
        second.frame_bytes.store(said, Ordering::Relaxed);
    }
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    let (job, frame) = take(&mut worker);
    assert_eq!((job.call_id, &*frame), (2, &[7; 2_000][..]));
}

#[test]
fn readers_wipe_what_they_read() {
    let (fd, mut host, mut worker) = ring(1);
    for bytes in [SMALL_BYTES_MAX, SMALL_BYTES_MAX + 488] {
        let secret = vec![0xc5; bytes];
        submit(&mut host, 1, &secret).expect("room");
        take(&mut worker);
        worker.reply(&answer(&secret, &secret, &secret)).expect("within limits");
        collect(&mut host);
    }
    submit(&mut host, 2, &[0xc5; 64]).expect("room");
    assert!(matches!(worker.next(LONG), Ok(Next::Call(_))));
    worker.reply(&answer(b"", b"", b"")).expect("a frame that nobody took is wiped with the answer");
    let view = Mapping::attach(&fd).expect("our own ring");
    let left =
        view.words().iter().filter(|word| word.load(Ordering::Relaxed) == u64::from_ne_bytes([0xc5; 8]));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_full_ring_says_so_and_goes_on_after_collecting() {
    let (_fd, mut host, mut worker) = ring(2);
    submit(&mut host, 1, b"").expect("room");
    submit(&mut host, 2, b"").expect("room");
    assert!(matches!(submit(&mut host, 3, b""), Err(RingError::Full)));
    take(&mut worker);
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    assert!(matches!(submit(&mut host, 3, b""), Err(RingError::Full)), "answered is not collected");
    assert_eq!(collect(&mut host).map(|done| done.call_id), Some(1));
    submit(&mut host, 3, b"").expect("room");
    assert_eq!(host.in_flight(), 2);
}

#[test]
fn the_largest_of_everything_fits_and_one_byte_more_does_not() {
    let (_fd, mut host, mut worker) = ring(1);
    let frame = vec![1; FRAME_BYTES_MAX + 1];
    assert!(matches!(submit(&mut host, 1, &frame), Err(RingError::TooLarge { .. })));
    submit(&mut host, 1, &frame[..FRAME_BYTES_MAX]).expect("room");
    assert_eq!(take(&mut worker).0.frame_bytes, FRAME_BYTES_MAX);
    let (logs, message) = ([2; LOG_BYTES_MAX], [3; PANIC_BYTES_MAX]);
    let too_large = answer(&frame, b"", b"");
    assert!(matches!(worker.reply(&too_large), Err(RingError::TooLarge { .. })));
    worker.reply(&answer(&frame[..FRAME_BYTES_MAX], &logs, &message)).expect("within limits");
    let done = collect(&mut host).expect("answered");
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
        let mut buffer = [0; 8];
        worker.set_state(WorkerState::Ready);
        loop {
            match worker.next(LONG).expect("a benign host") {
                Next::Call(_) => {
                    let bytes = worker.take_frame(&mut buffer).expect("a call is taken");
                    worker.reply(&answer(&buffer[..bytes], b"", b"")).expect("within limits");
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
        while let Some(done) = collect(&mut host) {
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
    submit(&mut host, 1, b"last").expect("room");
    host.stop();
    take(&mut worker);
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    assert_eq!(worker.next(LONG).expect("a benign host"), Next::Stop);
}

#[test]
fn waits_end_at_their_timeout() {
    let (_fd, mut host, mut worker) = ring(1);
    let start = Instant::now();
    assert_eq!(worker.next(SHORT).expect("a benign host"), Next::Idle);
    assert!(!host.wait(SHORT).expect("a wait"));
    assert!(start.elapsed() >= 2 * SHORT && start.elapsed() < LONG);
    let (_, mut collector) = host.split();
    assert_eq!(collector.wait_started(SHORT).expect("a wait"), WorkerState::Starting);
    worker.set_state(WorkerState::Ready);
    assert_eq!(collector.wait_started(LONG).expect("a wait"), WorkerState::Ready);
    assert_eq!(collector.oldest_in_flight(), None);
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

/// A ring of one bulk worker: frames of 64 MiB go both ways, are wiped where they lay, and their memory is given back.
#[test]
fn a_bulk_ring_carries_large_frames_and_keeps_nothing_of_them() {
    let (fd, mut host) = create(Geometry::BULK).expect("a ring");
    let mut worker = WorkerEnd::attach(&fd).expect("our own ring");
    assert_eq!(worker.body_bytes_max(), BULK_BODY_BYTES_MAX);
    let frame = vec![7; BULK_FRAME_BYTES_MAX + 1];
    assert!(matches!(submit(&mut host, 1, &frame), Err(RingError::TooLarge { .. })));
    submit(&mut host, 1, &frame[..BULK_FRAME_BYTES_MAX]).expect("room");
    assert!(matches!(submit(&mut host, 2, b"x"), Err(RingError::Full)), "one call at a time");
    let (job, taken) = take(&mut worker);
    assert_eq!((job.frame_bytes, &taken[..]), (BULK_FRAME_BYTES_MAX, &frame[..BULK_FRAME_BYTES_MAX]));
    assert!(worker.reply(&answer(&frame, b"", b"")).is_err(), "larger than its area");
    worker.reply(&answer(&taken, b"", b"")).expect("within limits");
    assert_eq!(collect(&mut host).expect("an answer").response, taken);
    let kept = rustix::fs::fstat(&fd).expect("its size").st_blocks * 512;
    assert!(kept < 1 << 20, "{kept} bytes are kept of what was carried");
    // The next call meets a ring as new.
    submit(&mut host, 3, b"small").expect("room");
    assert_eq!(take(&mut worker).1, b"small");
}

/// The size of its memory says what a ring is, so no two geometries may share one.
#[test]
fn no_two_geometries_have_one_size() {
    let slots = (0..7).map(|power| Geometry::new(1 << power).expect("a power of two"));
    let all: Vec<_> = slots.chain([Geometry::BULK]).collect();
    for geometry in &all {
        assert_eq!(Geometry::of_memory(geometry.memory_bytes() as u64), Some(*geometry));
    }
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

#[test]
fn small_and_large_payloads_arrive_whole() {
    let (_fd, mut host, mut worker) = ring(2);
    for bytes in [0, 1, 7, 8, 9, 63, SMALL_BYTES_MAX - 1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, 70_001] {
        let payload: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8 + 1).collect();
        submit(&mut host, 1, &payload).expect("room");
        assert_eq!(take(&mut worker).1, payload);
        worker.reply(&answer(&payload, b"", b"")).expect("within limits");
        assert_eq!(collect(&mut host).expect("answered").response, payload);
    }
}

#[test]
fn a_call_is_given_until_it_is_answered_and_the_next_one_is_seen() {
    let (_fd, mut host, mut worker) = ring(2);
    assert!(!worker.has_next());
    assert!(matches!(worker.reply(&answer(b"", b"", b"")), Err(RingError::Misuse(_))));
    assert!(matches!(worker.take_frame(&mut []), Err(RingError::Misuse(_))));
    submit(&mut host, 1, b"frame").expect("room");
    assert!(worker.has_next());
    let (first, _) = take(&mut worker);
    assert!(!worker.has_next());
    assert!(matches!(worker.take_frame(&mut [0; 4]), Err(RingError::TooLarge { bytes: 5, limit: 4 })));
    submit(&mut host, 2, b"frame").expect("room");
    assert!(worker.has_next());
    assert_eq!(worker.next(LONG).expect("a benign host"), Next::Call(first), "not answered yet");
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    assert_eq!(take(&mut worker).0.call_id, 2);
}

#[test]
fn the_watch_word_is_seen_by_the_host() {
    let (_fd, host, worker) = ring(1);
    assert_eq!(host.watch_deadline(), 0);
    worker.watch_word().store(77, Ordering::Relaxed);
    assert_eq!(host.watch_deadline(), 77);
    assert_eq!(worker.rate(), Rate::measured(), "handed on in the header");
}

#[test]
fn ticks_go_on_at_the_measured_rate() {
    let rate = Rate::measured();
    // Each reading of the kernel's clock stands between two of ours, however long somebody else has the processor.
    let reading = || (ticks(), Instant::now(), ticks());
    let first = reading();
    std::thread::sleep(SHORT);
    let last = reading();
    let took = last.1 - first.1;
    let least = Duration::from_nanos(rate.ns_of(last.0 - first.2));
    let most = Duration::from_nanos(rate.ns_of(last.2 - first.0));
    assert!(least.mul_f64(0.99) < took && took < most.mul_f64(1.01), "{least:?} {took:?} {most:?}");
    assert_eq!(rate.ticks_of_us(3_000), rate.ticks_of(Duration::from_millis(3)));
    assert!(rate.ns_of(rate.ticks_of_us(1_000_000)).abs_diff(1_000_000_000) < 1_000);
    assert_eq!((rate.ticks_of_us(u64::MAX), rate.ticks_of(Duration::MAX)), (u64::MAX, u64::MAX));
}

#[test]
fn a_clock_that_no_machine_has_is_refused() {
    for ticks_per_ms in [0, 99_999, 20_000_001, u64::MAX] {
        assert!(matches!(Rate::from_ticks_per_ms(ticks_per_ms), Err(RingError::Violation(_))));
    }
    let (fd, _host, _worker) = ring(1);
    let header = Mapping::attach(&fd).expect("our own ring");
    header.header().ticks_per_ms.store(0, Ordering::Relaxed);
    assert!(matches!(WorkerEnd::attach(&fd), Err(RingError::Violation(_))));
    header.header().ticks_per_ms.store(rate_of_this_machine(), Ordering::Relaxed);
    header.header().clock_source.store(3, Ordering::Relaxed);
    assert!(matches!(WorkerEnd::attach(&fd), Err(RingError::Violation(_))));
}

fn rate_of_this_machine() -> u64 {
    Rate::measured().ticks_per_ms()
}
