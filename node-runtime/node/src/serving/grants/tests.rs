#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::ResourceKind;

use super::*;
use crate::agent::testing::key;

#[test]
fn what_was_revoked_counts_and_what_is_new_waits() {
    let grants = Grants::default();
    let key = key("hello", 1);
    let name = (key.tenant.clone(), key.function.clone());
    let of = |pairs: &[(&str, DataAccess)]| -> BTreeMap<ResourceName, DataAccess> {
        pairs.iter().map(|(name, access)| (ResourceName::parse(name).unwrap(), *access)).collect()
    };
    let access = |resource: &str| {
        let resource = ResourceName::parse(resource).unwrap();
        grants.access(&key, &ResourceBinding { kind: ResourceKind::Kv, resource, access: DataAccess::Write })
    };
    assert_eq!(access("a"), None);
    grants.replace(&name, Some(&of(&[("a", DataAccess::Write), ("b", DataAccess::Write)])));
    assert_eq!((access("a"), access("b")), (Some(DataAccess::Write), Some(DataAccess::Write)));
    let next = of(&[("a", DataAccess::Read), ("c", DataAccess::Write)]);
    grants.narrow(&name, Some(&next));
    assert_eq!((access("a"), access("b"), access("c")), (Some(DataAccess::Read), None, None));
    grants.replace(&name, Some(&next));
    assert_eq!(access("c"), Some(DataAccess::Write));
    grants.narrow(&name, None);
    assert_eq!((access("a"), access("c")), (None, None));
}
