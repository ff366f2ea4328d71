#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use mfaas_attest::{REVOKED_VERSIONS_TOLD, ServedFunction};
use mfaas_ident::{AliasName, VersionNumber};

use super::{Loaded, plan};
use crate::agent::testing::{key, number, served};
use crate::image::{ImageKey, VerifiedImage};
use crate::serving::Route;

fn images(keys: &[&ImageKey]) -> BTreeMap<VersionNumber, Arc<VerifiedImage>> {
    keys.iter().map(|key| (key.version, Arc::new(VerifiedImage::for_test((*key).clone())))).collect()
}

fn live(function: &Route) -> Option<u32> {
    function.aliases.get(&AliasName::live()).map(|version| version.get())
}

/// What is loaded after version 1 came alone.
fn version_one() -> Route {
    let one = key("hello", 1);
    let planned = plan(Some(&served(&[&one])), images(&[&one]), None, &[], |_| true);
    assert_eq!(live(&planned), Some(1));
    planned
}

/// What becomes of it when `function` comes and none of its versions can be had.
fn after(function: &ServedFunction) -> Route {
    plan(Some(function), BTreeMap::new(), Some(&version_one()), &[], |_| true)
}

#[test]
fn a_new_version_takes_the_alias() {
    let (one, two) = (key("hello", 1), key("hello", 2));
    let function = served(&[&one, &two]);
    let planned = plan(Some(&function), images(&[&one, &two]), Some(&version_one()), &[], |_| true);
    assert_eq!((live(&planned), planned.images.len()), (Some(2), 2));
}

#[test]
fn when_the_new_version_fails_the_old_one_goes_on() {
    let planned = after(&served(&[&key("hello", 2)]));
    assert_eq!(live(&planned), Some(1));
    assert_eq!(planned.images.keys().collect::<Vec<_>>(), [&number(1)]);
}

#[test]
fn but_not_when_the_old_one_is_revoked() {
    let mut function = served(&[&key("hello", 2)]);
    function.revoked.insert(key("hello", 1).digest);
    let planned = after(&function);
    assert_eq!((live(&planned), planned.images.len()), (None, 0));
}

#[test]
fn nor_when_the_set_no_longer_says_whether_it_is() {
    let last = after(&served(&[&key("hello", REVOKED_VERSIONS_TOLD)]));
    assert_eq!(live(&last), Some(1));
    let planned = after(&served(&[&key("hello", REVOKED_VERSIONS_TOLD + 1)]));
    assert_eq!((live(&planned), planned.images.len()), (None, 0));
}

#[test]
fn nor_when_the_key_that_signed_the_old_one_has_leaked() {
    let function = served(&[&key("hello", 2)]);
    let is_vouched_for = |image: &VerifiedImage| image.key().version == number(2);
    let planned = plan(Some(&function), BTreeMap::new(), Some(&version_one()), &[], is_vouched_for);
    assert_eq!((live(&planned), planned.images.len()), (None, 0));
}

#[test]
fn what_the_set_no_longer_names_is_gone() {
    let planned = plan(None, BTreeMap::new(), Some(&version_one()), &[], |_| true);
    assert!(planned.aliases.is_empty() && planned.images.is_empty());
}

#[test]
fn a_cordoned_node_that_starts_again_leads_aliases_where_they_led() {
    let (one, two) = (key("hello", 1), key("hello", 2));
    let function = served(&[&one, &two]);
    let kept = [(AliasName::live(), number(1))];
    assert_eq!(live(&plan(Some(&function), images(&[&one]), None, &kept, |_| true)), Some(1));
    assert_eq!(live(&plan(Some(&function), images(&[&one]), None, &[], |_| true)), None);
    assert_eq!(live(&plan(Some(&function), images(&[&one, &two]), None, &kept, |_| true)), Some(2));
}

#[test]
fn versions_are_counted_as_functions_come_and_go() {
    let mut loaded = Loaded::default();
    let name = (key("hello", 1).tenant, key("hello", 1).function);
    let both = images(&[&key("hello", 1), &key("hello", 2)]);
    loaded.put(name.clone(), Route { aliases: BTreeMap::new(), images: both });
    assert_eq!(loaded.versions, 2);
    loaded.put(name.clone(), version_one());
    assert_eq!(loaded.versions, 1);
    assert!(loaded.image(&name, &key("hello", 1)).is_some());
    assert!(loaded.image(&name, &key("other", 1)).is_none(), "the same version of another artifact");
    loaded.put(name, Route::default());
    assert_eq!((loaded.versions, loaded.functions.len()), (0, 0));
}
