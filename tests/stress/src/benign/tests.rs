use super::*;

#[test]
fn a_median_is_the_middle() {
    let seconds = |list: &[u64]| list.iter().map(|n| Duration::from_secs(*n)).collect::<Vec<_>>();
    assert_eq!(median(&seconds(&[9, 1, 2])), Duration::from_secs(2));
    assert_eq!(median(&seconds(&[4, 1, 2, 100])), Duration::from_secs(3));
    let times = Times { alone: seconds(&[2, 2]), beside: seconds(&[3, 3]) };
    assert!((times.ratio() - 1.5).abs() < 1e-9);
}
