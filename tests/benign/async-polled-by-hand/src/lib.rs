//! Tasks that yield, driven round-robin without a runtime.
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Pending once, then done.
struct YieldNow(bool);

impl Future for YieldNow {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn work(name: char, steps: usize, order: Rc<RefCell<Vec<String>>>) -> usize {
    for step in 0..steps {
        order.borrow_mut().push(format!("{name}{step}"));
        if step + 1 < steps {
            YieldNow(false).await;
        }
    }
    steps
}

/// The results of all tasks, how often they were polled.
fn run<T>(tasks: Vec<Pin<Box<dyn Future<Output = T>>>>, waker: &Waker) -> (Vec<T>, usize) {
    let mut cx = Context::from_waker(waker);
    let mut queue: VecDeque<_> = tasks.into();
    let (mut done, mut polls) = (Vec::new(), 0);
    while let Some(mut task) = queue.pop_front() {
        polls += 1;
        match task.as_mut().poll(&mut cx) {
            Poll::Ready(value) => done.push(value),
            Poll::Pending => queue.push_back(task),
        }
    }
    (done, polls)
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
    }
}

fn answer(text: &str) -> Result<String, String> {
    let steps = text
        .split_whitespace()
        .enumerate()
        .map(|(n, word)| word.parse::<usize>().map_err(|_| format!("task {}: {word} is no number", n + 1)))
        .collect::<Result<Vec<_>, _>>()?;
    if steps.is_empty() {
        return Err("no tasks".to_owned());
    }
    let order = Rc::new(RefCell::new(Vec::new()));
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let tasks = ('a'..)
        .zip(&steps)
        .map(|(name, steps)| Box::pin(work(name, *steps, Rc::clone(&order))) as Pin<Box<dyn Future<Output = usize>>>)
        .collect();
    let (done, polls) = run(tasks, &waker);
    let sum = block_on(async {
        let parts = async { done.iter().sum::<usize>() };
        YieldNow(false).await;
        parts.await
    });
    let order = order.borrow().join(" ");
    Ok(format!("order {order}, {polls} polls woke {}, sum {sum}", count.0.load(Ordering::Relaxed)))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
