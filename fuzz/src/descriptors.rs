//! Fuzzes a component's description of itself and the arguments for its tools. The first line is
//! a descriptor as stored in the cache, the rest are arguments as written by a model.

use tollgate_agent::catalog::{Catalog, CatalogGrants, Owner, OwnerKind};
use tollgate_agent::descriptor::ComponentDescriptor;
use tollgate_agent::proposal::{Arguments, Proposal};
use tollgate_agent::{json, name};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (descriptor, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    [descriptor, arguments].into_iter().for_each(crate::output::stays_what_it_says);
    let Ok(descriptor) = json::from_record::<ComponentDescriptor>(descriptor) else { return };
    let mut catalog = Catalog::default();
    let owner = || Owner {
        id: descriptor.id.as_str().into(),
        kind: OwnerKind::Component,
        origin: "fuzzed.wasm".to_owned(),
        version: "0".into(),
    };
    if catalog.add(owner(), descriptor.clone(), &CatalogGrants::default()).is_err() {
        return;
    }
    let again = catalog.add(owner(), descriptor.clone(), &CatalogGrants::default());
    assert!(again.is_err(), "two of one id are served");
    for tool in catalog.tools() {
        let tool = &tool.descriptor;
        assert!(name::is_tool_name(&tool.name) && name::is_id(&tool.id), "{:?} {:?}", tool.name, tool.id);
        let Ok(arguments) = Arguments::read(arguments) else { continue };
        if let Err(fault) = Proposal::check(&catalog, |_| true, "call", &tool.name, &arguments) {
            assert!(fault.message.len() <= 64 << 10, "a fault of {} bytes", fault.message.len());
        }
        assert_eq!(serde_json::to_value(&arguments).unwrap(), *arguments.value(), "{}", arguments.text());
    }
}
