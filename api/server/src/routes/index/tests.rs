use super::folder_of;

#[test]
fn a_crate_lies_in_the_folder_of_its_name() {
    for (name, folder) in [
        ("a", Some("1")),
        ("ab", Some("2")),
        ("abc", Some("3/a")),
        ("abcd", Some("ab/cd")),
        ("serde_json", Some("se/rd")),
        ("a-b-c", Some("a-/b-")),
        ("Inflector", None),
        ("", None),
        ("ä", None),
    ] {
        assert_eq!(folder_of(name).as_deref(), folder, "{name}");
    }
}
