//! WIT documentation of a plain component's functions becomes the descriptions of its tools. The
//! component is built by the WIT tools from a documented package, with its documentation in the
//! section in which they store it.

use crate::versions::Place;
use std::collections::BTreeMap;
use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageMetadata, Resolve};

const WIT: &str = "
    package docs:shop@1.2.0;

    /// The articles for sale.
    interface prices {
        /// The price of an article today,
        /// in cents.
        price: func(article: u32) -> u32;
        undocumented: func(article: u32) -> u32;
    }

    /// A shop.
    world shop {
        export prices;
        export stock: interface {
            /// How many there are.
            count: func(article: u32) -> u32;
        }
        /// Twice as much.
        export double: func(of: u32) -> u32;
    }
";

/// A module that answers every call with its argument.
const MODULE: &str = r#"(module
    (func $same (param i32) (result i32) local.get 0)
    (export "docs:shop/prices@1.2.0#price" (func $same))
    (export "docs:shop/prices@1.2.0#undocumented" (func $same))
    (export "stock#count" (func $same))
    (export "double" (func $same)))"#;

/// Returns the component, with or without its documentation.
fn shop(is_documented: bool) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("shop.wit", WIT).unwrap();
    let world = resolve.select_world(&[package], Some("shop")).unwrap();
    let mut module = wat::parse_str(MODULE).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    let mut component = ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap();
    if is_documented {
        let section = PackageMetadata::extract(&resolve, package).encode().unwrap();
        let name = PackageMetadata::SECTION_NAME.into();
        CustomSection { name, data: section.into() }.append_to_component(&mut component);
    }
    component
}

/// Returns the description of each tool.
async fn descriptions(component: &[u8]) -> BTreeMap<String, String> {
    let place = Place::new();
    place.put("shop.wasm", component);
    let loaded = place.load().await;
    assert_eq!(loaded.toolbox.refused(), &[]);
    let tools = loaded.toolbox.catalog().tools().map(|tool| {
        let tool = &tool.descriptor;
        (tool.name.to_string(), tool.description.clone())
    });
    tools.collect()
}

#[tokio::test]
async fn what_wit_documents_is_what_the_model_reads() {
    let read = descriptions(&shop(true)).await;
    let expected = [
        ("double", "Twice as much.\n\ndouble: func(of: u32) -> u32"),
        ("prices-price", "The price of an article today,\nin cents.\n\nprice: func(article: u32) -> u32"),
        ("prices-undocumented", "undocumented: func(article: u32) -> u32"),
        ("stock-count", "How many there are.\n\ncount: func(article: u32) -> u32"),
    ];
    let expected = expected.map(|(tool, words)| (tool.to_owned(), words.to_owned()));
    assert_eq!(read, BTreeMap::from(expected));
}

#[tokio::test]
async fn without_documentation_there_is_the_signature_alone() {
    let read = descriptions(&shop(false)).await;
    assert_eq!(read["prices-price"], "price: func(article: u32) -> u32");
    assert_eq!(read["double"], "double: func(of: u32) -> u32");
}
