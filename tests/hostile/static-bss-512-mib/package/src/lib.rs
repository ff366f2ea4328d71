use std::sync::atomic::{AtomicU8, Ordering};

static BIG: [AtomicU8; 512 << 20] = [const { AtomicU8::new(0) }; 512 << 20];

pub fn handle(request: &[u8]) -> Vec<u8> {
    vec![BIG[request.len()].load(Ordering::Relaxed)]
}
