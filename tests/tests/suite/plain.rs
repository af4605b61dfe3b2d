//! Components that do not implement the contract: their functions as tools. Conversions between
//! JSON and their types are lossless.

use crate::rig::{Ended, Rig};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::ToolDescriptor;
use tollgate_agent::outcome::ToolResult;
use tollgate_artifacts::{Expectation, Guest, hostile};
use tollgate_sandbox::Limits;

/// Builds a component from its world, in one line, and its core module.
fn component(world: &str, module: &str) -> Vec<u8> {
    let source = format!(";; Of a test.\n;;\n;; world: {world}\n\n{module}");
    let source = Box::leak(source.into_boxed_str());
    Guest { name: "own", attack: "", limit: "", expects: Expectation::Succeeds, source }.bytes()
}

/// Calls the component's first tool.
fn call(rig: &Rig, bytes: Vec<u8>, arguments: &Value) -> Ended {
    let loaded = rig.load_bytes("own", bytes).unwrap();
    rig.call(&loaded, &arguments.to_string(), &Limits::default(), Duration::from_secs(60))
}

fn result(ended: Ended) -> ToolResult {
    ToolResult::clone(&ended.result.unwrap().result)
}

/// Returns the tools of a component, sorted by name.
fn tools(rig: &Rig, file: &str, bytes: Vec<u8>) -> Vec<ToolDescriptor> {
    rig.load_bytes(file, bytes).unwrap().component().descriptor().tools.clone()
}

const ADD: &str = r#"(module
  (func (export "docs:adder/add@0.1.0#add") (param i32 i32) (result i32)
    (i32.add (local.get 0) (local.get 1)))
  (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2))))"#;

fn adder() -> Vec<u8> {
    component(
        "export docs:adder/add@0.1.0; export half: func(of: f64) -> f64;\n\
         ;; wit: package docs:adder@0.1.0 { interface add { add: func(a: u32, b: u32) -> u32; } }",
        ADD,
    )
}

/// A component that exports one interface in two versions, and a function with a name of the
/// host's.
const VERSIONED: &str = r#"(component
  (core module $code
    (func (export "old") (result i32) (i32.const 9))
    (func (export "new") (result i32) (i32.const 10)))
  (core instance $instance (instantiate $code))
  (func $old (result u32) (canon lift (core func $instance "old")))
  (func $new (result u32) (canon lift (core func $instance "new")))
  (instance $newer (export "add" (func $new)))
  (instance $older (export "add" (func $old)) (export "gone" (func $old)))
  (export "docs:adder/math@0.10.0" (instance $newer))
  (export "docs:adder/math@0.9.0" (instance $older))
  (export "search-history" (func $old)))"#;

#[test]
fn of_two_versions_the_newer_is_served_and_a_reserved_name_is_left_out() {
    let rig = Rig::new();
    let source = Box::leak(format!(";; Of a test.\n\n{VERSIONED}").into_boxed_str());
    let guest = Guest { name: "own", attack: "", limit: "", expects: Expectation::Succeeds, source };
    let loaded = rig.load_bytes("own", guest.bytes()).unwrap();
    let component = loaded.component();
    let names: Vec<&str> = component.descriptor().tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["math-add", "math-gone"]);
    let left_out = component.left_out().unwrap();
    let reason = |function: &str| &left_out.iter().find(|left| left.function == function).unwrap().reason;
    assert!(reason("docs:adder/math@0.9.0#add").contains("docs:adder/math@0.10.0#add"), "{left_out:?}");
    assert!(reason("search-history").contains("reserved for the host"), "{left_out:?}");
    assert_eq!(result(call(&rig, guest.bytes(), &json!({}))).data, json!(10));
}

