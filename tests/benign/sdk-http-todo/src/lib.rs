//! An endpoint with a handler in a module.
pub mod api {
    use mfaas::{Request, Response};
    use serde::{Deserialize, Serialize};

    #[derive(Deserialize)]
    struct Lists<'a> {
        #[serde(rename = "do", borrow)]
        to_do: Vec<&'a str>,
        #[serde(default, borrow)]
        done: Vec<&'a str>,
    }

    #[derive(Serialize)]
    struct Left<'a> {
        open: Vec<&'a str>,
        finished: usize,
    }

    fn left<'a>(lists: &Lists<'a>) -> Result<Left<'a>, &'a str> {
        match lists.done.iter().find(|done| !lists.to_do.contains(done)) {
            Some(never) => Err(never),
            None => Ok(Left {
                open: lists.to_do.iter().copied().filter(|item| !lists.done.contains(item)).collect(),
                finished: lists.done.len(),
            }),
        }
    }

    fn post(body: &[u8]) -> Result<Response, Response> {
        let text = std::str::from_utf8(body).map_err(|_| Response::text("not UTF-8\n").with_status(400))?;
        let lists: Lists<'_> =
            serde_json_free::parse(text).ok_or_else(|| Response::text("not JSON\n").with_status(400))?;
        let left = left(&lists)
            .map_err(|never| Response::text(format!("{never} was never to be done\n")).with_status(409))?;
        Response::json(&left).map_err(|error| Response::text(error.to_string()).with_status(500))
    }

    pub fn answer(request: Request) -> Response {
        match (request.method(), request.path()) {
            ("POST", "/") if !request.body().is_empty() => post(request.body()).unwrap_or_else(|failed| failed),
            ("GET" | "POST", "/") => Response::html("<p>POST a list</p>"),
            (_, "/") => Response::new(405).with_header("allow", "GET, POST"),
            _ => Response::text("no such page\n").with_status(404),
        }
    }

    /// JSON without naming a JSON crate: lists of plain strings are all that is taken.
    mod serde_json_free {
        use super::Lists;

        pub(super) fn parse(text: &str) -> Option<Lists<'_>> {
            let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
            let mut lists = Lists { to_do: Vec::new(), done: Vec::new() };
            let mut rest = inner;
            while !rest.is_empty() {
                let (key, behind) = rest.split_once(":[")?;
                let (items, behind) = behind.split_once(']')?;
                let items = items.split(',').filter(|item| !item.is_empty()).map(|item| Some(item.strip_prefix('"')?.strip_suffix('"')?));
                let items = items.collect::<Option<Vec<_>>>()?;
                match key.trim_matches(['"', ',', ' ']) {
                    "do" => lists.to_do = items,
                    "done" => lists.done = items,
                    _ => return None,
                }
                rest = behind;
            }
            Some(lists)
        }
    }
}
