#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod at_once;
mod calls;
mod data;
mod in_place;
mod inline;
mod other_tenants;
mod waits;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command as Program};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_attest::Declared;
use mfaas_dispatch::{Limits, Outcome, SHARED_SLAB, SlabId, WorkerId};
use mfaas_ident::{Access, AliasName, DataAccess, FunctionName, Isolation, ResourceName, TenantName};
use mfaas_ring::clock::ticks;
use mfaas_ring::{Answer, Geometry, Job, Next, WorkerEnd, WorkerState};
use mfaas_rules::codes;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::agent::testing::{key, number};
use crate::grant::Grant;
use crate::image::{ImageKey, VerifiedImage};
use crate::refused::Refused;
use crate::serving::intake::{Arrival, Event, Intake};
use crate::serving::loading::Task;
use crate::serving::supervisor::WorkerSupervisor;
use crate::serving::{
    Answered, Asked, CallError, Dispatcher, NodeServices, Route, RouteChange, Way, WorkerSetup, connect,
};

const PATIENCE: Duration = Duration::from_secs(20);
const WORKER: WorkerId = WorkerId { place: 0, life: 1 };
const SHARED: SlabId = SlabId { number: SHARED_SLAB, life: 0 };

/// A process that only waits. It goes with this, whatever way the test ends.
struct Idle(Child);

impl Drop for Idle {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A dispatcher of a node with one shared worker and `acme/hello@1` in slot 7, whose loader is the
/// test: it makes no slab, so that the supervisor waits and the test is the workers, too.
struct Stage {
    dispatcher: Arc<Dispatcher>,
    intake: Intake,
    supervisor: Arc<WorkerSupervisor>,
    tasks: Receiver<Task>,
    /// Tasks that were passed over while a worker was awaited.
    passed: RefCell<VecDeque<Task>>,
    /// Slabs that were asked for, each for a worker that is to come.
    asked: Cell<Vec<SlabId>>,
    /// The shared worker: nothing is served before it is there.
    first: Cell<Option<(WorkerEnd, OwnedFd, Idle)>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.supervisor.close();
    }
}

impl Stage {
    async fn new() -> Self {
        Self::with(NodeServices::default()).await
    }

    async fn with(services: NodeServices) -> Self {
        let limits = Limits { shared_workers: 1, workers_max: 4, ..Limits::NODE };
        let (dispatcher, intake, supervisor, tasks) =
            connect(limits, services, &WorkerSetup::default()).unwrap();
        let (passed, asked, first) = Default::default();
        let stage =
            Self { dispatcher: Arc::new(dispatcher), intake, supervisor, tasks, passed, asked, first };
        stage.first.set(Some(stage.life(WORKER, SHARED)));
        assert_eq!(stage.define(&key("hello", 1), 7).await, []);
        stage.route(&key("hello", 1));
        stage
    }

    /// The next task that is about an image.
    fn task(&self) -> Task {
        if let Some(task) = self.passed.borrow_mut().pop_front() {
            return task;
        }
        loop {
            match self.tasks.recv_timeout(PATIENCE).unwrap() {
                Task::Open(slab) => self.note(slab),
                other => return other,
            }
        }
    }

    /// Tasks that are about images and there already.
    fn tasks_now(&self) -> Vec<Task> {
        let mut now: Vec<_> = self.passed.borrow_mut().drain(..).collect();
        loop {
            match self.tasks.try_recv() {
                Ok(Task::Open(slab)) => self.note(slab),
                Ok(other) => now.push(other),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return now,
            }
        }
    }

    fn note(&self, slab: SlabId) {
        let mut asked = self.asked.take();
        asked.push(slab);
        self.asked.set(asked);
    }

    /// Waits until a worker is wanted over this slab: who comes before is sent away.
    fn await_request(&self, slab: SlabId) {
        loop {
            let mut asked = self.asked.take();
            let found = asked.iter().position(|asked| *asked == slab);
            found.map(|at| asked.swap_remove(at));
            self.asked.set(asked);
            if found.is_some() {
                return;
            }
            match self.tasks.recv_timeout(PATIENCE).unwrap() {
                Task::Open(slab) => self.note(slab),
                other => self.passed.borrow_mut().push_back(other),
            }
        }
    }

