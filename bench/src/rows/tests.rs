use std::cell::RefCell;

use super::*;

fn plan(rounds: u32) -> Plan {
    Plan { rounds, quick: true, ..Plan::default() }
}

#[test]
fn sides_alternate_and_every_second_round_is_turned_round() {
    let order = RefCell::new(String::new());
    let lane = |name: &'static str| {
        let order = &order;
        Some(Lane::new(name, move || {
            order.borrow_mut().push_str(name);
            Ok(order.borrow().len() as f64)
        }))
    };
    let mut row = Row::new("warm", "");
    let series = alternate(&plan(2), &mut row, vec![lane("a"), lane("b"), lane("c")]);
    assert_eq!(*order.borrow(), "abccbaabc");
    assert_eq!(series.of("a", |figure| *figure), [6.0, 7.0], "the first round does not count");
    assert!(series.of("absent", |figure| *figure).is_empty());
}

#[test]
fn a_side_that_fails_leaves_and_says_why() {
    let mut row = Row::new("warm", "");
    let mut turn = 0;
    let fails = Lane::new("fails", move || {
        turn += 1;
        anyhow::ensure!(turn < 3, "broken");
        Ok(1.0)
    });
    let series = alternate(&plan(3), &mut row, vec![Some(fails), Some(Lane::new("stays", || Ok(2.0))), None]);
    assert_eq!(row.missing, ["fails: broken"]);
    assert_eq!(series.of("stays", |figure| *figure).len(), 3);
    assert!(series.of("fails", |figure| *figure).is_empty());
}

#[test]
fn rows_have_names_of_their_own() {
    for rows in [&ALL[..], &NOISY[..], &ISOLATION[..], &DATA[..]] {
        let mut names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
    }
}