#[test]
fn functions_become_tools_named_by_interface_and_function() {
    let rig = Rig::new();
    let tools = tools(&rig, "some/where/My_Adder.wasm", adder());
    let named: Vec<(&str, &str)> = tools.iter().map(|tool| (tool.id.as_str(), tool.name.as_str())).collect();
    assert_eq!(named, [("add-add", "add-add"), ("half", "half")]);
    assert_eq!(tools[0].description, "add: func(a: u32, b: u32) -> u32");
    let u32 = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "u32"});
    assert_eq!(
        tools[0].parameters,
        json!({
            "type": "object",
            "properties": {"a": u32, "b": u32},
            "required": ["a", "b"],
            "additionalProperties": false,
        })
    );
    assert!(!tools[0].execution.idempotent && !tools[0].execution.validates);
    let loaded = rig.load_bytes("some/where/My_Adder.wasm", adder()).unwrap();
    let descriptor = loaded.component().descriptor();
    assert_eq!((descriptor.id.as_str(), descriptor.version.as_str()), ("my-adder", "0.1.0"));
    assert_eq!(loaded.component().left_out(), Some(&[][..]));
}

#[test]
fn a_file_without_a_name_for_a_component_is_refused() {
    for name in ["7.wasm", "host.wasm", "_.wasm", "日本.wasm"] {
        let reason = Rig::new().load_bytes(name, adder()).err().unwrap();
        assert!(reason.contains("rename the file"), "{reason}");
    }
}

#[test]
fn arguments_arrive_and_results_return() {
    let rig = Rig::new();
    let ended = call(&rig, adder(), &json!({"a": 4_000_000_000_u32, "b": 2.0}));
    let usage = ended.attempt.as_ref().unwrap().usage;
    assert!(usage.fuel > 0 && usage.attempts == 1, "{usage:?}");
    assert_eq!(result(ended), ToolResult::success(4_000_000_002_u32));
}

#[test]
fn l2_arguments_that_are_no_values_of_the_types_run_nothing() {
    let rig = Rig::new();
    for wrong in [
        json!({"a": 1}),
        json!({"a": 1, "b": -1}),
        json!({"a": 1, "b": 4_294_967_296_u64}),
        json!({"a": 1, "b": 1.5}),
        json!({"a": 1, "b": "2"}),
        json!({"a": 1, "b": null}),
        json!({"a": 1, "b": 2, "c": 3}),
    ] {
        let ended = call(&rig, adder(), &wrong);
        assert_eq!(ended.code(), Some(Code::InvalidArguments), "{wrong}");
        assert!(ended.attempt.is_none(), "{wrong}");
    }
}

/// No 64-bit float equals this number, and a schema cannot express that.
#[test]
fn l9_an_integer_that_no_float_is_exactly_is_refused() {
    let rig = Rig::new();
    let half = component(
        "export half: func(of: f64) -> f64;",
        r#"(module (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2))))"#,
    );
    let ended = call(&rig, half.clone(), &json!({"of": 9_007_199_254_740_993_u64}));
    let fault = ended.result.unwrap_err();
    assert_eq!(fault.code, Code::InvalidArguments);
    assert!(fault.message.contains("/of: this is not a value of type f64"), "{}", fault.message);
    let returned = result(call(&rig, half, &json!({"of": 9_007_199_254_740_992_u64})));
    assert_eq!(returned, ToolResult::success(4_503_599_627_370_496.0));
}

/// Builds a component whose function returns the value at 16: a tag, and at 20 a text of five
/// letters.
fn failing(tag: u8, text: &str) -> Vec<u8> {
    component(
        "export go: func() -> result<_, string>;",
        &format!(
            r#"(module (memory (export "memory") 1)
                 (data (i32.const 16) "\{tag:02x}\00\00\00\40\00\00\00\05\00\00\00")
                 (data (i32.const 64) "{text}")
                 (func (export "go") (result i32) (i32.const 16)))"#
        ),
    )
}

#[test]
fn l4_a_result_is_a_success_or_the_tools_own_error() {
    let rig = Rig::new();
    assert_eq!(result(call(&rig, failing(0, "nope!"), &json!({}))), ToolResult::success(Value::Null));
    let error = result(call(&rig, failing(1, "\\1b[31m"), &json!({})));
    assert!(error.is_error());
    assert_eq!((error.data.into_value(), error.message.as_deref()), (json!("\u{1b}[31m"), Some("[31m")));
}

