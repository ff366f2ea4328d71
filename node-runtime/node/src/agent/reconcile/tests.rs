#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use mfaas_ident::AliasName;

use super::{Images, Loaded, Routes, plan};
use crate::agent::testing::{key, number, served, set};
use crate::agent::{ImageKey, VerifiedImage};

fn images(keys: &[&ImageKey]) -> Images {
    keys.iter().map(|key| ((*key).clone(), Arc::new(VerifiedImage::for_test((*key).clone())))).collect()
}

fn live(routes: &Routes) -> Option<u32> {
    let route = routes.0.values().next()?;
    route.aliases.get(&AliasName::live()).map(|version| version.get())
}

/// What is loaded after version 1 came alone.
fn version_one() -> Loaded {
    let one = key("hello", 1);
    let mut set = set(1);
    set.functions.push(served(&[&one]));
    let (routes, images) = plan(&set, &images(&[&one]), &Loaded::default(), |_| true);
    assert_eq!(live(&routes), Some(1));
    Loaded { images, routes }
}

#[test]
fn a_new_version_takes_the_alias() {
    let (one, two) = (key("hello", 1), key("hello", 2));
    let mut set = set(2);
    set.functions.push(served(&[&one, &two]));
    let (routes, loaded) = plan(&set, &images(&[&one, &two]), &version_one(), |_| true);
    assert_eq!(live(&routes), Some(2));
    assert_eq!(loaded.len(), 2);
}

#[test]
fn when_the_new_version_fails_the_old_one_goes_on() {
    let two = key("hello", 2);
    let mut set = set(2);
    set.functions.push(served(&[&two]));
    let (routes, loaded) = plan(&set, &Images::new(), &version_one(), |_| true);
    assert_eq!(live(&routes), Some(1));
    assert_eq!(loaded.keys().map(|key| key.version).collect::<Vec<_>>(), [number(1)]);
}

#[test]
fn but_not_when_the_old_one_is_revoked() {
    let (one, two) = (key("hello", 1), key("hello", 2));
    let mut set = set(2);
    set.functions.push(served(&[&two]));
    set.revoked.insert(one.digest);
    let (routes, loaded) = plan(&set, &Images::new(), &version_one(), |_| true);
    assert_eq!((live(&routes), loaded.len()), (None, 0));
}

#[test]
fn nor_when_the_key_that_signed_the_old_one_has_leaked() {
    let two = key("hello", 2);
    let mut set = set(2);
    set.functions.push(served(&[&two]));
    let (routes, loaded) =
        plan(&set, &Images::new(), &version_one(), |image| image.key().version == number(2));
    assert_eq!((live(&routes), loaded.len()), (None, 0));
}

#[test]
fn what_the_set_no_longer_names_is_gone() {
    let (routes, loaded) = plan(&set(2), &Images::new(), &version_one(), |_| true);
    assert_eq!((routes, loaded.len()), (Routes::default(), 0));
}

#[test]
fn a_function_that_fails_stops_no_other() {
    let (bad, good) = (key("bad", 1), key("good", 1));
    let mut set = set(2);
    set.functions.extend([served(&[&bad]), served(&[&good])]);
    let (routes, loaded) = plan(&set, &images(&[&good]), &Loaded::default(), |_| true);
    assert_eq!(loaded.keys().collect::<Vec<_>>(), [&good]);
    assert_eq!(routes.loaded().len(), 1);
}
