//! What calls feel of a secondary and what that gets done, by policy: two bars for each policy, secondary and load.

use std::fmt::Write as _;

use super::escaped;
use crate::report::SharedFigure;

const WIDTH: f64 = 960.0;
const NAMES: f64 = 130.0;
const PANEL: f64 = 360.0;
const GAP: f64 = 60.0;
const TOP: f64 = 64.0;
const STEP: f64 = 22.0;
const BAR: f64 = 15.0;
/// Between two groups, for the axis of one and the title of the next.
const BETWEEN: f64 = 60.0;
/// The ends of the scale of ratios, which is logarithmic, and of that of progress.
const RATIO: (f64, f64) = (0.5, 1_000.0);
const PROGRESS_MAX: f64 = 1.25;
const CALLS: &str = "#2f6f9f";
const SECONDARY: &str = "#b8cfe0";

/// The figure; without any, a frame that says so.
pub fn svg(shared: &[SharedFigure]) -> String {
    let (mut body, mut y) = (String::new(), TOP);
    for group in shared.chunk_by(|one, next| of_group(one) == of_group(next)) {
        let (secondary, load) = of_group(&group[0]);
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{:.1}\" font-size=\"14\">{}, calls at {load} %</text>",
            y - 10.0,
            escaped(secondary)
        );
        body.push_str(&axes(y, STEP * group.len() as f64));
        for figure in group {
            body.push_str(&bars(y, figure));
            y += STEP;
        }
        y += BETWEEN;
    }
    if shared.is_empty() {
        let _ = writeln!(body, "<text x=\"{NAMES}\" y=\"{y}\">nothing was measured</text>");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" font-family=\"sans-serif\" font-size=\"12\" \
         fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{NAMES}\" y=\"22\" font-size=\"15\">p99 of calls / standalone</text>\
         <text x=\"{}\" y=\"22\" font-size=\"15\">progress of the secondary / what was there for it</text>\n{body}</svg>\n",
        y + 10.0,
        left_of_progress()
    )
}

fn of_group(figure: &SharedFigure) -> (&'static str, u32) {
    (figure.secondary, figure.load_percent)
}

fn left_of_progress() -> f64 {
    NAMES + PANEL + GAP
}

fn x_of_ratio(ratio: f64) -> f64 {
    let part = (ratio / RATIO.0).log10() / (RATIO.1 / RATIO.0).log10();
    NAMES + PANEL * part.clamp(0.0, 1.0)
}

fn x_of_progress(progress: f64) -> f64 {
    left_of_progress() + PANEL * (progress / PROGRESS_MAX).clamp(0.0, 1.0)
}

fn axes(y: f64, height: f64) -> String {
    let bottom = y + height;
    let mut axes = String::new();
    let mut tick = |x: f64, label: &str| {
        let _ = writeln!(
            axes,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
            bottom + 14.0
        );
    };
    for ratio in [1.0, 10.0, 100.0, 1_000.0] {
        tick(x_of_ratio(ratio), &format!("{ratio} ×"));
    }
    for per_cent in [0, 50, 100] {
        tick(x_of_progress(f64::from(per_cent) / 100.0), &format!("{per_cent} %"));
    }
    axes
}

fn bars(y: f64, figure: &SharedFigure) -> String {
    let name = escaped(&figure.policy);
    let below = y + BAR - 3.0;
    let mut bars =
        format!("<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{name}</text>\n", NAMES - 8.0);
    let mut bar = |left: f64, end: Option<f64>, fill: &str, label: String| {
        // A call that was refused or lost took for ever: there is no bar so long.
        let (end, label) =
            end.map_or((left, "not measured, or calls were missed".to_owned()), |end| (end, label));
        let _ = writeln!(
            bars,
            "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{fill}\" stroke=\"{CALLS}\">\
             <title>{name}: {label}</title></rect>\
             <text x=\"{:.1}\" y=\"{below:.1}\" fill=\"#333\">{label}</text>",
            (end - left).max(1.0),
            end + 5.0
        );
    };
    let (ratio, progress) = (figure.p99_ratio, figure.progress);
    bar(NAMES, ratio.is_finite().then(|| x_of_ratio(ratio)), CALLS, format!("{ratio:.2} ×"));
    bar(
        left_of_progress(),
        progress.is_finite().then(|| x_of_progress(progress)),
        SECONDARY,
        format!("{:.0} %", progress * 100.0),
    );
    bars
}

#[cfg(test)]
mod tests;
