use super::machine::landlock_of_kernel;
use super::{Check, drawing};

#[test]
fn kernels_are_compared_as_numbers() {
    assert_eq!(landlock_of_kernel("6.18.44-cloud"), Some(5));
    assert_eq!(landlock_of_kernel("6.1.0-40-amd64"), Some(2));
    assert_eq!(landlock_of_kernel("6.2-rc1"), Some(3));
    assert_eq!(landlock_of_kernel("5.10.0"), None);
    assert_eq!(landlock_of_kernel("unknown"), None);
}

#[test]
fn every_complaint_is_drawn_with_its_fix() {
    let text = drawing(&[Check::good("a", "here"), Check::bad("b", "gone", "do this")]);
    assert!(text.contains("BAD") && text.contains("= help: b: do this"), "{text}");
    assert_eq!(text.matches("= help").count(), 1);
}
