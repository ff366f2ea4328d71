use super::*;

#[test]
fn every_line_is_on_exactly_one_page() {
    let max = limits::CONSOLE_FILE_LINES_MAX;
    let first = |line| Window::of(2 * max + 1, line).first;
    assert_eq!(
        [first(0), first(1), first(max), first(max + 1), first(usize::MAX)],
        [1, 1, 1, max + 1, 2 * max + 1]
    );
    let second = Window::of(2 * max + 1, max + 1);
    assert_eq!((second.earlier(), second.later()), (Some(1), Some(2 * max + 1)));
    assert_eq!((Window::of(0, 1).earlier(), Window::of(0, 1).later()), (None, None));
}
