//! Resolves references within a schema.

use serde_json::Value;

/// Returns the subschema that a reference within the document names.
pub(super) fn target<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_may_be_percent_encoded() {
        let root = json!({ "$defs": { "a[b]": 1 } });
        assert_eq!(target(&root, "#/$defs/a%5Bb%5D"), Some(&json!(1)));
        assert_eq!(target(&root, "#anchor"), None);
    }
}
