//! A compiled schema: a list of subschemas, each with a list of keywords.

use super::pattern::Pattern;
use serde_json::{Number, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of members.
pub(super) type Names = Box<[Box<str>]>;
/// The index of a subschema in the list.
pub(super) type NodeId = usize;

/// A subschema.
#[derive(Debug)]
pub(super) enum Node {
    /// `true`.
    Any,
    /// `false`.
    Nothing,
    /// An object, with its keywords in the order of the checks.
    Keywords(Box<[Keyword]>),
}

/// One keyword, or several that are checked together.
#[derive(Debug)]
pub(super) enum Keyword {
    Type(Types),
    Const(Box<Value>),
    Enum(Box<Enum>),
    Limit(Limit, Box<Number>),
    MultipleOf(Box<Number>),
    /// The minimum and maximum number of characters.
    Length(MinCount, MaxCount),
    Pattern(Arc<Pattern>),
    /// The minimum and maximum number of elements.
    Elements(MinCount, MaxCount),
    UniqueElements,
    /// The minimum and maximum number of members.
    Members(MinCount, MaxCount),
    Required(Names),
    DependentRequired(Box<[(Box<str>, Names)]>),
    Properties(Box<Properties>),
    Names(NodeId),
    Items(Box<Items>),
    Contains(Box<Contains>),
    DependentSchemas(Box<[(Box<str>, NodeId)]>),
    Ref(NodeId),
    AllOf(Box<[NodeId]>),
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    Not(NodeId),
    If(Box<If>),
    UnevaluatedMembers(NodeId),
    UnevaluatedElements(NodeId),
}

pub(super) type MinCount = Option<u64>;
pub(super) type MaxCount = Option<u64>;

/// A bound on numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// `type`, with one or more types.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) names: Box<[Type]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    pub(super) const ALL: [(Self, &str); 7] = [
        (Self::Null, "null"),
        (Self::Boolean, "boolean"),
        (Self::Integer, "integer"),
        (Self::Number, "number"),
        (Self::String, "string"),
        (Self::Array, "array"),
        (Self::Object, "object"),
    ];

    pub(super) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// `enum`, searched by hash.
#[derive(Debug)]
pub(super) struct Enum {
    pub(super) options: Box<[Value]>,
    /// The hash and index of each option, sorted.
    pub(super) hashes: Box<[(u64, usize)]>,
    /// The number of parts of the largest option. A larger value equals none of them.
    pub(super) most_parts: u64,
}

/// `properties`, `patternProperties` and `additionalProperties`.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) named: BTreeMap<Box<str>, NodeId>,
    pub(super) patterns: Box<[(Arc<Pattern>, NodeId)]>,
    pub(super) additional: Option<NodeId>,
}

/// `prefixItems` and `items`.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) prefix: Box<[NodeId]>,
    pub(super) rest: Option<NodeId>,
}

/// `contains` with `minContains` and `maxContains`.
#[derive(Debug)]
pub(super) struct Contains {
    pub(super) node: NodeId,
    pub(super) least: u64,
    pub(super) most: MaxCount,
}

/// `if` with `then` and `else`.
#[derive(Debug)]
pub(super) struct If {
    pub(super) condition: NodeId,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}
