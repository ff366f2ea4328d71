//! Which window an image lies in, of those that a tenant has: each is a slab of its own, mapped by workers of
//! its own.
//!
//! A window holds 768 MiB of code, data and constants each. A tenant whose functions take more gets another
//! one, and what no longer fits where tenants share goes into windows of its tenant's. A function keeps its
//! window as long as the node runs: calls of it may still be on their way when it is defined again.
//!
//! Must never put code that is not verified beside code that is, and never images of two tenants into a
//! window that is not the shared one.

use std::collections::HashMap;

use mfaas_dispatch::{FunctionId, SHARED_SLAB, TenantId};
use mfaas_rules::profiles::image_layout::{BANK_BYTES, SHARED_IMAGES_MAX, TENANT_IMAGES_MAX};

use crate::image::MachineCode;

/// As much of a window as is planned for. The rest is what lies between images that have come and gone; an image
/// that finds no room all the same takes the place of the one that was called longest ago.
const PLANNED_BYTES_MAX: u64 = BANK_BYTES / 16 * 15;

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
#[derive(Debug, Clone, Copy)]
struct Window {
    images: usize,
    images_max: usize,
    bytes: u64,
}

impl Window {
    fn new(images_max: usize) -> Self {
        Self { images: 0, images_max, bytes: 0 }
    }

    /// An empty window takes any image.
    fn has_room(&self, bytes: u64) -> bool {
        self.images == 0 || self.images < self.images_max && self.bytes + bytes <= PLANNED_BYTES_MAX
    }
}

/// Where a function's image lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    window: usize,
    /// What is planned for it there; `None` while it is not defined.
    bytes: Option<u64>,
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

    /// The slab of a function whose image takes `bytes` bytes. `own`: its tenant does not share.
    pub(super) fn place(
        &mut self,
        function: FunctionId,
        tenant: TenantId,
        code: MachineCode,
        own: bool,
        bytes: u64,
    ) -> u32 {
        self.release(function);
        let known = self.places.get(&function).map(|place| place.window);
        let shared = !own && code == MachineCode::Verified && self.all[0].has_room(bytes);
        let window = match known {
            Some(window) => window,
            None if shared => 0,
            None => self.own_window(tenant, code, bytes),
        };
        self.places.insert(function, Place { window, bytes: Some(bytes) });
        let held = &mut self.all[window];
        (held.images, held.bytes) = (held.images + 1, held.bytes + bytes);
        slab_of(window, code)
    }

    /// The first of a tenant's windows that has room, another one, or the emptiest where more would hold nothing.
    fn own_window(&mut self, tenant: TenantId, code: MachineCode, bytes: u64) -> usize {
        let Self { all, own, own_max, .. } = self;
        let own = own.entry((tenant, code)).or_default();
        if let Some(window) = own.iter().find(|window| all[**window].has_room(bytes)) {
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
        if let Some(bytes) = place.bytes.take() {
            let held = &mut self.all[place.window];
            (held.images, held.bytes) = (held.images - 1, held.bytes - bytes);
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
