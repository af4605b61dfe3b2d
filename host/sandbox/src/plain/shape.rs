//! A WIT type whose values can be written as JSON.
//!
//! Types refer to other types, so a short definition can expand to a huge one. Reading a shape is
//! limited in the number of parts and in depth.

use std::collections::HashMap;
use std::fmt;
use wasmtime::component::{Type, Val, types};

/// The maximum number of parts in the expanded types of one function.
const MAX_PARTS: usize = 2_000;
/// The maximum total length of the names in them, expanded, in bytes.
const MAX_NAMES_BYTES: usize = 64 * 1024;
/// The maximum nesting depth of its types.
const MAX_DEPTH: usize = 24;

/// The form of a type's values. Names are those of WIT.
#[derive(Debug)]
pub(super) enum Shape {
    Bool,
    Integer(Integer),
    F32,
    F64,
    Char,
    String,
    List(Box<Shape>),
    Tuple(Vec<Shape>),
    Record(Vec<(String, Shape)>),
    Variant(NamedItems<Option<Shape>>),
    Enum(NamedItems<()>),
    Option(Box<Shape>),
    Result(Option<Box<Shape>>, Option<Box<Shape>>),
    Flags(Vec<String>),
}

/// Items by name, in the order of the type. Lookup does not scan the items, because the guest
/// determines how many there are and how often they are looked up.
#[derive(Debug)]
pub(super) struct NamedItems<T> {
    in_order: Vec<(String, T)>,
    places: HashMap<String, usize>,
}

impl<T> NamedItems<T> {
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.places.get(name).map(|place| &self.in_order[*place].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.in_order.iter().map(|(name, thing)| (name.as_str(), thing))
    }
}

impl<T> FromIterator<(String, T)> for NamedItems<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(things: I) -> Self {
        let in_order: Vec<(String, T)> = things.into_iter().collect();
        let places = in_order.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        Self { in_order, places }
    }
}

/// An integer's width and sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integer {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

impl Integer {
    /// Returns the minimum and the maximum.
    pub(super) fn range(self) -> (i128, i128) {
        match self {
            Integer::S8 => (i8::MIN.into(), i8::MAX.into()),
            Integer::U8 => (0, u8::MAX.into()),
            Integer::S16 => (i16::MIN.into(), i16::MAX.into()),
            Integer::U16 => (0, u16::MAX.into()),
            Integer::S32 => (i32::MIN.into(), i32::MAX.into()),
            Integer::U32 => (0, u32::MAX.into()),
            Integer::S64 => (i64::MIN.into(), i64::MAX.into()),
            Integer::U64 => (0, u64::MAX.into()),
        }
    }

    /// Returns the value of this type; `None` if the number is out of range.
    pub(super) fn val(self, number: i128) -> Option<Val> {
        Some(match self {
            Integer::S8 => Val::S8(number.try_into().ok()?),
            Integer::U8 => Val::U8(number.try_into().ok()?),
            Integer::S16 => Val::S16(number.try_into().ok()?),
            Integer::U16 => Val::U16(number.try_into().ok()?),
            Integer::S32 => Val::S32(number.try_into().ok()?),
            Integer::U32 => Val::U32(number.try_into().ok()?),
            Integer::S64 => Val::S64(number.try_into().ok()?),
            Integer::U64 => Val::U64(number.try_into().ok()?),
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Integer::S8 => "s8",
            Integer::U8 => "u8",
            Integer::S16 => "s16",
            Integer::U16 => "u16",
            Integer::S32 => "s32",
            Integer::U32 => "u32",
            Integer::S64 => "s64",
            Integer::U64 => "u64",
        }
    }
}

impl Shape {
    /// Returns whether `null` is one of its values, so that an option of it needs another
    /// representation of `none`.
    pub(super) fn has_null(&self) -> bool {
        matches!(self, Shape::Option(_))
    }

