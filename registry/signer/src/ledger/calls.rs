//! The statements about functions that call others: who calls whom, and that nobody calls itself by that.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_attest::Admission;
use mfaas_ident::{Binding, Bindings, FunctionName, TenantName};
use postgres::Transaction;

use super::{readable, text};

/// Functions of which each waits for the next, at most: a longer cycle than this no node would run through.
const CALL_DEPTH_MAX: usize = 16;

/// A cycle that a function with these bindings would close, from the function back to it; by what those versions call that aliases
/// name now.
///
/// Until the transaction ends no other version of the tenant that calls anything is admitted.
pub(crate) fn cycle(
    tx: &mut Transaction<'_>,
    (tenant, function): (&TenantName, &FunctionName),
    bindings: &Bindings,
) -> anyhow::Result<Option<Vec<FunctionName>>> {
    let callees: BTreeSet<&FunctionName> = bindings.values().filter_map(Binding::function).collect();
    if callees.is_empty() {
        return Ok(None);
    }
    let lock = format!("calls of {tenant}");
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&lock])?;
    // How each was reached first.
    let mut callers: BTreeMap<FunctionName, FunctionName> = BTreeMap::new();
    let mut last: BTreeSet<FunctionName> = callees.into_iter().cloned().collect();
    callers.extend(last.iter().map(|callee| (callee.clone(), function.clone())));
    for _ in 0..CALL_DEPTH_MAX {
        if last.contains(function) {
            return Ok(Some(path(&callers, function)));
        }
        let mut next = BTreeSet::new();
        for (caller, callee) in calls_of(tx, tenant, &last)? {
            if !callers.contains_key(&callee) {
                callers.insert(callee.clone(), caller);
                next.insert(callee);
            }
        }
        last = next;
    }
    Ok(None)
}

/// Whom these functions call, each with its caller.
fn calls_of(
    tx: &mut Transaction<'_>,
    tenant: &TenantName,
    functions: &BTreeSet<FunctionName>,
) -> anyhow::Result<Vec<(FunctionName, FunctionName)>> {
    let names: Vec<&str> = functions.iter().map(FunctionName::as_str).collect();
    let rows = tx.query(
        "SELECT DISTINCT c.function, c.callee FROM version_calls c
         JOIN aliases a ON (a.tenant, a.function, a.version) = (c.tenant, c.function, c.version)
         WHERE c.tenant = $1 AND c.function = ANY($2) ORDER BY c.function, c.callee",
        &[&tenant.as_str(), &names],
    )?;
    let call = |row| Ok((text(row, "function")?, text(row, "callee")?));
    Ok(rows.iter().filter_map(|row| readable("a call of a function", call(row))).collect())
}

/// From a function back to it, by how each was reached.
fn path(callers: &BTreeMap<FunctionName, FunctionName>, function: &FunctionName) -> Vec<FunctionName> {
    let mut functions = vec![function.clone()];
    let mut at = function;
    while let Some(caller) = callers.get(at) {
        functions.push(caller.clone());
        if caller == function {
            break;
        }
        at = caller;
    }
    functions.reverse();
    functions
}

/// Whom the version calls.
pub(crate) fn record_calls(tx: &mut Transaction<'_>, admission: &Admission) -> anyhow::Result<()> {
    let version = i32::try_from(admission.version.get())?;
    for (name, binding) in admission.bound() {
        let Some(callee) = binding.function() else { continue };
        tx.execute(
            "INSERT INTO version_calls (tenant, function, version, name, callee) VALUES ($1, $2, $3, $4, $5)",
            &[
                &admission.tenant.as_str(),
                &admission.function.as_str(),
                &version,
                &name.as_str(),
                &callee.as_str(),
            ],
        )?;
    }
    Ok(())
}
