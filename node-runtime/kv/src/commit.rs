//! Commits: asked for again where their connections are lost or others stand in the way, until it is known what they came to.

use std::time::{Duration, Instant};

use crate::KvError;
use crate::backend::Backend;
use crate::error::Meaning;
use crate::part::Part;
use crate::store::{Caller, Committed};

/// How often a commit is asked for that others stand in the way of, and what is paused longer each time, at most.
const CONTENTION_TRIES: u32 = 12;
const CONTENTION_PAUSE: Duration = Duration::from_millis(10);
/// How long it is asked for if its connections are lost, and how long if it changes nothing.
const LOST_MAX: Duration = Duration::from_secs(10);
const CHECK_LOST_MAX: Duration = Duration::from_secs(3);
const LOST_PAUSE: Duration = Duration::from_millis(5);

/// Lets the changes of a call take effect in a store, if all that it saw there is still so; looks at that alone if it changes nothing.
pub(crate) async fn commit(
    backend: Backend<'_>,
    caller: &Caller,
    part: &Part<'_>,
) -> Result<Committed, KvError> {
    let asked = Instant::now();
    let (mut tries, mut was_lost) = (0, false);
    let lost_max = if part.writes() { LOST_MAX } else { CHECK_LOST_MAX };
    loop {
        let error = match backend.try_commit(caller, part, &mut was_lost).await {
            Ok(now) => return Ok(if now { Committed::Now } else { Committed::Before }),
            Err(error) => error,
        };
        let meaning = Meaning::of(&error);
        tracing::debug!(call = %caller.call, ?meaning, %error, "a commit did not succeed");
        match meaning {
            // An attempt before this one may still be on its way, and see what was so then.
            Meaning::Conflict if was_lost && part.writes() => return give_up(backend, caller).await,
            Meaning::Conflict => return Err(KvError::Conflict),
            Meaning::Contention if tries < CONTENTION_TRIES => {
                tries += 1;
                pause(tries).await;
            }
            Meaning::Contention if !was_lost => return Err(KvError::Busy),
            // It was not asked: there is no connection.
            Meaning::Lost | Meaning::Failed if !was_lost => return Err(KvError::Unavailable(error)),
            Meaning::Lost | Meaning::Failed if asked.elapsed() < lost_max => {
                tokio::time::sleep(LOST_PAUSE).await;
            }
            Meaning::Contention | Meaning::Lost | Meaning::Failed => {
                return Err(KvError::Unacknowledged(error));
            }
        }
    }
}

/// Makes sure that no attempt to commit the call in this store takes effect any more: [`Committed::Before`] if one did,
/// [`KvError::Conflict`] if none did or will.
pub(crate) async fn give_up(backend: Backend<'_>, caller: &Caller) -> Result<Committed, KvError> {
    let asked = Instant::now();
    loop {
        match backend.try_give_up(caller).await {
            Ok(true) => return Ok(Committed::Before),
            Ok(false) => return Err(KvError::Conflict),
            Err(error) if asked.elapsed() > LOST_MAX => return Err(KvError::Unacknowledged(error)),
            Err(_) => tokio::time::sleep(LOST_PAUSE).await,
        }
    }
}

/// Longer each time, and not for all the same.
async fn pause(tries: u32) {
    tokio::time::sleep((CONTENTION_PAUSE * tries).mul_f64(rand::random())).await;
}
