//! Counts the contents of a component before it is compiled.
//!
//! A component of a few kilobytes can describe gigabytes. Data segments at distant offsets become
//! one image of everything between them, and nested components may each instantiate another one
//! twice. All of it is counted here from the bytes alone, in one pass, so that a component beyond
//! a limit costs nothing more.

use crate::engine::IMAGE_SLACK_BYTES;
use wasmparser::{
    BinaryReaderError, CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind,
    ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef, DataKind, DataSectionReader, Instance,
    Operator, Parser, Payload,
};

/// The maximum number of core modules in a component, including nested components.
pub const MAX_CORE_MODULES: usize = 128;
/// The maximum nesting depth of components and modules.
pub const MAX_NESTING: usize = 64;
/// The maximum number of items (instances, aliases, functions, imports and exports) of a
/// component if each nested component counts as often as it is instantiated.
pub const MAX_COMPONENT_ITEMS: u64 = 100_000;
/// The maximum number of components, aliases included, within one component.
pub const MAX_COMPONENTS: usize = 1_000;
/// The maximum size of all core instances of a component in bytes, without their memories and
/// tables, if each nested component counts as often as it is instantiated.
pub const MAX_INSTANCE_BYTES: u64 = 16 << 20;
/// The host's memory for an import, a function, a table or a memory of a core instance, in bytes.
const INSTANCE_ITEM_BYTES: u64 = 40;
/// The host's memory for a global of a core instance, in bytes.
const GLOBAL_BYTES: u64 = 16;
/// The maximum number of memories with an image in a component. Each image takes a descriptor.
pub const MAX_IMAGES: u32 = 32;
/// The maximum size of all declarations of a component in bytes: the sections with its types, imports, exports,
/// aliases, functions, globals and elements, nested modules and components included. Core types count twice.
pub const MAX_DECLARATION_BYTES: u64 = 4 << 20;
/// The host's memory for a byte of declarations once they are loaded, besides the compiled form, in bytes. A case
/// of an enumeration with a name of two letters has three bytes and takes more than 80.
const METADATA_PER_BYTE: u64 = 40;

/// The contents of a component.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Bytes of its custom sections.
    pub(super) custom_bytes: u64,
    /// Bytes of the custom sections that name functions. Traps report these names.
    pub(super) name_bytes: u64,
    /// The modules whose memories must not have images, because the images would be too large or
    /// too many. For each, the position of the last instruction (`end`) of the offset of its
    /// first active data segment.
    pub(super) without_image: Vec<usize>,
    modules: usize,
    /// The size of an instance of the largest module, in bytes.
    largest_instance_bytes: u64,
    /// The memories that may have an image. Each image takes a descriptor.
    pub(super) images: u32,
    declaration_bytes: u64,
}

/// The reason why a component is refused.
#[derive(Debug)]
pub(super) enum CensusRefusal {
    /// It is not a valid component.
    Damaged(BinaryReaderError),
    /// It is beyond a limit, or uses what is not served. Continues a sentence that begins with the component's name.
    TooMuch(String),
}

impl From<BinaryReaderError> for CensusRefusal {
    fn from(why: BinaryReaderError) -> Self {
        Self::Damaged(why)
    }
}

/// Returns whether a custom section of this name holds function names.
pub(super) fn is_names(section: &str) -> bool {
    matches!(section, "name" | "component-name")
}

/// A module or component that is being read.
#[derive(Default)]
struct Frame {
    is_component: bool,
    whole: TotalSize,
    /// Each component in its index space; `None` for an imported component.
    components: Vec<Option<TotalSize>>,
    /// The size in bytes of an instance of each core module in its index space; `None` for a module
    /// that is imported or taken from an instance.
    modules: Vec<Option<u64>>,
}

/// The size of a component, including those that it instantiates, or of one instance of a module.
#[derive(Debug, Clone, Copy, Default)]
struct TotalSize {
    items: u64,
    /// The size of its core instances, in bytes.
    instance_bytes: u64,
    /// The number of core instances of which only another component knows the module.
    unknown_instances: u64,
}

impl TotalSize {
    fn add(&mut self, other: TotalSize) {
        self.items = self.items.saturating_add(other.items);
        self.instance_bytes = self.instance_bytes.saturating_add(other.instance_bytes);
        self.unknown_instances = self.unknown_instances.saturating_add(other.unknown_instances);
    }

    fn add_items(&mut self, items: u64) {
        self.add(TotalSize { items, ..TotalSize::default() });
    }
}