#[test]
fn what_is_no_tool_is_left_out_with_its_reason() {
    let rig = Rig::new();
    let bytes = component(
        "export take: interface { resource thing; get: func() -> thing; count: func() -> u8; }",
        r#"(module
             (import "[export]take" "[resource-new]thing" (func $new (param i32) (result i32)))
             (func (export "take#get") (result i32) (call $new (i32.const 7)))
             (func (export "take#count") (result i32) (i32.const 3)))"#,
    );
    let loaded = rig.load_bytes("own", bytes.clone()).unwrap();
    let left_out = loaded.component().left_out().unwrap();
    assert_eq!(left_out.len(), 1);
    assert_eq!(left_out[0].function, "take#get");
    assert!(left_out[0].reason.contains("resource"), "{}", left_out[0].reason);
    assert_eq!(result(call(&rig, bytes, &json!({}))), ToolResult::success(3));
}

/// The exports of componentize-qjs and componentize-py beside the author's functions.
const OF_JAVASCRIPT: &str = "export init: func(shim: string, script: string, entry-path: option<string>, disable-gc: bool) -> result<_, string>;";
const OF_PYTHON: &str = "export exports: interface { \
    record symbols { exports: list<string>, %records: list<string>, variants: list<string> } \
    init: func(app-name: string, symbols: symbols, stub-wasi: bool) -> result<_, string>; }";

/// Builds a component of JavaScript or Python with one function of its author and this one, whose
/// parameters take `values` core values.
fn prepared(init: &str, export: &str, values: usize) -> Vec<u8> {
    let values = "i32 ".repeat(values);
    component(
        &format!("export half: func(of: f64) -> f64; {init}"),
        &format!(
            r#"(module (memory (export "memory") 1)
                 (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
                 (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))
                 (func (export "{export}") (param {values}) (result i32) (i32.const 16)))"#
        ),
    )
}

#[test]
fn what_a_toolchain_added_to_build_it_is_left_out() {
    for (init, export, values) in [(OF_JAVASCRIPT, "init", 8), (OF_PYTHON, "exports#init", 9)] {
        let loaded = Rig::new().load_bytes("own", prepared(init, export, values)).unwrap();
        let [left_out] = loaded.component().left_out().unwrap() else { panic!("{init}") };
        assert_eq!(left_out.function, export);
        assert!(left_out.reason.contains("toolchain"), "{}", left_out.reason);
        let tools: Vec<&str> =
            loaded.component().descriptor().tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(tools, ["half"]);
    }
}

#[test]
fn an_authors_function_of_that_name_is_a_tool() {
    let other = |init: &str, from: &str, to: &str| {
        assert!(init.contains(from), "{init}");
        init.replace(from, to)
    };
    for (init, export, values) in [
        (other(OF_JAVASCRIPT, "shim", "title"), "init", 8),
        (other(OF_JAVASCRIPT, "disable-gc: bool", "disable-gc: u8"), "init", 8),
        (other(OF_JAVASCRIPT, "result<_, string>", "result<string>"), "init", 8),
        ("export init: func(script: string) -> result<_, string>;".to_owned(), "init", 2),
        (other(OF_PYTHON, "stub-wasi: bool", "stub-wasi: string"), "exports#init", 10),
        (other(OF_PYTHON, "app-name", "name"), "exports#init", 9),
        (other(OF_PYTHON, "export exports:", "export given:"), "given#init", 9),
    ] {
        let loaded = Rig::new().load_bytes("own", prepared(&init, export, values)).unwrap();
        assert_eq!(loaded.component().left_out(), Some(&[][..]), "{init}");
        assert_eq!(loaded.component().descriptor().tools.len(), 2, "{init}");
    }
}

