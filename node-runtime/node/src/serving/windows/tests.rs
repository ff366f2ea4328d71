use mfaas_dispatch::{FunctionId, SHARED_SLAB, TenantId};
use mfaas_ident::{AssetContent, Digest};

use super::{Fill, PLANNED_BYTES_MAX, Wanted, Windows, takes_verified_code_alone};
use crate::image::ImageAsset;
use crate::image::MachineCode::{self, Unverified, Verified};

const ACME: TenantId = TenantId(0);
const UMBRELLA: TenantId = TenantId(1);
const MIB: u64 = 1 << 20;
/// Room for ten windows.
const RESIDENT_BYTES_MAX: u64 = 10 * PLANNED_BYTES_MAX;

/// Places functions of `bytes` bytes each, and says in which slabs.
fn placed(windows: &mut Windows, tenant: TenantId, code: MachineCode, own: bool, bytes: u64) -> Vec<u32> {
    let first = tenant.0 * 1_000 + u32::from(code == Unverified) * 500;
    let numbers = first..first + 40;
    numbers.map(|number| windows.place(FunctionId(number), tenant, code, own, of(bytes))).collect()
}

fn of(bytes: u64) -> Wanted<'static> {
    Wanted { bytes, assets: &[] }
}

fn different(mut slabs: Vec<u32>) -> Vec<u32> {
    slabs.dedup();
    slabs
}

#[test]
fn what_does_not_fit_gets_another_window_of_its_tenants() {
    let mut windows = Windows::new(RESIDENT_BYTES_MAX);
    let acme = different(placed(&mut windows, ACME, Verified, true, 50 * MIB));
    assert_eq!(acme.len(), 3, "14 of 50 MiB fit into a window: {acme:?}");
    let umbrella = different(placed(&mut windows, UMBRELLA, Verified, true, MIB));
    assert!(umbrella.len() == 1 && !acme.contains(&umbrella[0]), "{umbrella:?}");
    let unverified = different(placed(&mut windows, ACME, Unverified, true, MIB));
    assert!(unverified.len() == 1 && !takes_verified_code_alone(unverified[0]));
    assert!(acme.iter().chain(&umbrella).all(|slab| takes_verified_code_alone(*slab)));
    assert!(!acme.contains(&SHARED_SLAB) && umbrella[0] != SHARED_SLAB);
    assert_eq!(windows.fill(), Fill { windows: 5, fullest_bytes: 14 * 50 * MIB });
}

#[test]
fn a_full_shared_window_leaves_each_tenant_to_its_own() {
    let mut windows = Windows::new(RESIDENT_BYTES_MAX);
    let acme = placed(&mut windows, ACME, Verified, false, 16 * MIB);
    assert_eq!(different(acme), [SHARED_SLAB]);
    let umbrella = different(placed(&mut windows, UMBRELLA, Verified, false, 16 * MIB));
    assert_eq!(umbrella.len(), 2, "{umbrella:?}");
    assert_eq!(umbrella[0], SHARED_SLAB);
    // Nor does what is not verified ever go there.
    assert!(!placed(&mut windows, ACME, Unverified, false, 1).contains(&SHARED_SLAB));
}

/// Room that came back is given to others, and a function that comes back has its window.
#[test]
fn a_function_keeps_its_window_and_gives_back_its_room() {
    let mut windows = Windows::new(RESIDENT_BYTES_MAX);
    let before = placed(&mut windows, ACME, Verified, true, 50 * MIB);
    for number in 0..14 {
        windows.release(FunctionId(number));
        windows.release(FunctionId(number));
    }
    assert_eq!(windows.fill().windows, 2);
    let other = windows.place(FunctionId(999), ACME, Verified, true, of(700 * MIB));
    assert_eq!(other, before[0], "the room is free");
    assert_eq!(placed(&mut windows, ACME, Verified, true, 50 * MIB), before);
    assert_eq!(placed(&mut windows, ACME, Verified, true, 50 * MIB), before, "defined twice");
}

#[test]
fn no_more_windows_than_what_may_be_resident_fills() {
    let mut windows = Windows::new(PLANNED_BYTES_MAX + 1);
    let acme = placed(&mut windows, ACME, Verified, true, 100 * MIB);
    let mut slabs = acme.clone();
    slabs.sort_unstable();
    slabs.dedup();
    assert_eq!(slabs.len(), 2, "{acme:?}");
    let first = acme.iter().filter(|slab| **slab == slabs[0]).count();
    assert_eq!(first, 20, "both are filled alike: {acme:?}");
    // However large, an image has a place.
    assert!(slabs.contains(&windows.place(FunctionId(99), ACME, Verified, true, of(u64::MAX >> 8))));
}

/// An asset counts once in a window, and what more of them has no room goes to its tenant's own.
#[test]
fn assets_have_room_of_their_own_and_count_once() {
    let mut windows = Windows::new(RESIDENT_BYTES_MAX);
    let asset = |name: &str| {
        let content = AssetContent { digest: Digest::of(name.as_bytes()), bytes: 64 * MIB };
        [ImageAsset { place: 0, content }]
    };
    let mut place = |number, name| {
        let assets = asset(name);
        let wanted = Wanted { bytes: MIB, assets: &assets };
        windows.place(FunctionId(number), ACME, Verified, false, wanted)
    };
    for number in 0..20 {
        assert_eq!(place(number, "one"), SHARED_SLAB);
    }
    assert_eq!([place(20, "two"), place(21, "three")], [SHARED_SLAB; 2]);
    let own = place(22, "four");
    assert_ne!(own, SHARED_SLAB, "238 MiB are planned for");
    assert_eq!(place(23, "three"), SHARED_SLAB, "it is there");
    windows.release(FunctionId(20));
    let assets = asset("five");
    let wanted = Wanted { bytes: MIB, assets: &assets };
    assert_eq!(windows.place(FunctionId(24), ACME, Verified, false, wanted), SHARED_SLAB, "room came back");
}
