//! `chmod` in symbols: a mode in octal, clauses, and the mode that results.
use bitflags::bitflags;

bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Mode: u16 {
        const UR = 0o400; const UW = 0o200; const UX = 0o100;
        const GR = 0o040; const GW = 0o020; const GX = 0o010;
        const OR = 0o004; const OW = 0o002; const OX = 0o001;
        const USER = Self::UR.bits() | Self::UW.bits() | Self::UX.bits();
        const GROUP = Self::GR.bits() | Self::GW.bits() | Self::GX.bits();
        const OTHER = Self::OR.bits() | Self::OW.bits() | Self::OX.bits();
        const READ = Self::UR.bits() | Self::GR.bits() | Self::OR.bits();
        const WRITE = Self::UW.bits() | Self::GW.bits() | Self::OW.bits();
        const EXECUTE = Self::UX.bits() | Self::GX.bits() | Self::OX.bits();
    }
}

fn class(letter: char) -> Option<Mode> {
    Some(match letter {
        'u' => Mode::USER,
        'g' => Mode::GROUP,
        'o' => Mode::OTHER,
        'a' => Mode::all(),
        _ => return None,
    })
}

fn apply(mode: Mode, clause: &str) -> Result<Mode, String> {
    let at = clause.find(['+', '-', '=']).ok_or_else(|| format!("no operator in {clause}"))?;
    let (who, rest) = clause.split_at(at);
    let who = who
        .chars()
        .map(|c| class(c).ok_or_else(|| format!("unknown class {c} in {clause}")))
        .try_fold(Mode::empty(), |all, one| one.map(|one| all | one))?;
    let mut what = Mode::empty();
    for c in rest[1..].chars() {
        what |= match c {
            'r' => Mode::READ,
            'w' => Mode::WRITE,
            'x' => Mode::EXECUTE,
            other => return Err(format!("unknown permission {other} in {clause}")),
        };
    }
    let touched = who & what;
    Ok(match &rest[..1] {
        "+" => mode | touched,
        "-" => mode - touched,
        _ => (mode - who) | touched,
    })
}

fn show(mode: Mode) -> String {
    const LETTERS: [char; 3] = ['r', 'w', 'x'];
    (0..9)
        .map(|i| if mode.contains(Mode::from_bits_truncate(0o400 >> i)) { LETTERS[i % 3] } else { '-' })
        .collect()
}

fn answer(line: &str) -> Result<String, String> {
    let (octal, clauses) = line.split_once(' ').unwrap_or((line, ""));
    let mode = u16::from_str_radix(octal, 8)
        .ok()
        .and_then(Mode::from_bits)
        .ok_or_else(|| format!("not a mode: {octal}"))?;
    let mode = clauses.split(',').filter(|c| !c.is_empty()).try_fold(mode, apply)?;
    Ok(format!("{:03o} {}", mode.bits(), show(mode)))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|e| e).into_bytes()
}
