//! `tollgate:tool/call`: what a tool tells and asks while it runs. In a sealed
//! instance it tells nobody, and there is nothing to ask for.
//!
//! Calls of the host and the bytes that they carry cost fuel as instructions do, so
//! that a guest is cut at the same place whether it computes or talks.

use crate::instance::{Instance, Reports};
use crate::meter::Stop;
use crate::report::{self, Report};
use crate::v0_1_0::call::{Level, ProgressStatus};
use crate::v0_1_0::{self};
use tollgate_agent::text::clean;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

/// Fuel for a call of the host, whatever it carries: about what it costs.
const CALL_FUEL: u64 = 1_000;
/// The longest kind of an activity, in bytes; a longer one is cut.
const MAX_KIND_BYTES: usize = 64;

type Store<'a> = StoreContextMut<'a, Instance>;
type Unit = wasmtime::Result<()>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> Unit {
    let mut call = linker.instance(&format!("tollgate:tool/call@{}", v0_1_0::VERSION))?;
    call.func_wrap("report-activity", |mut store: Store<'_>, (kind, content): (String, String)| {
        tell(&mut store, kind.len() + content.len(), |bounds| {
            Some(Report::Activity { kind: bounds.kind(&kind), content: bounds.text(&content) })
        })
    })?;
    call.func_wrap("report-activity-delta", |mut store: Store<'_>, (kind, patch): (String, String)| {
        tell(&mut store, kind.len() + patch.len(), |bounds| {
            let patch = tollgate_agent::json::parse(&patch).ok()?;
            Some(Report::ActivityDelta { kind: bounds.kind(&kind), patch })
        })
    })?;
    call.func_wrap("report-progress", report_progress)?;
    call.func_wrap("stream-output", |mut store: Store<'_>, (delta,): (String,)| {
        tell(&mut store, delta.len(), |bounds| Some(Report::Output(bounds.text(&delta))))
    })?;
    call.func_wrap("log", |mut store: Store<'_>, (level, message): (Level, String)| {
        tell(&mut store, message.len(), |bounds| {
            Some(Report::Log { level: level_of(level), message: bounds.text(&message) })
        })
    })?;
    call.func_wrap("read-state", |mut store: Store<'_>, (key,): (String,)| {
        Ok((read_state(&mut store, &key)?,))
    })?;
    call.func_wrap("is-cancelled", |mut store: Store<'_>, (): ()| {
        charge(&mut store, 0)?;
        Ok((store.data().serves.as_ref().is_some_and(|serves| serves.cancel.is_cancelled()),))
    })
}

fn report_progress(
    mut store: Store<'_>,
    (status, message, progress): (ProgressStatus, Option<String>, Option<f64>),
) -> Unit {
    let bytes = message.as_ref().map_or(0, String::len);
    tell(&mut store, bytes, |bounds| {
        Some(Report::Progress {
            status: status_of(status),
            message: message.map(|text| bounds.text(&text)),
            progress: progress.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0)),
        })
    })
}

/// Passes a report on if it is within the bounds, and counts it if it is lost.
fn tell(store: &mut Store<'_>, bytes: usize, report: impl FnOnce(&Bounds) -> Option<Report>) -> Unit {
    charge(store, bytes)?;
    store.data().boundary.leave(bytes as u64)?;
    if let Some(serves) = &mut store.data_mut().serves {
        serves.reports.tell(bytes as u64, report);
    }
    Ok(())
}

impl Reports {
    fn tell(&mut self, bytes: u64, report: impl FnOnce(&Bounds) -> Option<Report>) {
        let fits = self.left > 0 && bytes <= self.each_bytes && bytes <= self.bytes_left;
        let bounds = Bounds { text_bytes: usize::try_from(self.each_bytes).unwrap_or(usize::MAX) };
        let told = fits
            && self.sink.is_heard()
            && report(&bounds).is_some_and(|mut report| {
                self.blanked.report(&mut report);
                self.left -= 1;
                self.bytes_left -= bytes;
                self.sink.offer(report)
            });
        self.dropped += u64::from(!told);
    }
}

/// Makes a guest's words fit for people.
struct Bounds {
    text_bytes: usize,
}

impl Bounds {
    fn kind(&self, kind: &str) -> String {
        clean(kind, MAX_KIND_BYTES)
    }

    fn text(&self, text: &str) -> String {
        clean(text, self.text_bytes)
    }
}

fn read_state(store: &mut Store<'_>, key: &str) -> wasmtime::Result<Option<String>> {
    charge(store, key.len())?;
    let Some(serves) = &store.data().serves else {
        return Ok(None);
    };
    if !serves.access.may_read(key) {
        return Ok(None);
    }
    let Some(value) = serves.snapshot.get(&serves.keys, key).map(ToString::to_string) else {
        return Ok(None);
    };
    if value.len() as u64 > store.data().crossing_bytes() {
        return Err(Stop::Crossing.into());
    }
    store.data().boundary.enter(value.len() as u64)?;
    charge(store, value.len())?;
    Ok(Some(value))
}

/// Takes the fuel of a call of the host with so many bytes, of one unit each.
pub(super) fn charge(store: &mut Store<'_>, bytes: usize) -> Unit {
    match store.get_fuel()?.checked_sub(CALL_FUEL + bytes as u64) {
        Some(left) => store.set_fuel(left),
        None => {
            store.set_fuel(0)?;
            Err(Stop::Fuel.into())
        }
    }
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
