//! Sums up records of one JSON request, with the types doing the checking.
//!
//! ```console
//! $ mfaas invoke json-summary --data '[{"region":"north","amount_cents":250},{"region":"north","amount_cents":100}]'
//! {"north":{"sales":2,"total_cents":350,"largest_cents":250}}
//! ```

use std::collections::BTreeMap;

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

/// One sale, as the caller sends it.
#[derive(Debug, Deserialize)]
pub struct Sale {
    region: String,
    amount_cents: u64,
}

/// What came of one region.
#[derive(Debug, Default, Serialize)]
pub struct Region {
    sales: u64,
    total_cents: u64,
    largest_cents: u64,
}

/// Takes a list of sales, answers a summary for each region; a total that does not fit is an
/// error of the call, not a wrong number.
pub fn summarise(Json(sales): Json<Vec<Sale>>) -> Result<Json<BTreeMap<String, Region>>, Error> {
    let mut regions: BTreeMap<String, Region> = BTreeMap::new();
    for sale in sales {
        let region = regions.entry(sale.region).or_default();
        region.sales += 1;
        region.largest_cents = region.largest_cents.max(sale.amount_cents);
        region.total_cents = region
            .total_cents
            .checked_add(sale.amount_cents)
            .ok_or_else(|| Error::new("the total does not fit into 64 bits"))?;
    }
    Ok(Json(regions))
}
