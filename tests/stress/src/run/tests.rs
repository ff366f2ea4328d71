use super::value_of;

#[test]
fn both_ways_to_name_a_limit_are_read() {
    let messages = [
        "the compiler needed more memory than `memory_bytes_max` (2 GiB) allows".to_owned(),
        "nesting_max: 3001 where at most 200 is compiled".to_owned(),
    ];
    assert_eq!(value_of("memory_bytes_max", &messages).as_deref(), Some("2 GiB"));
    assert_eq!(value_of("nesting_max", &messages).as_deref(), Some("200"));
    assert_eq!(value_of("cpu_seconds_max", &messages), None);
}
