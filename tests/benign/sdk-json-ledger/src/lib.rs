//! A ledger: entries in, balances out.
use mfaas::Json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Entry {
    Open { account: String },
    Deposit { account: String, cents: u64 },
    Transfer { from: String, to: String, cents: u64 },
}

#[derive(Debug, Deserialize)]
pub struct Journal {
    entries: Vec<Entry>,
}

#[derive(Debug, Default, Serialize)]
pub struct Ledger {
    balances: BTreeMap<String, u64>,
    total: u64,
}

#[derive(Debug)]
enum Fault {
    NoAccount(String),
    Open(String),
    Short { account: String, has: u64, needs: u64 },
    Overflow,
}

#[derive(Debug)]
pub struct At(usize, Fault);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: ", self.0)?;
        match &self.1 {
            Fault::NoAccount(name) => write!(f, "no account {name}"),
            Fault::Open(name) => write!(f, "account {name} is open already"),
            Fault::Short { account, has, needs } => write!(f, "{account} has {has} of {needs} cents"),
            Fault::Overflow => f.write_str("more money than there is"),
        }
    }
}

impl Ledger {
    fn balance(&mut self, account: &str) -> Result<&mut u64, Fault> {
        self.balances.get_mut(account).ok_or_else(|| Fault::NoAccount(account.to_owned()))
    }

    fn put(&mut self, account: &str, cents: u64) -> Result<(), Fault> {
        let balance = self.balance(account)?;
        *balance = balance.checked_add(cents).ok_or(Fault::Overflow)?;
        Ok(())
    }

    fn take(&mut self, account: &str, cents: u64) -> Result<(), Fault> {
        let balance = self.balance(account)?;
        let has = *balance;
        *balance = has.checked_sub(cents).ok_or(Fault::Short { account: account.to_owned(), has, needs: cents })?;
        Ok(())
    }

    fn enter(&mut self, entry: Entry) -> Result<(), Fault> {
        match entry {
            Entry::Open { account } if self.balances.contains_key(&account) => Err(Fault::Open(account)),
            Entry::Open { account } => {
                self.balances.insert(account, 0);
                Ok(())
            }
            Entry::Deposit { account, cents } => {
                self.put(&account, cents)?;
                self.total = self.total.checked_add(cents).ok_or(Fault::Overflow)?;
                Ok(())
            }
            Entry::Transfer { from, to, cents } => self.take(&from, cents).and_then(|()| self.put(&to, cents)),
        }
    }
}

pub fn handle(Json(journal): Json<Journal>) -> Result<Json<Ledger>, At> {
    let mut ledger = Ledger::default();
    for (index, entry) in journal.entries.into_iter().enumerate() {
        ledger.enter(entry).map_err(|fault| At(index + 1, fault))?;
    }
    Ok(Json(ledger))
}
