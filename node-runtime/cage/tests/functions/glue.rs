//! What the builder generates for a function, but for bytes alone and without the SDK.
use mfaas_abi::{Status, frame};

#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |bytes| {
        let request = frame::RequestFrame::decode(bytes).expect("the host sends frames");
        let body = tenant::handle(request.body);
        let mut frame = Vec::new();
        let status = match frame::encode_response(&mut frame, 200, [], &body) {
            Ok(()) => Status::Ok,
            Err(_) => Status::BadOutput,
        };
        mfaas_shim::Reply { status, frame }
    })
}
