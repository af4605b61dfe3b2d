//! Declared state: typed keys, and what a component may do with them.

use crate::schema::value_schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// A piece of state: its name, its type, and how updates become part of it.
///
/// The name is `COMPONENT-ID.NAME`, as grants and seeds write it. The second
/// parameter is the reducer; it decides which of [`Context`](crate::Context)'s
/// writes fits the key.
///
/// ```
/// use tollgate_sdk::{Key, reducer::Append};
///
/// static CITY: Key<String> = Key::run("weather.city");
/// static NOTES: Key<Vec<String>, Append> = Key::thread("notes.items").append().persistent();
/// ```
pub struct Key<T, R = reducer::Replace> {
    name: &'static str,
    scope: Scope,
    persistent: bool,
    defined: bool,
    initial: fn() -> T,
    reducer: PhantomData<fn() -> R>,
}

/// How updates become part of a value, as types.
pub mod reducer {
    use super::Reducer;

    /// One of the six reducers, as a type. No other can be added.
    pub trait ReducerType: sealed::Sealed {
        /// The reducer that this type stands for.
        const REDUCER: Reducer;
    }

    mod sealed {
        pub trait Sealed {}
    }

    macro_rules! reducers {
        ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub enum $name {}
            impl sealed::Sealed for $name {}
            impl ReducerType for $name {
                const REDUCER: Reducer = Reducer::$name;
            }
        )*};
    }

    reducers! {
        /// The update is the new value: [`Context::set`](crate::Context::set).
        Replace,
        /// JSON Merge Patch: [`Context::merge`](crate::Context::merge).
        MergePatch,
        /// One element at the end: [`Context::append`](crate::Context::append).
        Append,
        /// A number added: [`Context::add`](crate::Context::add).
        Add,
        /// Elements that are lacking: [`Context::union`](crate::Context::union).
        Union,
        /// The greater stays: [`Context::max`](crate::Context::max).
        Max,
    }
}

/// How an update becomes part of a key's value. The last four commute, so calls
/// that run together may all write such a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reducer {
    /// The update is the new value.
    Replace,
    /// JSON Merge Patch (RFC 7396).
    MergePatch,
    /// The update is one element, put at the end of a list.
    Append,
    /// The update is a number, added to a number.
    Add,
    /// The update is a list; its elements that the list lacks are added, and the
    /// list is kept sorted by the elements' serialization.
    Union,
    /// The update is a number; the greater of the two stays.
    Max,
}

/// How long a key lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Ends with the run.
    Run,
    /// Lives as long as the thread.
    Thread,
}

/// What a component may do with one key.
#[derive(Debug, Clone, PartialEq)]
pub struct StateAccess {
    /// The key's whole name.
    pub key: String,
    /// May see it.
    pub read: bool,
    /// May change it.
    pub write: bool,
    /// Present where this component brings the key with it.
    pub defines: Option<StateKey>,
}

/// A key that a component brings with it.
#[derive(Debug, Clone, PartialEq)]
pub struct StateKey {
    /// The value before the first update.
    pub initial: Value,
    /// Every value that the key takes fits it.
    pub schema: Option<Value>,
    /// How updates become part of the value.
    pub reducer: Reducer,
    /// How long it lives.
    pub scope: Scope,
    /// Whether it survives the host's process.
    pub persistent: bool,
}

impl<T: Default> Key<T> {
    /// A key that ends with the run. It begins as `T::default()`.
    ///
    /// # Panics
    /// When `name` is not `COMPONENT-ID.NAME`; in a `static`, when it is compiled.
    pub const fn run(name: &'static str) -> Self {
        Self::new(name, Scope::Run, true)
    }

    /// A key that lives as long as the thread. It begins as `T::default()`.
    ///
    /// # Panics
    /// When `name` is not `COMPONENT-ID.NAME`; in a `static`, when it is compiled.
    pub const fn thread(name: &'static str) -> Self {
        Self::new(name, Scope::Thread, true)
    }

