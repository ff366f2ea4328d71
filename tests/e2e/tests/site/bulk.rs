//! Bulk functions from their manifests to their answers: what they may have, what they are refused, and that calls of other
//! functions are answered meanwhile.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flate2::read::GzDecoder;
use mfaas_harness::{Stack, checkout, package};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

const MIB: usize = 1 << 20;
const MICRO: &str = "pub fn handle(_request: &[u8]) -> Vec<u8> {\n    b\"at once\".to_vec()\n}\n";
/// Takes what it is sent, fills 500 MiB with it, and computes for some seconds.
const MUCH: &str = "\
pub fn handle(request: &[u8]) -> Vec<u8> {
    match request {
        b\"spin\" => loop {
            std::hint::black_box(());
        },
        b\"hoard\" => {
            let mut kept = Vec::new();
            loop {
                kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        b\"long\" => return vec![b'x'; (64 << 20) + 1],
        _ => {}
    }
    let mut memory: Vec<u64> = (0..(500_u64 << 20) / 8).collect();
    for round in 0..3_u64 {
        for (at, word) in memory.iter_mut().enumerate() {
            *word = word.wrapping_mul(6364136223846793005).wrapping_add(round ^ u64::from(request[at % request.len()]));
        }
    }
    let sum = memory.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
    format!(\"{} {sum}\", request.len()).into_bytes()
}
";

/// The same as [`MUCH`], here.
fn expected(request: &[u8]) -> String {
    let mut memory: Vec<u64> = (0..(500_u64 << 20) / 8).collect();
    for round in 0..3_u64 {
        for (at, word) in memory.iter_mut().enumerate() {
            let byte = u64::from(request[at % request.len()]);
            *word = word.wrapping_mul(6364136223846793005).wrapping_add(round ^ byte);
        }
    }
    let sum = memory.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
    format!("{} {sum}", request.len())
}

fn manifest(budget: &str, memory: &str) -> String {
    format!("[package.metadata.mfaas]\nclass = \"bulk\"\nbudget = \"{budget}\"\nmemory = \"{memory}\"\n")
}

/// What no compressor makes small.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn a_bulk_function_is_deployed_shown_and_answers_beside_others() {
    let stack = Stack::start();
    let shout = package("shout", MICRO, "");
    let _ = stack.deploy(shout.path()).ok();
    let much = package("much", MUCH, &manifest("120s", "512MiB"));
    let _ = stack.deploy(much.path()).ok();

    let proof = stack.cli(["verify", "much", "--json"]).ok().json();
    assert_eq!(proof["class"], "bulk", "{proof}");
    let shown = stack.cli(["versions", "much", "--json"]).ok().json();
    let version = &shown["items"][0];
    assert_eq!((&version["class"], &version["budget_us"]), (&"bulk".into(), &120_000_000.into()), "{shown}");
    let list = stack.cli(["list", "--json"]).ok().json();
    let classes: Vec<_> = list["items"].as_array().unwrap().iter().map(|row| &row["class"]).collect();
    assert_eq!(classes, ["bulk", "micro"], "{list}");

    let body = noise(20 * MIB);
    let (over, beside) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(stack.invoke("shout", "x").ok().stdout, "at once");
                beside.fetch_add(1, Ordering::Relaxed);
            }
        });
        let url = format!("{}/f/default/much", stack.ingress());
        let answer = stack.request("POST", &url, &[], body.clone());
        over.store(true, Ordering::Relaxed);
        assert_eq!((answer.status, answer.text()), (200, expected(&body)));
    });
    assert!(beside.load(Ordering::Relaxed) > 3, "{beside:?} calls beside it");

    gives_way(&stack);
    limits(&stack);
    gzip(&stack);
    image_augmentation(&stack);
    stack.invariants();
}

/// Its worker is secondary on this machine, and no other of the node's is.
fn gives_way(stack: &Stack) {
    let socket = stack.home().join("run/isolation/socket");
    if !rustix::process::geteuid().is_root() {
        return; // Only root has an isolation controller without a word.
    }
    let asked = ["--json", "node", "isolation", "status", "--socket", socket.to_str().unwrap()];
    let status = stack.cli(asked).ok().json();
    let members = status["members"].as_array().unwrap();
    let workers = members.iter().filter(|member| member["name"] == "mfaas-worker");
    let roles: Vec<_> = workers.map(|member| &member["role"]).collect();
    assert_eq!(roles, ["secondary"], "{status}");
}

/// Each limit has its code, and the worker goes on.
fn limits(stack: &Stack) {
    let little = package("little", MUCH, &manifest("300ms", "64MiB"));
    let _ = stack.deploy(little.path()).ok();
    let url = format!("{}/f/default/little", stack.ingress());
    for (body, status, code) in [("spin", 504, "MF0803"), ("hoard", 502, "MF0805"), ("long", 502, "MF0805")] {
        let answer = stack.request("POST", &url, &[], body.as_bytes().to_vec());
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}");
    }
    let url = format!("{}/f/default/much", stack.ingress());
    let answer = stack.request("POST", &url, &[], b"long".to_vec());
    assert_eq!((answer.status, answer.code().as_str()), (502, "MF0810"), "longer than an answer may be");
    for (name, manifest) in [
        ("budget", "[package.metadata.mfaas]\nbudget = \"20s\"\n".to_owned()),
        ("memory", "[package.metadata.mfaas]\nclass = \"micro\"\nmemory = \"257MiB\"\n".to_owned()),
    ] {
        let refused = package(name, MICRO, &manifest);
        let report = stack.cli(["deploy", "--json", refused.path().to_str().unwrap()]).exits(3).json();
        assert_eq!(report["diagnostics"][0]["code"], "MF0211", "{report}");
    }
}

