//! The statistics of one column, collected cell by cell.

use document::cut;
use serde::Serialize;
use std::collections::HashMap;

/// The longest text that a result quotes from a cell, in characters.
const MAX_QUOTED_CHARS: usize = 80;

/// The statistics of a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnStatistics {
    /// The name in the header, or `column 1` and so on.
    pub name: String,
    /// The number of cells that are not empty.
    pub count: usize,
    /// The number of empty cells.
    pub empty: usize,
    /// The number of distinct values among the cells that are not empty.
    pub distinct: usize,
    /// The kind of values and their figures.
    #[serde(flatten)]
    pub values: Values,
}

/// The figures of a column's values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Values {
    /// Every value is a finite number.
    Number(Numbers),
    /// At least one value is not.
    Text(Texts),
    /// There are no values.
    Empty,
}

/// Figures of a column of numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Numbers {
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The sum.
    pub sum: f64,
    /// The average.
    pub mean: f64,
    /// The median: the middle value, or the average of the two middle values.
    pub median: f64,
    /// The standard deviation of the population.
    pub std_dev: f64,
}

/// Figures of a column of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Texts {
    /// The first value in the order of code points.
    pub min: String,
    /// The last value in that order.
    pub max: String,
    /// The most frequent value; the first in order if there are several.
    pub most_frequent: String,
    /// The number of its occurrences.
    pub most_frequent_count: usize,
}

/// A column that is being read.
pub(crate) struct Column {
    name: String,
    empty: usize,
    /// The number of occurrences of each value.
    seen: HashMap<String, usize>,
    /// The values as numbers; `None` once a value is not a number.
    numbers: Option<Vec<f64>>,
}

impl Column {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), empty: 0, seen: HashMap::new(), numbers: Some(Vec::new()) }
    }

    pub(crate) fn take(&mut self, cell: &str) {
        if cell.is_empty() {
            self.empty += 1;
            return;
        }
        match self.seen.get_mut(cell) {
            Some(count) => *count += 1,
            None => {
                self.seen.insert(cell.to_owned(), 1);
            }
        }
        match (&mut self.numbers, number(cell)) {
            (Some(numbers), Some(number)) => numbers.push(number),
            _ => self.numbers = None,
        }
    }

    pub(crate) fn finish(self) -> ColumnStatistics {
        let values = match self.numbers {
            _ if self.seen.is_empty() => Values::Empty,
            Some(numbers) => Values::Number(Numbers::of(numbers)),
            None => Texts::of(&self.seen).map_or(Values::Empty, Values::Text),
        };
        ColumnStatistics {
            name: cut(&self.name, MAX_QUOTED_CHARS),
            count: self.seen.values().sum(),
            empty: self.empty,
            distinct: self.seen.len(),
            values,
        }
    }
}

/// `NaN` and `inf` are words in most tables and have no place in a mean.
fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|number: &f64| number.is_finite())
}

impl Numbers {
    /// Computes the figures of at least one number.
    fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_unstable_by(f64::total_cmp);
        let count = numbers.len() as f64;
        let sum: f64 = numbers.iter().sum();
        let mean = sum / count;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count;
        Self {
            min: numbers.first().copied().unwrap_or_default(),
            max: numbers.last().copied().unwrap_or_default(),
            sum,
            mean,
            median: median(&numbers),
            std_dev: variance.sqrt(),
        }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => 0.0,
        _ if sorted.len() % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

impl Texts {
    fn of(seen: &HashMap<String, usize>) -> Option<Self> {
        let min = seen.keys().min()?;
        let max = seen.keys().max()?;
        let (most, count) = seen.iter().max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
        Some(Self {
            min: cut(min, MAX_QUOTED_CHARS),
            max: cut(max, MAX_QUOTED_CHARS),
            most_frequent: cut(most, MAX_QUOTED_CHARS),
            most_frequent_count: *count,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::serde_json;

    fn of(cells: &[&str]) -> ColumnStatistics {
        let mut column = Column::new("x");
        cells.iter().for_each(|cell| column.take(cell));
        column.finish()
    }

    #[test]
    fn numbers_have_figures() {
        let found = of(&["4", "1", "", "1e1", "-3"]);
        let numbers =
            Numbers { min: -3.0, max: 10.0, sum: 12.0, mean: 3.0, median: 2.5, std_dev: 22.5_f64.sqrt() };
        assert_eq!(found.values, Values::Number(numbers));
        assert_eq!((found.count, found.empty, found.distinct), (4, 1, 4));
    }

    #[test]
    fn one_word_makes_a_column_text() {
        let found = of(&["10", "9", "n/a", "9"]);
        let texts =
            Texts { min: "10".into(), max: "n/a".into(), most_frequent: "9".into(), most_frequent_count: 2 };
        assert_eq!(found.values, Values::Text(texts));
        assert_eq!(found.distinct, 3);
    }

    #[test]
    fn what_is_not_finite_is_a_word() {
        assert!(matches!(of(&["1", "NaN"]).values, Values::Text(_)));
        assert!(matches!(of(&["inf"]).values, Values::Text(_)));
        assert!(matches!(of(&["1e999"]).values, Values::Text(_)));
    }

    #[test]
    fn of_equally_frequent_values_the_first_is_named() {
        let Values::Text(texts) = of(&["b", "a", "c"]).values else {
            unreachable!("text");
        };
        assert_eq!((texts.most_frequent.as_str(), texts.most_frequent_count), ("a", 1));
    }

    #[test]
    fn long_cells_are_cut_in_the_result() {
        let Values::Text(texts) = of(&["ä".repeat(500).as_str()]).values else {
            unreachable!("text");
        };
        assert_eq!(texts.min.chars().count(), MAX_QUOTED_CHARS + 1);
    }

    #[test]
    fn the_type_stands_beside_the_figures() {
        let json = serde_json::to_value(of(&["2"])).unwrap();
        assert_eq!(json["type"], "number");
        assert_eq!(json["median"], 2.0);
        assert_eq!(serde_json::to_value(of(&[])).unwrap()["type"], "empty");
    }
}
