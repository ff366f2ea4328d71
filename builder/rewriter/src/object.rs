//! A relocatable object: which of its parts refer to code, and to where.
//!
//! Code is referred to by symbols, by relocations against the section itself, and by tables of
//! distances that a switch jumps through. All of them are moved; targets of anything but direct
//! branches begin a bundle.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use object::build::Id as _;
use object::build::elf::{Builder, Relocation, SectionData, SectionId, SymbolId};
use object::elf;

use crate::place::{Group, NoTarget, Placed, place};
use crate::translate::{Fixup, FixupKind, Source, translate};
use crate::{BUNDLE_BYTES, RewriteError};

/// Sections that a function's image leaves out: what unwinders and debuggers read. They would have to
/// be moved with the code.
const LEFT_OUT: [&str; 3] = [".eh_frame", ".gcc_except_table", ".note"];

/// Rewrites all code of an object. Of what it defines, `entry` alone can be seen from outside of the image.
///
/// # Errors
/// An object that is none, or code that has no counterpart within the window.
pub fn rewrite(object: &[u8], entry: &str) -> Result<Vec<u8>, RewriteError> {
    let failed = |error: object::build::Error| RewriteError::Object(error.to_string());
    let mut builder = Builder::read(object).map_err(failed)?;
    leave_out(&mut builder);
    hide_all_but(&mut builder, entry);
    let mut code = Code::find(&builder)?;
    code.find_targets(&builder)?;
    let placed = code.place(&builder)?;
    update(&mut builder, &code, placed)?;
    builder.set_section_sizes();
    let mut written = Vec::new();
    builder.write(&mut written).map_err(failed)?;
    Ok(written)
}

/// Removes what no image holds.
fn leave_out(builder: &mut Builder<'_>) {
    let mut gone = BTreeSet::new();
    for section in &mut builder.sections {
        let is_table = !matches!(section.data, SectionData::Data(_) | SectionData::Note(_));
        let is_named = LEFT_OUT.iter().any(|name| section.name.starts_with(name.as_bytes()));
        if is_named || !section.is_alloc() && !is_table {
            section.delete = true;
            gone.insert(section.id().index());
        }
    }
    for section in &mut builder.sections {
        section.delete |= section.sh_info_section.is_some_and(|about| gone.contains(&about.index()));
    }
    builder.delete_orphans();
}

/// What the object defines stays the image's own, but for its entry. The linker's arguments that say so name
/// libraries, which went into the object.
fn hide_all_but(builder: &mut Builder<'_>, entry: &str) {
    for symbol in &mut builder.symbols {
        if symbol.section.is_some() && symbol.name.as_slice() != entry.as_bytes() {
            symbol.st_other = elf::STV_HIDDEN.into();
        }
    }
}

/// An instruction of a section.
struct Decoded {
    instruction: Instruction,
    /// Indexes of the relocations within it.
    relocations: Vec<usize>,
}

/// The code of an object.
struct Code {
    /// By the index of the section.
    sections: BTreeMap<usize, CodeSection>,
    /// Data that holds tables of distances: where code says that one begins, by the index of the section.
    tables: BTreeMap<usize, BTreeSet<u64>>,
    /// Relocations of data that lead to code: the section of relocations, the index, and what is moved.
    references: Vec<(SectionId, usize, Reference)>,
}

struct CodeSection {
    id: SectionId,
    name: String,
    bytes: u64,
    /// The section of its relocations.
    relocations: Option<SectionId>,
    decoded: Vec<Decoded>,
    /// Where something other than a direct branch leads to.
    targets: BTreeSet<u64>,
}

/// A reference from data to code.
struct Reference {
    section: usize,
    was_at: u64,
    /// Distance from the base of the table that it is an entry of, or 0.
    rest: i64,
}

type Relocations = Vec<Relocation>;

fn relocations_of<'a>(builder: &'a Builder<'_>, id: Option<SectionId>) -> &'a [Relocation] {
    match id.map(|id| &builder.sections.get(id).data) {
        Some(SectionData::Relocation(relocations)) => relocations,
        _ => &[],
    }
}

