//! Checks a component's bytes before they are used.

use super::census::{Census, CensusRefusal};
use super::rewrite::Changes;
use super::{MAX_COMPONENT_BYTES, MAX_CUSTOM_BYTES};
use crate::error::Refusal;
use bytes::Bytes;
use wasmparser::Parser;
use wasmtime::Engine;

/// The number of bytes with which a binary component begins.
pub(crate) const HEADER_BYTES: u64 = 8;

/// Bytes that look like a component and are within its limits.
pub(crate) struct ValidatedBytes {
    pub(crate) bytes: Bytes,
    /// The same component without the parts that must not reach the compiler; `None` if it has no
    /// such parts.
    reduced: Option<Vec<u8>>,
    /// The maximum number of its memories with an image.
    pub(crate) images: u32,
    /// The host's memory for its types and names once they are loaded, in bytes.
    pub(crate) metadata_bytes: u64,
}

impl ValidatedBytes {
    /// Returns the bytes to compile.
    pub(crate) fn to_compile(&self) -> &[u8] {
        self.reduced.as_deref().unwrap_or(&self.bytes)
    }
}

/// Refuses bytes that are not a binary component or exceed a limit. The compiler decides whether
/// the component is valid.
pub(crate) fn check(name: &str, bytes: impl Into<Bytes>) -> Result<ValidatedBytes, Refusal> {
    let bytes = bytes.into();
    if bytes.len() as u64 > MAX_COMPONENT_BYTES {
        return Err(Refusal::new(format!("{name} is larger than {} MiB", MAX_COMPONENT_BYTES >> 20)));
    }
    if Engine::detect_precompiled(&bytes).is_some() {
        return Err(Refusal::new(format!(
            "{name} is compiled machine code, not a component; it is never loaded, because it would run \
             outside the sandbox; use the component itself"
        )));
    }
    check_header(name, &bytes)?;
    let census = Census::of(&bytes).map_err(|why| match why {
        CensusRefusal::Damaged(why) => Refusal::new(format!(
            "{name} is not a valid component, it is damaged or cut off ({why}); copy or build it again"
        )),
        CensusRefusal::TooMuch(why) => Refusal::new(format!("{name} {why}")),
    })?;
    let changes = Changes::of(&census, MAX_CUSTOM_BYTES);
    let (images, metadata_bytes) = (census.images, census.metadata_bytes());
    Ok(ValidatedBytes { reduced: changes.make(&bytes), images, metadata_bytes, bytes })
}

