use super::table;

#[test]
fn columns_line_up_and_control_characters_show() {
    let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["long\u{1b}[2J".to_owned(), "22".to_owned()]];
    assert_eq!(
        table(&["name", "n"], &rows),
        "NAME          N\na             1\nlong\\u{1b}[2J  22"
            .replace("NAME          N", "NAME           N")
            .replace("a             1", "a              1")
    );
    assert_eq!(table(&["name"], &[]), "");
}
