//! Where a drawing draws: its size, its margins, its labels.

/// The drawing's size in user units; the style sheet makes it as wide as there is room.
pub(crate) const WIDTH: f64 = 520.0;
/// Its height.
pub(crate) const HEIGHT: f64 = 208.0;
/// Where numbers are drawn, between the labels.
pub(super) const LEFT: f64 = 66.0;
pub(super) const RIGHT: f64 = WIDTH - 12.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = HEIGHT - 26.0;
/// A label of an axis, and where its line is.
#[derive(Debug, Clone)]
pub(crate) struct Tick {
    pub(crate) place: String,
    pub(crate) label: String,
}

/// Two decimals are a hundredth of a pixel.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
