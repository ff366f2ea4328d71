//! Names that meet at link and load time. The shim declares the host's functions, the executor
//! implements them; both take the names from here.

/// The one symbol that an artifact exports: `unsafe extern "C" fn(*mut Call) -> u32`.
pub const ENTRY: &str = "mfaas_entry_v1";

/// The one library that an artifact may need. It exists only as a stub at link time.
pub const HOST_LIBRARY: &str = "libmfaas-host.so.1";

/// `fn(level: u32, text: *const u8, bytes: usize)`: one log line.
pub const HOST_LOG: &str = "mfaas_host_log";
/// `fn() -> u64`: nanoseconds since the Unix epoch.
pub const HOST_NOW: &str = "mfaas_host_now";
/// `fn(into: *mut u8, bytes: usize)`: random bytes fit for keys.
pub const HOST_RANDOM: &str = "mfaas_host_random";
/// `fn(text: *const u8, bytes: usize) -> !`: ends the invocation as panicked.
pub const HOST_PANIC: &str = "mfaas_host_panic";
/// `fn(bytes: usize) -> !`: ends the invocation as out of memory.
pub const HOST_OOM: &str = "mfaas_host_oom";

/// All host symbols besides those of libc.
pub const HOST: [&str; 5] = [HOST_LOG, HOST_NOW, HOST_RANDOM, HOST_PANIC, HOST_OOM];
