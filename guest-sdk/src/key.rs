//! Declared state: typed keys, and the access that a component has to them.

use crate::schema::value_schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// A piece of state: its name, its type, and how updates are applied to it.
///
/// The name is `COMPONENT-ID.NAME`, as in grants and seeds. The second parameter is the
/// reducer; it decides which of [`Context`](crate::Context)'s writes are available for
/// the key.
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

/// The ways to apply an update, as types.
pub mod reducer {
    use super::Reducer;

    /// One of the six reducers, as a type. No other can be added.
    pub trait ReducerType: sealed::Sealed {
        /// The reducer of this type.
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
        /// Appends one element: [`Context::append`](crate::Context::append).
        Append,
        /// Adds a number: [`Context::add`](crate::Context::add).
        Add,
        /// Adds missing elements: [`Context::union`](crate::Context::union).
        Union,
        /// Keeps the greater number: [`Context::max`](crate::Context::max).
        Max,
    }
}

/// The rule that applies an update to a key's value. The last four commute, so parallel calls
/// may all write such a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reducer {
    /// The update is the new value.
    Replace,
    /// JSON Merge Patch (RFC 7396).
    MergePatch,
    /// The update is an element that is appended to a list.
    Append,
    /// The update is a number that is added to a number.
    Add,
    /// The update is a list whose missing elements are added. The list is kept sorted
    /// by the elements' serialization.
    Union,
    /// The update is a number; the greater of the two is kept.
    Max,
}

/// The lifetime of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Until the run ends.
    Run,
    /// As long as the thread exists.
    Thread,
}

/// The access of a component to one key.
#[derive(Debug, Clone, PartialEq)]
pub struct StateAccess {
    /// The key's full name.
    pub key: String,
    /// Whether it may read the key.
    pub read: bool,
    /// Whether it may change the key.
    pub write: bool,
    /// The key's definition, if this component defines it.
    pub defines: Option<StateKey>,
}

/// A key that a component defines.
#[derive(Debug, Clone, PartialEq)]
pub struct StateKey {
    /// The value before the first update.
    pub initial: Value,
    /// JSON Schema that every value of the key fits.
    pub schema: Option<Value>,
    /// How updates are applied to the value.
    pub reducer: Reducer,
    /// How long the key lives.
    pub scope: Scope,
    /// Whether the key outlives the host's process.
    pub persistent: bool,
}

impl<T: Default> Key<T> {
    /// Creates a key that ends with the run. Its initial value is `T::default()`.
    ///
    /// # Panics
    /// If `name` is not `COMPONENT-ID.NAME`; in a `static`, compilation fails instead.
    pub const fn run(name: &'static str) -> Self {
        Self::new(name, Scope::Run, true)
    }

    /// Creates a key that lives as long as the thread. Its initial value is
    /// `T::default()`.
    ///
    /// # Panics
    /// If `name` is not `COMPONENT-ID.NAME`; in a `static`, compilation fails instead.
    pub const fn thread(name: &'static str) -> Self {
        Self::new(name, Scope::Thread, true)
    }

    /// Refers to a key that the host or another component defines. It needs a grant.
    ///
    /// # Panics
    /// If `name` is not `COMPONENT-ID.NAME`; in a `static`, compilation fails instead.
    pub const fn of_another(name: &'static str) -> Self {
        Self::new(name, Scope::Run, false)
    }

    const fn new(name: &'static str, scope: Scope, defined: bool) -> Self {
        assert!(is_key(name), "a state key's name is COMPONENT-ID.NAME, such as \"notes.items\"");
        Self { name, scope, persistent: false, defined, initial: T::default, reducer: PhantomData }
    }

    /// Sets the function that returns the initial value.
    #[must_use]
    pub const fn initial(mut self, initial: fn() -> T) -> Self {
        self.initial = initial;
        self
    }

    /// Makes updates JSON Merge Patches (RFC 7396).
    #[must_use]
    pub const fn merge_patch(self) -> Key<T, reducer::MergePatch> {
        self.reduced()
    }
}

impl<T, R> Key<T, R> {
    /// Makes the key outlive the host's process.
    #[must_use]
    pub const fn persistent(mut self) -> Self {
        self.persistent = true;
        self
    }

    /// Returns the key's full name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value before the first update.
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
    /// Makes updates elements that are appended.
    #[must_use]
    pub const fn append(self) -> Key<Vec<E>, reducer::Append> {
        self.reduced()
    }
}

impl<T: List> Key<T> {
    /// Makes updates lists whose missing elements are added.
    #[must_use]
    pub const fn union(self) -> Key<T, reducer::Union> {
        self.reduced()
    }
}

impl<T: Number> Key<T> {
    /// Makes updates numbers that are added.
    #[must_use]
    pub const fn add(self) -> Key<T, reducer::Add> {
        self.reduced()
    }

    /// Makes updates numbers of which the greater is kept.
    #[must_use]
    pub const fn max(self) -> Key<T, reducer::Max> {
        self.reduced()
    }
}

impl<T: Serialize + JsonSchema, R: reducer::ReducerType> Key<T, R> {
    /// Declares the default access: the component reads the key and also writes it if
    /// it defines the key.
    pub fn used(&self) -> StateAccess {
        self.access(true, self.defined)
    }

    /// Declares that the component reads and writes the key.
    pub fn read_write(&self) -> StateAccess {
        self.access(true, true)
    }

    /// Declares that the component only reads the key.
    pub fn read(&self) -> StateAccess {
        self.access(true, false)
    }

    /// Declares that the component only writes the key.
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

/// A type that is a JSON list and can be a set.
pub trait List {}

impl<E> List for Vec<E> {}
impl<E> List for BTreeSet<E> {}

/// A number type of Rust.
pub trait Number: Serialize + Copy {}

macro_rules! numbers {
    ($($number:ty)*) => {$(impl Number for $number {})*};
}
numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

/// Returns whether a name is `[a-z][a-z0-9-]{0,63}`, a dot and a further name.
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
