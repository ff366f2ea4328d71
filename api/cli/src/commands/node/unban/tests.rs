use super::Meant;

#[test]
fn a_ban_is_a_number_or_a_name() {
    for good in ["7", "acme/hello", "acme/hello@3"] {
        assert!(good.parse::<Meant>().is_ok(), "{good}");
    }
    for bad in ["", "-1", "hello", "acme/", "acme/hello@", "acme/hello@0", "../x"] {
        assert!(bad.parse::<Meant>().is_err(), "{bad}");
    }
}