/// The example packs what any gzip unpacks.
fn gzip(stack: &Stack) {
    let _ = stack.deploy(&checkout().join("examples/gzip")).ok();
    let plain = b"tea, ".repeat(4 * MIB);
    let url = format!("{}/f/default/gzip", stack.ingress());
    let packed = stack.request("POST", &url, &[], plain.clone());
    assert_eq!((packed.status, packed.headers["content-type"].as_str()), (200, "application/gzip"));
    assert!(packed.body.len() < plain.len() / 50, "{} bytes", packed.body.len());
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == plain, "{} bytes came back of {}", unpacked.len(), plain.len());
}

/// As large as a photo of 12 megapixels may be.
const WIDTH: usize = 4_096;
const HEIGHT: usize = 3_072;
/// Sides of the square of stripes in the photo's upper left corner, each a pixel wide.
const STRIPES: usize = 512;
/// JPEG loses something, twice here.
const LOST_MAX: u8 = 8;

type Pixel = [u8; 3];

/// Red grows to the right and green downwards, beside black and white stripes.
fn photo(x: usize, y: usize) -> Pixel {
    if x < STRIPES && y < STRIPES {
        return [if x.is_multiple_of(2) { 0 } else { 255 }; 3];
    }
    [(x * 255 / WIDTH) as u8, (y * 255 / HEIGHT) as u8, 100]
}

/// A picture of the archive: its name, its size, and what is at a place of it.
struct Expected {
    name: &'static str,
    size: (usize, usize),
    at: fn(usize, usize) -> Pixel,
}

/// What has to come back, in this order. The stripes are told apart by where they are and whether they are there.
const EXPECTED: [Expected; 5] = [
    Expected { name: "flipped.jpg", size: (WIDTH, HEIGHT), at: |x, y| photo(WIDTH - 1 - x, y) },
    Expected { name: "rotated.jpg", size: (HEIGHT, WIDTH), at: |x, y| photo(y, HEIGHT - 1 - x) },
    Expected {
        name: "cropped.jpg",
        size: (WIDTH / 2, HEIGHT / 2),
        at: |x, y| photo(x + WIDTH / 4, y + HEIGHT / 4),
    },
    Expected {
        name: "brightened.jpg",
        size: (WIDTH, HEIGHT),
        at: |x, y| {
            photo(x, y).map(|value| ((f64::from(value) - 128.0) * 1.25 + 148.0).clamp(0.0, 255.0) as u8)
        },
    },
    Expected {
        name: "blurred.jpg",
        size: (WIDTH, HEIGHT),
        at: |x, y| if x < STRIPES && y < STRIPES { [128; 3] } else { photo(x, y) },
    },
];

/// The example makes five pictures of a photo that any decoder reads, and says why it makes none.
fn image_augmentation(stack: &Stack) {
    let _ = stack.deploy(&checkout().join("examples/image-augmentation")).ok();
    let url = format!("{}/f/default/image-augmentation", stack.ingress());
    let answer = stack.request("POST", &url, &[], jpeg(WIDTH, HEIGHT));
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "application/x-tar"));
    let mut archive = tar::Archive::new(answer.body.as_slice());
    let mut expected = EXPECTED.into_iter();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let expected = expected.next().unwrap();
        assert_eq!(entry.path().unwrap().to_str().unwrap(), expected.name);
        let mut picture = Vec::new();
        entry.read_to_end(&mut picture).unwrap();
        is_as_expected(&picture, &expected);
    }
    assert!(expected.next().is_none(), "{} bytes lack pictures", answer.body.len());

    let larger = stack.request("POST", &url, &[], jpeg(WIDTH + 1, HEIGHT));
    let sentence = "4097 x 3072 pixels are more than 12 megapixels: send a smaller photo\n";
    assert_eq!((larger.status, larger.text().as_str()), (413, sentence));
    let none = stack.request("POST", &url, &[], noise(MIB));
    assert_eq!(none.status, 415, "{}", none.text());
}

fn jpeg(width: usize, height: usize) -> Vec<u8> {
    let pixels: Vec<Pixel> = (0..width * height).map(|at| photo(at % width, at / width)).collect();
    let mut file = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut file, 95);
    let (width, height) = (u16::try_from(width).unwrap(), u16::try_from(height).unwrap());
    encoder.encode(pixels.as_flattened(), width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    file
}

/// Looks at places all over the picture; none is in a block of JPEG at the edge of the stripes, which loses more.
fn is_as_expected(picture: &[u8], Expected { name, size, at }: &Expected) {
    let mut decoder = JpegDecoder::new(ZCursor::new(picture));
    let pixels = decoder.decode().unwrap();
    let (width, height) = decoder.dimensions().unwrap();
    assert_eq!((width, height), *size, "{name}");
    let (pixels, _) = pixels.as_chunks::<3>();
    for (x, y) in
        (32..height - 32).step_by(101).flat_map(|y| (32..width - 32).step_by(89).map(move |x| (x, y)))
    {
        let (found, expected) = (pixels[y * width + x], at(x, y));
        let lost =
            found.iter().zip(expected).map(|(found, expected)| found.abs_diff(expected)).max().unwrap();
        assert!(lost <= LOST_MAX, "{name} at {x}, {y}: {found:?} is not {expected:?}");
    }
}
