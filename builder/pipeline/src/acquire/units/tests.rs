#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Question, question};
use crate::deps::Unit;
use crate::deps::messages::{self, CargoOutput};

/// As cargo asks for a crate of the registry, with one feature and a `cfg` of its build script.
const ASKED: &str = "--crate-name sample --edition=2021 /vendor/sample-1.2.3/src/lib.rs --error-format=json \
    --json=diagnostic-rendered-ansi,artifacts --crate-type lib --emit=dep-info,metadata -C opt-level=3 \
    -Cembed-bitcode=no --cfg feature=\"std\" --cfg has_fast --check-cfg cfg(docsrs) -C metadata=1 \
    -C extra-filename=-2 --out-dir /out/target/deps --target t -L dependency=/out/target/deps \
    --extern other=/out/target/deps/libother.rmeta --cap-lints allow --remap-path-prefix=/vendor=/crates";

fn unit(arguments: &str) -> Unit {
    let environment =
        [("CARGO_PKG_NAME", "sample"), ("OUT_DIR", "/out/x"), ("MADE", "1"), ("RUSTC_BOOTSTRAP", "1")];
    Unit {
        package: "sample".to_owned(),
        version: "1.2.3".to_owned(),
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        directory: "/vendor/sample-1.2.3".to_owned(),
    }
}

fn output() -> CargoOutput {
    let id = "registry+https://example.com/index#sample@1.2.3";
    let text = format!(
        "{{\"reason\":\"build-script-executed\",\"package_id\":\"{id}\",\"cfgs\":[\"has_fast\"],\"env\":[[\"MADE\",\"1\"]]}}\n\
         {{\"reason\":\"compiler-artifact\",\"package_id\":\"{id}\",\"features\":[\"std\"],\"target\":{{\"name\":\"sample\",\
         \"kind\":[\"lib\"],\"src_path\":\"/vendor/sample-1.2.3/src/lib.rs\"}},\"filenames\":[]}}\n"
    );
    messages::parse(text.as_bytes(), "triple").unwrap()
}

fn asked(arguments: &str) -> Result<Question, String> {
    let output = output();
    question(&unit(arguments), &output.compiled[0], &output, "/scratch")
}

#[test]
fn the_question_is_cargos_with_the_lint_and_without_the_cap() {
    let question = asked(ASKED).unwrap();
    let text = question.arguments.join(" ");
    assert!(text.starts_with("-Funsafe-code --emit=metadata"), "{text}");
    for gone in ["cap-lints", "dep-info", "/out/target/deps --target", "--json"] {
        assert!(!text.contains(gone), "{gone} in {text}");
    }
    for kept in [
        "feature=\"std\"",
        "has_fast",
        "-C embed-bitcode=no",
        "--extern other=",
        "/vendor/sample-1.2.3/src/lib.rs",
    ] {
        assert!(text.contains(kept), "{kept} not in {text}");
    }
    let names: Vec<&str> = question.environment.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["CARGO_PKG_NAME", "MADE", "OUT_DIR"]);
}

#[test]
fn levels_of_lints_are_ours_alone() {
    for level in
        ["-Aunsafe-code", "-A unsafe-code", "--allow=unsafe_code", "--allow unsafe_code", "--deny=warnings"]
    {
        let text = asked(&format!("{ASKED} {level}")).unwrap().arguments.join(" ");
        assert_eq!(text.matches("unsafe").count() + text.matches("warnings").count(), 1, "{text}");
    }
}

/// Each would let a crate be judged without a part of it, or without being compiled at all.
#[test]
fn a_note_that_cargo_does_not_confirm_is_not_believed() {
    let forged = [
        ASKED.replace("--cfg feature=\"std\"", ""),
        ASKED.replace("has_fast", "hide_unsafe"),
        ASKED.replace("feature=\"std\"", "feature=\"std\" --cfg feature=\"safe\""),
        ASKED.replace("sample-1.2.3/src/lib.rs", "sample-1.2.3/src/empty.rs"),
        ASKED.replace("/vendor/sample-1.2.3/src/lib.rs", ""),
        format!("{ASKED} other.rs"),
        format!("{ASKED} --print=cfg"),
        format!("{ASKED} @more"),
        format!("{ASKED} --test"),
        format!("{ASKED} -Zno-analysis"),
        format!("{ASKED} -V"),
        format!("{ASKED} -o /out/x"),
        format!("{ASKED} -C"),
    ];
    for arguments in forged {
        assert!(asked(&arguments).is_err(), "{arguments}");
    }
    let mut other = unit(ASKED);
    other.version = "1.2.4".to_owned();
    let output = output();
    assert!(question(&other, &output.compiled[0], &output, "/scratch").is_err());
}
