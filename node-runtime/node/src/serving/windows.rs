//! Which window an image lies in, of those that a tenant has: each is a slab of its own, mapped by workers of
//! its own.
//!
//! A window holds 768 MiB of code, data and constants each, and 254 MiB of assets, each of them once. A tenant
//! whose functions take more gets another one, and what no longer fits where tenants share goes into windows of its tenant's. A function keeps its
//! window as long as the node runs: calls of it may still be on their way when it is defined again.
//!
//! Must never put code that is not verified beside code that is, and never images of two tenants into a
//! window that is not the shared one.

use std::collections::{HashMap, HashSet};

use mfaas_dispatch::{FunctionId, SHARED_SLAB, TenantId};
use mfaas_ident::AssetContent;
use mfaas_rules::profiles::image_layout::{ASSETS_BYTES, BANK_BYTES, SHARED_IMAGES_MAX, TENANT_IMAGES_MAX};

use crate::image::{ImageAsset, MachineCode};

/// As much of a window as is planned for. The rest is what lies between images that have come and gone; an image
/// that finds no room all the same takes the place of the one that was called longest ago.
const PLANNED_BYTES_MAX: u64 = BANK_BYTES / 16 * 15;
/// The same of assets.
const PLANNED_ASSET_BYTES_MAX: u64 = ASSETS_BYTES / 16 * 15;
/// Assets begin on pages.
const PAGE_BYTES: u64 = 4096;

/// As much of a window as an image wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Of the banks.
    pub(super) bytes: u64,
    pub(super) assets: &'a [ImageAsset],
}

/// Whether images must pass the verifier to lie in a slab.
pub(super) fn takes_verified_code_alone(slab: u32) -> bool {
    slab.is_multiple_of(2)
}

/// The slab of a window, by its place in the list.
fn slab_of(window: usize, code: MachineCode) -> u32 {
    let number = u32::try_from(window).unwrap_or(u32::MAX / 2);
    2 * number + u32::from(code == MachineCode::Unverified)
}

/// What is planned to lie in a window.
#[derive(Debug)]
struct Window {
    images: usize,
    images_max: usize,
    bytes: u64,
    /// How many bindings each asset has there.
    assets: HashMap<AssetContent, usize>,
}

impl Window {
    fn new(images_max: usize) -> Self {
        Self { images: 0, images_max, bytes: 0, assets: HashMap::new() }
    }

    /// An empty window takes any image.
    fn has_room(&self, Wanted { bytes, assets }: Wanted<'_>) -> bool {
        let wanted = assets.iter().map(|asset| &asset.content);
        let assets: HashSet<_> = self.assets.keys().chain(wanted).collect();
        let asset_bytes: u64 = assets.iter().map(|asset| asset.bytes.next_multiple_of(PAGE_BYTES)).sum();
        let has_images = self.images < self.images_max && self.bytes + bytes <= PLANNED_BYTES_MAX;
        self.images == 0 || has_images && asset_bytes <= PLANNED_ASSET_BYTES_MAX
    }

    fn add(&mut self, planned: &Planned) {
        (self.images, self.bytes) = (self.images + 1, self.bytes + planned.bytes);
        for asset in &planned.assets {
            *self.assets.entry(*asset).or_default() += 1;
        }
    }

    fn remove(&mut self, planned: &Planned) {
        (self.images, self.bytes) = (self.images - 1, self.bytes - planned.bytes);
        for asset in &planned.assets {
            if let Some(bindings) = self.assets.get_mut(asset) {
                *bindings -= 1;
            }
        }
        self.assets.retain(|_, bindings| *bindings > 0);
    }
}

/// What is planned for a function.
#[derive(Debug)]
struct Planned {
    bytes: u64,
    assets: Vec<AssetContent>,
}

/// Where a function's image lies.
#[derive(Debug)]
struct Place {
    window: usize,
    /// What is planned for it there; `None` while it is not defined.
    planned: Option<Planned>,
}

/// How full windows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fill {
    /// Windows that hold anything.
    pub(crate) windows: usize,
    /// Bytes of the fullest one, of [`BANK_BYTES`].
    pub(crate) fullest_bytes: u64,
}

/// All windows of a node.
#[derive(Debug)]
pub(super) struct Windows {
    /// The first is the one that tenants share.
    all: Vec<Window>,
    own: HashMap<(TenantId, MachineCode), Vec<usize>>,
    places: HashMap<FunctionId, Place>,
    /// Windows of one tenant and kind of code: together they hold all that may be resident at once.
    own_max: usize,
}

impl Windows {
    /// Windows of a node on which so many bytes of images may be resident.
    pub(super) fn new(resident_bytes_max: u64) -> Self {
        let own_max = usize::try_from(resident_bytes_max.div_ceil(PLANNED_BYTES_MAX)).unwrap_or(usize::MAX);
        let (own, places) = Default::default();
        Self { all: vec![Window::new(SHARED_IMAGES_MAX)], own, places, own_max: own_max.max(1) }
    }

    /// The slab of a function whose image wants so much. `own`: its tenant does not share.
    pub(super) fn place(
        &mut self,
        function: FunctionId,
        tenant: TenantId,
        code: MachineCode,
        own: bool,
        wanted: Wanted<'_>,
    ) -> u32 {
        self.release(function);
        let known = self.places.get(&function).map(|place| place.window);
        let shared = !own && code == MachineCode::Verified && self.all[0].has_room(wanted);
        let window = match known {
            Some(window) => window,
            None if shared => 0,
            None => self.own_window(tenant, code, wanted),
        };
        let assets = wanted.assets.iter().map(|asset| asset.content).collect();
        let planned = Planned { bytes: wanted.bytes, assets };
        self.all[window].add(&planned);
        self.places.insert(function, Place { window, planned: Some(planned) });
        slab_of(window, code)
    }

    /// The first of a tenant's windows that has room, another one, or the emptiest where more would hold nothing.
    fn own_window(&mut self, tenant: TenantId, code: MachineCode, wanted: Wanted<'_>) -> usize {
        let Self { all, own, own_max, .. } = self;
        let own = own.entry((tenant, code)).or_default();
        if let Some(window) = own.iter().find(|window| all[**window].has_room(wanted)) {
            return *window;
        }
        if own.len() >= *own_max
            && let Some(emptiest) = own.iter().min_by_key(|window| all[**window].bytes)
        {
            return *emptiest;
        }
        all.push(Window::new(TENANT_IMAGES_MAX));
        own.push(all.len() - 1);
        all.len() - 1
    }

    /// A function is not defined any more.
    pub(super) fn release(&mut self, function: FunctionId) {
        let Some(place) = self.places.get_mut(&function) else { return };
        if let Some(planned) = place.planned.take() {
            self.all[place.window].remove(&planned);
        }
    }

    /// What is planned to lie in each bank of a slab, in bytes.
    pub(super) fn planned_bytes(&self, slab: u32) -> u64 {
        self.all.get(slab as usize / 2).map_or(0, |window| window.bytes)
    }

    /// How full they are.
    pub(super) fn fill(&self) -> Fill {
        Fill {
            windows: self.all.iter().filter(|window| window.images > 0).count(),
            fullest_bytes: self.all.iter().map(|window| window.bytes).max().unwrap_or(0),
        }
    }
}

const _: () = assert!(SHARED_SLAB == 0, "the first window is the shared one");

#[cfg(test)]
mod tests;
