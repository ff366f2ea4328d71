//! Deals a pack by a seed and states what must hold of any deal.
use fastrand::Rng;
use std::collections::HashSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Suit {
    Clubs,
    Diamonds,
    Hearts,
    Spades,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Card {
    suit: Suit,
    rank: u8,
}

fn pack() -> Vec<Card> {
    use Suit::{Clubs, Diamonds, Hearts, Spades};
    [Clubs, Diamonds, Hearts, Spades]
        .into_iter()
        .flat_map(|suit| (1..=13).map(move |rank| Card { suit, rank }))
        .collect()
}

fn deal(seed: u64, players: usize) -> Vec<Vec<Card>> {
    let mut rng = Rng::with_seed(seed);
    let mut cards = pack();
    rng.shuffle(&mut cards);
    cards.chunks_exact(cards.len() / players).take(players).map(<[Card]>::to_vec).collect()
}

fn answer(text: &str) -> Result<String, Box<dyn std::error::Error>> {
    let [seed, players] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err("SEED PLAYERS".into());
    };
    let (seed, players): (u64, usize) = (seed.parse()?, players.parse()?);
    if !(1..=52).contains(&players) {
        return Err("between 1 and 52 players".into());
    }
    let hands = deal(seed, players);
    let different: HashSet<Card> = hands.iter().flatten().copied().collect();
    let again = if deal(seed, players) == hands { "repeatable" } else { "NOT REPEATABLE" };
    let other = if deal(seed ^ 1, players) == hands { "is the same" } else { "differs" };
    Ok(format!(
        "{} hands of {}, {} different cards, {again}, another seed {other}",
        hands.len(),
        hands[0].len(),
        different.len()
    ))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|e| e.to_string()).into_bytes()
}
