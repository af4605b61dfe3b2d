//! `tollgate:tool/content`: images, sounds, files and links that belong to the result.

use crate::charge::{leave, text};
use crate::instance::{GuestStore, Instance};
use crate::meter::Stop;
use crate::v0_1_0;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use tollgate_agent::content::{ContentPart, MAX_CONTENT_BYTES};
use wasmtime::component::{Linker, WasmList, WasmStr};

/// The host's memory for a part in addition to its texts, in bytes.
const EACH_BYTES: usize = 256;

type AttachResult = Result<(), String>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut content = linker.instance(&format!("tollgate:tool/content@{}", v0_1_0::VERSION))?;
    content.func_wrap("attach", attach)?;
    content.func_wrap("link", link)
}

fn attach(
    mut store: GuestStore<'_>,
    (mime_type, data, uri): (WasmStr, WasmList<u8>, Option<WasmStr>),
) -> wasmtime::Result<(AttachResult,)> {
    let bytes = data.len();
    leave(&mut store, bytes)?;
    // Longer texts are refused by their checks, and are not copied whole before.
    let mime_type = text(&mut store, &mime_type, MAX_CONTENT_BYTES)?;
    let uri = uri.map(|uri| text(&mut store, &uri, MAX_CONTENT_BYTES)).transpose()?;
    if bytes > MAX_CONTENT_BYTES {
        return Ok((Err(format!("it has {bytes} bytes; a result has at most {MAX_CONTENT_BYTES}")),));
    }
    // Base64 takes a third more than the bytes, and is written twice before it is shared.
    let encoded_bytes = bytes.div_ceil(3) * 4;
    let kept = EACH_BYTES + mime_type.len() + uri.as_ref().map_or(0, String::len) + encoded_bytes;
    add_part(&mut store, kept, encoded_bytes, |store| {
        let data = data.as_le_slice(store);
        let encoded = || Arc::from(STANDARD.encode(data));
        Ok(match uri {
            None if mime_type.starts_with("image/") => ContentPart::Image { mime_type, data: encoded() },
            None if mime_type.starts_with("audio/") => ContentPart::Audio { mime_type, data: encoded() },
            None => return Err("data without a URI is an image or a sound; give a URI for a file".to_owned()),
            Some(uri) => {
                let is_text = is_text(&mime_type).then(|| std::str::from_utf8(data).ok()).flatten();
                let mime_type = Some(mime_type).filter(|mime_type| !mime_type.is_empty());
                match is_text {
                    Some(text) => ContentPart::TextFile { uri, mime_type, text: text.into() },
                    None => ContentPart::BinaryFile { uri, mime_type, data: encoded() },
                }
            }
        })
    })
}

fn link(
    mut store: GuestStore<'_>,
    (uri, name, description, mime_type): (WasmStr, WasmStr, Option<WasmStr>, Option<WasmStr>),
) -> wasmtime::Result<(AttachResult,)> {
    let mut read = |given: &WasmStr| text(&mut store, given, MAX_CONTENT_BYTES);
    let (uri, name) = (read(&uri)?, read(&name)?);
    let description = description.as_ref().map(&mut read).transpose()?;
    let mime_type = mime_type.as_ref().map(&mut read).transpose()?;
    let link = ContentPart::Link { uri, name, title: None, description, mime_type, size: None };
    let bytes = link.bytes();
    if bytes > MAX_CONTENT_BYTES {
        return Ok((Err(format!("it has {bytes} bytes; a result has at most {MAX_CONTENT_BYTES}")),));
    }
    add_part(&mut store, EACH_BYTES + bytes, 0, |_| Ok(link))
}

/// Returns whether a file of this type is kept as text if its bytes are.
fn is_text(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default().trim_end();
    let is_structured = |word: &str| {
        essence.strip_prefix("application/").is_some_and(|kind| kind == word)
            || essence.rsplit_once('+').is_some_and(|(_, kind)| kind == word)
    };
    essence.is_empty() || essence.starts_with("text/") || is_structured("json") || is_structured("xml")
}

/// Adds a part that takes this much memory, and some more while it is made. Both are charged before.
fn add_part(
    store: &mut GuestStore<'_>,
    kept: usize,
    in_making: usize,
    make: impl FnOnce(&GuestStore<'_>) -> Result<ContentPart, String>,
) -> wasmtime::Result<(AttachResult,)> {
    let Some(serves) = &store.data().serves else {
        return Ok((Err(
            "nothing can be attached while a component describes itself or checks arguments".into()
        ),));
    };
    let (memory, in_making) = (kept as u64, in_making as u64);
    let slot = Arc::clone(&serves.slot);
    slot.charge(memory + in_making).map_err(Stop::from)?;
    let made = make(store).and_then(|part| part.checked().map_err(|why| why.to_string()));
    slot.release(in_making);
    let Some(serves) = &mut store.data_mut().serves else { return Ok((Ok(()),)) };
    let attached = made.and_then(|part| serves.attachments.add(part, memory).map_err(|why| why.to_string()));
    if attached.is_err() {
        slot.release(memory);
    }
    Ok((attached,))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_as_text_by_its_media_type() {
        for of in ["", "text/csv", "text/plain; charset=utf-8", "application/json", "image/svg+xml"] {
            assert!(is_text(of), "{of}");
        }
        for of in ["application/pdf", "image/png", "application/jsonl-not"] {
            assert!(!is_text(of), "{of}");
        }
    }
}
