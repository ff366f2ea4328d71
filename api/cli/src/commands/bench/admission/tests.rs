use std::ffi::OsStr;

use super::*;

fn global(json: bool, quiet: bool) -> Global {
    let (server, token, tenant, ca_file, profile_file) = (None, None, None, None, None);
    Global { server, token, tenant, ca_file, profile_file, json, verbose: false, quiet }
}

#[test]
fn the_program_is_asked_for_what_was_typed_and_told_what_compiles() {
    let materials = || ["t".into(), "d".into()];
    let plain = BenchAdmission { packages: vec![], rounds: 20, home: None };
    let typed = plain.arguments(materials(), &global(false, false));
    assert_eq!(typed.join(OsStr::new(" ")), "stages --toolchain t --deps d --rounds 20");
    let full = BenchDeploy { packages: vec!["a".into(), "-b".into()], rounds: 3, home: None };
    let typed = full.arguments(materials(), Some("7".to_owned()), &global(true, true));
    let expected = "deploy --supervisor 7 --toolchain t --deps d --rounds 3 --json --quiet -- a -b";
    assert_eq!(typed.join(OsStr::new(" ")), expected);
}
