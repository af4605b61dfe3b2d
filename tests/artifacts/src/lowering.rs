//! Lays out JSON values in memory according to the Canonical ABI.
//!
//! A record's missing field is all zeros: none, an empty list, false, the first case. A string
//! may be given as any other JSON, whose text is then used. Long values have short forms:
//! `{"$repeat": ["ab", 1000]}` is a long string or, if a list is expected, one element repeated,
//! with aliased strings; `{"$join": ["a", "b"]}` is one string, and `{"$count": ["@ before @+1",
//! 3]}` is that text for 0, 1 and 2, separated by commas.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use wit_parser::{Int, Resolve, SizeAlign, Type, TypeDefKind};

/// The keys of the short forms of long values.
const BUILDERS: &[&str] = &["$repeat", "$join", "$count"];

/// Memory that is being filled, starting at an address.
pub(crate) struct Image<'a> {
    resolve: &'a Resolve,
    sizes: SizeAlign,
    base: usize,
    /// The contents, starting with the byte at the base.
    pub(crate) bytes: Vec<u8>,
}

impl<'a> Image<'a> {
    pub(crate) fn new(resolve: &'a Resolve, base: usize) -> Image<'a> {
        let mut sizes = SizeAlign::default();
        sizes.fill(resolve);
        Image { resolve, sizes, base, bytes: Vec::new() }
    }

    /// Returns the first address after the contents.
    pub(crate) fn end(&self) -> usize {
        self.base + self.bytes.len()
    }

    /// Lays out the value and returns its address.
    pub(crate) fn lower(&mut self, ty: &Type, value: &Value) -> Result<usize> {
        let address = self.room(self.size(ty), self.align(ty));
        self.store(ty, value, address)?;
        Ok(address)
    }

    fn store(&mut self, ty: &Type, value: &Value, at: usize) -> Result<()> {
        match ty {
            Type::Bool => self.write(at, &[u8::from(value == &Value::Bool(true))]),
            Type::U32 => self.write(at, &u32::try_from(whole(value)?)?.to_le_bytes()),
            Type::U64 => self.write(at, &whole(value)?.to_le_bytes()),
            Type::String => self.store_string(&string(value)?, at)?,
            Type::Id(id) => {
                let resolve = self.resolve;
                self.store_defined(&resolve.types[*id].kind, value, at)?;
            }
            other => bail!("the contract has no {other:?}; teach the lowering what it is"),
        }
        Ok(())
    }

    fn store_defined(&mut self, kind: &'a TypeDefKind, value: &Value, at: usize) -> Result<()> {
        match kind {
            TypeDefKind::Type(ty) => self.store(ty, value, at),
            TypeDefKind::Record(record) => {
                let fields: Vec<(&str, &Type)> =
                    record.fields.iter().map(|f| (f.name.as_str(), &f.ty)).collect();
                self.store_record(&fields, value, at)
            }
            TypeDefKind::List(element) => self.store_list(element, value, at),
            TypeDefKind::Enum(cases) => {
                let names: Vec<_> = cases.cases.iter().map(|c| (c.name.as_str(), None)).collect();
                self.store_case(cases.tag(), &names, value, at)
            }
            TypeDefKind::Variant(variant) => {
                let cases: Vec<_> = variant.cases.iter().map(|c| (c.name.as_str(), c.ty.as_ref())).collect();
                self.store_case(variant.tag(), &cases, value, at)
            }
            TypeDefKind::Result(result) => {
                let cases = [("ok", result.ok.as_ref()), ("err", result.err.as_ref())];
                self.store_case(Int::U8, &cases, value, at)
            }
            TypeDefKind::Option(some) => {
                let cases = [("none", None), ("some", Some(some))];
                let value = match value {
                    Value::Null => "none".into(),
                    present => serde_json::json!({ "some": present }),
                };
                self.store_case(Int::U8, &cases, &value, at)
            }
            other => bail!("the contract has no {}; teach the lowering it", other.as_str()),
        }
    }

    fn store_record(&mut self, fields: &[(&str, &Type)], value: &Value, at: usize) -> Result<()> {
        let given = value.as_object().with_context(|| format!("{value} is not a record"))?;
        if let Some(stranger) = given.keys().find(|key| fields.iter().all(|(name, _)| name != key)) {
            bail!("there is no field `{stranger}`");
        }
        let offsets = self.sizes.field_offsets(fields.iter().map(|(_, ty)| *ty));
        let offsets: Vec<usize> = offsets.iter().map(|(offset, _)| offset.size_wasm32()).collect();
        for ((name, ty), offset) in fields.iter().zip(offsets) {
            if let Some(field) = given.get(*name) {
                self.store(ty, field, at + offset).with_context(|| format!("in `{name}`"))?;
            }
        }
        Ok(())
    }

    fn store_case(
        &mut self,
        tag: Int,
        cases: &[(&str, Option<&Type>)],
        value: &Value,
        at: usize,
    ) -> Result<()> {
        let (name, payload) = match value {
            Value::String(name) => (name, None),
            Value::Object(case) if case.len() == 1 => {
                case.iter().next().map(|(name, payload)| (name, Some(payload))).context("a case")?
            }
            _ => bail!("{value} is neither a case's name nor {{\"case\": payload}}"),
        };
        let index = cases.iter().position(|(case, _)| case == name);
        let index = index.with_context(|| format!("there is no case `{name}`"))?;
        self.write(at, &[u8::try_from(index)?]);
        if let (Some(ty), Some(payload)) = (cases[index].1, payload) {
            let offset = self.sizes.payload_offset(tag, cases.iter().map(|(_, ty)| *ty));
            self.store(ty, payload, at + offset.size_wasm32())?;
        }
        Ok(())
    }

    fn store_list(&mut self, element: &Type, value: &Value, at: usize) -> Result<()> {
        let (elements, times) = match (value, repeat(value)) {
            (_, Some((element, times))) => (std::slice::from_ref(element), times),
            (Value::Array(elements), None) => (elements.as_slice(), 1),
            _ => bail!("{value} is not a list"),
        };
        let size = self.size(element);
        let first = self.room(size * elements.len() * times, self.align(element));
        for (index, value) in elements.iter().enumerate() {
            self.store(element, value, first + index * size)?;
        }
        let once = first - self.base..first - self.base + size * elements.len();
        for repetition in 1..times {
            let to = once.start + repetition * once.len();
            self.bytes.copy_within(once.clone(), to);
        }
        self.write_span(at, first, elements.len() * times)
    }

    fn store_string(&mut self, text: &str, at: usize) -> Result<()> {
        let address = self.room(text.len(), 1);
        self.write(address, text.as_bytes());
        self.write_span(at, address, text.len())
    }

    fn write_span(&mut self, at: usize, address: usize, length: usize) -> Result<()> {
        self.write(at, &u32::try_from(address)?.to_le_bytes());
        self.write(at + 4, &u32::try_from(length)?.to_le_bytes());
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let start = at - self.base;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends zeros of this size and alignment.
    fn room(&mut self, size: usize, align: usize) -> usize {
        let start = self.end().next_multiple_of(align);
        self.bytes.resize(start + size - self.base, 0);
        start
    }

    fn size(&self, ty: &Type) -> usize {
        self.sizes.size(ty).size_wasm32()
    }

    fn align(&self, ty: &Type) -> usize {
        self.sizes.align(ty).align_wasm32()
    }
}

fn whole(value: &Value) -> Result<u64> {
    value.as_u64().with_context(|| format!("{value} is not a whole number"))
}

/// Returns the text that the value builds.
pub(crate) fn string(value: &Value) -> Result<String> {
    if let Some((part, times)) = repeat(value) {
        return Ok(string(part)?.repeat(times));
    }
    if let Some(parts) = value.get("$join").and_then(Value::as_array) {
        return parts.iter().map(string).collect();
    }
    if let Some((Value::String(text), times)) = times(value, "$count") {
        let numbered: Vec<String> = (0..times).map(|number| numbered(text, number)).collect();
        return Ok(numbered.join(","));
    }
    if let Some(unknown) =
        value.as_object().and_then(|map| map.keys().find(|k| BUILDERS.contains(&k.as_str())))
    {
        bail!("`{unknown}` does not fit here, or is not written as it should be");
    }
    Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn repeat(value: &Value) -> Option<(&Value, usize)> {
    times(value, "$repeat")
}

/// Returns the two parts of `{"key": [what, times]}`.
fn times<'v>(value: &'v Value, key: &str) -> Option<(&'v Value, usize)> {
    let [what, times] = value.get(key)?.as_array()?.as_slice() else {
        return None;
    };
    Some((what, usize::try_from(times.as_u64()?).ok()?))
}

fn numbered(text: &str, number: usize) -> String {
    text.replace("@+1", &(number + 1).to_string()).replace('@', &number.to_string())
}
