//! Keeps photos, and makes a smaller picture of each: a bulk function over objects.
//!
//! ```console
//! $ mfaas invoke pictures --file ../image-augmentation/photo.jpg
//! 30abd34f065b62e6.jpg: 3494 bytes, and a preview of 320 x 240 pixels
//! ```
//!
//! `GET /f/TENANT/pictures?NAME` gives the photo, `?NAME/preview` the smaller picture, and without a name the names of all. It needs
//! a resource of the site: `mfaas resource create pictures --kind object`, granted with
//! `mfaas resource grant pictures --tenant TENANT --access write`.

mod preview;

use mfaas::{Binding, Error, Objects, Request, Response, Write};

/// Photos by name, and their previews, each behind the name of its photo.
pub struct Pictures;

impl Binding for Pictures {
    const NAME: &'static str = "pictures";
    type Value = ();
}

/// `GET` gives what is there; any other request has a JPEG file, which is kept.
pub async fn handle(request: Request, pictures: Objects<Pictures, Write>) -> Result<Response, Error> {
    if request.method() != "GET" {
        return keep(request.body(), &pictures).await;
    }
    match request.query().unwrap_or_default() {
        "" => list(&pictures).await,
        name => Ok(match pictures.get(name).await? {
            Some(file) => Response::bytes(file).with_header("content-type", "image/jpeg"),
            None => Response::text("there is no such picture\n").with_status(404),
        }),
    }
}

/// Photo and preview are there together, or neither is.
async fn keep(file: &[u8], pictures: &Objects<Pictures, Write>) -> Result<Response, Error> {
    let (small, width, height) = match preview::of(file) {
        Ok(preview) => preview,
        Err(none) => return Ok(none.response()),
    };
    let name = name_of(file);
    // The same file has the same name, and is kept once.
    if pictures.put_new(&name, file).await? {
        pictures.put(format!("{name}/preview"), small).await?;
    }
    Ok(Response::text(format!("{name}: {} bytes, and a preview of {width} x {height} pixels\n", file.len())))
}

async fn list(pictures: &Objects<Pictures, Write>) -> Result<Response, Error> {
    let (mut names, mut after) = (String::new(), None);
    loop {
        let page = pictures.list("", after.as_deref(), 256).await?;
        for (name, _) in page.objects.iter().filter(|(name, _)| !name.contains('/')) {
            names.push_str(name);
            names.push('\n');
        }
        after = page.next;
        if after.is_none() {
            return Ok(Response::text(names));
        }
    }
}

/// FNV-1a of the bytes.
fn name_of(file: &[u8]) -> String {
    let hash = file.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}.jpg")
}

#[cfg(test)]
mod tests {
    use mfaas::testing::{block_on, objects};

    use super::*;

    fn photo() -> Vec<u8> {
        let mut file = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut file, 90);
        encoder.encode(&[100; 640 * 480 * 3], 640, 480, jpeg_encoder::ColorType::Rgb).unwrap();
        file
    }

    fn ask(request: Request) -> Response {
        block_on(handle(request, objects())).unwrap()
    }

    #[test]
    fn a_photo_is_kept_with_its_preview() {
        let (photo, name) = (photo(), name_of(&photo()));
        let answer = format!("{name}: {} bytes, and a preview of 320 x 240 pixels\n", photo.len());
        for _ in 0..2 {
            assert_eq!(ask(Request::new("POST", "/").with_body(photo.clone())).body(), answer.as_bytes());
        }
        assert_eq!(ask(Request::new("GET", &format!("/?{name}"))).body(), photo);
        let preview = ask(Request::new("GET", &format!("/?{name}/preview")));
        assert_eq!((preview.status(), &preview.body()[..2]), (200, &[0xff, 0xd8][..]));
        assert_eq!(ask(Request::new("GET", "/")).body(), format!("{name}\n").as_bytes());
        assert_eq!(ask(Request::new("GET", "/?other")).status(), 404);
    }

    #[test]
    fn what_is_no_photo_is_not_kept() {
        assert_eq!(ask(Request::new("POST", "/").with_body("no photo")).status(), 415);
        assert_eq!(ask(Request::new("GET", "/")).body(), b"");
    }
}