    /// Defines an image and answers for the loader.
    async fn define(&self, key: &ImageKey, slot: u32) -> Vec<(ImageKey, Refused)> {
        self.define_declaring(key, slot, Declared::default()).await
    }

    async fn define_declaring(
        &self,
        key: &ImageKey,
        slot: u32,
        declared: Declared,
    ) -> Vec<(ImageKey, Refused)> {
        self.define_image(VerifiedImage::declaring_for_test(key.clone(), declared), slot).await
    }

    async fn define_image(&self, image: VerifiedImage, slot: u32) -> Vec<(ImageKey, Refused)> {
        let (image, dispatcher) = (Arc::new(image), Arc::clone(&self.dispatcher));
        let defining = tokio::spawn(async move { dispatcher.define(&[image]).await.unwrap() });
        match self.task() {
            Task::Load { function, slab, .. } => {
                self.intake.send(Event::Loaded { function, slab, slot, bytes: 1 })
            }
            other => panic!("{other:?}"),
        }
        defining.await.unwrap()
    }

    fn route(&self, live: &ImageKey) {
        let public = Declared { access: Some(Access::Public), ..Declared::default() };
        self.route_image(VerifiedImage::declaring_for_test(live.clone(), public), None);
    }

    fn route_image(&self, image: VerifiedImage, resources: Option<&BTreeMap<ResourceName, DataAccess>>) {
        let live = image.key().clone();
        let mut route = Route::default();
        route.aliases.insert(AliasName::live(), live.version);
        route.images.insert(live.version, Arc::new(image));
        let name = &(live.tenant.clone(), live.function.clone());
        self.dispatcher.route(&[RouteChange { name, route: &route, revoked: None, resources }]);
    }

    /// A worker whose end of the ring is the test's, and whose process only waits.
    fn worker(&self) -> (WorkerEnd, OwnedFd, Idle) {
        self.first.take().unwrap()
    }

    /// The same over a slab.
    fn life(&self, id: WorkerId, slab: SlabId) -> (WorkerEnd, OwnedFd, Idle) {
        self.await_request(slab);
        let (fd, ring) = mfaas_ring::create(Geometry::new(8).unwrap()).unwrap();
        let mut end = WorkerEnd::attach(&fd).unwrap();
        end.set_state(WorkerState::Ready);
        let child = Program::new("sleep").arg("1000").spawn().unwrap();
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        self.intake.send(Event::Arrived(Box::new(Arrival { id, slab, ring, process })));
        (end, fd, Idle(child))
    }

    /// The worker after the first one, with the call that waited for it. Where it has its place is the
    /// scheduler's business, and who comes under another name is let go.
    fn replacement(&self, slab: SlabId) -> (WorkerEnd, OwnedFd, Idle, Job) {
        for id in [WorkerId { life: 2, ..WORKER }, WorkerId { place: 1, life: 1 }] {
            let (mut end, fd, child) = self.life(id, slab);
            match end.next(PATIENCE).unwrap() {
                Next::Call(job) => return (end, fd, child, job),
                Next::Stop => self.note(slab),
                Next::Idle => panic!("{id:?} receives nothing"),
            }
        }
        panic!("no worker is wanted");
    }

    fn call(&self) -> tokio::task::JoinHandle<Result<Answered, CallError>> {
        tokio::spawn(call(Arc::clone(&self.dispatcher)))
    }
}

async fn call(dispatcher: Arc<Dispatcher>) -> Result<Answered, CallError> {
    call_of(dispatcher, "acme").await
}

async fn call_of(dispatcher: Arc<Dispatcher>, tenant: &str) -> Result<Answered, CallError> {
    call_with(dispatcher, tenant, b"frame".to_vec()).await
}

async fn call_with(dispatcher: Arc<Dispatcher>, tenant: &str, frame: Vec<u8>) -> Result<Answered, CallError> {
    let (tenant, function) = (TenantName::parse(tenant).unwrap(), FunctionName::parse("hello").unwrap());
    let (selector, wait_max, grant) = (None, None, Grant::NOTHING);
    let asked = Asked { tenant: &tenant, function: &function, selector, wait_max, grant, way: Way::Direct };
    dispatcher.call(asked, frame).await
}

fn next(end: &mut WorkerEnd) -> Job {
    match end.next(PATIENCE).unwrap() {
        Next::Call(job) => job,
        other => panic!("{other:?}"),
    }
}

