//! `tollgate:tool/call`: a tool's reports and queries while it runs. In a sealed instance reports
//! are dropped and there is nothing to query.

use crate::charge::{charge, leave};
use crate::instance::{GuestStore, Instance, Reports};
use crate::meter::Stop;
use crate::report::{self, Report};
use crate::v0_1_0;
use crate::v0_1_0::call::{Level, ProgressStatus};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::Cell;
use tollgate_agent::json;
use tollgate_agent::text::clean;
use wasmtime::component::{Linker, WasmStr};
use wasmtime::{AsContext, StoreContext};

/// A value counts against the bytes of reports with a sixteenth of the memory that it takes, if
/// that is more than its text. Many small values can take a hundred times their text.
const MEMORY_PER_BYTE: u64 = 16;
/// The maximum length of an activity's kind in bytes; a longer one is truncated.
const MAX_KIND_BYTES: usize = 64;

type Unit = wasmtime::Result<()>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> Unit {
    let mut call = linker.instance(&format!("tollgate:tool/call@{}", v0_1_0::VERSION))?;
    call.func_wrap("report-activity", |mut store: GuestStore<'_>, (kind, content): (WasmStr, WasmStr)| {
        send_report(&mut store, &[&kind, &content], |words| {
            Ok(Some(Report::Activity { kind: words.kind(&kind)?, content: words.text(&content)? }))
        })
    })?;
    call.func_wrap(
        "report-activity-delta",
        |mut store: GuestStore<'_>, (kind, patch): (WasmStr, WasmStr)| {
            send_report(&mut store, &[&kind, &patch], |words| {
                let Some(patch) = words.patch(&patch)? else { return Ok(None) };
                Ok(Some(Report::ActivityDelta { kind: words.kind(&kind)?, patch }))
            })
        },
    )?;
    call.func_wrap("report-progress", report_progress)?;
    call.func_wrap("stream-output", |mut store: GuestStore<'_>, (delta,): (WasmStr,)| {
        send_report(&mut store, &[&delta], |words| Ok(Some(Report::Output(words.text(&delta)?))))
    })?;
    call.func_wrap("log", |mut store: GuestStore<'_>, (level, message): (Level, WasmStr)| {
        send_report(&mut store, &[&message], |words| {
            Ok(Some(Report::Log { level: level_of(level), message: words.text(&message)? }))
        })
    })?;
    call.func_wrap("read-state", |mut store: GuestStore<'_>, (key,): (WasmStr,)| {
        Ok((read_state(&mut store, &key)?,))
    })?;
    call.func_wrap("is-cancelled", |mut store: GuestStore<'_>, (): ()| {
        charge(&mut store, 0)?;
        Ok((store.data().cancel.is_cancelled(),))
    })
}

fn report_progress(
    mut store: GuestStore<'_>,
    (status, message, progress): (ProgressStatus, Option<WasmStr>, Option<f64>),
) -> Unit {
    send_report(&mut store, message.as_ref().as_slice(), |words| {
        Ok(Some(Report::Progress {
            status: status_of(status),
            message: message.as_ref().map(|text| words.text(text)).transpose()?,
            progress: progress.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0)),
        }))
    })
}