/// Where a relocation leads to: the section and the symbol's address in it.
fn defined(builder: &Builder<'_>, symbol: Option<SymbolId>) -> Option<(usize, u64)> {
    let symbol = builder.symbols.get(symbol?);
    Some((symbol.section?.index(), symbol.st_value))
}

fn is_distance(kind: elf::RelocationType) -> bool {
    matches!(kind, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 | elf::R_X86_64_PC64)
}

fn is_table_entry(kind: elf::RelocationType) -> bool {
    matches!(kind, elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX)
}

impl Code {
    fn find(builder: &Builder<'_>) -> Result<Self, RewriteError> {
        let mut sections = BTreeMap::new();
        for section in &builder.sections {
            let is_code = section.is_alloc() && section.sh_flags.contains(elf::SHF_EXECINSTR);
            let (true, SectionData::Data(bytes)) = (is_code, &section.data) else { continue };
            let relocations = builder.sections.iter().find(|other| {
                other.sh_info_section == Some(section.id())
                    && matches!(other.data, SectionData::Relocation(_))
            });
            let relocations = relocations.map(|section| section.id());
            let name = section.name.to_string();
            let decoded = decode(&name, bytes, relocations_of(builder, relocations))?;
            let targets = BTreeSet::from([0]);
            let bytes = bytes.len() as u64;
            let id = section.id();
            sections.insert(id.index(), CodeSection { id, name, bytes, relocations, decoded, targets });
        }
        Ok(Self { sections, tables: BTreeMap::new(), references: Vec::new() })
    }

    fn find_targets(&mut self, builder: &Builder<'_>) -> Result<(), RewriteError> {
        for symbol in &builder.symbols {
            if let Some(section) = symbol.section.and_then(|id| self.sections.get_mut(&id.index())) {
                section.targets.insert(symbol.st_value);
            }
        }
        self.find_references_of_code(builder);
        self.find_references_of_data(builder)
    }

    /// What code refers to by the address of a section: places in code, and tables in data.
    fn find_references_of_code(&mut self, builder: &Builder<'_>) {
        let mut found = Vec::new();
        for section in self.sections.values() {
            let relocations = relocations_of(builder, section.relocations);
            for decoded in &section.decoded {
                for index in &decoded.relocations {
                    let relocation = &relocations[*index];
                    let Some((target, value)) = defined(builder, relocation.symbol) else { continue };
                    if is_distance(relocation.r_type) {
                        let rest = decoded.instruction.next_ip() - relocation.r_offset;
                        let at = value.wrapping_add_signed(relocation.r_addend).wrapping_add(rest);
                        found.push((target, at));
                    }
                }
            }
        }
        for (target, at) in found {
            match self.sections.get_mut(&target) {
                Some(section) => drop(section.targets.insert(at)),
                None => drop(self.tables.entry(target).or_default().insert(at)),
            }
        }
    }

    fn find_references_of_data(&mut self, builder: &Builder<'_>) -> Result<(), RewriteError> {
        for section in &builder.sections {
            let (SectionData::Relocation(relocations), Some(data)) = (&section.data, section.sh_info_section)
            else {
                continue;
            };
            if self.sections.contains_key(&data.index()) {
                continue;
            }
            for (index, relocation) in relocations.iter().enumerate() {
                let Some((target, value)) = defined(builder, relocation.symbol) else { continue };
                let Some(code) = self.sections.get_mut(&target) else { continue };
                let rest = match relocation.r_type {
                    elf::R_X86_64_64 => 0,
                    kind if is_distance(kind) => {
                        let tables = self.tables.get(&data.index());
                        let base =
                            tables.and_then(|at| at.range(..=relocation.r_offset).next_back().copied());
                        (relocation.r_offset - base.unwrap_or(0)) as i64
                    }
                    _ => return Err(code.refusal(value, "data refers to it in a way that is not known")),
                };
                let was_at = value.wrapping_add_signed(relocation.r_addend - rest);
                code.targets.insert(was_at);
                self.references.push((section.id(), index, Reference { section: target, was_at, rest }));
            }
        }
        Ok(())
    }