impl Frame {
    fn add_component(&mut self, component: Option<TotalSize>) -> Result<(), CensusRefusal> {
        // Each one takes memory, and an alias is only a few bytes long.
        if self.components.len() >= MAX_COMPONENTS {
            return Err(CensusRefusal::TooMuch(format!(
                "holds more than {MAX_COMPONENTS} components, aliases included, within one component; split it"
            )));
        }
        self.components.push(component);
        Ok(())
    }

    /// Counts a core instance.
    fn add_instance(&mut self, module_index: u32) {
        let known = self.module(module_index);
        self.whole.add(TotalSize {
            items: 0,
            instance_bytes: known.unwrap_or(0),
            unknown_instances: known.is_none().into(),
        });
    }

    fn module(&self, index: u32) -> Option<u64> {
        self.modules.get(index as usize).copied().flatten()
    }

    fn component(&self, index: u32) -> Option<TotalSize> {
        self.components.get(index as usize).copied().flatten()
    }
}

/// The data of one memory.
#[derive(Clone, Copy)]
struct Extent {
    memory: u32,
    bytes: u64,
    begins: u64,
    ends: u64,
}

impl Census {
    /// Counts the contents of a component.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, CensusRefusal> {
        let mut census = Self::default();
        let mut frames = vec![Frame { is_component: true, ..Frame::default() }];
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            census.count_declarations(&payload)?;
            match &payload {
                Payload::ModuleSection { .. } => {
                    census.modules += 1;
                    if census.modules > MAX_CORE_MODULES {
                        return Err(CensusRefusal::TooMuch(format!(
                            "has more than {MAX_CORE_MODULES} core modules, the most that a component may have; \
                             compose it of fewer, or split it into several components"
                        )));
                    }
                    enter(&mut frames, false)?;
                }
                Payload::ComponentSection { .. } => enter(&mut frames, true)?,
                Payload::End(_) => census.leave(&mut frames)?,
                Payload::ImportSection(section) => {
                    count_in_instance(&mut frames, section.count(), INSTANCE_ITEM_BYTES)
                }
                Payload::FunctionSection(section) => {
                    count_in_instance(&mut frames, section.count(), INSTANCE_ITEM_BYTES)
                }
                Payload::TableSection(section) => {
                    count_in_instance(&mut frames, section.count(), INSTANCE_ITEM_BYTES)
                }
                Payload::MemorySection(section) => {
                    count_in_instance(&mut frames, section.count(), INSTANCE_ITEM_BYTES)
                }
                Payload::GlobalSection(section) => {
                    count_in_instance(&mut frames, section.count(), GLOBAL_BYTES)
                }
                Payload::CustomSection(section) => {
                    let bytes = section.range().len() as u64;
                    census.custom_bytes += bytes;
                    census.name_bytes += if is_names(section.name()) { bytes } else { 0 };
                }
                Payload::ComponentCanonicalSection(functions) => {
                    for function in functions.clone() {
                        if let Some(why) = why_refused(&function?) {
                            return Err(CensusRefusal::TooMuch(why.to_owned()));
                        }
                    }
                    count_items(&mut frames, &payload)?;
                }
                Payload::DataSection(data) => census.count_data(bytes, data.clone())?,
                _ => count_items(&mut frames, &payload)?,
            }
        }
        Ok(census)
    }

    /// Returns the host's memory for the declarations once they are loaded, in bytes.
    pub(super) fn metadata_bytes(&self) -> u64 {
        self.declaration_bytes * METADATA_PER_BYTE
    }

    /// Counts a section whose entries take many times their size once they are loaded. Beyond the limit, its
    /// entries are not read.
    fn count_declarations(&mut self, payload: &Payload<'_>) -> Result<(), CensusRefusal> {
        let weight = match payload {
            Payload::ModuleSection { .. }
            | Payload::ComponentSection { .. }
            | Payload::CodeSectionStart { .. }
            | Payload::DataSection(_)
            | Payload::CustomSection(_) => 0,
            Payload::TypeSection(_) | Payload::CoreTypeSection(_) => 2,
            _ => 1,
        };
        let bytes = payload.as_section().map_or(0, |(_, range)| range.len() as u64);
        self.declaration_bytes += weight * bytes;
        match self.declaration_bytes > MAX_DECLARATION_BYTES {
            true => Err(CensusRefusal::TooMuch(format!(
                "has more than {MAX_DECLARATION_BYTES} bytes of types, imports, exports, functions and elements; \
                 split it into several components"
            ))),
            false => Ok(()),
        }
    }

    /// Ends a module or component.
    fn leave(&mut self, frames: &mut Vec<Frame>) -> Result<(), CensusRefusal> {
        let Some(Frame { is_component, whole, .. }) = frames.pop() else { return Ok(()) };
        match frames.last_mut() {
            Some(outer) if is_component => outer.add_component(Some(whole)),
            Some(outer) => {
                self.largest_instance_bytes = self.largest_instance_bytes.max(whole.instance_bytes);
                outer.modules.push(Some(whole.instance_bytes));
                Ok(())
            }
            None => self.check(whole),
        }
    }

    /// Checks the outermost component.
    fn check(&self, whole: TotalSize) -> Result<(), CensusRefusal> {
        if whole.items > MAX_COMPONENT_ITEMS {
            return Err(CensusRefusal::TooMuch(format!(
                "comes to more than {MAX_COMPONENT_ITEMS} items (instances, aliases, functions, imports and exports) \
                 where each nested component counts as often as it is instantiated; instantiate fewer"
            )));
        }
        let unknown_bytes = whole.unknown_instances.saturating_mul(self.largest_instance_bytes);
        let bytes = whole.instance_bytes.saturating_add(unknown_bytes);
        if bytes > MAX_INSTANCE_BYTES {
            return Err(CensusRefusal::TooMuch(format!(
                "has core instances with {bytes} bytes of globals, functions and imports; the limit is \
                 {MAX_INSTANCE_BYTES}; instantiate fewer modules, or smaller ones"
            )));
        }
        Ok(())
    }

    /// Decides whether the memories of a module get images.
    fn count_data(&mut self, bytes: &[u8], data: DataSectionReader<'_>) -> Result<(), CensusRefusal> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut first_offset = None;
        for segment in data {
            let segment = segment?;
            let DataKind::Active { memory_index, offset_expr } = segment.kind else { continue };
            // Any other offset is unknown until the module is instantiated, so the module gets no
            // images.
            let mut operators = offset_expr.get_operators_reader();
            let Operator::I32Const { value } = operators.read()? else { return Ok(()) };
            let Operator::End = operators.read()? else { return Ok(()) };
            let offset = u64::from(value.cast_unsigned());
            first_offset.get_or_insert(offset_expr.get_binary_reader().range().end.saturating_sub(1));
            let length = segment.data.len() as u64;
            let ends = offset + length;
            if length == 0 {
                continue;
            }
            if let Some(extent) = extents.iter_mut().find(|extent| extent.memory == memory_index) {
                extent.bytes += length;
                extent.begins = extent.begins.min(offset);
                extent.ends = extent.ends.max(ends);
                continue;
            }
            extents.push(Extent { memory: memory_index, bytes: length, begins: offset, ends });
            if extents.len() > MAX_IMAGES as usize {
                break;
            }
        }
        let Some(end) = first_offset.filter(|end| bytes.get(*end) == Some(&END)) else { return Ok(()) };
        // It exceeds `MAX_IMAGES` by at most one.
        let images = self.images + u32::try_from(extents.len()).unwrap_or(MAX_IMAGES);
        if extents.iter().any(Extent::is_sparse) || images > MAX_IMAGES {
            self.without_image.push(end);
        } else {
            self.images = images;
        }
        Ok(())
    }
}

