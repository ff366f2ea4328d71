//! Rows to types. A row that does not parse is an error of the database, never a default.

use std::error::Error;
use std::str::FromStr;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

pub(crate) type Decoded<T> = Result<T, sqlx::Error>;

/// The text column `column` as `T`.
pub(crate) fn parsed<T>(row: &PgRow, column: &str) -> Decoded<T>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    row.try_get::<String, _>(column)?.parse().map_err(|e| bad(column, e))
}

/// The same for a column that may be null.
pub(crate) fn parsed_opt<T>(row: &PgRow, column: &str) -> Decoded<Option<T>>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
{
    match row.try_get::<Option<String>, _>(column)? {
        None => Ok(None),
        Some(_) => parsed(row, column).map(Some),
    }
}

/// The `text[]` column `column`, each as `T`.
pub(crate) fn all_parsed<T, C>(row: &PgRow, column: &str) -> Decoded<C>
where
    T: FromStr,
    T::Err: Error + Send + Sync + 'static,
    C: FromIterator<T>,
{
    let texts = row.try_get::<Vec<String>, _>(column)?;
    texts.iter().map(|text| text.parse().map_err(|e| bad(column, e))).collect()
}

/// The integer column `column` as an unsigned quantity `T`.
pub(crate) fn unsigned<T>(row: &PgRow, column: &str) -> Decoded<T>
where
    T: TryFrom<u64>,
    T::Error: Error + Send + Sync + 'static,
{
    let number = row.try_get::<i64, _>(column)?;
    let number = u64::try_from(number).map_err(|e| bad(column, e))?;
    T::try_from(number).map_err(|e| bad(column, e))
}

/// The `integer` column `column` as a small unsigned quantity `T`.
pub(crate) fn small<T>(row: &PgRow, column: &str) -> Decoded<T>
where
    T: TryFrom<u32>,
    T::Error: Error + Send + Sync + 'static,
{
    let number = u32::try_from(row.try_get::<i32, _>(column)?).map_err(|e| bad(column, e))?;
    T::try_from(number).map_err(|e| bad(column, e))
}

/// The same for a column that may be null.
pub(crate) fn small_opt<T>(row: &PgRow, column: &str) -> Decoded<Option<T>>
where
    T: TryFrom<u32>,
    T::Error: Error + Send + Sync + 'static,
{
    match row.try_get::<Option<i32>, _>(column)? {
        None => Ok(None),
        Some(_) => small(row, column).map(Some),
    }
}

/// The column `trace_parent`.
pub(crate) fn trace_parent(row: &PgRow) -> Decoded<Option<mfaas_ident::TraceParent>> {
    match row.try_get::<Option<String>, _>("trace_parent")? {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|e| bad("trace_parent", e)),
    }
}

/// The jsonb column `column` as `T`.
pub(crate) fn json<T: serde::de::DeserializeOwned + Unpin + Send>(row: &PgRow, column: &str) -> Decoded<T> {
    serde_json::from_value(row.try_get::<serde_json::Value, _>(column)?).map_err(|e| bad(column, e))
}

/// A word of the database that our enum must know.
pub(crate) fn word<T>(row: &PgRow, column: &str, parse: fn(&str) -> Option<T>) -> Decoded<T> {
    let text = row.try_get::<String, _>(column)?;
    parse(&text).ok_or_else(|| bad(column, Unknown(text)))
}

/// An unsigned quantity as the database's integer; numbers past its range are cut to its end,
/// which no quantity of ours reaches.
pub(crate) fn int8(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Debug, thiserror::Error)]
#[error("unknown word {0:?}")]
struct Unknown(String);

pub(crate) fn bad(column: &str, source: impl Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(source) }
}