/// Refuses bytes that do not begin like a binary component. The first [`HEADER_BYTES`] suffice.
pub(crate) fn check_header(name: &str, bytes: &[u8]) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::new(format!("{name} {why}")));
    if bytes.is_empty() {
        return refuse("is empty");
    }
    if Parser::is_core_wasm(bytes) {
        return refuse(
            "is a core wasm module, not a component; build it for a component target (such as wasm32-wasip2), \
             or make one of it with wasm-tools component new",
        );
    }
    if !Parser::is_component(bytes) {
        return refuse("is not a component in binary form (it does not begin as one); text is not read");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::engine::IMAGE_SLACK_BYTES;
    use crate::load::census::MAX_NESTING;

    fn refusal(bytes: &[u8]) -> String {
        check("x.wasm", bytes.to_vec()).err().unwrap().to_string()
    }

    #[test]
    fn what_is_no_component_is_refused_by_kind() {
        assert!(refusal(b"").contains("is empty"));
        assert!(refusal(b"(component)").contains("text is not read"));
        assert!(refusal(&wat::parse_str("(module)").unwrap()).contains("core wasm module"));
        let component = wat::parse_str("(component (core module (func)))").unwrap();
        assert!(refusal(&component[..component.len() - 3]).contains("damaged or cut off"));
        let engine = Engine::default();
        let compiled = engine.precompile_component(&component).unwrap();
        assert!(refusal(&compiled).contains("machine code"));
        assert!(check("x.wasm", component).is_ok());
    }

    fn checked(text: &str) -> ValidatedBytes {
        check("x", wat::parse_str(text).unwrap()).unwrap()
    }

    fn is_valid(checked: &ValidatedBytes) -> bool {
        wasmparser::Validator::new().validate_all(checked.to_compile()).is_ok()
    }

    #[test]
    fn custom_sections_beyond_the_limit_are_left_out_however_deep_they_are() {
        let text = "x".repeat(usize::try_from(MAX_CUSTOM_BYTES).unwrap() / 2);
        let one = format!("(core module (@custom \".debug_info\" \"{text}\") (func $named (nop)))");
        let within = checked(&format!("(component {one})"));
        assert_eq!(within.to_compile(), within.bytes);

        let three = checked(&format!("(component {one} (component {one} {one}) (core module (func $last)))"));
        assert!(is_valid(&three) && three.to_compile().len() < text.len());
        let left = Census::of(three.to_compile()).unwrap();
        assert!(left.name_bytes > 0 && left.name_bytes == left.custom_bytes, "names of functions stay");

        let long = "y".repeat(text.len() / 1_000);
        let functions: String = (0..2_100).map(|at| format!("(func ${long}{at})")).collect();
        let named = checked(&format!("(component (core module {functions}))"));
        assert!(is_valid(&named) && Census::of(named.to_compile()).unwrap().custom_bytes == 0);
    }

    fn data(memory_pages: u32, places: &[u64], bytes: usize) -> String {
        let text = "d".repeat(bytes);
        let segments: String =
            places.iter().map(|place| format!("(data (i32.const {place}) \"{text}\")")).collect();
        format!("(core module (memory {memory_pages}) {segments})")
    }

    /// Returns how many bytes of images the compiler makes of it.
    fn image_bytes(checked: &ValidatedBytes) -> usize {
        let engine = crate::engine::compiling_engine(crate::engine::Layout::Guarded).unwrap();
        engine.precompile_component(checked.to_compile()).unwrap().len()
    }

    #[test]
    fn z4_an_image_takes_no_more_than_twice_its_data_and_little_beside_it() {
        let small = image_bytes(&checked(&format!("(component {})", data(300, &[0], 1))));
        for (places, bytes, has_image) in [
            (vec![0, 16_000_000], 1, false),
            (vec![0, 40_000], 1, true),
            (vec![0, 4_000_000], 1_000_000, false),
            // Its gaps are as large as its data.
            (vec![0, 2_900_000], 1_000_000, true),
        ] {
            let checked = checked(&format!("(component {})", data(300, &places, bytes)));
            assert!(is_valid(&checked));
            assert_eq!(checked.reduced.is_none(), has_image, "{places:?}");
            let allowed = 2 * bytes * places.len() + usize::try_from(IMAGE_SLACK_BYTES).unwrap();
            assert!(image_bytes(&checked) < small + allowed, "{places:?}: {}", image_bytes(&checked));
        }
        let each_sparse = data(300, &[0, 16_000_000], 1);
        let many = checked(&format!("(component {})", each_sparse.repeat(100)));
        assert!(image_bytes(&many) < 16 << 20, "{}", image_bytes(&many));
        let two_memories = "(core module (memory 1) (memory 300) (data (memory 1) (i32.const 0) \"a\") \
             (data (memory 1) (i32.const 19000000) \"a\"))";
        assert!(checked(&format!("(component {two_memories})")).reduced.is_some());
    }

    #[test]
    fn z4_each_image_is_a_descriptor_and_a_component_has_few() {
        let one = data(1, &[0], 1);
        let many = checked(&format!("(component {})", one.repeat(100)));
        assert!(is_valid(&many));
        assert_eq!(Census::of(&many.bytes).unwrap().without_image.len(), 100 - 32);
        assert!(Census::of(many.to_compile()).unwrap().without_image.is_empty());
    }

    fn counts(text: &str) -> String {
        match check("x", wat::parse_str(text).unwrap()) {
            Ok(_) => String::new(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn z4_core_modules_are_counted_however_deep_they_are() {
        let modules = "(core module)".repeat(64);
        assert_eq!(counts(&format!("(component {modules} (component {modules}))")), "");
        let more = counts(&format!("(component {modules} (component {modules} (core module)))"));
        assert!(more.contains("more than 128 core modules"), "{more}");
    }

    #[test]
    fn z4_components_that_double_are_counted_as_often_as_they_are_instantiated() {
        let doubling = |levels: usize| {
            let mut inner = "(component $c (core module $m) (core instance (instantiate $m)))".to_owned();
            for _ in 0..levels {
                inner =
                    format!("(component $c {inner} (instance (instantiate $c)) (instance (instantiate $c)))");
            }
            inner
        };
        assert_eq!(counts(&doubling(10)), "");
        assert!(counts(&doubling(30)).contains("more than 100000 items"));
        // Neither an alias nor an export hides a component's size.
        let hidden = "(component $d (alias outer 1 $c (component $e)) (export \"f\" (component $e)) \
             (instance (instantiate $e)) (instance (instantiate $e)))";
        let text = format!("(component {} {hidden} (instance (instantiate $d)))", doubling(20));
        assert!(counts(&text).contains("more than 100000 items"));
        let given = "(component (component $f (import \"c\" (component $c)) (instance (instantiate $c))))";
        assert!(counts(given).contains("instantiates a component that it imports"), "{}", counts(given));
    }

    /// None of them takes memory here.
    #[test]
    fn z4_many_small_sections_are_counted_and_left_out() {
        let mut many = wat::parse_str("(component (core module (func)))").unwrap();
        many.extend([0, 1, 0].repeat(2 << 20));
        let checked = check("x", many).unwrap();
        assert!(checked.to_compile().len() < 100 && is_valid(&checked));

        let aliases = "(alias outer 0 $c (component))".repeat(1_000);
        assert!(
            counts(&format!("(component (component $c) {aliases})")).contains("more than 1000 components")
        );
    }

    #[test]
    fn asynchronous_functions_are_refused_with_the_way_to_do_without() {
        let with = |function: &str| {
            counts(&format!(
                "(component (core module $m (func (export \"f\") (result i32) i32.const 0)) \
                 (core instance $i (instantiate $m)) {function})"
            ))
        };
        assert_eq!(with("(func (export \"f\") (result u32) (canon lift (core func $i \"f\")))"), "");
        for function in [
            "(core func (canon task.return))",
            "(core func (canon waitable-set.new))",
            "(type $s (stream u8)) (core func (canon stream.new $s))",
        ] {
            let refusal = with(function);
            for words in
                ["WASI 0.3", "componentize-qjs --sync", "jco componentize --backend-qjs-disable-async"]
            {
                assert!(refusal.contains(words), "{words} is not in: {refusal}");
            }
        }
    }

    #[test]
    fn z4_nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "(component ".repeat(depth), ")".repeat(depth));
        assert_eq!(counts(&nested(MAX_NESTING)), "");
        assert!(counts(&nested(MAX_NESTING + 2)).contains("more than 64 deep"));
    }
}