/// The reason why a component that uses the component model's asynchronous functions is refused. Continues a
/// sentence that begins with its name. The toolchains build for WASI 0.2 with the settings that
/// `docs/plain-components.md` lists.
pub(crate) const ASYNC: &str = "uses asynchronous functions of the component model (WASI 0.3), which this host does not \
     run, because its limits do not cover them; build it for WASI 0.2: in Rust for wasm32-wasip2, with \
     componentize-qjs --sync, with jco componentize --backend-qjs-disable-async, with componentize-py for a world of \
     WASI 0.2, with wit-bindgen for C, Go and others without `async`";

/// The reason why a component that encodes texts as latin1+utf16 is refused. Continues a sentence that begins with
/// its name. wasmtime decodes these texts with `encoding_rs`, which the profiles `dev` and `release` do not optimize:
/// 16 MiB take 4 s there, and 0.1 s in `dist`. UTF-16 takes 0.05 s in each.
const COMPACT_TEXT: &str = "encodes texts as latin1+utf16, which this host refuses, because no limit ends a call while \
     such a text is decoded; build it with utf8, the default of toolchains, or with utf16";

/// Returns the reason why a component with this function is refused: asynchronous functions or threads of the
/// component model, or texts that are encoded as latin1+utf16.
fn why_refused(function: &CanonicalFunction) -> Option<&'static str> {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.iter().find_map(|option| match option {
                CanonicalOption::Async | CanonicalOption::Callback(_) => Some(ASYNC),
                CanonicalOption::CompactUTF16 => Some(COMPACT_TEXT),
                _ => None,
            })
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => None,
        _ => Some(ASYNC),
    }
}