#[test]
fn what_the_author_says_is_read_and_cleaned() {
    let rig = Rig::new();
    let tools = tools(&rig, "looks", hostile::PLAIN_INVISIBLE_DOCS.bytes());
    assert_eq!(tools[0].description, "Looks [31maround.\n\nlook: func()");
}

/// A WIT type in a test.
#[derive(Debug, Clone)]
enum Kind {
    Bool,
    Integer(&'static str, i128, i128),
    F32,
    F64,
    Char,
    String,
    List(Box<Kind>),
    Tuple(Vec<Kind>),
    Record(Vec<Kind>),
    Variant(Vec<Option<Kind>>),
    Enum(usize),
    Option(Box<Kind>),
    Result(Option<Box<Kind>>, Option<Box<Kind>>),
    Flags(usize),
}

const INTEGERS: [Kind; 8] = [
    Kind::Integer("s8", i8::MIN as i128, i8::MAX as i128),
    Kind::Integer("u8", 0, u8::MAX as i128),
    Kind::Integer("s16", i16::MIN as i128, i16::MAX as i128),
    Kind::Integer("u16", 0, u16::MAX as i128),
    Kind::Integer("s32", i32::MIN as i128, i32::MAX as i128),
    Kind::Integer("u32", 0, u32::MAX as i128),
    Kind::Integer("s64", i64::MIN as i128, i64::MAX as i128),
    Kind::Integer("u64", 0, u64::MAX as i128),
];

fn kinds() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Bool),
        prop::sample::select(INTEGERS.to_vec()),
        Just(Kind::F32),
        Just(Kind::F64),
        Just(Kind::Char),
        Just(Kind::String),
        (1..20_usize).prop_map(Kind::Enum),
        (1..33_usize).prop_map(Kind::Flags),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = || prop::option::of(inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.clone().prop_map(|of| Kind::List(Box::new(of))),
            inner.clone().prop_map(|of| Kind::Option(Box::new(of))),
            inner.clone().prop_map(|of| Kind::Option(Box::new(Kind::Option(Box::new(of))))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Kind::Tuple),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Kind::Record),
            prop::collection::vec(prop::option::of(inner.clone()), 1..4).prop_map(Kind::Variant),
            (boxed(), boxed()).prop_map(|(ok, err)| Kind::Result(ok, err)),
        ]
    })
}

fn name(at: usize) -> String {
    format!("part-n{at}")
}

impl Kind {
    /// Returns the type in WIT; declares types that need a name of their own.
    fn wit(&self, declared: &mut Vec<String>) -> String {
        let parts = |kinds: &[Kind], declared: &mut Vec<String>| -> Vec<String> {
            kinds.iter().map(|kind| kind.wit(declared)).collect()
        };
        let declaration = match self {
            Kind::Bool => return "bool".to_owned(),
            Kind::Integer(name, ..) => return (*name).to_owned(),
            Kind::F32 => return "f32".to_owned(),
            Kind::F64 => return "f64".to_owned(),
            Kind::Char => return "char".to_owned(),
            Kind::String => return "string".to_owned(),
            Kind::List(of) => return format!("list<{}>", of.wit(declared)),
            Kind::Option(of) => return format!("option<{}>", of.wit(declared)),
            Kind::Tuple(of) => return format!("tuple<{}>", parts(of, declared).join(", ")),
            Kind::Result(ok, err) => {
                let mut payload =
                    |of: &Option<Box<Kind>>| of.as_ref().map_or("_".to_owned(), |of| of.wit(declared));
                let (ok_wit, err_wit) = (payload(ok), payload(err));
                return match (ok, err) {
                    (None, None) => "result".to_owned(),
                    (_, None) => format!("result<{ok_wit}>"),
                    _ => format!("result<{ok_wit}, {err_wit}>"),
                };
            }
            Kind::Record(of) => {
                let fields: Vec<String> = parts(of, declared)
                    .iter()
                    .enumerate()
                    .map(|(at, of)| format!("{}: {of}", name(at)))
                    .collect();
                format!("record NAME {{ {} }}", fields.join(", "))
            }
            Kind::Variant(of) => {
                let case = |(at, of): (usize, &Option<Kind>)| match of {
                    Some(of) => format!("{}({})", name(at), of.wit(declared)),
                    None => name(at),
                };
                let cases: Vec<String> = of.iter().enumerate().map(case).collect();
                format!("variant NAME {{ {} }}", cases.join(", "))
            }
            Kind::Enum(count) => {
                format!("enum NAME {{ {} }}", (0..*count).map(name).collect::<Vec<_>>().join(", "))
            }
            Kind::Flags(count) => {
                format!("flags NAME {{ {} }}", (0..*count).map(name).collect::<Vec<_>>().join(", "))
            }
        };
        let own = format!("own-t{}", declared.len());
        declared.push(declaration.replace("NAME", &own));
        own
    }

