//! Dates as numbers of days.
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Date {
    year: i64,
    month: u8,
    day: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn month_length(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

impl Date {
    fn new(year: i64, month: u8, day: u8) -> Result<Self, String> {
        if !(1..=12).contains(&month) {
            return Err(format!("no month {month}"));
        }
        if day == 0 || day > month_length(year, month) {
            return Err(format!("no day {day} in {year:04}-{month:02}"));
        }
        Ok(Self { year, month, day })
    }

    /// Days since 1970-01-01, by eras of 400 years that begin in March.
    fn number(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month = (i64::from(self.month) + 9) % 12;
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    fn from_number(number: i64) -> Self {
        let shifted = number + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * month + 2) / 5 + 1) as u8;
        let month = if month < 10 { month + 3 } else { month - 9 } as u8;
        Self { year: year + era * 400 + i64::from(month <= 2), month, day }
    }

    fn weekday(self) -> Weekday {
        use Weekday::*;
        [Thursday, Friday, Saturday, Sunday, Monday, Tuesday, Wednesday][self.number().rem_euclid(7) as usize]
    }

    fn day_of_year(self) -> i64 {
        self - Self { month: 1, day: 1, ..self } + 1
    }

    /// The year and week of ISO 8601: a week belongs to the year of its Thursday.
    fn week(self) -> (i64, i64) {
        let thursday = self + (Weekday::Thursday as i64 - self.weekday() as i64);
        (thursday.year, (thursday.day_of_year() - 1) / 7 + 1)
    }
}

impl Add<i64> for Date {
    type Output = Self;
    fn add(self, days: i64) -> Self {
        Self::from_number(self.number() + days)
    }
}

impl Sub for Date {
    type Output = i64;
    fn sub(self, other: Self) -> i64 {
        self.number() - other.number()
    }
}

impl FromStr for Date {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts[..] else { return Err(format!("not a date: {text}")) };
        let bad = |_| format!("not a date: {text}");
        Self::new(year.parse().map_err(bad)?, month.parse().map_err(bad)?, day.parse().map_err(bad)?)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

fn answer(text: &str) -> Result<String, String> {
    let usage = "DATE +N, DATE -N or DATE - DATE";
    if let Some((a, b)) = text.split_once(" - ") {
        return Ok(format!("{} days", a.parse::<Date>()? - b.parse::<Date>()?));
    }
    let (date, days) = text.split_once(' ').ok_or(usage)?;
    let date = date.parse::<Date>()? + days.parse::<i32>().map_err(|_| usage).map(i64::from)?;
    let (year, week) = date.week();
    Ok(format!("{date} {:?} week {year}-W{week:02} day {}", date.weekday(), date.day_of_year()))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    answer(&text).unwrap_or_else(|error| format!("refused: {error}")).into_bytes()
}
