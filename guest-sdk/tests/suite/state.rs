//! K4 and K5: state is declared once, read by its type and written as its reducer
//! requires.

use std::collections::BTreeSet;
use tollgate_sdk::reducer::{Add, Append, Max, MergePatch, Union};
use tollgate_sdk::{
    Component, Context, Key, Reducer, Scope, StateAccess, StateKey, Tool, ToolError, component, data, json,
    tool,
};

static CITY: Key<String> = Key::run("weather.city").initial(home);
static PLACES: Key<Vec<Place>, Append> = Key::thread("weather.places").append().persistent();
static SETTINGS: Key<Settings, MergePatch> = Key::thread("weather.settings").merge_patch();
static ASKED: Key<u32, Add> = Key::thread("weather.asked").add();
static SEEN: Key<BTreeSet<String>, Union> = Key::run("weather.seen").union();
static HOTTEST: Key<f64, Max> = Key::thread("weather.hottest").max();
static NOTES: Key<Vec<String>> = Key::of_another("notes.items");
static OTHERS: Key<u32> = Key::of_another("notes.count");

fn home() -> String {
    "Oslo".to_owned()
}

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Place {
    name: String,
}

#[data]
#[derive(Debug, Default, PartialEq)]
struct Settings {
    metric: bool,
    language: Option<String>,
}

/// Reads and writes everything.
#[tool(state(CITY, PLACES, SETTINGS, write(ASKED), read(NOTES)))]
fn visit(city: String, ctx: &Context) -> Result<(), ToolError> {
    ctx.append(&PLACES, &Place { name: city.clone() })?;
    ctx.set(&CITY, &city)?;
    ctx.merge(&SETTINGS, json!({"metric": true}))?;
    ctx.add(&ASKED, 1)?;
    ctx.union(&SEEN, &BTreeSet::from([city]))?;
    ctx.max(&HOTTEST, 21.5)
}

/// Reads what the other writes.
#[tool(state(read(ASKED)))]
fn count(ctx: &Context) -> Result<u32, ToolError> {
    ctx.get(&ASKED)
}

component! { id: "weather", tools: [visit, count], state: [SEEN, HOTTEST, OTHERS, read(CITY)] }

fn access(key: &str) -> StateAccess {
    Exported::describe().state.into_iter().find(|access| access.key == key).unwrap()
}

#[test]
fn k5_a_component_declares_each_key_once_with_all_its_uses() {
    let mut keys: Vec<String> = Exported::describe().state.into_iter().map(|access| access.key).collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "notes.count",
            "notes.items",
            "weather.asked",
            "weather.city",
            "weather.hottest",
            "weather.places",
            "weather.seen",
            "weather.settings"
        ]
    );
    let uses = |key| (access(key).read, access(key).write);
    assert_eq!(uses("weather.city"), (true, true), "the tool writes it, the component reads it");
    assert_eq!(uses("weather.asked"), (true, true), "one tool writes it, the other reads it");
    assert_eq!(uses("notes.items"), (true, false));
    assert_eq!(uses("notes.count"), (true, false), "another's is only read unless more is stated");
    let both = || vec![OTHERS.read(), OTHERS.write(), OTHERS.read_write()];
    assert_eq!(both().iter().map(|used| used.write).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(count {}.state().len(), 1);
}

#[test]
fn k5_a_key_of_ones_own_is_defined_and_anothers_is_not() {
    assert_eq!(
        access("weather.places").defines,
        Some(StateKey {
            initial: json!([]),
            schema: Some(json!({
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                },
            })),
            reducer: Reducer::Append,
            scope: Scope::Thread,
            persistent: true,
        })
    );
    let city = access("weather.city").defines.unwrap();
    assert_eq!(city.initial, json!("Oslo"));
    assert_eq!((city.scope, city.persistent), (Scope::Run, false));
    assert_eq!(access("notes.items").defines, None);
}

