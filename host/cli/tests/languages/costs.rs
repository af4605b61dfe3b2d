//! Checks the table of languages in docs/costs.md: the figures that do not depend on the machine
//! match the current build. The comment above the table names the command that regenerates it.

use crate::built::{LANGUAGES, compiled, serve};
use std::collections::BTreeMap;
use tollgate::CallRequest;

/// The cells of a row, by the heading of their column.
pub(crate) type Row = BTreeMap<&'static str, &'static str>;

/// The tolerated deviation of a documented number from the current one, as a fraction of it.
const TOLERANCE: f64 = 0.1;
/// The arguments of the measured calls.
const ARGUMENTS: &str = r#"{"text":"one two two three three three, and so on: a hundred bytes or so of ordinary words, as ever."}"#;

/// The rows of the table, in the order of the languages.
pub(crate) fn rows() -> Vec<Row> {
    let page = include_str!("../../../../docs/costs.md");
    let (_, table) =
        page.split_once("<!-- measured: TOLLGATE_WRITE_DOCS=1 scripts/bench languages -->").unwrap();
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let mut lines = table.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let rows: Vec<Row> =
        lines.skip(1).map(|cells| head.iter().copied().zip(cells).collect::<Row>()).collect();
    assert_eq!(rows.len(), LANGUAGES.len());
    for (row, language) in rows.iter().zip(&LANGUAGES) {
        assert_eq!(row["language"].to_lowercase(), language.name);
    }
    rows
}

/// Returns a number with its unit as a number: `83,716`, `4.4 MiB`.
fn amount(cell: &str) -> f64 {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let number: f64 = number.replace(',', "").parse().unwrap();
    number
        * f64::from(match unit {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            _ => 1,
        })
}

/// Returns half a unit of the last digit that a cell shows.
fn half_a_digit(cell: &str) -> f64 {
    let digits = cell.split_once(' ').map_or(cell, |(number, _)| number);
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    amount(&cell.replacen(digits, "1", 1)) / 10_f64.powi(i32::try_from(decimals).unwrap()) / 2.0
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn the_table_of_costs_says_what_every_language_takes() {
    let tools = compiled();
    let host = serve(tools.path(), "").await;
    let mut stale = Vec::new();
    for (language, row) in LANGUAGES.iter().zip(rows()) {
        let file = tools.path().join("tools").join(language.tool().replace('_', "-"));
        let bytes = std::fs::metadata(file.with_extension("wasm")).unwrap().len();
        let usage = host
            .call(CallRequest::from_json(language.tool(), ARGUMENTS))
            .await
            .unwrap()
            .last_call
            .unwrap()
            .usage;
        for (column, now) in [("size", bytes), ("fuel", usage.fuel), ("memory", usage.memory_bytes)] {
            let cell = row[column];
            let off = (amount(cell) - now as f64).abs();
            if off > TOLERANCE * now as f64 + half_a_digit(cell) {
                stale.push(format!("{}: {column} is {now}, not {cell}", language.name));
            }
        }
    }
    assert_eq!(stale, Vec::<String>::new(), "docs/costs.md says how it is written anew");
}

#[test]
fn cells_are_read_as_they_are_written() {
    assert_eq!([amount("83,716"), amount("60 KiB"), amount("0.5 MiB")], [83_716.0, 61_440.0, 524_288.0]);
    assert_eq!([half_a_digit("7"), half_a_digit("60 KiB"), half_a_digit("0.1 MiB")], [0.5, 512.0, 52_428.8]);
}
