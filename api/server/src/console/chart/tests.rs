#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_wire::QuantileView;

use super::{Axis, BOTTOM, Drawing, HeatMap, LEFT, Numbers, RIGHT, TOP, Unit, lines, number, stacked};

fn axis(steps: usize, step_s: u32) -> Axis {
    let first: DateTime<Utc> = "2026-11-25T12:00:00Z".parse().unwrap();
    let step = |number: usize| first + TimeDelta::seconds(i64::try_from(number).unwrap() * i64::from(step_s));
    Axis { at: (0..steps).map(step).collect(), step_s }
}

fn numbers(label: &str, values: &[Option<f64>]) -> Numbers {
    Numbers { label: label.to_owned(), values: values.to_vec() }
}

/// Every point of a path, in order.
fn points(d: &str) -> Vec<(char, f64, f64)> {
    let (mut x, mut y, mut all) = (0.0, 0.0, Vec::new());
    let mut rest = d;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        let arguments: Vec<f64> = rest[1..end].split_whitespace().map(|text| text.parse().unwrap()).collect();
        match (command, &arguments[..]) {
            ('M', [to_x, to_y]) => (x, y) = (*to_x, *to_y),
            ('H', [to_x]) => x = *to_x,
            ('V', [to_y]) => y = *to_y,
            ('Z', []) => {}
            other => panic!("{other:?} in {d}"),
        }
        all.push((command, x, y));
        rest = &rest[end..];
    }
    all
}

fn labels(drawing: &Drawing) -> Vec<&str> {
    drawing.y_ticks.iter().map(|tick| tick.label.as_str()).collect()
}

#[test]
fn nothing_is_drawn_over_a_step_of_which_nothing_is_known() {
    let axis = axis(5, 60);
    let drawing =
        lines(&axis, &[numbers("load", &[Some(1.0), Some(2.0), None, None, Some(4.0)])], Unit::Count);
    let fifth = (RIGHT - LEFT) / 5.0;
    let line = points(&drawing.lines[0].d);
    let moves: Vec<f64> = line.iter().filter(|point| point.0 == 'M').map(|point| point.1).collect();
    assert_eq!(moves.len(), 2, "the line is taken up behind the gap: {line:?}");
    let gap = (LEFT + 2.0 * fifth, LEFT + 4.0 * fifth);
    let within = |x: f64| x > gap.0 + 0.01 && x < gap.1 - 0.01;
    assert!(line.iter().all(|point| !within(point.1)), "{line:?}");
    for pair in line.windows(2).filter(|pair| pair[1].0 != 'M') {
        assert!(
            (pair[0].1 - gap.0) * (pair[1].1 - gap.0) >= -0.01 || pair[1].1 <= gap.0 + 0.01,
            "{pair:?} crosses the gap"
        );
    }
    assert_eq!(
        drawing.unknown.unwrap(),
        format!("M{} {TOP}H{}V{BOTTOM}H{}Z", number(gap.0), number(gap.1), number(gap.0))
    );
    assert!(drawing.summary.contains("Of 2 of 5 steps nothing is known."), "{}", drawing.summary);
    // One step between two gaps is seen as well.
    let lonely = lines(&axis, &[numbers("load", &[None, Some(1.0), None, None, None])], Unit::Count);
    assert_eq!(points(&lonely.lines[0].d).len(), 2);
}

#[test]
fn axes_begin_at_zero_and_end_above_the_most() {
    let most = [1e-9, 0.000_3, 0.07, 0.3, 1.0, 3.0, 99.0, 1_023.0, 4_097.0, 7.7e6, 3.2e9];
    for unit in [Unit::PerSecond, Unit::Cores, Unit::Bytes, Unit::Share, Unit::Count] {
        for most in most {
            let axis = axis(2, 60);
            let drawing = lines(&axis, &[numbers("x", &[Some(most), Some(0.0)])], unit);
            let labels = labels(&drawing);
            assert_eq!(labels[0].parse::<f64>().unwrap(), 0.0, "{unit:?} {most}: {labels:?}");
            assert!((3..=7).contains(&labels.len()), "{unit:?} {most}: {labels:?}");
            assert!(labels.iter().all(|label| label.len() <= 12), "{unit:?} {most}: {labels:?}");
            assert_eq!(drawing.y_ticks[0].place, number(BOTTOM));
            assert_eq!(drawing.y_ticks.last().unwrap().place, number(TOP));
            let line = points(&drawing.lines[0].d);
            assert!((line[0].2 - TOP) >= -0.01 && line[0].2 < BOTTOM, "{unit:?} {most} at {line:?}");
            assert_eq!(line.last().unwrap().2, BOTTOM, "nothing is on the axis");
        }
    }
    let none = lines(&axis(3, 60), &[numbers("x", &[Some(0.0); 3])], Unit::Bytes);
    assert_eq!((none.unit.as_str(), labels(&none)[0]), ("bytes", "0.0"));
}