fn reply(end: &mut WorkerEnd, response: &[u8]) {
    reply_with(end, Status::Ok, response);
}

fn reply_with(end: &mut WorkerEnd, status: Status, response: &[u8]) {
    let (logs, message, wall_ns, cpu_ns, memory_bytes) = (&[][..], &[][..], 1, 1, 1);
    let answer = Answer {
        status,
        cold: false,
        waits: false,
        response,
        logs,
        message,
        inline: b"",
        wall_ns,
        cpu_ns,
        memory_bytes,
    };
    end.reply(&answer).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_through_the_ring_by_its_slot_and_comes_back() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    for response in [b"one", b"two"] {
        let call = stage.call();
        let job = next(&mut end);
        assert_eq!((job.function, job.frame_bytes), (7, 5));
        let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
        end.take_frame(&mut frame).unwrap();
        assert_eq!(&frame[..5], b"frame");
        reply(&mut end, response);
        let answered = call.await.unwrap().unwrap();
        assert_eq!(answered.outcome, Outcome::Finished);
        assert_eq!(answered.completion.unwrap().response, response);
        assert_eq!(answered.served.key.version, number(1));
    }
}

/// Some of these find the engine at rest and have it themselves, the others come by the queue.
#[tokio::test(flavor = "multi_thread")]
async fn calls_by_their_callers_and_by_the_thread_are_answered_once_each() {
    const CALLERS: usize = 3;
    const CALLS: usize = 300;
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let worker = std::thread::spawn(move || {
        for number in 0..CALLERS * CALLS {
            next(&mut end);
            if number % 50 == 49 {
                // Longer than a caller looks.
                std::thread::sleep(Duration::from_millis(1));
            }
            reply(&mut end, b"done");
        }
        end
    });
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let dispatcher = Arc::clone(&stage.dispatcher);
            tokio::spawn(async move {
                for _ in 0..CALLS {
                    let answered = call(Arc::clone(&dispatcher)).await.unwrap();
                    assert_eq!(answered.completion.unwrap().response, b"done");
                }
            })
        })
        .collect();
    for caller in callers {
        tokio::time::timeout(PATIENCE, caller).await.expect("a call was forgotten").unwrap();
    }
    drop(worker.join().unwrap());
    // Without another call: what is shown must not stay behind what is.
    let shown = async {
        while !stage.dispatcher.is_idle() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), shown).await.expect("still shown as busy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_signalled_when_the_deadline_that_it_wrote_has_passed() {
    let stage = Stage::new().await;
    let (mut end, _fd, mut child) = stage.worker();
    // Without a call on it a deadline is nothing but bytes.
    end.watch_word().store(ticks(), Ordering::Release);
    let call = stage.call();
    next(&mut end);
    end.watch_word().store(ticks() + 1_000_000, Ordering::Release);
    // The process handles no signal, so the first one ends it.
    let status = tokio::task::spawn_blocking(move || child.0.wait().unwrap()).await.unwrap();
    assert_eq!(status.signal(), Some(rustix::process::Signal::ALARM.as_raw()));
    // What it had completed before counts.
    reply(&mut end, b"done");
    stage.intake.send(Event::Died(WORKER));
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_breaks_its_ring_is_killed_and_its_calls_are_lost_once() {
    let stage = Stage::new().await;
    let (mut end, fd, mut child) = stage.worker();
    let (call, behind) = (stage.call(), stage.call());
    next(&mut end);
    let memory = std::fs::File::from(fd);
    let bytes = vec![0xa5; 16 << 10];
    memory.write_all_at(&bytes, 4096).unwrap();
    let status = tokio::task::spawn_blocking(move || child.0.wait().unwrap()).await.unwrap();
    assert_eq!(status.signal(), Some(rustix::process::Signal::KILL.as_raw()));
    assert!(!call.is_finished(), "nothing is lost before its worker is");
    stage.intake.send(Event::Died(WORKER));
    stage.intake.send(Event::Died(WORKER));
    // The default budget is too long for a second call behind the first: it waits for a worker.
    let (first, second) = (call, behind);
    let (mut end, _fd, _child, _) = stage.replacement(SHARED);
    reply(&mut end, b"later");
    let outcomes = [first.await.unwrap().unwrap().outcome, second.await.unwrap().unwrap().outcome];
    assert!(outcomes.contains(&Outcome::Lost) && outcomes.contains(&Outcome::Finished), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_again_only_when_its_signed_statement_says_that_it_may() {
    for (idempotent, expected) in [(true, Outcome::Finished), (false, Outcome::Lost)] {
        let stage = Stage::new().await;
        let two = key("hello", 2);
        assert_eq!(stage.define_declaring(&two, 8, Declared { idempotent, ..Declared::default() }).await, []);
        stage.route(&two);
        let (mut end, _fd, _child) = stage.worker();
        let call = stage.call();
        let first = next(&mut end);
        stage.intake.send(Event::Died(WORKER));
        if idempotent {
            let (mut end, _fd, _child, again) = stage.replacement(SHARED);
            assert_eq!(again, first, "the same call, with the same request");
            reply(&mut end, b"again");
        }
        assert_eq!(call.await.unwrap().unwrap().outcome, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_declares_it_waits_for_a_worker_of_its_own() {
    let stage = Stage::new().await;
    let two = key("hello", 2);
    let process = Declared { isolation: Isolation::Process, ..Declared::default() };
    assert_eq!(stage.define_declaring(&two, 8, process).await, []);
    stage.route(&two);
    let (mut shared, _fd, _child) = stage.worker();
    let call = stage.call();
    let own = SlabId { number: SHARED_SLAB + 2, life: 0 };
    let (mut own, _fd, _child) = stage.life(WorkerId { place: 1, life: 1 }, own);
    assert_eq!(next(&mut own).function, 8);
    reply(&mut own, b"own");
    assert_eq!(call.await.unwrap().unwrap().completion.unwrap().response, b"own");
    assert!(matches!(shared.next(Duration::ZERO), Ok(Next::Idle)), "nothing came by there");

    // Another tenant that declares it has its own slab: nobody is refused.
    let stranger = ImageKey { tenant: TenantName::parse("umbrella").unwrap(), ..key("vault", 1) };
    let image = Arc::new(VerifiedImage::declaring_for_test(stranger.clone(), process));
    let dispatcher = Arc::clone(&stage.dispatcher);
    let defining = tokio::spawn(async move { dispatcher.define(&[image]).await.unwrap() });
    let (function, slab) = loop {
        // The slot of version 1 is freed meanwhile.
        if let Task::Load { function, slab, .. } = stage.task() {
            break (function, slab);
        }
    };
    assert_eq!(slab, SlabId { number: SHARED_SLAB + 4, life: 0 });
    stage.intake.send(Event::Loaded { function, slab, slot: 0, bytes: 1 });
    assert_eq!(defining.await.unwrap(), []);
}

/// A worker that nobody asked for, or that maps what is no more, must not serve.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_not_wanted_or_maps_an_old_slab_is_let_go() {
    let stage = Stage::new().await;
    let (mut end, _fd, child) = stage.worker();
    stage.note(SHARED);
    let (mut stranger, _fd, _child) = stage.life(WorkerId { place: 3, life: 9 }, SHARED);
    assert_eq!(stranger.next(PATIENCE).unwrap(), Next::Stop);
    assert_eq!(end.next(Duration::ZERO).unwrap(), Next::Idle);
    stage.intake.send(Event::Renewed);
    assert_eq!(end.next(PATIENCE).unwrap(), Next::Stop);
    drop(child);
    stage.intake.send(Event::Died(WORKER));
    stage.await_request(SlabId { life: 1, ..SHARED });
    stage.note(SHARED);
    let (mut old, _fd, _child) = stage.life(WorkerId { life: 2, ..WORKER }, SHARED);
    assert_eq!(old.next(PATIENCE).unwrap(), Next::Stop);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_loses_no_call_and_frees_the_slot_after_the_last_one_that_may_be_in_it() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    assert_eq!(stage.define(&key("hello", 2), 8).await, []);
    stage.route(&key("hello", 2));
    let second = stage.call();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(stage.tasks_now().is_empty(), "a call still needs slot 7");
    reply(&mut end, b"old");
    assert_eq!(call.await.unwrap().unwrap().served.key.version, number(1));
    match stage.task() {
        Task::Unload { slot, .. } => assert_eq!(slot, 7),
        other => panic!("{other:?}"),
    }
    assert_eq!(next(&mut end).function, 8);
    // It runs already when the traps come to stand, so it may be among them.
    stage.intake.send(Event::Unloaded { slab: SHARED, slot: 7 });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(stage.tasks_now().is_empty(), "a call may stand in slot 7");
    reply(&mut end, b"new");
    assert_eq!(second.await.unwrap().unwrap().served.key.version, number(2));
    match stage.task() {
        Task::Reclaim { slot, slab } => assert_eq!((slot, slab), (7, SHARED)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_loaded_is_named_with_its_sentence_and_stops_no_other() {
    let stage = Stage::new().await;
    let dispatcher = Arc::clone(&stage.dispatcher);
    let images = [2, 3].map(|version| Arc::new(VerifiedImage::for_test(key("hello", version))));
    let defining = tokio::spawn(async move { dispatcher.define(&images).await.unwrap() });
    for _ in 0..2 {
        match stage.task() {
            Task::Load { function, slab, image } if image.key().version == number(2) => {
                let reason = "it is odd".to_owned();
                stage.intake.send(Event::LoadFailed { function, slab, reason });
            }
            Task::Load { function, slab, .. } => {
                stage.intake.send(Event::Loaded { function, slab, slot: 9, bytes: 1 });
            }
            other => panic!("{other:?}"),
        }
    }
    let [(refused, why)] = &defining.await.unwrap()[..] else { panic!("one is refused") };
    assert_eq!((refused, why.code), (&key("hello", 2), codes::MF0709));
    assert_eq!(why.message, "acme/hello@2 cannot be loaded: it is odd");
}

/// Room may not come for long, and what is defined together waits for all of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_finds_no_room_is_defined_and_takes_nobodys_place() {
    let stage = Stage::new().await;
    let dispatcher = Arc::clone(&stage.dispatcher);
    let image = Arc::new(VerifiedImage::for_test(key("hello", 2)));
    let defining = tokio::spawn(async move { dispatcher.define(&[image]).await.unwrap() });
    match stage.task() {
        Task::Load { function, slab, .. } => stage.intake.send(Event::NoRoom { function, slab }),
        other => panic!("{other:?}"),
    }
    assert_eq!(tokio::time::timeout(PATIENCE, defining).await.expect("it is cold").unwrap(), []);
    assert!(stage.tasks_now().is_empty(), "version 1 stays");
    stage.route(&key("hello", 2));
    assert!(matches!(stage.task(), Task::Unload { slot: 7, .. }), "nobody calls version 1 any more");
    let call = stage.call();
    match stage.task() {
        Task::Load { function, slab, .. } => {
            stage.intake.send(Event::Loaded { function, slab, slot: 8, bytes: 1 });
        }
        other => panic!("{other:?}"),
    }
    let (mut end, _fd, _child) = stage.worker();
    assert_eq!(next(&mut end).function, 8);
    reply(&mut end, b"new");
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_slab_is_filled_again_and_calls_wait_for_it() {
    let stage = Stage::new().await;
    let (_end, _fd, old) = stage.worker();
    stage.intake.send(Event::Renewed);
    let renewed = SlabId { life: 1, ..SHARED };
    let call = stage.call();
    let function = match stage.task() {
        Task::Load { function, slab, .. } if slab == renewed => function,
        other => panic!("{other:?}"),
    };
    drop(old);
    stage.intake.send(Event::Died(WORKER));
    // What the old loader still says about the old slab means nothing.
    stage.intake.send(Event::Loaded { function, slab: SHARED, slot: 7, bytes: 1 });
    stage.intake.send(Event::Loaded { function, slab: renewed, slot: 3, bytes: 1 });
    let (mut end, _fd, _child, job) = stage.replacement(renewed);
    assert_eq!(job.function, 3);
    reply(&mut end, b"again");
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_dispatcher_refuses_and_reports_when_it_is_idle() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let mut idle = std::pin::pin!(stage.dispatcher.stop());
    assert!(matches!(stage.call().await.unwrap(), Err(CallError::Refused(_))));
    let early = tokio::time::timeout(Duration::from_millis(20), idle.as_mut()).await;
    assert!(early.is_err(), "one call runs");
    reply(&mut end, b"last");
    idle.await;
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished);
}
