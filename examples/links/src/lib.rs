//! A link shortener: give it an address and it answers with a short code, which leads to the address and counts who follows it.
//!
//! ```console
//! $ mfaas invoke links --data https://www.rust-lang.org/learn
//! ygydby
//! $ mfaas invoke links --data ygydby
//! https://www.rust-lang.org/learn was followed 0 times
//! ```
//!
//! `GET /f/TENANT/links?CODE` leads a browser there. It needs resources of the site:
//! `mfaas resource create links --kind kv`, `followed` of the same kind and `addresses` of the kind `cache`, each granted with
//! `mfaas resource grant NAME --tenant TENANT --access write`.

use mfaas::{Binding, Cache, Error, Kv, Request, Response, Write};

/// Bytes of an address.
const ADDRESS_BYTES_MAX: usize = 2_000;
/// Characters of a code: a thousand million codes.
const CODE_LENGTH: usize = 6;
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Where codes lead.
pub struct Links;

impl Binding for Links {
    const NAME: &'static str = "links";
    type Value = String;
}

/// How often each code was followed.
pub struct Followed;

impl Binding for Followed {
    const NAME: &'static str = "followed";
    type Value = i64;
}

/// Where codes lead that were followed on this node: a link never changes.
pub struct Addresses;

impl Binding for Addresses {
    const NAME: &'static str = "addresses";
    type Value = String;
}

/// `GET ?CODE` follows a link; any other request has an address, which it shortens, or a code, which it tells about.
pub async fn handle(
    request: Request,
    links: Kv<Links, Write>,
    followed: Kv<Followed, Write>,
    addresses: Cache<Addresses, Write>,
) -> Result<Response, Error> {
    if request.method() == "GET" {
        return follow(request.query().unwrap_or_default(), &links, &followed, &addresses).await;
    }
    let text = request.text()?.trim();
    if text.starts_with("https://") || text.starts_with("http://") {
        shorten(text, &links).await
    } else {
        tell(text, &links, &followed).await
    }
}

async fn shorten(address: &str, links: &Kv<Links, Write>) -> Result<Response, Error> {
    if address.len() > ADDRESS_BYTES_MAX || address.contains(char::is_whitespace) {
        return Ok(Response::text("this is no address that can be shortened\n").with_status(400));
    }
    // The same address has the same code, unless another one has it already.
    for attempt in 0.. {
        let code = code_of(address, attempt);
        match links.get(&code).await? {
            Some(taken) if taken == address => return Ok(Response::text(code + "\n")),
            Some(_) => {}
            None => {
                links.put(&code, &address.to_owned()).await?;
                return Ok(Response::text(code + "\n"));
            }
        }
    }
    Err(Error::new("no code is free"))
}

async fn follow(
    code: &str,
    links: &Kv<Links, Write>,
    followed: &Kv<Followed, Write>,
    addresses: &Cache<Addresses, Write>,
) -> Result<Response, Error> {
    if !is_code(code) {
        return Ok(unknown());
    }
    let address = match addresses.get(code).await? {
        Some(address) => address,
        None => {
            let Some(address) = links.get(code).await? else { return Ok(unknown()) };
            addresses.put(code, &address).await?;
            address
        }
    };
    followed.increment(code, 1).await?;
    Ok(Response::new(302).with_header("location", &address))
}

async fn tell(code: &str, links: &Kv<Links, Write>, followed: &Kv<Followed, Write>) -> Result<Response, Error> {
    if !is_code(code) {
        return Ok(unknown());
    }
    let Some(address) = links.get(code).await? else { return Ok(unknown()) };
    let times = match followed.get(code).await?.unwrap_or(0) {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    Ok(Response::text(format!("{address} was followed {times}\n")))
}

fn is_code(text: &str) -> bool {
    text.len() == CODE_LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

fn unknown() -> Response {
    Response::text("there is no such link\n").with_status(404)
}

/// FNV-1a, in letters and digits that nobody takes for each other.
fn code_of(address: &str, attempt: u32) -> String {
    let seed = 0xcbf2_9ce4_8422_2325 ^ u64::from(attempt);
    let hash = address.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (0..CODE_LENGTH).map(|at| char::from(ALPHABET[(hash >> (5 * at + 24)) as usize % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use mfaas::testing::{block_on, cache, kv};

    use super::*;

    fn ask(request: Request) -> Response {
        block_on(handle(request, kv(), kv(), cache())).unwrap()
    }

    fn text(response: &Response) -> &str {
        std::str::from_utf8(response.body()).unwrap().trim()
    }

    #[test]
    fn a_code_leads_to_its_address_and_counts() {
        let shorten = || ask(Request::new("POST", "/").with_body("https://example.org/a"));
        let code = text(&shorten()).to_owned();
        assert_eq!(text(&shorten()), code, "the same address has the same code");
        // The second time by the cache.
        for times in ["once", "2 times"] {
            let followed = ask(Request::new("GET", &format!("/?{code}")));
            assert_eq!(followed.status(), 302);
            assert!(followed.headers().any(|header| header == ("location", "https://example.org/a")));
            let told = ask(Request::new("POST", "/").with_body(code.clone()));
            assert_eq!(text(&told), format!("https://example.org/a was followed {times}"));
        }
    }

    #[test]
    fn what_is_no_address_or_no_code_is_refused() {
        for (method, target, body, status) in [
            ("GET", "/", "", 404),
            ("GET", "/?../../x", "", 404),
            ("GET", "/?aaaaaa", "", 404),
            ("POST", "/", "https://a b", 400),
            ("POST", "/", "javascript:alert(1)", 404),
        ] {
            assert_eq!(ask(Request::new(method, target).with_body(body)).status(), status, "{method} {target} {body}");
        }
    }

    #[test]
    fn codes_of_two_addresses_differ() {
        let codes: std::collections::BTreeSet<_> =
            (0..1_000).map(|number| code_of(&format!("https://example.org/{number}"), 0)).collect();
        assert_eq!(codes.len(), 1_000);
    }
}
