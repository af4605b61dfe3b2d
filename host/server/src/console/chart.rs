//! Charts as inline SVG with classes. The bars scale with the page; all labels are HTML, so that they
//! stay readable.

use super::text;
use maud::{Markup, html};

/// The height of the drawing.
const HEIGHT: u64 = 100;
/// The width of a bar with its gap.
const STEP: u64 = 10;

/// One bar of a chart.
#[derive(Debug, Clone, Default)]
pub(super) struct Bar {
    /// The beginning of the bar's time, in words.
    pub(super) label: String,
    /// The same in a few letters, for the axis.
    pub(super) short: String,
    /// The parts, from the bottom to the top.
    pub(super) parts: [u64; 2],
}

/// The parts of a chart's bars.
pub(super) struct ChartParts {
    /// The title of the chart.
    pub(super) title: &'static str,
    /// For each part its class and its name.
    pub(super) names: [(&'static str, &'static str); 2],
}

/// Renders bars with their scale, and a table of their numbers.
pub(super) fn bars(bars: &[Bar], parts: &ChartParts, first_column: &str) -> Markup {
    let largest = bars.iter().map(|bar| bar.parts.iter().sum()).max().unwrap_or(0);
    let top = round_top(largest);
    let width = STEP * bars.len().max(1) as u64;
    // Whole days, if a bar is a part of one.
    let few = bars.len().div_ceil(7).max(1);
    let label_every = (few..bars.len()).find(|every| bars.len().is_multiple_of(*every)).unwrap_or(few);
    html! {
        figure.chart {
            figcaption {
                span.title { (parts.title) }
                @for (class, name) in parts.names {
                    span.key { svg.key viewBox="0 0 12 12" aria-hidden="true" { rect.(class) width="12" height="12" {} } (name) }
                }
            }
            div.plot aria-hidden="true" {
                div.scale { span { (text::amount(top)) } span { (text::amount(top / 2)) } span { "0" } }
                svg viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" {
                    line.grid x1="0" x2=(width) y1="0" y2="0" {} line.grid x1="0" x2=(width) y1=(HEIGHT / 2) y2=(HEIGHT / 2) {}
                    line.grid x1="0" x2=(width) y1=(HEIGHT) y2=(HEIGHT) {}
                    @for (at, bar) in bars.iter().enumerate() { (stack(at as u64, bar, parts, top)) }
                }
                div.labels { @for (at, bar) in bars.iter().enumerate() { @if at % label_every == 0 { span { (bar.short) } } } }
            }
            details {
                summary { "Numbers of this chart" }
                div.scroll tabindex="0" role="group" aria-label=(parts.title) { table {
                    thead { tr { th scope="col" { (first_column) } @for (_, name) in parts.names { th.num scope="col" { (name) } } } }
                    tbody { @for bar in bars.iter().filter(|bar| bar.parts != [0, 0]) {
                        tr { th scope="row" { (bar.label) } @for part in bar.parts { td.num { (text::number(part)) } } }
                    } }
                } }
            }
        }
    }
}

/// Draws the parts of one bar on top of each other. A part that is not zero is at least one unit high.
fn stack(at: u64, bar: &Bar, parts: &ChartParts, top: u64) -> Markup {
    let height = |value: u64| (value * HEIGHT).checked_div(top).unwrap_or(0).max(u64::from(value > 0));
    let mut base = HEIGHT;
    html! {
        @for (value, (class, _)) in bar.parts.iter().zip(parts.names) {
            @if *value > 0 {
                @let high = height(*value).min(base);
                @let y = { base -= high; base };
                rect.(class) x=(at * STEP + 1) y=(y) width=(STEP - 2) height=(high) {}
            }
        }
    }
}

/// Rounds the largest value up to one that can be halved and read.
fn round_top(most: u64) -> u64 {
    let mut size = 1;
    loop {
        for factor in [2, 4, 6, 8, 10] {
            if most <= size * factor {
                return size * factor;
            }
        }
        size *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_ends_at_a_round_number() {
        assert_eq!(
            [round_top(0), round_top(3), round_top(7), round_top(150), round_top(3_999)],
            [2, 4, 8, 200, 4_000]
        );
    }

    #[test]
    fn a_chart_has_its_numbers_in_a_table() {
        let bars = [
            Bar { label: "08:00".to_owned(), short: "08".to_owned(), parts: [3, 1] },
            Bar { label: "09:00".to_owned(), short: "09".to_owned(), parts: [0, 0] },
        ];
        let parts = ChartParts { title: "Calls", names: [("good", "succeeded"), ("bad", "failed")] };
        let html = super::bars(&bars, &parts, "Hour").into_string();
        assert!(html.contains("<td class=\"num\">3</td>") && !html.contains("style="), "{html}");
        assert_eq!(html.matches("<rect class=\"good\"").count(), 2, "one in the key, one bar");
    }
}
