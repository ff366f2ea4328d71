//! Events of several types, and handlers that borrow what they change.
use std::any::Any;
use std::fmt::Debug;
use std::ops::ControlFlow;

trait Event: Any + Debug {
    fn is_last(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Say(String);
#[derive(Debug)]
struct Add(i64);
#[derive(Debug)]
struct Stop;
#[derive(Debug)]
struct Unknown;

impl Event for Say {}
impl Event for Add {}
impl Event for Unknown {}
impl Event for Stop {
    fn is_last(&self) -> bool {
        true
    }
}

#[derive(Default)]
struct Bus<'a> {
    handlers: Vec<Box<dyn FnMut(&dyn Event) -> ControlFlow<()> + 'a>>,
}

impl<'a> Bus<'a> {
    fn on<E: Event>(&mut self, mut f: impl FnMut(&E) + 'a) {
        self.handlers.push(Box::new(move |event| {
            let any: &dyn Any = event;
            if let Some(event) = any.downcast_ref::<E>() {
                f(event);
            }
            if event.is_last() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }));
    }

    fn send(&mut self, event: Box<dyn Event>) -> ControlFlow<()> {
        self.handlers.iter_mut().map(|handler| handler(&*event)).fold(ControlFlow::Continue(()), |a, b| {
            if a.is_break() { a } else { b }
        })
    }
}

fn event(line: &str) -> Box<dyn Event> {
    match line.split_once(' ') {
        Some(("say", text)) => Box::new(Say(text.to_owned())),
        Some(("add", n)) => n.parse().map_or_else(|_| Box::new(Unknown) as Box<dyn Event>, |n| Box::new(Add(n))),
        None if line == "stop" => Box::new(Stop),
        _ => Box::new(Unknown),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let (mut said, mut sum, mut unknown, mut events) = (Vec::new(), 0, 0, 0);
    {
        let mut bus = Bus::default();
        bus.on(|Say(text): &Say| said.push(text.clone()));
        bus.on(|Add(n): &Add| sum += n);
        bus.on(|_: &Unknown| unknown += 1);
        for line in text.lines() {
            events += 1;
            if bus.send(event(line)).is_break() {
                break;
            }
        }
    }
    format!("said {}; sum {sum}; {events} events, {unknown} unknown", said.join(", ")).into_bytes()
}