    /// Returns whether a list in it has such shapes among its elements, at any depth.
    pub(super) fn lists(&self, is: fn(&Shape) -> bool) -> bool {
        match self {
            Shape::List(of) => of.has(is),
            other => other.parts().any(|part| part.lists(is)),
        }
    }

    /// Returns whether it is a set of flags.
    pub(super) fn is_flags(&self) -> bool {
        matches!(self, Shape::Flags(_))
    }

    /// Returns whether the engine creates a string for each of its values or fields: a name.
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Shape::Record(_) | Shape::Variant(_) | Shape::Enum(_))
    }

    /// Returns whether it is a tuple of one value.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Shape::Tuple(parts) if parts.len() == 1)
    }

    /// Returns whether it is a tuple of two or three values.
    pub(super) fn is_short_tuple(&self) -> bool {
        matches!(self, Shape::Tuple(parts) if (2..4).contains(&parts.len()))
    }

    fn has(&self, is: fn(&Shape) -> bool) -> bool {
        is(self) || self.parts().any(|part| part.has(is))
    }

    /// Returns the shapes that it consists of.
    fn parts(&self) -> Box<dyn Iterator<Item = &Shape> + '_> {
        match self {
            Shape::List(of) | Shape::Option(of) => Box::new(std::iter::once(&**of)),
            Shape::Tuple(of) => Box::new(of.iter()),
            Shape::Record(fields) => Box::new(fields.iter().map(|(_, shape)| shape)),
            Shape::Variant(cases) => Box::new(cases.iter().filter_map(|(_, shape)| shape.as_ref())),
            Shape::Result(ok, err) => Box::new(ok.iter().chain(err).map(|shape| &**shape)),
            _ => Box::new(std::iter::empty()),
        }
    }
}

/// Reads the types of one function.
pub(super) struct Reader {
    parts_left: usize,
    name_bytes_left: usize,
    depth: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { parts_left: MAX_PARTS, name_bytes_left: MAX_NAMES_BYTES, depth: 0 }
    }

    /// Returns the shape of a type, or why its values cannot be written as JSON.
    pub(super) fn read(&mut self, given: &Type) -> Result<Shape, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("its types nest deeper than {MAX_DEPTH} levels"));
        }
        self.take(1)?;
        self.depth += 1;
        let shape = self.read_within(given);
        self.depth -= 1;
        shape
    }

    fn read_within(&mut self, given: &Type) -> Result<Shape, String> {
        Ok(match given {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Integer(Integer::S8),
            Type::U8 => Shape::Integer(Integer::U8),
            Type::S16 => Shape::Integer(Integer::S16),
            Type::U16 => Shape::Integer(Integer::U16),
            Type::S32 => Shape::Integer(Integer::S32),
            Type::U32 => Shape::Integer(Integer::U32),
            Type::S64 => Shape::Integer(Integer::S64),
            Type::U64 => Shape::Integer(Integer::U64),
            Type::Float32 => Shape::F32,
            Type::Float64 => Shape::F64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::List(list) => Shape::List(Box::new(self.read(&list.ty())?)),
            Type::Tuple(tuple) => {
                Shape::Tuple(tuple.types().map(|of| self.read(&of)).collect::<Result<_, _>>()?)
            }
            Type::Record(record) => Shape::Record(self.fields(record)?),
            Type::Variant(variant) => Shape::Variant(self.cases(variant)?),
            Type::Enum(names) => Shape::Enum(
                names.names().map(|name| Ok((self.name(name)?, ()))).collect::<Result<_, String>>()?,
            ),
            Type::Flags(names) => {
                Shape::Flags(names.names().map(|name| self.name(name)).collect::<Result<_, String>>()?)
            }
            Type::Option(option) => Shape::Option(Box::new(self.read(&option.ty())?)),
            Type::Result(result) => Shape::Result(self.payload(result.ok())?, self.payload(result.err())?),
            Type::Own(_) | Type::Borrow(_) => {
                return Err(
                    "it takes or returns a resource, which would end with the call: each call has an \
                            instance of its own"
                        .to_owned(),
                );
            }
            Type::Future(_) | Type::Stream(_) | Type::ErrorContext => {
                return Err(
                    "it takes or returns a future, a stream or an error context, which are not values"
                        .to_owned(),
                );
            }
            Type::Map(_) | Type::FixedLengthList(_) => {
                return Err(
                    "it uses a map or a list of fixed length, which this host does not support".to_owned()
                );
            }
        })
    }

    fn fields(&mut self, record: &types::Record) -> Result<Vec<(String, Shape)>, String> {
        record.fields().map(|field| Ok((self.name(field.name)?, self.read(&field.ty)?))).collect()
    }

    fn cases(&mut self, variant: &types::Variant) -> Result<NamedItems<Option<Shape>>, String> {
        let case = |case: types::Case<'_>| {
            Ok((self.name(case.name)?, case.ty.map(|of| self.read(&of)).transpose()?))
        };
        variant.cases().map(case).collect()
    }

    /// Reads a name within a type, or of a parameter.
    pub(super) fn name(&mut self, name: &str) -> Result<String, String> {
        self.take(1)?;
        let left = self.name_bytes_left.checked_sub(name.len());
        self.name_bytes_left =
            left.ok_or_else(|| format!("the names in its types come to more than {MAX_NAMES_BYTES} bytes"))?;
        Ok(name.to_owned())
    }

    fn payload(&mut self, of: Option<Type>) -> Result<Option<Box<Shape>>, String> {
        of.map(|of| self.read(&of).map(Box::new)).transpose()
    }

    fn take(&mut self, parts: usize) -> Result<(), String> {
        let left = self.parts_left.checked_sub(parts);
        self.parts_left =
            left.ok_or_else(|| format!("its types have more than {MAX_PARTS} parts, names included"))?;
        Ok(())
    }
}

