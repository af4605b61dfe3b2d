//! The costs of `tollgate serve`, beside a bare axum handler that reads the same JSON, checks the
//! digest of a bearer key and answers the same bytes. Both take turns in one run, and the clients
//! share the machine with the server.
//!
//! `scripts/bench serve [calls|events|idle|console|start]...` runs it and prints tables in Markdown.
//! The tools are components of `example-tools`, built for the tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod calls;
mod client;
mod console;
mod events;
mod idle;
mod server;
mod start;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some((idle::CLIENTS, arguments)) = wanted.split_first().map(|(first, rest)| (&**first, rest)) {
        return idle::clients(arguments);
    }
    let parts: [(&str, fn()); 5] = [
        ("calls", calls::table),
        ("events", events::table),
        ("idle", idle::table),
        ("console", console::table),
        ("start", start::table),
    ];
    for (name, table) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            table();
        }
    }
}

/// Returns a percentile of the values, and sorts them.
pub(crate) fn at(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