/// Heights on a stack are sums, and areas share their edges.
#[test]
fn areas_are_on_top_of_each_other() {
    let values = [[Some(1.0), Some(0.0), None], [Some(3.0), Some(2.0), None]];
    let series = [numbers("a", &values[0]), numbers("b", &values[1])];
    let drawing = stacked(&axis(3, 60), &series, Unit::Count);
    let top = |y: f64| BOTTOM - (BOTTOM - TOP) * y / 4.0;
    let path =
        |shape: usize| points(&drawing.fills[shape].d).into_iter().map(|point| point.2).collect::<Vec<_>>();
    let [lower, upper] = [path(0), path(1)];
    let highest = |ys: &[f64]| ys.iter().copied().fold(f64::MAX, f64::min);
    assert!(
        (highest(&lower) - top(1.0)).abs() < 0.01 && (highest(&upper) - top(4.0)).abs() < 0.01,
        "{lower:?} {upper:?}"
    );
    assert!(
        upper.iter().any(|y| (y - top(1.0)).abs() < 0.01),
        "the upper area begins where the lower one ends"
    );
    assert_eq!(
        drawing.fills.iter().map(|shape| shape.class.as_str()).collect::<Vec<_>>(),
        ["fill s1", "fill s2"]
    );
}

#[test]
fn a_heat_map_has_rows_for_the_buckets_that_hold_anything_and_lines_at_their_upper_edges() {
    let edges = [10, 20, 50, 100];
    let counts: [&[u64]; 2] = [&[0, 1], &[0, 5, 0, 1_000]];
    let at = |above, up_to| Some(QuantileView { above, up_to });
    let map = HeatMap {
        counts: vec![Some(counts[0]), Some(counts[1]), None],
        edges: &edges,
        edge_text: |edge| edge.to_string(),
        p50: vec![at(10, Some(20)), at(50, Some(100)), None],
        p99: vec![at(10, Some(20)), at(50, Some(100)), None],
    };
    let drawing = map.draw(&axis(3, 60));
    assert_eq!(labels(&drawing), ["10", "20", "50", "100"]);
    let third = (BOTTOM - TOP) / 3.0;
    let line: Vec<f64> = points(&drawing.lines[0].d).iter().map(|point| point.2).collect();
    assert!(
        (line[0] - (BOTTOM - third)).abs() < 0.01 && (line.last().unwrap() - TOP).abs() < 0.01,
        "{line:?}"
    );
    let classes: Vec<&str> = drawing.fills.iter().map(|shape| shape.class.as_str()).collect();
    assert_eq!(classes, ["heat h1", "heat h2", "heat h5"], "one call, five, a thousand");
    assert!(drawing.summary.contains("all between 10 and 100"), "{}", drawing.summary);
    // Beyond the last edge there is no upper one.
    let beyond = HeatMap {
        counts: vec![Some(&[0, 0, 0, 0, 2])],
        p50: vec![at(100, None)],
        p99: vec![at(100, None)],
        ..map
    };
    let drawing = beyond.draw(&axis(1, 60));
    assert_eq!(labels(&drawing), ["100"]);
    assert_eq!(points(&drawing.lines[1].d)[0].2, TOP);
}

#[test]
fn moments_are_round_and_of_utc() {
    let labels = |steps, step_s| {
        let ticks = super::time::ticks(&axis(steps, step_s).at, step_s);
        ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>()
    };
    assert_eq!(labels(61, 60), ["12:00", "12:10", "12:20", "12:30", "12:40", "12:50"]);
    assert_eq!(labels(97, 900), ["12:00", "16:00", "20:00", "Nov 26", "04:00", "08:00"]);
    let month = labels(121, 21_600);
    assert!(
        month.len() >= 5 && month.len() <= 8 && month.iter().all(|label| label.contains(' ')),
        "{month:?}"
    );
    assert_eq!(labels(0, 60), [""; 0]);
}