/// Writes WIT syntax, expanding types.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Bool => f.write_str("bool"),
            Shape::Integer(integer) => f.write_str(integer.as_str()),
            Shape::F32 => f.write_str("f32"),
            Shape::F64 => f.write_str("f64"),
            Shape::Char => f.write_str("char"),
            Shape::String => f.write_str("string"),
            Shape::List(of) => write!(f, "list<{of}>"),
            Shape::Option(of) => write!(f, "option<{of}>"),
            Shape::Tuple(of) => {
                f.write_str("tuple<")?;
                separated(f, of, |f, shape| write!(f, "{shape}"))?;
                f.write_str(">")
            }
            Shape::Record(fields) => {
                f.write_str("record { ")?;
                separated(f, fields, |f, (name, shape)| write!(f, "{name}: {shape}"))?;
                f.write_str(" }")
            }
            Shape::Variant(cases) => {
                f.write_str("variant { ")?;
                separated(f, cases.iter(), |f, (name, shape)| match shape {
                    Some(shape) => write!(f, "{name}({shape})"),
                    None => f.write_str(name),
                })?;
                f.write_str(" }")
            }
            Shape::Enum(names) => {
                f.write_str("enum { ")?;
                separated(f, names.iter(), |f, (name, ())| f.write_str(name))?;
                f.write_str(" }")
            }
            Shape::Flags(names) => write!(f, "flags {{ {} }}", names.join(", ")),
            Shape::Result(None, None) => f.write_str("result"),
            Shape::Result(Some(ok), None) => write!(f, "result<{ok}>"),
            Shape::Result(None, Some(err)) => write!(f, "result<_, {err}>"),
            Shape::Result(Some(ok), Some(err)) => write!(f, "result<{ok}, {err}>"),
        }
    }
}

/// Writes parts separated by commas.
pub(super) fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    parts: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        each(f, part)?;
    }
    Ok(())
}
