//! Counts the lines of a file.
#[test]
fn counts_a_file() {
    let text = std::fs::read("tests/three.txt").unwrap();
    assert_eq!(test_module_with_files::handle(&text), b"3");
}
