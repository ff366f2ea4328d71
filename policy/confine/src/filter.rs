//! Rows of system calls to a BPF program, and its installation.
//!
//! The program first looks at the architecture and at the x32 bit: the same call has other
//! numbers in the i386 and x32 tables, so whoever calls through them is killed.

use std::collections::BTreeMap;

use mfaas_rules::profiles::seccomp::{Check, Rule, SeccompRow, Test};

use crate::error::{ConfineError, Step};
use crate::{sys, syscalls};

/// What happens to a call without a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unlisted {
    /// ENOSYS: a library falls back to an older call. For programs that are not ours.
    DoesNotExist,
    /// SIGSYS, which the process may handle. For a worker.
    Signals,
}

/// Takes every system call that no row allows from the calling thread, for good: a denied call
/// becomes SIGSYS, a call of a foreign architecture ends the process.
///
/// For a process with one thread: others keep what they have. Sets NO_NEW_PRIVS. The process
/// installs its handler of SIGSYS before; without one, a denied call ends it.
pub fn lock_down(rows: &[SeccompRow]) -> Result<(), ConfineError> {
    install(rows, Unlisted::Signals)
}

pub(crate) fn install(rows: &[SeccompRow], unlisted: Unlisted) -> Result<(), ConfineError> {
    let program = compile(rows, unlisted)?;
    rustix::thread::set_no_new_privs(true).map_err(ConfineError::at(Step::Seccomp))?;
    sys::install_filter(&program).map_err(ConfineError::at(Step::Seccomp))
}

/// AUDIT_ARCH_X86_64: EM_X86_64 with the bits for 64 bit and little endian.
const ARCH_X86_64: u32 = 0xc000_003e;
/// Set in the numbers of the x32 table.
const X32_BIT: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data`.
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_NOT_BELOW: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Goes on with the next instruction if the test holds, else skips `skip` of them.
fn unless_skip(code: u16, k: u32, skip: usize) -> Result<libc::sock_filter, ConfineError> {
    let jf =
        u8::try_from(skip).map_err(|_| ConfineError::Profile("a row with too many checks".to_owned()))?;
    Ok(libc::sock_filter { code, jt: 0, jf, k })
}

/// The BPF program. Rows of the same name are alternatives.
pub(crate) fn compile(
    rows: &[SeccompRow],
    unlisted: Unlisted,
) -> Result<Vec<libc::sock_filter>, ConfineError> {
    if rows.is_empty() {
        return Err(ConfineError::Profile("it allows no system call".to_owned()));
    }
    let refuse = match unlisted {
        Unlisted::DoesNotExist => libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        Unlisted::Signals => libc::SECCOMP_RET_TRAP,
    };
    let kill = statement(RETURN, libc::SECCOMP_RET_KILL_PROCESS);
    let mut program = vec![
        statement(LOAD_WORD, OFFSET_ARCH),
        libc::sock_filter { code: JUMP_IF_EQUAL, jt: 1, jf: 0, k: ARCH_X86_64 },
        kill,
        statement(LOAD_WORD, OFFSET_NUMBER),
        unless_skip(JUMP_IF_NOT_BELOW, X32_BIT, 1)?,
        kill,
    ];
    append_tree(&mut program, &blocks(rows, refuse)?, refuse)?;
    Ok(program)
}

/// The number of a call, and what decides about it.
type Block = (u32, Vec<libc::sock_filter>);

/// One block for each name, by number.
fn blocks(rows: &[SeccompRow], refuse: u32) -> Result<Vec<Block>, ConfineError> {
    let mut by_number: BTreeMap<u32, Vec<&SeccompRow>> = BTreeMap::new();
    for row in rows {
        let number = syscalls::number(row.name)
            .ok_or_else(|| ConfineError::Profile(format!("no system call is named {}", row.name)))?;
        by_number.entry(number).or_default().push(row);
    }
    by_number.into_iter().map(|(number, rows)| Ok((number, block(&rows, refuse)?))).collect()
}

/// Leaves of so many names are searched one by one.
const LEAF: usize = 3;

/// Halves the numbers until few are left: the kernel runs the program once for every call of both
/// tables when it is installed, and for each call whose arguments count.
fn append_tree(
    program: &mut Vec<libc::sock_filter>,
    blocks: &[Block],
    refuse: u32,
) -> Result<(), ConfineError> {
    if blocks.len() <= LEAF {
        for (number, block) in blocks {
            program.push(unless_skip(JUMP_IF_EQUAL, *number, block.len())?);
            program.extend(block);
        }
        program.push(statement(RETURN, refuse));
        return Ok(());
    }
    let (low, high) = blocks.split_at(blocks.len() / 2);
    let mut lower = Vec::new();
    append_tree(&mut lower, low, refuse)?;
    let over =
        u32::try_from(lower.len()).map_err(|_| ConfineError::Profile("it has too many rows".to_owned()))?;
    // A conditional jump reaches 255 instructions, an unconditional one any number.
    program.push(unless_skip(JUMP_IF_NOT_BELOW, high[0].0, 1)?);
    program.push(statement(JUMP, over));
    program.append(&mut lower);
    append_tree(program, high, refuse)
}

/// All rows of one name: each alternative returns when it holds; behind the last, the call is
/// refused.
fn block(rows: &[&SeccompRow], refuse: u32) -> Result<Vec<libc::sock_filter>, ConfineError> {
    let mut block = Vec::new();
    for row in rows {
        match row.rule {
            Rule::Allow => block.push(statement(RETURN, libc::SECCOMP_RET_ALLOW)),
            Rule::Kill => block.push(statement(RETURN, libc::SECCOMP_RET_KILL_PROCESS)),
            Rule::AllowIf(checks) => append_checks(&mut block, row.name, checks)?,
        }
    }
    block.push(statement(RETURN, refuse));
    Ok(block)
}

/// Instructions of one half of an argument's check: load, mask, compare.
const HALF_LENGTH: usize = 3;

fn append_checks(
    block: &mut Vec<libc::sock_filter>,
    name: &str,
    checks: &[Check],
) -> Result<(), ConfineError> {
    if checks.is_empty() {
        return Err(ConfineError::Profile(format!("a row of {name} checks nothing")));
    }
    let halves: Vec<(u32, u32, u32)> = checks
        .iter()
        .map(|check| halves(name, check))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect();
    for (index, (offset, mask, value)) in halves.iter().enumerate() {
        // A failed comparison skips the halves that follow and the return behind them.
        let rest = (halves.len() - index - 1) * HALF_LENGTH + 1;
        block.push(statement(LOAD_WORD, *offset));
        block.push(statement(AND, *mask));
        block.push(unless_skip(JUMP_IF_EQUAL, *value, rest)?);
    }
    block.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    Ok(())
}

/// Offset, mask and value of the two 32-bit halves of an argument. A half that no mask bit
/// touches is left out.
fn halves(name: &str, check: &Check) -> Result<Vec<(u32, u32, u32)>, ConfineError> {
    let (mask, value) = match check.test {
        Test::Masked { mask, value } => (mask, value),
        Test::OwnProcess => (u64::from(u32::MAX), u64::from(std::process::id())),
    };
    if check.argument > 5 || value & !mask != 0 || mask == 0 {
        return Err(ConfineError::Profile(format!("a row of {name} has a check that cannot hold or fail")));
    }
    let low = OFFSET_ARGUMENTS + 8 * u32::from(check.argument);
    let parts = [(low, mask as u32, value as u32), (low + 4, (mask >> 32) as u32, (value >> 32) as u32)];
    Ok(parts.into_iter().filter(|(_, mask, _)| *mask != 0).collect())
}
