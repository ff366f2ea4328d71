//! The entry of one function: the only symbol that its shared object exports.
//!
//! Generated for each build; `HANDLER` is replaced by the handler's path, which is a list of
//! plain identifiers. Nothing else in here depends on the tenant.

#[allow(unsafe_code)] // Exporting a symbol needs the word; there is no unsafe block here.
#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| mfaas::__private::invoke(function::HANDLER, request))
}
