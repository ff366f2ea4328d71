//! Reads whose connections are lost are asked again.

use std::time::{Duration, Instant};

use crate::KvError;
use crate::error::{Meaning, StoreError};

/// How long a read is asked for whose connections are lost.
const LOST_MAX: Duration = Duration::from_secs(3);
const LOST_PAUSE: Duration = Duration::from_millis(5);

/// What a read comes to: it is asked again where its connection is lost.
pub(crate) async fn read<T, E: Into<StoreError>, A: Future<Output = Result<T, E>>>(
    ask: impl Fn() -> A,
) -> Result<T, KvError> {
    let asked = Instant::now();
    loop {
        let error: StoreError = match ask().await {
            Ok(rows) => return Ok(rows),
            Err(error) => error.into(),
        };
        match Meaning::of(&error) {
            Meaning::Lost if asked.elapsed() < LOST_MAX => tokio::time::sleep(LOST_PAUSE).await,
            _ => return Err(KvError::Unavailable(error)),
        }
    }
}