/// The opcode that ends an expression.
const END: u8 = 0x0b;

impl Extent {
    fn is_sparse(&self) -> bool {
        self.ends - self.begins > 2 * self.bytes + IMAGE_SLACK_BYTES
    }
}

fn enter(frames: &mut Vec<Frame>, is_component: bool) -> Result<(), CensusRefusal> {
    if frames.len() > MAX_NESTING {
        return Err(CensusRefusal::TooMuch(format!(
            "nests components more than {MAX_NESTING} deep, which is the limit; flatten it"
        )));
    }
    frames.push(Frame { is_component, ..Frame::default() });
    Ok(())
}

/// Counts parts of a module that take memory in each of its instances.
fn count_in_instance(frames: &mut [Frame], count: u32, each_bytes: u64) {
    if let Some(module) = frames.last_mut() {
        module.whole.add(TotalSize { instance_bytes: u64::from(count) * each_bytes, ..TotalSize::default() });
    }
}

fn count_items(frames: &mut [Frame], payload: &Payload<'_>) -> Result<(), CensusRefusal> {
    let Some((frame, outer)) = frames.split_last_mut() else { return Ok(()) };
    let count = match payload {
        Payload::InstanceSection(section) => {
            for instance in section.clone() {
                if let Instance::Instantiate { module_index, .. } = instance? {
                    frame.add_instance(module_index);
                }
            }
            section.count()
        }
        Payload::ComponentCanonicalSection(section) => section.count(),
        Payload::ComponentImportSection(section) => {
            for import in section.clone() {
                match import?.ty {
                    ComponentTypeRef::Component(_) => frame.add_component(None)?,
                    ComponentTypeRef::Module(_) => frame.modules.push(None),
                    _ => {}
                }
            }
            section.count()
        }
        Payload::ComponentExportSection(section) => {
            for export in section.clone() {
                let export = export?;
                match export.kind {
                    ComponentExternalKind::Component => frame.add_component(frame.component(export.index))?,
                    ComponentExternalKind::Module => frame.modules.push(frame.module(export.index)),
                    _ => {}
                }
            }
            section.count()
        }
        Payload::ComponentAliasSection(section) => {
            for alias in section.clone() {
                count_alias(frame, outer, &alias?)?;
            }
            section.count()
        }
        Payload::ComponentInstanceSection(section) => {
            for instance in section.clone() {
                count_instance(frame, &instance?)?;
            }
            section.count()
        }
        _ => 0,
    };
    frame.whole.add_items(count.into());
    Ok(())
}

/// Counts what an alias adds to the frame; `outer` are the frames around it, the innermost last.
fn count_alias(frame: &mut Frame, outer: &[Frame], alias: &ComponentAlias<'_>) -> Result<(), CensusRefusal> {
    match *alias {
        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
            frame.add_component(None)?;
        }
        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Module, .. } => {
            frame.modules.push(None);
        }
        ComponentAlias::Outer { kind, count, index } => {
            let of = match (count as usize).checked_sub(1) {
                None => Some(&*frame),
                Some(up) => outer.iter().rev().nth(up),
            };
            match kind {
                ComponentOuterAliasKind::Component => {
                    let component = of.and_then(|of| of.component(index));
                    frame.add_component(component)?;
                }
                ComponentOuterAliasKind::CoreModule => {
                    let module = of.and_then(|of| of.module(index));
                    frame.modules.push(module);
                }
                _ => {}
            }
        }
        _ => {}
    }
    Ok(())
}

