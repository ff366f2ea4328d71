//! Calls that functions make of others.

use std::sync::Arc;

use mfaas_abi::frame::encode_request;
use mfaas_abi::limits::BODY_BYTES_MAX;
use mfaas_abi::split_binding;
use mfaas_dispatch::JobId;
use mfaas_ident::{Binding, FUNCTION_CALLER};
use mfaas_ring::clock::ticks;
use mfaas_rules::codes;

use super::{Asked, DataCall, DataCalls, NO_BINDING, TRACE_HEADER, trace_header};
use crate::image::ImageKey;
use crate::serving::call::{CALLER, NotBegun, Parent, Reply};
use crate::serving::callees::Entered;
use crate::serving::intake::Call;
use crate::serving::table::Served;

/// Functions that wait for each other, at most.
const CALL_DEPTH_MAX: u32 = 16;
const TOO_LARGE: NotBegun = NotBegun::new(codes::MF1202, "the request is larger than one may be");

impl DataCalls {
    /// Who answers the function that a call asks for in an operation, if that is of its tenant and class and not called too deep: the place
    /// of the binding, and the version.
    pub(in super::super) fn callee(&self, call: &Call, operation: &[u8]) -> Option<(u32, Arc<Served>)> {
        let key = &call.served.key;
        let (place, _) = split_binding(operation)?;
        let function = call.served.bindings.get(place as usize).and_then(Binding::function)?;
        let is_own = *function.tenant_for(&key.tenant) == key.tenant;
        if !is_own || call.reply.parent().map_or(0, |parent| parent.depth) >= CALL_DEPTH_MAX {
            return None;
        }
        let served = self.callees.find(&key.tenant, function).ok()?;
        (served.terms.class == call.served.terms.class).then_some((place, served))
    }

    /// A call that the function has asked for in an operation, to be submitted.
    pub(in super::super) fn make(
        &self,
        job: JobId,
        call: &Call,
        data: &mut DataCall,
        asked: Asked,
    ) -> Result<Call, NotBegun> {
        let Asked { id: operation, operation: request, waits } = asked;
        let key = &call.served.key;
        let (binding, body) = split_binding(&request).ok_or(NO_BINDING)?;
        let function =
            call.served.bindings.get(binding as usize).and_then(Binding::function).ok_or(NO_BINDING)?;
        let depth = call.reply.parent().map_or(0, |parent| parent.depth) + 1;
        if depth > CALL_DEPTH_MAX {
            return Err(NotBegun::new(codes::MF1211, "16 functions wait for each other already"));
        }
        let Entered { served, place, is_foreign } = self.callees.enter(key, function)?;
        if served.terms.class != call.served.terms.class {
            return Err(NotBegun::new(codes::MF1210, "the function is of another class than its caller"));
        }
        let frame = data.request(call, body)?;
        let reaches_broker = served.bindings.iter().any(|binding| match binding {
            Binding::Resource(binding) => binding.kind.is_of_broker(),
            Binding::Function(_) => true,
        });
        if !is_foreign && reaches_broker && data.at_broker.is_none() {
            // Where it cannot be reached the other one hears of that if it asks for anything.
            data.at_broker = self.begin(job, call).ok();
        }
        let connection = data.at_broker.as_ref().map(|at_broker| at_broker.connection);
        let waits = waits.unwrap_or_default();
        let lineage = data.lineage(call).clone();
        let parent = Parent { job, operation, connection, waits, depth, lineage, is_foreign, _place: place };
        let (reply, (reruns, earlier)) = (Reply::Parent(Box::new(parent)), Default::default());
        Ok(Call { served, frame, since: ticks(), wait_us_max: None, reply, reruns, earlier })
    }
}

impl DataCall {
    /// What requests to functions that the call makes begin with, up to the body's length: they are part of the trace that it is part of.
    pub(in super::super) fn request_head(&mut self, call: &Call) -> Result<&[u8], NotBegun> {
        let head = match self.request_head.take() {
            Some(head) => head,
            None => head_of(&call.served.key, trace_header(&call.frame).as_deref())?,
        };
        Ok(self.request_head.insert(head))
    }

    /// The request to a function that the call makes.
    fn request(&mut self, call: &Call, body: &[u8]) -> Result<Vec<u8>, NotBegun> {
        request_of(self.request_head(call)?, body)
    }
}

fn request_of(head: &[u8], body: &[u8]) -> Result<Vec<u8>, NotBegun> {
    if body.len() > BODY_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let length = (body.len() as u32).to_le_bytes();
    Ok([head, &length, body].concat())
}

fn head_of(caller: &ImageKey, trace: Option<&str>) -> Result<Box<[u8]>, NotBegun> {
    let caller = format!("{}/{FUNCTION_CALLER}{}", caller.tenant, caller.function);
    let headers = [("content-type", "application/json"), (CALLER, caller.as_str())].into_iter();
    let headers = headers.chain(trace.map(|trace| (TRACE_HEADER, trace)));
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", headers, &[]).map_err(|_| TOO_LARGE)?;
    frame.truncate(frame.len() - size_of::<u32>());
    Ok(frame.into())
}

#[cfg(test)]
mod tests;
