use super::*;

#[test]
fn words_of_periods_stay_as_they_are() {
    let words = [Period::Hour, Period::Day, Period::Total].map(Period::as_str);
    assert_eq!(words, ["hour", "day", "total"]);
    assert_eq!(words.map(Period::parse), [Some(Period::Hour), Some(Period::Day), Some(Period::Total)]);
    assert_eq!(Period::parse("week"), None);
}
