//! A request that cannot be sent before it has a host and a path: the compiler sees to that.
use std::marker::PhantomData;

mod state {
    pub trait State {}
    #[derive(Debug)]
    pub enum Empty {}
    #[derive(Debug)]
    pub enum Addressed {}
    #[derive(Debug)]
    pub enum Ready {}
    impl State for Empty {}
    impl State for Addressed {}
    impl State for Ready {}
}

use state::{Addressed, Empty, Ready, State};

#[must_use]
#[derive(Debug)]
struct Builder<'a, S: State> {
    method: Method,
    host: &'a str,
    path: &'a str,
    body: Option<&'a str>,
    state: PhantomData<fn() -> S>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Post,
}

impl<'a, S: State> Builder<'a, S> {
    fn into_state<T: State>(self) -> Builder<'a, T> {
        let Self { method, host, path, body, state: PhantomData } = self;
        Builder { method, host, path, body, state: PhantomData }
    }
}

impl<'a> Builder<'a, Empty> {
    const fn new(method: Method) -> Self {
        Self { method, host: "", path: "", body: None, state: PhantomData }
    }

    fn host(mut self, host: &'a str) -> Builder<'a, Addressed> {
        self.host = host;
        self.into_state()
    }
}

impl<'a> Builder<'a, Addressed> {
    fn path(mut self, path: &'a str) -> Builder<'a, Ready> {
        self.path = path;
        self.into_state()
    }
}

impl<'a> Builder<'a, Ready> {
    fn body(mut self, body: &'a str) -> Self {
        self.body = Some(body);
        self
    }

    fn send(self) -> Result<String, &'static str> {
        let (name, length) = match (self.method, self.body) {
            (Method::Get, None) => ("GET", 0),
            (Method::Get, Some(_)) => return Err("GET has no body"),
            (Method::Post, Some(body)) => ("POST", body.len()),
            (Method::Post, None) => return Err("POST needs a body"),
        };
        Ok(format!("{name} http://{}{} ({length} bytes)", self.host, self.path))
    }
}

fn answer(line: &str) -> Result<String, String> {
    let parts: Vec<&str> = line.splitn(4, ' ').collect();
    let [method, host, path, ref body @ ..] = parts[..] else { return Err("METHOD HOST PATH [BODY]".into()) };
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        other => return Err(format!("method {other}")),
    };
    let ready = Builder::new(method).host(host).path(path);
    let ready = match body {
        [body, ..] => ready.body(body),
        [] => ready,
    };
    ready.send().map_err(str::to_owned)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