    fn place(&self, builder: &Builder<'_>) -> Result<BTreeMap<usize, Placed>, RewriteError> {
        let placed = self.sections.iter().map(|(id, section)| Ok((*id, section.place(builder)?)));
        placed.collect()
    }

    /// Where code is now that was at `was_at`.
    fn moved(
        &self,
        placed: &BTreeMap<usize, Placed>,
        section: usize,
        was_at: u64,
    ) -> Result<u64, RewriteError> {
        let moved = placed.get(&section).and_then(|placed| placed.moved.get(&was_at).copied());
        let section = self.sections.get(&section);
        moved.ok_or_else(|| match section {
            Some(section) => section.refusal(was_at, "something refers to the middle of an instruction"),
            None => RewriteError::Object("a reference to code that is not there".to_owned()),
        })
    }
}

/// All instructions of a section, each with its relocations.
fn decode(name: &str, bytes: &[u8], relocations: &[Relocation]) -> Result<Vec<Decoded>, RewriteError> {
    let mut order: Vec<usize> = (0..relocations.len()).collect();
    order.sort_by_key(|index| relocations[*index].r_offset);
    let mut order = order.into_iter().peekable();
    let mut decoded = Vec::new();
    for instruction in &mut Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            let why = "these bytes are no instruction";
            return Err(RewriteError::Code { section: name.to_owned(), at: instruction.ip(), why });
        }
        let mut within = Vec::new();
        while let Some(index) = order.next_if(|index| relocations[*index].r_offset < instruction.next_ip()) {
            within.push(index);
        }
        decoded.push(Decoded { instruction, relocations: within });
    }
    Ok(decoded)
}

impl CodeSection {
    fn refusal(&self, at: u64, why: &'static str) -> RewriteError {
        RewriteError::Code { section: self.name.clone(), at, why }
    }

    fn place(&self, builder: &Builder<'_>) -> Result<Placed, RewriteError> {
        let relocations = relocations_of(builder, self.relocations);
        let bytes = self.bytes_of(builder);
        let mut groups = Vec::with_capacity(self.decoded.len());
        let mut align = 1;
        for decoded in &self.decoded {
            let instruction = &decoded.instruction;
            let at = instruction.ip();
            if self.targets.contains(&at) {
                align = BUNDLE_BYTES;
            }
            let within: Vec<_> = decoded
                .relocations
                .iter()
                .map(|index| ((relocations[*index].r_offset - at) as usize, *index))
                .collect();
            let first = within.first().map(|(_, index)| &relocations[*index]);
            let symbol = first.and_then(|relocation| relocation.symbol);
            let is_import = symbol.is_some_and(|symbol| builder.symbols.get(symbol).section.is_none());
            let is_table_entry = first.is_some_and(|relocation| is_table_entry(relocation.r_type));
            let source = Source {
                instruction,
                bytes: &bytes[at as usize..instruction.next_ip() as usize],
                relocations: &within,
                is_import,
                is_table_entry,
            };
            let pieces = translate(&source).map_err(|why| self.refusal(at, why))?;
            groups.push(Group { was_at: at, align: std::mem::replace(&mut align, 1), pieces });
            if instruction.mnemonic() == Mnemonic::Nop {
                align = align.max(kept_alignment(instruction.next_ip()));
            }
        }
        place(&groups, self.bytes)
            .map_err(|NoTarget(at)| self.refusal(at, "a branch leads into an instruction"))
    }

    fn bytes_of<'a>(&self, builder: &'a Builder<'_>) -> &'a [u8] {
        match &builder.sections.get(self.id).data {
            SectionData::Data(bytes) => bytes,
            _ => &[],
        }
    }
}

/// Alignment of what stands behind the compiler's padding, as far as it is worth keeping.
fn kept_alignment(at: u64) -> usize {
    if at.is_multiple_of(16) { 16 } else { 1 }
}

