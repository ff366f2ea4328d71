//! The entry of one function: the only symbol that its shared object exports.
//!
//! Generated for each build; `HANDLER` is replaced by the handler's path, which is a list of
//! plain identifiers, and `BINDINGS` by what Cargo.toml declares. Nothing else in here depends on the tenant.

struct Manifest;

impl mfaas::__private::Manifest for Manifest {
    const BINDINGS: &'static [mfaas::__private::Declared] = &[/* BINDINGS */];
}

const _: () = mfaas::__private::check(
    mfaas::__private::taken(&function::HANDLER),
    <Manifest as mfaas::__private::Manifest>::BINDINGS,
);

#[allow(unsafe_code)] // Exporting a symbol needs the word; there is no unsafe block here.
#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| {
        mfaas::__private::invoke::<_, _, Manifest>(function::HANDLER, request)
    })
}