    /// Returns its values in the documented JSON form.
    fn values(&self) -> BoxedStrategy<Value> {
        match self {
            Kind::Bool => any::<bool>().prop_map(Value::from).boxed(),
            Kind::Integer(_, least, greatest) => {
                prop_oneof![Just(*least), Just(*greatest), *least..=*greatest]
                    .prop_map(|number| json!(serde_json::Number::from_i128(number)))
                    .boxed()
            }
            Kind::F32 => any::<f32>()
                .prop_map(|float| match float.is_finite() {
                    true if float.fract() == 0.0 => json!(f64::from(float)),
                    true => json!(float.to_string().parse::<f64>().unwrap()),
                    false => word(f64::from(float)),
                })
                .boxed(),
            Kind::F64 => any::<f64>()
                .prop_map(|float| if float.is_finite() { json!(float) } else { word(float) })
                .boxed(),
            Kind::Char => any::<char>().prop_map(|one| json!(one.to_string())).boxed(),
            Kind::String => prop::collection::vec(any::<char>(), 0..6)
                .prop_map(|text| json!(text.into_iter().collect::<String>()))
                .boxed(),
            Kind::List(of) => prop::collection::vec(of.values(), 0..4).prop_map(Value::from).boxed(),
            Kind::Tuple(of) => of.iter().map(Kind::values).collect::<Vec<_>>().prop_map(Value::from).boxed(),
            Kind::Record(of) => of
                .iter()
                .map(Kind::values)
                .collect::<Vec<_>>()
                .prop_map(|values| {
                    values.into_iter().enumerate().map(|(at, value)| (name(at), value)).collect()
                })
                .boxed(),
            Kind::Variant(of) => {
                let case = |(at, of): (usize, &Option<Kind>)| match of {
                    Some(of) => of.values().prop_map(move |value| json!({name(at): value})).boxed(),
                    None => Just(json!(name(at))).boxed(),
                };
                prop::strategy::Union::new(of.iter().enumerate().map(case)).boxed()
            }
            Kind::Enum(count) => (0..*count).prop_map(|at| json!(name(at))).boxed(),
            Kind::Option(of) => {
                let nested = matches!(**of, Kind::Option(_));
                let some =
                    of.values().prop_map(move |value| if nested { json!({"some": value}) } else { value });
                prop_oneof![Just(Value::Null), some].boxed()
            }
            Kind::Result(ok, err) => {
                let payload = |of: &Option<Box<Kind>>, key: &'static str| {
                    let values = of.as_ref().map_or(Just(Value::Null).boxed(), |of| of.values());
                    values.prop_map(move |value| json!({key: value}))
                };
                prop_oneof![payload(ok, "ok"), payload(err, "err")].boxed()
            }
            Kind::Flags(count) => {
                let names: Vec<String> = (0..*count).map(name).collect();
                prop::sample::subsequence(names, 0..=*count).prop_map(|set| json!(set)).boxed()
            }
        }
    }
}

fn word(float: f64) -> Value {
    json!(if float.is_nan() {
        "NaN"
    } else if float > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    })
}

