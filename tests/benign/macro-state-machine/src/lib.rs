//! A turnstile, written in a small language of its own.
use std::fmt;
use std::str::FromStr;

macro_rules! words {
    ($(#[$meta:meta])* enum $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum $name { $($variant),+ }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err(format!("no {} {other}", stringify!($name).to_lowercase())),
                }
            }
        }
    };
}

words! {
    /// Where the turnstile is.
    enum State { Locked = "locked", Unlocked = "unlocked", Broken = "broken" }
}
words! { enum Event { Coin = "coin", Push = "push", Kick = "kick" } }

macro_rules! machine {
    // Internal: one arm of the table.
    (@says) => { "" };
    (@says $text:literal) => { $text };
    ($name:ident($data:ident: $ty:ty) { $($from:ident { $($event:pat => $to:ident $(says $text:literal)? $(do $action:block)?;)+ })+ }) => {
        fn $name(state: State, event: Event, $data: $ty) -> (State, &'static str) {
            match state {
                $(State::$from => match event {
                    $($event => {
                        $($action)?
                        (State::$to, machine!(@says $($text)?))
                    })+
                })+
            }
        }
    };
}

machine! {
    step(coins: &mut u32) {
        Locked {
            Event::Coin => Unlocked says "thanks" do { *coins += 1; };
            Event::Push => Locked says "closed";
            Event::Kick => Broken says "crash";
        }
        Unlocked {
            Event::Push => Locked says "next!";
            Event::Coin => Unlocked says "too many" do { *coins += 1; };
            Event::Kick => Broken;
        }
        Broken {
            _ => Broken says "out of order";
        }
    }
}

fn answer(text: &str) -> Result<String, String> {
    let mut state = State::Locked;
    let mut coins = 0;
    let mut out = String::new();
    for word in text.split_whitespace() {
        let event: Event = word.parse()?;
        let (next, says) = step(state, event, &mut coins);
        out += &format!("{state} -{event}-> {next} ({says})\n");
        state = next;
    }
    let all: Vec<String> = State::ALL.iter().map(ToString::to_string).collect();
    Ok(format!("{out}{coins} coins, ends {state} of [{}]\n", all.join(", ")))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error + "\n").into_bytes()
}
