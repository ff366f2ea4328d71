//! The workloads of FunctionBench through the ordinary gate: each answers what Python answers.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use mfaas_harness::{Stack, checkout};
use serde_json::{Value, json};

/// Of two numbers that are the same but for the order of sums, and for whose sine it is.
const DIFFERENCE_MAX: f64 = 1e-9;

#[test]
fn the_functions_of_function_bench_answer_what_python_answers() {
    let stack = Stack::start();
    let workloads = checkout().join("tests/function-bench");
    let said = |name: &str, request: &[u8]| {
        let _ = stack.deploy(&workloads.join(name)).ok();
        let url = format!("{}/f/default/{name}", stack.ingress());
        let answer = stack.request("POST", &url, &[], request.to_vec());
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        answer.text()
    };
    let answer = |name: &str, request: &Value| {
        let request = request.to_string().into_bytes();
        let (said, expected) = (said(name, &request), reference(name, &request));
        let said: Value = serde_json::from_str(&said).unwrap();
        assert!(
            is_same(&said, &serde_json::from_str(&expected).unwrap()),
            "{name}: {said} is not {expected}"
        );
        said
    };
    let _ = answer("float", &json!({"n": 20_000}));
    let _ = answer("matmul", &json!({"n": 60}));
    let _ = answer("linpack", &json!({"n": 60}));
    let _ = answer("pyaes", &json!({"bytes": 1_001, "rounds": 3}));
    let trained = answer("logistic-train", &training());
    let query = json!({
        "weights": trained["weights"],
        "bias": trained["bias"],
        "features": [[0.1, 0.2, 0.3], [-2.0, 1.5, 0.0]],
    });
    let told = answer("logistic-serve", &query);
    let [less, more] = [1_usize, 0].map(|at| told["probabilities"][at].as_f64().unwrap());
    assert!(0.0 < less && less < more && more < 1.0, "{told}");

    let document = r#"{"b": [1, 2.5, -3, {"ü": "\n\"", "a": null}], "a": {}, "empty": [], "t": true}"#;
    for (name, request) in [("chameleon", r#"{"rows": 40, "columns": 15}"#), ("json", document)] {
        assert_eq!(said(name, request.as_bytes()), reference(name, request.as_bytes()), "{name}");
    }
    let text = std::fs::read(checkout().join("ARCHITECTURE.md")).unwrap();
    for name in ["mapreduce", "feature-generation"] {
        let (said, expected) = (said(name, &text), reference(name, &text));
        let [said, expected]: [Value; 2] = [said, expected].map(|text| serde_json::from_str(&text).unwrap());
        assert!(is_same(&said, &expected), "{name}: {said} is not {expected}");
    }
}

/// Blocks of files: what is written, in whichever order, is what `dd` and Python write.
#[test]
fn the_files_of_function_bench_are_those_of_dd_and_python() {
    let stack = Stack::start();
    stack.grant("files", "volume", "write");
    let (volume, references) = (stack.home().join("volumes/files"), tempfile::tempdir().unwrap());
    let workloads = checkout().join("tests/function-bench");
    for name in ["dd", "disk-io"] {
        let _ = stack.deploy(&workloads.join(name)).ok();
    }
    let same = |name: &str, request: &Value| {
        let request = request.to_string().into_bytes();
        let url = format!("{}/f/default/{name}", stack.ingress());
        let answer = stack.request("POST", &url, &[], request.clone());
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let expected = reference_in(references.path(), name, &request);
        let [said, expected]: [Value; 2] =
            [answer.text(), expected].map(|text| serde_json::from_str(&text).unwrap());
        assert_eq!(said, expected, "{name}");
    };
    let is_file = |path: &str| {
        let [one, other] = [&volume, references.path()].map(|root| std::fs::read(root.join(path)).unwrap());
        assert!(one == other && !one.is_empty(), "{path} is another file");
    };
    for bs in [4 << 10, 2 << 20] {
        same("dd", &json!({"of": "zeros", "count": 5, "bs": bs}));
        is_file("zeros");
        for (path, is_random) in [("one", false), ("other", true)] {
            for writes in [true, false] {
                let request =
                    json!({"path": path, "blocks": 5, "block": bs, "writes": writes, "is_random": is_random});
                same("disk-io", &request);
                is_file(path);
            }
        }
    }
}

/// The same blocks as objects and in memory, and pictures of photos in either store.
#[test]
fn blocks_and_pictures_are_the_same_in_every_store() {
    let stack = Stack::start();
    for (resource, kind) in [("files", "volume"), ("blocks", "object"), ("pictures", "object")] {
        stack.grant(resource, kind, "write");
    }
    let workloads = checkout().join("tests/function-bench");
    for name in ["object-io", "scratch-io", "augment"] {
        let _ = stack.deploy(&workloads.join(name)).ok();
    }
    let call = |name: &str, request: &Value| -> Value {
        let url = format!("{}/f/default/{name}", stack.ingress());
        let answer = stack.request("POST", &url, &[], request.to_string().into_bytes());
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        answer.json()
    };
    for (block, is_random, zeros) in
        [(4 << 10, false, true), (4 << 10, true, false), (200 << 10, true, false)]
    {
        for writes in [true, false] {
            if zeros && !writes {
                continue;
            }
            let request = json!({"path": "a", "blocks": 11, "block": block, "from": 0, "count": 11, "writes": writes,
                "is_random": is_random, "zeros": zeros});
            let expected: Value =
                serde_json::from_str(&reference("object-io", request.to_string().as_bytes())).unwrap();
            for name in ["object-io", "scratch-io"] {
                let said = call(name, &request);
                assert_eq!(
                    (&said["bytes"], &said["sum"]),
                    (&expected["bytes"], &expected["sum"]),
                    "{name} {request}"
                );
            }
        }
    }
    // Of a part of them, in their order.
    let part = json!({"path": "a", "blocks": 11, "block": 200 << 10, "from": 9, "count": 5, "writes": false, "is_random": true});
    assert_eq!(call("object-io", &part)["bytes"], 2 * (200 << 10));
    let pictures: Vec<Value> = [true, false]
        .into_iter()
        .map(|in_files| {
            call("augment", &json!({"photos": 3, "in_files": in_files, "makes": true}));
            call("augment", &json!({"photos": 3, "in_files": in_files}))
        })
        .collect();
    assert_eq!(pictures[0]["bytes"], pictures[1]["bytes"]);
    assert_eq!(pictures[0]["uploads_ns"].as_array().unwrap().len(), 3);
    let picture = std::fs::read(stack.home().join("volumes/files/picture-2.jpg")).unwrap();
    let mut decoder = zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(&picture));
    assert!(decoder.decode().is_ok_and(|pixels| pixels.len() == 800 * 600 * 3));
    assert_eq!(decoder.info().map(|info| (info.width, info.height)), Some((600, 800)));
}

