//! The statements about functions that call others: who calls whom, who may, and that nobody calls itself by that.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_attest::Admission;
use mfaas_ident::{Binding, Bindings, CalleeName, FunctionName, TenantName};
use postgres::Transaction;

use super::{readable, text};

/// Functions of which each waits for the next, at most: a longer cycle than this no node would run through.
const CALL_DEPTH_MAX: usize = 16;

/// A function of some tenant.
type Name = (TenantName, FunctionName);

/// Functions of other tenants among those bound that let none of this tenant's call them, or are not there. The version that is
/// live now counts; nodes look at the one that is live then.
pub(crate) fn closed(
    tx: &mut Transaction<'_>,
    tenant: &TenantName,
    bindings: &Bindings,
) -> anyhow::Result<Vec<CalleeName>> {
    let foreign = |callee: &&CalleeName| callee.tenant_for(tenant) != tenant;
    let callees: BTreeSet<&CalleeName> =
        bindings.values().filter_map(Binding::function).filter(foreign).collect();
    let mut closed = Vec::new();
    for callee in callees {
        let open = tx.query_opt(
            "SELECT FROM aliases a
             JOIN versions v ON (v.tenant, v.function, v.version) = (a.tenant, a.function, a.version)
             WHERE a.tenant = $1 AND a.function = $2 AND a.alias = 'live' AND v.retired_at IS NULL
               AND (v.access = 'public' OR $3 = ANY (v.callers))",
            &[&callee.tenant_for(tenant).as_str(), &callee.function.as_str(), &tenant.as_str()],
        )?;
        if open.is_none() {
            closed.push(callee.clone());
        }
    }
    Ok(closed)
}

/// A cycle that a function with these bindings would close, from the function back to it, as its tenant names them; by what those
/// versions call that aliases name now.
///
/// Until the transaction ends no other version that calls anything is admitted.
pub(crate) fn cycle(
    tx: &mut Transaction<'_>,
    (tenant, function): (&TenantName, &FunctionName),
    bindings: &Bindings,
) -> anyhow::Result<Option<Vec<CalleeName>>> {
    let callees = bindings.values().filter_map(Binding::function);
    let mut last: BTreeSet<Name> = callees.map(|callee| resolve(callee, tenant)).collect();
    if last.is_empty() {
        return Ok(None);
    }
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended('calls of functions', 0))", &[])?;
    let root = (tenant.clone(), function.clone());
    // How each was reached first.
    let mut callers: BTreeMap<Name, Name> =
        last.iter().map(|callee| (callee.clone(), root.clone())).collect();
    for _ in 0..CALL_DEPTH_MAX {
        if last.contains(&root) {
            return Ok(Some(path(&callers, &root)));
        }
        let mut next = BTreeSet::new();
        for (caller, callee) in calls_of(tx, &last)? {
            if !callers.contains_key(&callee) {
                callers.insert(callee.clone(), caller);
                next.insert(callee);
            }
        }
        last = next;
    }
    Ok(None)
}

/// Which function a name means where a function of `caller` says it.
fn resolve(callee: &CalleeName, caller: &TenantName) -> Name {
    (callee.tenant_for(caller).clone(), callee.function.clone())
}

/// Whom these functions call, each with its caller.
fn calls_of(tx: &mut Transaction<'_>, functions: &BTreeSet<Name>) -> anyhow::Result<Vec<(Name, Name)>> {
    let (tenants, names): (Vec<&str>, Vec<&str>) =
        functions.iter().map(|(tenant, name)| (tenant.as_str(), name.as_str())).unzip();
    let rows = tx.query(
        "SELECT DISTINCT c.tenant, c.function, c.callee
         FROM unnest($1::text[], $2::text[]) AS wanted (tenant, name)
         JOIN version_calls c ON c.tenant = wanted.tenant AND c.function = wanted.name
         JOIN aliases a ON (a.tenant, a.function, a.version) = (c.tenant, c.function, c.version)
         ORDER BY c.tenant, c.function, c.callee",
        &[&tenants, &names],
    )?;
    let call = |row| {
        let caller: Name = (text(row, "tenant")?, text(row, "function")?);
        let callee: CalleeName = text(row, "callee")?;
        let callee = resolve(&callee, &caller.0);
        Ok((caller, callee))
    };
    Ok(rows.iter().filter_map(|row| readable("a call of a function", call(row))).collect())
}

/// From a function back to it, by how each was reached. Whom the functions of other tenants call is theirs to know: of those in a
/// row the first and the last are named, which this tenant calls and which call it.
fn path(callers: &BTreeMap<Name, Name>, root: &Name) -> Vec<CalleeName> {
    let mut functions = vec![root.clone()];
    let mut at = root;
    while let Some(caller) = callers.get(at) {
        functions.push(caller.clone());
        if caller == root {
            break;
        }
        at = caller;
    }
    functions.reverse();
    let is_own = |at: usize| functions.get(at).is_none_or(|(tenant, _)| *tenant == root.0);
    let shown = |at: &usize| is_own(*at) || is_own(at.wrapping_sub(1)) || is_own(at + 1);
    let named = |(tenant, function): &Name| CalleeName {
        tenant: (*tenant != root.0).then(|| tenant.clone()),
        function: function.clone(),
    };
    (0..functions.len()).filter(shown).map(|at| named(&functions[at])).collect()
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
                &callee.to_string(),
            ],
        )?;
    }
    Ok(())
}