#[test]
fn k5_each_reducer_is_declared() {
    for (key, reducer) in [
        ("weather.city", Reducer::Replace),
        ("weather.settings", Reducer::MergePatch),
        ("weather.places", Reducer::Append),
        ("weather.asked", Reducer::Add),
        ("weather.seen", Reducer::Union),
        ("weather.hottest", Reducer::Max),
    ] {
        assert_eq!(access(key).defines.unwrap().reducer, reducer);
    }
}

#[test]
fn k4_a_state_schema_holds_what_the_tool_writes() {
    let schema = access("weather.settings").defines.unwrap().schema.unwrap();
    assert_eq!(schema["properties"]["language"]["type"], json!(["string", "null"]));
}

#[test]
fn k4_writes_become_mutations_in_their_order() {
    let ctx = Context::for_test();
    visit("Bergen".to_owned(), &ctx).unwrap();
    let written: Vec<_> =
        ctx.mutations().iter().map(|mutation| (mutation.key().to_owned(), mutation.update())).collect();
    let expected = [
        ("weather.places", json!({"name": "Bergen"})),
        ("weather.city", json!("Bergen")),
        ("weather.settings", json!({"metric": true})),
        ("weather.asked", json!(1)),
        ("weather.seen", json!(["Bergen"])),
        ("weather.hottest", json!(21.5)),
    ];
    assert_eq!(written, expected.map(|(key, update)| (key.to_owned(), update)));
}

#[test]
fn k4_reads_give_the_snapshot_or_the_initial_value() {
    let ctx =
        Context::for_test().with_state("weather.asked", json!(4)).with_state("notes.items", json!(["milk"]));
    assert_eq!(ctx.get(&ASKED), Ok(4));
    assert_eq!(ctx.get(&NOTES), Ok(vec!["milk".to_owned()]));
    assert_eq!(ctx.get(&CITY), Ok("Oslo".to_owned()));
    assert_eq!(ctx.get(&PLACES), Ok(vec![]));
    assert_eq!(ctx.read("weather.asked"), Some(json!(4)));
    assert_eq!(ctx.read("weather.city"), None);
}

#[test]
fn k4_a_value_too_large_for_the_snapshot_is_fetched() {
    let ctx = Context::for_test().with_large_state("weather.city", json!("Trondheim"));
    assert_eq!(ctx.get(&CITY), Ok("Trondheim".to_owned()));
    assert_eq!(ctx.read("weather.city"), Some(json!("Trondheim")));
}

#[test]
fn k4_reads_see_the_calls_own_writes() {
    let ctx = Context::for_test()
        .with_state("weather.places", json!([{"name": "Oslo"}]))
        .with_state("weather.settings", json!({"metric": false, "language": "no"}))
        .with_state("weather.asked", json!(4))
        .with_state("weather.seen", json!(["Bergen", "Oslo"]))
        .with_state("weather.hottest", json!(30.0));
    visit("Bergen".to_owned(), &ctx).unwrap();
    assert_eq!(ctx.get(&CITY), Ok("Bergen".to_owned()));
    assert_eq!(ctx.get(&PLACES).unwrap().len(), 2);
    let settings = Settings { metric: true, language: Some("no".to_owned()) };
    assert_eq!(ctx.get(&SETTINGS), Ok(settings));
    assert_eq!(ctx.get(&ASKED), Ok(5));
    assert_eq!(ctx.get(&SEEN).unwrap().len(), 2);
    assert_eq!(ctx.get(&HOTTEST), Ok(30.0));
    assert_eq!(ctx.read("weather.asked"), Some(json!(4)), "the snapshot itself stays");
}

#[test]
fn k4_a_value_of_another_type_is_an_internal_error() {
    let ctx = Context::for_test().with_state("notes.items", json!({"milk": 1}));
    let error = ctx.get(&NOTES).unwrap_err();
    assert!(matches!(error, ToolError::Internal(message) if message.contains("`notes.items`")));
}

#[test]
fn k4_a_key_may_be_written_by_its_name_alone() {
    let ctx = Context::for_test();
    ctx.update("weather.asked", &2).unwrap();
    assert_eq!(ctx.get(&ASKED), Ok(2));
}