fn count_instance(frame: &mut Frame, instance: &ComponentInstance<'_>) -> Result<(), CensusRefusal> {
    match instance {
        ComponentInstance::FromExports(exports) => frame.whole.add_items(exports.len() as u64),
        ComponentInstance::Instantiate { component_index, args } => {
            // The size of an imported component is unknown here, and could double with each level
            // of nesting.
            let component = frame.component(*component_index).ok_or_else(|| {
                CensusRefusal::TooMuch(
                    "instantiates a component that it imports or takes from an instance, which this host \
                     does not accept; nest that component instead"
                        .to_owned(),
                )
            })?;
            frame.whole.add(component);
            frame.whole.add_items(args.len() as u64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn number(mut number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
        bytes
    }

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        [vec![id], number(content.len()), content.to_vec()].concat()
    }

    fn component(sections: &[Vec<u8>]) -> Vec<u8> {
        [b"\0asm\x0d\0\x01\0".to_vec(), sections.concat()].concat()
    }

    fn module(globals: usize) -> Vec<u8> {
        // The type i32, which does not change, and its value 0.
        let globals = [number(globals), [0x7f, 0, 0x41, 0, END].repeat(globals)].concat();
        section(1, &[b"\0asm\x01\0\0\0".to_vec(), section(6, &globals)].concat())
    }

    fn core_instances(count: usize) -> Vec<u8> {
        section(2, &[number(count), [0, 0, 0].repeat(count)].concat())
    }

    #[test]
    fn z4_core_instances_are_bounded_together_however_they_are_nested() {
        let globals = 10_000;
        let most = usize::try_from(MAX_INSTANCE_BYTES / GLOBAL_BYTES).unwrap() / globals;
        let check = |sections: &[Vec<u8>]| match Census::of(&component(sections)) {
            Ok(_) => String::new(),
            Err(CensusRefusal::TooMuch(why)) => why,
            Err(CensusRefusal::Damaged(why)) => why.to_string(),
        };
        assert_eq!(check(&[module(globals), core_instances(most)]), "");
        let why = check(&[module(globals), core_instances(most + 1)]);
        assert!(why.starts_with("has core instances with 16800000 bytes of globals"), "{why}");

        // A nested component that is instantiated so often, with one instance in it.
        let nested = section(4, &component(&[module(globals), core_instances(1)]));
        let instances = |count: usize| section(5, &[number(count), [0, 0, 0].repeat(count)].concat());
        assert_eq!(check(&[nested.clone(), instances(most)]), "");
        assert!(check(&[nested.clone(), instances(most + 1)]).starts_with("has core instances"));

        // A module that is taken from elsewhere counts as the largest one.
        let imported = section(10, &[&[1, 0, 1, b'm'][..], &[0, 0x11, 0]].concat());
        let module_type = section(3, &[1, 0x50, 0]);
        let taking = section(4, &component(&[module_type, imported, core_instances(most + 1)]));
        assert!(check(&[taking, module(globals), instances(1)]).starts_with("has core instances"));
    }

    #[test]
    fn z4_declarations_are_bounded_wherever_they_are() {
        let of = |sections: &[Vec<u8>]| Census::of(&component(sections));
        let why = |sections: &[Vec<u8>]| match of(sections) {
            Err(CensusRefusal::TooMuch(why)) => why,
            other => format!("{other:?}"),
        };
        let most = usize::try_from(MAX_DECLARATION_BYTES).unwrap();
        // The count of a section is a byte, too.
        let types = |bytes: usize| section(7, &[vec![1], vec![0; bytes - 1]].concat());
        assert_eq!(of(&[types(1_000)]).unwrap().metadata_bytes(), 1_000 * METADATA_PER_BYTE);
        assert_eq!(of(&[types(most)]).unwrap().declaration_bytes, MAX_DECLARATION_BYTES);
        assert!(why(&[types(most + 1)]).starts_with("has more than 4194304 bytes of types"));

        // A module that is never instantiated has exports, and types, which count twice.
        let module = |id: u8, bytes: usize| {
            let declared = section(id, &[vec![1], vec![0; bytes - 1]].concat());
            section(1, &[b"\0asm\x01\0\0\0".to_vec(), declared].concat())
        };
        assert_eq!(of(&[module(7, 1_000), module(1, 1_000)]).unwrap().declaration_bytes, 3_000);
        let nested = section(4, &component(&[module(7, most / 2), types(most / 2)]));
        assert!(of(std::slice::from_ref(&nested)).is_ok());
        assert!(why(&[nested, types(1)]).starts_with("has more than 4194304 bytes of types"));

        // The host would remember each alias of a module before it counts the items of all of them.
        let aliases = 1_000_000;
        let alias = [0, 0x11, 2, 0, 0].repeat(aliases);
        let aliases = section(6, &[number(aliases), alias].concat());
        assert!(why(&[module(7, 1), aliases]).starts_with("has more than 4194304 bytes of types"));
    }
}