    /// A key that the host or another component defines. It needs a grant.
    ///
    /// # Panics
    /// When `name` is not `COMPONENT-ID.NAME`; in a `static`, when it is compiled.
    pub const fn of_another(name: &'static str) -> Self {
        Self::new(name, Scope::Run, false)
    }

    const fn new(name: &'static str, scope: Scope, defined: bool) -> Self {
        assert!(is_key(name), "a state key's name is COMPONENT-ID.NAME, such as \"notes.items\"");
        Self { name, scope, persistent: false, defined, initial: T::default, reducer: PhantomData }
    }

    /// Begins as what this function returns.
    #[must_use]
    pub const fn initial(mut self, initial: fn() -> T) -> Self {
        self.initial = initial;
        self
    }

    /// Updates are JSON Merge Patches (RFC 7396).
    #[must_use]
    pub const fn merge_patch(self) -> Key<T, reducer::MergePatch> {
        self.reduced()
    }
}

impl<T, R> Key<T, R> {
    /// Survives the host's process.
    #[must_use]
    pub const fn persistent(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// The key's whole name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The value before the first update.
    pub fn initial_value(&self) -> T {
        (self.initial)()
    }

    const fn reduced<S>(self) -> Key<T, S> {
        Key {
            name: self.name,
            scope: self.scope,
            persistent: self.persistent,
            defined: self.defined,
            initial: self.initial,
            reducer: PhantomData,
        }
    }
}

impl<E> Key<Vec<E>> {
    /// Updates are elements, put at the end.
    #[must_use]
    pub const fn append(self) -> Key<Vec<E>, reducer::Append> {
        self.reduced()
    }
}

impl<T: List> Key<T> {
    /// Updates are lists of elements; those that are lacking are added.
    #[must_use]
    pub const fn union(self) -> Key<T, reducer::Union> {
        self.reduced()
    }
}

impl<T: Number> Key<T> {
    /// Updates are numbers, added.
    #[must_use]
    pub const fn add(self) -> Key<T, reducer::Add> {
        self.reduced()
    }

    /// Updates are numbers; the greater stays.
    #[must_use]
    pub const fn max(self) -> Key<T, reducer::Max> {
        self.reduced()
    }
}

impl<T: Serialize + JsonSchema, R: reducer::ReducerType> Key<T, R> {
    /// What is declared where nothing else is stated: that the component reads the key
    /// and, where it is its own, writes it.
    pub fn used(&self) -> StateAccess {
        self.access(true, self.defined)
    }

    /// Declares that the component reads and writes the key.
    pub fn read_write(&self) -> StateAccess {
        self.access(true, true)
    }

    /// Declares that the component reads the key, and never writes it.
    pub fn read(&self) -> StateAccess {
        self.access(true, false)
    }

    /// Declares that the component writes the key, and never reads it.
    pub fn write(&self) -> StateAccess {
        self.access(false, true)
    }

    fn access(&self, read: bool, write: bool) -> StateAccess {
        let defines = self.defined.then(|| StateKey {
            initial: serde_json::to_value(self.initial_value()).unwrap_or_default(),
            schema: Some(value_schema::<T>()),
            reducer: R::REDUCER,
            scope: self.scope,
            persistent: self.persistent,
        });
        StateAccess { key: self.name.to_owned(), read, write, defines }
    }
}

/// What is a list in JSON, and can be a set.
pub trait List {}

impl<E> List for Vec<E> {}
impl<E> List for BTreeSet<E> {}

/// A number type of Rust.
pub trait Number: Serialize + Copy {}

macro_rules! numbers {
    ($($number:ty)*) => {$(impl Number for $number {})*};
}
numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

/// `[a-z][a-z0-9-]{0,63}` on the left of the first dot, and a name on its right.
const fn is_key(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || !bytes[0].is_ascii_lowercase() {
        return false;
    }
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'.' {
        if !(bytes[at].is_ascii_lowercase() || bytes[at].is_ascii_digit() || bytes[at] == b'-') {
            return false;
        }
        at += 1;
    }
    at <= 64 && at + 1 < bytes.len()
}
