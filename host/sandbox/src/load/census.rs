//! Counts the contents of a component before it is compiled.
//!
//! A component of a few kilobytes can describe gigabytes. Data segments at distant offsets become
//! one image of everything between them, and nested components may each instantiate another one
//! twice. All of it is counted here from the bytes alone, in one pass, so that a component beyond
//! a limit costs nothing more.

use wasmparser::{
    BinaryReaderError, CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind,
    ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef, DataKind, DataSectionReader, Operator,
    Parser, Payload,
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
/// How many bytes the image of a memory may exceed twice its data. Go omits runs of zeros, so its
/// images are two thirds larger than their data.
pub const IMAGE_SLACK_BYTES: u64 = 64 << 10;
/// The maximum number of memories with an image in a component. Each image takes a descriptor.
pub const MAX_IMAGES: u32 = 32;

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
    /// The memories that may have an image. Each image takes a descriptor.
    pub(super) images: u32,
}

/// The reason why a component is refused.
#[derive(Debug)]
pub(super) enum Uncounted {
    /// It is not a valid component.
    Damaged(BinaryReaderError),
    /// It is beyond a limit, or uses what is not served. Continues a sentence that begins with the component's name.
    TooMuch(String),
}

impl From<BinaryReaderError> for Uncounted {
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
    /// Items, including those of the components that it instantiates.
    items: u64,
    /// The items of each component in its index space; `None` for an imported component.
    components: Vec<Option<u64>>,
}

impl Frame {
    fn add_component(&mut self, items: Option<u64>) -> Result<(), Uncounted> {
        // Each one takes memory, and an alias is only a few bytes long.
        if self.components.len() >= MAX_COMPONENTS {
            return Err(Uncounted::TooMuch(format!(
                "holds more than {MAX_COMPONENTS} components, aliases included, within one component; split it"
            )));
        }
        self.components.push(items);
        Ok(())
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
    pub(super) fn of(bytes: &[u8]) -> Result<Self, Uncounted> {
        let mut census = Self::default();
        let mut frames = vec![Frame { is_component: true, ..Frame::default() }];
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            match &payload {
                Payload::ModuleSection { .. } => {
                    census.modules += 1;
                    if census.modules > MAX_CORE_MODULES {
                        return Err(Uncounted::TooMuch(format!(
                            "has more than {MAX_CORE_MODULES} core modules, the most that a component may have; \
                             compose it of fewer, or split it into several components"
                        )));
                    }
                    enter(&mut frames, false)?;
                }
                Payload::ComponentSection { .. } => enter(&mut frames, true)?,
                Payload::End(_) => leave(&mut frames)?,
                Payload::CustomSection(section) => {
                    let bytes = section.range().len() as u64;
                    census.custom_bytes += bytes;
                    census.name_bytes += if is_names(section.name()) { bytes } else { 0 };
                }
                Payload::ComponentCanonicalSection(functions) => {
                    for function in functions.clone() {
                        if is_asynchronous(&function?) {
                            return Err(Uncounted::TooMuch(ASYNC.to_owned()));
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

    /// Decides whether the memories of a module get images.
    fn count_data(&mut self, bytes: &[u8], data: DataSectionReader<'_>) -> Result<(), Uncounted> {
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

/// Why a component that uses the component model's asynchronous functions is refused. Continues a
/// sentence that begins with its name. The toolchains build for WASI 0.2 with the settings that
/// `docs/plain-components.md` lists.
const ASYNC: &str = "uses asynchronous functions of the component model (WASI 0.3), which this host does not run, \
     because its limits do not cover them; build it for WASI 0.2: in Rust for wasm32-wasip2, with \
     componentize-qjs --sync, with componentize-py for a world of WASI 0.2, with wit-bindgen without `async`";

/// Returns whether a function belongs to the component model's asynchronous functions or threads.
fn is_asynchronous(function: &CanonicalFunction) -> bool {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => options
            .iter()
            .any(|option| matches!(option, CanonicalOption::Async | CanonicalOption::Callback(_))),
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => false,
        _ => true,
    }
}

/// The opcode that ends an expression.
const END: u8 = 0x0b;

impl Extent {
    fn is_sparse(&self) -> bool {
        self.ends - self.begins > 2 * self.bytes + IMAGE_SLACK_BYTES
    }
}

fn enter(frames: &mut Vec<Frame>, is_component: bool) -> Result<(), Uncounted> {
    if frames.len() > MAX_NESTING {
        return Err(Uncounted::TooMuch(format!(
            "nests components more than {MAX_NESTING} deep, which is the limit; flatten it"
        )));
    }
    frames.push(Frame { is_component, ..Frame::default() });
    Ok(())
}

fn leave(frames: &mut Vec<Frame>) -> Result<(), Uncounted> {
    let Some(done) = frames.pop().filter(|done| done.is_component) else { return Ok(()) };
    match frames.last_mut() {
        Some(outer) => outer.add_component(Some(done.items))?,
        None if done.items > MAX_COMPONENT_ITEMS => {
            return Err(Uncounted::TooMuch(format!(
                "comes to more than {MAX_COMPONENT_ITEMS} items (instances, aliases, functions, imports and exports) \
                 where each nested component counts as often as it is instantiated; instantiate fewer"
            )));
        }
        None => {}
    }
    Ok(())
}

fn count_items(frames: &mut [Frame], payload: &Payload<'_>) -> Result<(), Uncounted> {
    let Some((frame, outer)) = frames.split_last_mut() else { return Ok(()) };
    let count = match payload {
        Payload::InstanceSection(section) => section.count(),
        Payload::ComponentCanonicalSection(section) => section.count(),
        Payload::ComponentImportSection(section) => {
            for import in section.clone() {
                if let ComponentTypeRef::Component(_) = import?.ty {
                    frame.add_component(None)?;
                }
            }
            section.count()
        }
        Payload::ComponentExportSection(section) => {
            for export in section.clone() {
                let export = export?;
                if export.kind == ComponentExternalKind::Component {
                    frame.add_component(items_of(&frame.components, export.index))?;
                }
            }
            section.count()
        }
        Payload::ComponentAliasSection(section) => {
            for alias in section.clone() {
                match alias? {
                    ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
                        frame.add_component(None)?;
                    }
                    ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                        let items = match (count as usize).checked_sub(1) {
                            None => items_of(&frame.components, index),
                            Some(up) => {
                                outer.iter().rev().nth(up).and_then(|f| items_of(&f.components, index))
                            }
                        };
                        frame.add_component(items)?;
                    }
                    _ => {}
                }
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
    frame.items = frame.items.saturating_add(count.into());
    Ok(())
}

fn count_instance(frame: &mut Frame, instance: &ComponentInstance<'_>) -> Result<(), Uncounted> {
    let items = match instance {
        ComponentInstance::FromExports(exports) => exports.len() as u64,
        ComponentInstance::Instantiate { component_index, args } => {
            // The size of an imported component is unknown here, and could double with each level
            // of nesting.
            let items = items_of(&frame.components, *component_index).ok_or_else(|| {
                Uncounted::TooMuch(
                    "instantiates a component that it imports or takes from an instance, which this host \
                     does not accept; nest that component instead"
                        .to_owned(),
                )
            })?;
            items.saturating_add(args.len() as u64)
        }
    };
    frame.items = frame.items.saturating_add(items);
    Ok(())
}

fn items_of(components: &[Option<u64>], index: u32) -> Option<u64> {
    components.get(index as usize).copied().flatten()
}