/// Passes on a report that is within the limits, and counts it if it is lost. Its texts are
/// always checked, but only copied out of the guest if a sink accepts reports.
fn send_report(
    store: &mut GuestStore<'_>,
    texts: &[&WasmStr],
    report: impl FnOnce(&TextReader<'_>) -> wasmtime::Result<Option<Report>>,
) -> Unit {
    let mut bytes = 0;
    for text in texts {
        bytes += text.to_str(&*store)?.len();
    }
    charge(store, bytes)?;
    let bytes = bytes as u64;
    store.data().boundary.leave(bytes)?;
    let Some(serves) = &store.data().serves else { return Ok(()) };
    let (report, bytes) = match serves.reports.accepts(bytes) {
        true => {
            let words = TextReader {
                store: store.as_context(),
                each_bytes: serves.reports.each_bytes,
                bytes_left: serves.reports.bytes_left,
                weight: Cell::new(bytes),
            };
            (report(&words)?, words.weight.get())
        }
        false => (None, bytes),
    };
    if let Some(serves) = &mut store.data_mut().serves {
        serves.reports.send(bytes, report);
    }
    Ok(())
}

impl Reports {
    /// Returns whether there is room for a report of this many bytes and a sink to take it.
    fn accepts(&self, bytes: u64) -> bool {
        self.left > 0 && bytes <= self.each_bytes && bytes <= self.bytes_left && self.sink.is_heard()
    }

    /// Sends a report that counts as this many bytes. Counts it as dropped if there is none, or the sink
    /// does not take it.
    fn send(&mut self, bytes: u64, report: Option<Report>) {
        let was_sent = report.is_some_and(|mut report| {
            self.redactor.report(&mut report);
            self.left -= 1;
            self.bytes_left -= bytes;
            self.sink.offer(report)
        });
        self.dropped += u64::from(!was_sent);
    }
}

/// Sanitizes a guest's text for people.
struct TextReader<'a> {
    store: StoreContext<'a, Instance>,
    each_bytes: u64,
    bytes_left: u64,
    /// The size of the report for its limits, in bytes.
    weight: Cell<u64>,
}

impl TextReader<'_> {
    /// Parses a patch. Returns `None` if it is not JSON or takes more memory than a report may.
    fn patch(&self, text: &WasmStr) -> wasmtime::Result<Option<Value>> {
        let text = self.raw(text)?;
        let weight = json::measure(text.as_bytes()).parsed_bytes / MEMORY_PER_BYTE;
        self.weight.set(self.weight.get().max(weight));
        if self.weight.get() > self.each_bytes.min(self.bytes_left) {
            return Ok(None);
        }
        Ok(json::parse_exact(&text).ok())
    }

    fn kind(&self, kind: &WasmStr) -> wasmtime::Result<String> {
        Ok(clean(&self.raw(kind)?, MAX_KIND_BYTES))
    }

    fn text(&self, text: &WasmStr) -> wasmtime::Result<String> {
        Ok(clean(&self.raw(text)?, usize::try_from(self.each_bytes).unwrap_or(usize::MAX)))
    }

    fn raw(&self, text: &WasmStr) -> wasmtime::Result<Cow<'_, str>> {
        text.to_str(self.store.as_context())
    }
}

fn read_state(store: &mut GuestStore<'_>, key: &WasmStr) -> wasmtime::Result<Option<String>> {
    let bytes = key.to_str(&*store)?.len();
    leave(store, bytes)?;
    // The text of an earlier value has been copied to the guest.
    store.data_mut().passed_on = None;
    let Some(serves) = &store.data().serves else {
        return Ok(None);
    };
    let key = key.to_str(&*store)?;
    if !serves.access.may_read(&key) {
        return Ok(None);
    }
    let Some(value) = serves.snapshot.get(&serves.keys, &key) else {
        return Ok(None);
    };
    // A value may be as large as the whole state, so it is measured before it is written.
    let bytes = json::written_bytes(value) as u64;
    if bytes > store.data().crossing_bytes() {
        return Err(Stop::Crossing.into());
    }
    store.data().boundary.enter(bytes)?;
    let held = serves.slot.charge_while(bytes).map_err(Stop::from)?;
    let text = value.to_string();
    store.data_mut().passed_on = Some(held);
    charge(store, text.len())?;
    Ok(Some(text))
}

fn status_of(status: ProgressStatus) -> report::ProgressStatus {
    match status {
        ProgressStatus::Pending => report::ProgressStatus::Pending,
        ProgressStatus::Running => report::ProgressStatus::Running,
        ProgressStatus::Done => report::ProgressStatus::Done,
        ProgressStatus::Failed => report::ProgressStatus::Failed,
        ProgressStatus::Cancelled => report::ProgressStatus::Cancelled,
    }
}

fn level_of(level: Level) -> report::Level {
    match level {
        Level::Trace => report::Level::Trace,
        Level::Debug => report::Level::Debug,
        Level::Info => report::Level::Info,
        Level::Warn => report::Level::Warn,
        Level::Error => report::Level::Error,
    }
}