/// The short form of `scripts/bench-storage`, in a running installation: what it writes down, and that its files are those of `dd` and Python.
#[test]
fn the_benchmark_of_storage_measures() {
    let stack = Stack::start();
    let directory = tempfile::tempdir().unwrap();
    let [json, svg] = ["storage.json", "storage.svg"].map(|name| directory.path().join(name));
    let line = format!(
        "{} --quick --running {} --programs {} --json {} --svg {}",
        checkout().join("scripts/bench-storage").display(),
        stack.home().display(),
        mfaas_harness::programs().display(),
        json.display(),
        svg.display()
    );
    // Whether an aim is met says nothing in so few rounds.
    let ran = stack.shell(&line, &checkout());
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let figures: Value =
        serde_json::from_slice(&std::fs::read(&json).unwrap_or_else(|_| panic!("{said}"))).unwrap();
    assert_eq!(
        (&figures["missing"], &figures["same_files"]),
        (&json!([]), &json!({"volume, directory": true})),
        "{said}"
    );
    for store in ["scratch", "volume, directory", "object, directory"] {
        let rates = figures["workloads"].as_array().unwrap().iter().filter(|row| row["store"] == store);
        let rates: Vec<f64> = rates.map(|row| row["mb_per_second"].as_f64().unwrap()).collect();
        assert!(rates.len() == 10 && rates.iter().all(|rate| *rate > 0.0), "{store}: {rates:?}");
    }
    assert_eq!(figures["readers"].as_array().unwrap().len(), 2);
    assert_eq!(figures["pictures"].as_array().unwrap().len(), 4);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
}

/// Samples of which the first feature, less the second, decides, but for a few.
fn training() -> Value {
    let samples: Vec<Value> = (0..200_u32)
        .map(|number| {
            let feature = |by: u32| f64::from(number * by % 17) / 17.0 - 0.5;
            let features = [feature(3), feature(5), feature(7)];
            json!({"features": features, "is_so": (features[0] > features[1]) != (number % 19 == 0)})
        })
        .collect();
    json!({"samples": samples, "passes": 100, "rate": 0.5})
}

/// What Python answers.
fn reference(name: &str, request: &[u8]) -> String {
    reference_in(&checkout(), name, request)
}

/// The same, with its files in a directory.
fn reference_in(directory: &Path, name: &str, request: &[u8]) -> String {
    let mut python = Command::new("python3")
        .arg(checkout().join("tests/function-bench/reference.py"))
        .arg(name)
        .current_dir(directory)
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(request).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same document, but for how numbers are rounded.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= DIFFERENCE_MAX * one.abs().max(other.abs()).max(1.0)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        (one, other) => one == other,
    }
}