/// Builds a component whose function returns its argument of this type unchanged. It has enough
/// other fields to pass through memory.
fn echo(kind: &Kind) -> Vec<u8> {
    let mut declared = Vec::new();
    let own = kind.wit(&mut declared);
    let rest = ["u32"; 17].join(", ");
    component(
        &format!(
            "export all: interface {{ {} record whole {{ value: {own}, rest: tuple<{rest}> }} \
             echo: func(whole: whole) -> whole; }}",
            declared.join(" ")
        ),
        r#"(module
             (memory (export "memory") 16)
             (global $heap (mut i32) (i32.const 1024))
             (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32)
                   (result i32) (local $start i32)
               (local.set $start
                 (i32.and (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
                          (i32.sub (i32.const 0) (local.get $align))))
               (global.set $heap (i32.add (local.get $start) (local.get $size)))
               (local.get $start))
             (func (export "all#echo") (param i32) (result i32) (local.get 0)))"#,
    )
}

/// The other fields.
const REST: [u32; 17] = [0; 17];

fn kinds_and_values() -> impl Strategy<Value = (Kind, Vec<Value>)> {
    kinds().prop_flat_map(|kind| {
        let values = prop::collection::vec(kind.values(), 6);
        (Just(kind), values)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Values survive byte for byte: through the schema, into a guest's memory by its type, and
    /// back.
    #[test]
    fn l9_values_of_every_type_return_as_they_went((kind, values) in kinds_and_values()) {
        let rig = Rig::new();
        let loaded = rig.load_bytes("own", echo(&kind)).unwrap();
        for value in values {
            let arguments = json!({"whole": {"value": value, "rest": REST}}).to_string();
            let ended = rig.call(&loaded, &arguments, &Limits::default(), Duration::from_secs(60));
            let returned = ended.result.map_err(|fault| TestCaseError::fail(fault.message))?.result;
            prop_assert_eq!(returned.data["value"].to_string(), value.to_string());
        }
    }
}

/// The shortest digits of a large float denote another integer, which would be rejected if the
/// answer of one call were the argument of the next.
#[test]
fn l9_great_floats_return_as_they_went() {
    let rig = Rig::new();
    let loaded = rig.load_bytes("own", echo(&Kind::F32)).unwrap();
    for great in [-50_516_400_000_000_f32, 16_777_216.0, 1e18, 1e20, f32::MAX] {
        let arguments = json!({"whole": {"value": great, "rest": REST}}).to_string();
        let ended = rig.call(&loaded, &arguments, &Limits::default(), Duration::from_secs(60));
        assert_eq!(result(ended).data["value"], json!(great));
    }
}

#[test]
fn nested_options_do_not_collapse() {
    let rig = Rig::new();
    let of = |kind: Kind| Kind::Option(Box::new(kind));
    let loaded = rig.load_bytes("own", echo(&of(of(of(Kind::Bool))))).unwrap();
    for value in
        [json!(null), json!({"some": null}), json!({"some": {"some": null}}), json!({"some": {"some": true}})]
    {
        let arguments = json!({"whole": {"value": value, "rest": REST}}).to_string();
        let ended = rig.call(&loaded, &arguments, &Limits::default(), Duration::from_secs(60));
        assert_eq!(result(ended).data["value"], value);
    }
    let absent = json!({"whole": {"rest": REST}}).to_string();
    let ended = rig.call(&loaded, &absent, &Limits::default(), Duration::from_secs(60));
    assert_eq!(result(ended).data["value"], Value::Null);
}

#[test]
fn arguments_are_counted_as_the_values_that_they_become() {
    let rig = Rig::new();
    let loaded = rig.load_bytes("own", echo(&Kind::List(Box::new(INTEGERS[1].clone())))).unwrap();
    let with = |count: usize| {
        let arguments = json!({"whole": {"value": vec![0; count], "rest": REST}}).to_string();
        rig.call(&loaded, &arguments, &Limits::default(), Duration::from_secs(60))
    };
    assert_eq!(with(400_000).code(), None);
    assert_eq!(with(480_000).code(), Some(Code::TooLarge));
}
