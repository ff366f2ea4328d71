//! A stack machine with its assembler.
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Push(i64),
    Jump(usize),
    JumpIf(usize),
    Call(usize),
    Return,
    Dup,
    Drop,
    Swap,
    Add,
    Sub,
    Mul,
    Div,
    Less,
    Print,
    Halt,
}

fn assemble(text: &str) -> Result<Vec<Op>, String> {
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())).filter(|(_, line)| !line.is_empty()).collect();
    let mut labels = HashMap::new();
    let mut address = 0;
    for (_, line) in &lines {
        match line.strip_suffix(':') {
            Some(label) => drop(labels.insert(label, address)),
            None => address += 1,
        }
    }
    let instructions = lines.iter().filter(|(_, line)| !line.ends_with(':'));
    instructions.map(|(n, line)| instruction(line, &labels).map_err(|why| format!("line {n}: {why}"))).collect()
}

fn instruction(line: &str, labels: &HashMap<&str, usize>) -> Result<Op, String> {
    let (name, operand) = line.split_once(' ').map_or((line, None), |(name, operand)| (name, Some(operand)));
    let label = || {
        let name = operand.ok_or("a label is missing")?;
        labels.get(name).copied().ok_or_else(|| format!("no label {name}"))
    };
    Ok(match name {
        "push" => Op::Push(operand.and_then(|n| n.parse().ok()).ok_or("a number is missing")?),
        "jmp" => Op::Jump(label()?),
        "jnz" => Op::JumpIf(label()?),
        "call" => Op::Call(label()?),
        "ret" => Op::Return,
        "dup" => Op::Dup,
        "drop" => Op::Drop,
        "swap" => Op::Swap,
        "add" => Op::Add,
        "sub" => Op::Sub,
        "mul" => Op::Mul,
        "div" => Op::Div,
        "lt" => Op::Less,
        "print" => Op::Print,
        "halt" => Op::Halt,
        other => return Err(format!("no instruction {other}")),
    })
}

#[derive(Default)]
struct Machine {
    stack: Vec<i64>,
    frames: Vec<usize>,
    out: Vec<String>,
}

impl Machine {
    fn pop(&mut self, op: Op) -> Result<i64, String> {
        self.stack.pop().ok_or_else(|| format!("{} finds an empty stack", format!("{op:?}").to_lowercase()))
    }

    fn binary(&mut self, op: Op, f: impl FnOnce(i64, i64) -> Option<i64>) -> Result<(), String> {
        let (b, a) = (self.pop(op)?, self.pop(op)?);
        self.stack.push(f(a, b).ok_or("overflow")?);
        Ok(())
    }

    /// The address of the next instruction; `None` ends the program.
    fn step(&mut self, op: Op, next: usize) -> Result<Option<usize>, String> {
        match op {
            Op::Push(n) => self.stack.push(n),
            Op::Jump(to) => return Ok(Some(to)),
            Op::JumpIf(to) => {
                if self.pop(op)? != 0 {
                    return Ok(Some(to));
                }
            }
            Op::Call(to) => {
                self.frames.push(next);
                return Ok(Some(to));
            }
            Op::Return => return Ok(Some(self.frames.pop().ok_or("nowhere to return to")?)),
            Op::Dup => {
                let top = self.pop(op)?;
                self.stack.extend([top, top]);
            }
            Op::Drop => drop(self.pop(op)?),
            Op::Swap => {
                let (b, a) = (self.pop(op)?, self.pop(op)?);
                self.stack.extend([b, a]);
            }
            Op::Add => self.binary(op, i64::checked_add)?,
            Op::Sub => self.binary(op, i64::checked_sub)?,
            Op::Mul => self.binary(op, i64::checked_mul)?,
            Op::Div if self.stack.last() == Some(&0) => return Err("division by zero".to_owned()),
            Op::Div => self.binary(op, i64::checked_div)?,
            Op::Less => self.binary(op, |a, b| Some(i64::from(a < b)))?,
            Op::Print => {
                let top = self.pop(op)?;
                self.out.push(top.to_string());
            }
            Op::Halt => return Ok(None),
        }
        Ok(Some(next))
    }
}

fn run(program: &[Op]) -> Result<String, String> {
    const STEPS_MAX: usize = 10_000;
    let mut machine = Machine::default();
    let (mut at, mut steps) = (Some(0), 0);
    while let Some(&op) = at.and_then(|at| program.get(at)) {
        steps += 1;
        if steps > STEPS_MAX {
            return Err(format!("more than {STEPS_MAX} steps"));
        }
        at = machine.step(op, at.unwrap_or_default() + 1).map_err(|why| format!("step {steps}: {why}"))?;
    }
    let stack: Vec<String> = machine.stack.iter().map(i64::to_string).collect();
    let stack = if stack.is_empty() { "empty".to_owned() } else { stack.join(" ") };
    Ok(format!("{} | stack {stack}, {steps} steps", machine.out.join(" ")))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    assemble(&text).and_then(|program| run(&program)).unwrap_or_else(|error| error).into_bytes()
}
