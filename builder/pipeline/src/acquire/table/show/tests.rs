use super::*;

fn row(name: &str, geiger: Counted, tokens: u64, compiler: u64) -> Row {
    Row {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        features: Vec::new(),
        geiger,
        tokens: Counted::Number(tokens),
        compiler: Counted::Number(compiler),
        build_script: false,
        proc_macro: false,
    }
}

#[test]
fn what_is_unknown_is_never_none() {
    let unknown = Counted::Unknown("it crashed".to_owned());
    let table = Table {
        rows: vec![
            row("clean", Counted::Number(0), 0, 0),
            row("hidden", Counted::Number(0), 2, 0),
            row("open", Counted::Number(4), 2, 3),
            row("dark", unknown, 0, 0),
        ],
        missing: Vec::new(),
    };
    let text = draw(&table);
    assert!(text.contains("- none by all three counts: 1 of 4 (25.0 %)"), "{text}");
    assert!(text.contains("- none by geiger: 2 of 4 (50.0 %)"), "{text}");
    assert!(text.contains("- hidden 1.0.0: tokens 2, compiler 0"), "{text}");
    assert!(text.contains("- dark 1.0.0: geiger: it crashed"), "{text}");
    assert!(!text.contains("- dark 1.0.0: tokens"), "{text}");
}
