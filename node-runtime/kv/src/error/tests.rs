use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::*;

fn meaning(kind: ErrorKind) -> Meaning {
    Meaning::of(&RedisError::from((kind, "for a test")).into())
}

/// What a server says itself has not been done; of all else that is not known.
#[test]
fn what_redis_has_refused_did_not_take_effect_and_all_else_may_have() {
    for refused in [
        ServerErrorKind::Moved,
        ServerErrorKind::Ask,
        ServerErrorKind::BusyLoading,
        ServerErrorKind::ReadOnly,
        ServerErrorKind::MasterDown,
        ServerErrorKind::ClusterDown,
        ServerErrorKind::CrossSlot,
        ServerErrorKind::NoPerm,
        ServerErrorKind::NoScript,
        ServerErrorKind::ResponseError,
    ] {
        assert_eq!(meaning(refused.into()), Meaning::Failed, "{refused:?}");
    }
    assert_eq!(meaning(ErrorKind::Extension), Meaning::Failed, "OOM, MISCONF, NOREPLICAS and the like");
    assert_eq!(meaning(ServerErrorKind::TryAgain.into()), Meaning::Contention);
    for open in [ErrorKind::Io, ErrorKind::Parse, ErrorKind::UnexpectedReturnType, ErrorKind::Client] {
        assert_eq!(meaning(open), Meaning::Lost, "{open:?}");
    }
}