/// Writes code, symbols and relocations as they are now.
fn update(
    builder: &mut Builder<'_>,
    code: &Code,
    mut placed: BTreeMap<usize, Placed>,
) -> Result<(), RewriteError> {
    let mut relocations = Vec::new();
    for (index, section) in &code.sections {
        let Some(table) = section.relocations else { continue };
        relocations.push((table, code_relocations(builder, code, &placed, *index)?));
    }
    for (table, index, reference) in &code.references {
        let moved = code.moved(&placed, reference.section, reference.was_at)?;
        let SectionData::Relocation(entries) = &builder.sections.get(*table).data else { continue };
        let value = new_value(builder, code, &placed, entries[*index].symbol)?;
        let SectionData::Relocation(entries) = &mut builder.sections.get_mut(*table).data else { continue };
        entries[*index].r_addend = moved as i64 + reference.rest - value as i64;
    }
    for symbol in &mut builder.symbols {
        let section = symbol.section.map(|id| id.index());
        let Some(id) = section.filter(|index| code.sections.contains_key(index)) else { continue };
        let end = code.moved(&placed, id, symbol.st_value + symbol.st_size);
        symbol.st_value = code.moved(&placed, id, symbol.st_value)?;
        symbol.st_size = end.map_or(0, |end| end.saturating_sub(symbol.st_value));
    }
    for (table, entries) in relocations {
        builder.sections.get_mut(table).data = SectionData::Relocation(entries);
    }
    for (index, section) in &code.sections {
        let section = builder.sections.get_mut(section.id);
        section.sh_addralign = section.sh_addralign.max(BUNDLE_BYTES as u64);
        let bytes = placed.get_mut(index).map(|placed| std::mem::take(&mut placed.bytes));
        section.data = SectionData::Data(bytes.unwrap_or_default().into());
    }
    Ok(())
}

/// The value that a symbol is going to have.
fn new_value(
    builder: &Builder<'_>,
    code: &Code,
    placed: &BTreeMap<usize, Placed>,
    symbol: Option<SymbolId>,
) -> Result<u64, RewriteError> {
    match defined(builder, symbol) {
        Some((section, value)) if code.sections.contains_key(&section) => code.moved(placed, section, value),
        other => Ok(other.map_or(0, |(_, value)| value)),
    }
}

/// The relocations of a code section, where they are now.
fn code_relocations(
    builder: &Builder<'_>,
    code: &Code,
    placed: &BTreeMap<usize, Placed>,
    index: usize,
) -> Result<Relocations, RewriteError> {
    let section = &code.sections[&index];
    let before = relocations_of(builder, section.relocations);
    let owners: BTreeMap<usize, u64> = section
        .decoded
        .iter()
        .flat_map(|decoded| decoded.relocations.iter().map(|index| (*index, decoded.instruction.next_ip())))
        .collect();
    let mut now = Relocations::new();
    for Fixup { at, relocation, kind } in &placed[&index].fixups {
        let mut entry = before[*relocation];
        let rest = (owners[relocation] - entry.r_offset) as i64;
        entry.r_offset = *at as u64;
        match kind {
            FixupKind::Same => {}
            FixupKind::Branch => entry.r_type = elf::R_X86_64_PLT32,
            FixupKind::TableEntry => entry.r_type = elf::R_X86_64_GOTPCREL,
        }
        if *kind != FixupKind::Same && rest != 4 {
            return Err(section.refusal(owners[relocation], "a branch whose target is not its end"));
        }
        if let Some((target, value)) = defined(builder, entry.symbol)
            && code.sections.contains_key(&target)
            && is_distance(before[*relocation].r_type)
        {
            let was_at = value.wrapping_add_signed(entry.r_addend + rest);
            let value = new_value(builder, code, placed, entry.symbol)?;
            entry.r_addend = code.moved(placed, target, was_at)? as i64 - value as i64 - rest;
        }
        now.push(entry);
    }
    Ok(now)
}
