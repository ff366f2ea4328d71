use super::*;

#[test]
fn all_of_a_piece_is_zeros_and_nothing_beside_it() {
    let lengths =
        (0..=2 * FEW_BYTES).chain(PIECE_BYTES - 1..=PIECE_BYTES + FEW_BYTES).chain([3 * PIECE_BYTES + 7]);
    for length in lengths {
        let mut held = vec![0xa5; length + 2];
        zero(&mut held[1..=length]);
        let (inside, outside) = (&held[1..=length], [held[0], held[length + 1]]);
        assert!(inside.iter().all(|byte| *byte == 0), "{length} bytes");
        assert_eq!(outside, [0xa5; 2], "{length} bytes");
    }
}
