//! What the builder generates for a function, but for bytes alone and without the SDK.

#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| mfaas_shim::Reply::of(tenant::handle(request.body)))
}
