//! Statistics of the columns of a CSV table.
//!
//! A column is a column of numbers if each of its cells that is not empty is a
//! finite number; otherwise it is text. Spaces around a cell do not count.

use crate::column::{Column, ColumnStatistics};
use csv::{ReaderBuilder, StringRecord};
use serde::Serialize;
use tollgate_sdk::CodedError;

/// Tables with more columns are rejected: a result has to stay readable.
pub const MAX_COLUMNS: usize = 200;

/// The statistics of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableStatistics {
    /// The number of rows without the header.
    pub rows: usize,
    /// The number of rows with more or fewer cells than the table has columns.
    /// Missing cells count as empty, extra cells are ignored.
    pub uneven_rows: usize,
    /// The columns in order.
    pub columns: Vec<ColumnStatistics>,
}

/// The format of the table.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The character between the cells of a row.
    pub delimiter: u8,
    /// Whether the first row names the columns.
    pub has_header: bool,
}

/// Returns the statistics of each column of `csv`.
///
/// Fails with `no_rows` if there are none, with `too_many_columns`, and with
/// `bad_csv` if a row cannot be read.
pub fn statistics(csv: &str, format: Format) -> Result<TableStatistics, CodedError> {
    let mut reader = ReaderBuilder::new()
        .delimiter(format.delimiter)
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(csv.as_bytes());
    let mut record = StringRecord::new();
    if !read(&mut reader, &mut record)? {
        return Err(CodedError::new("no_rows", "The table is empty."));
    }
    if record.len() > MAX_COLUMNS {
        let columns = record.len();
        return Err(CodedError::new(
            "too_many_columns",
            format!("The table has {columns} columns; the limit is {MAX_COLUMNS}."),
        ));
    }
    let mut table = Table::new(&record, format.has_header);
    if !format.has_header {
        table.take(&record);
    }
    while read(&mut reader, &mut record)? {
        table.take(&record);
    }
    Ok(table.finish())
}

fn read(reader: &mut csv::Reader<&[u8]>, record: &mut StringRecord) -> Result<bool, CodedError> {
    reader
        .read_record(record)
        .map_err(|error| CodedError::new("bad_csv", format!("The table cannot be read: {error}.")))
}

struct Table {
    rows: usize,
    uneven_rows: usize,
    columns: Vec<Column>,
}

impl Table {
    fn new(first: &StringRecord, has_header: bool) -> Self {
        let named = |(index, cell): (usize, &str)| match cell {
            name if has_header && !name.is_empty() => Column::new(name),
            _ => Column::new(&format!("column {}", index + 1)),
        };
        Self { rows: 0, uneven_rows: 0, columns: first.iter().enumerate().map(named).collect() }
    }

    fn take(&mut self, record: &StringRecord) {
        self.rows += 1;
        self.uneven_rows += usize::from(record.len() != self.columns.len());
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.take(record.get(index).unwrap_or_default());
        }
    }

    fn finish(self) -> TableStatistics {
        TableStatistics {
            rows: self.rows,
            uneven_rows: self.uneven_rows,
            columns: self.columns.into_iter().map(Column::finish).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::column::Values;

    const COMMAS: Format = Format { delimiter: b',', has_header: true };

    #[test]
    fn each_column_has_its_statistics() {
        let found = statistics("city,people\nBern,134000\nBasel, 173000\nBern,\n", COMMAS).unwrap();
        assert_eq!((found.rows, found.uneven_rows), (3, 0));
        let [city, people] = found.columns.as_slice() else {
            unreachable!("two columns");
        };
        assert_eq!((city.name.as_str(), city.count, city.empty, city.distinct), ("city", 3, 0, 2));
        assert_eq!((people.count, people.empty, people.distinct), (2, 1, 2));
        let Values::Number(numbers) = &people.values else {
            unreachable!("a column of numbers");
        };
        assert_eq!((numbers.min, numbers.max, numbers.mean), (134_000.0, 173_000.0, 153_500.0));
        assert_eq!(numbers.median, 153_500.0);
    }

    #[test]
    fn uneven_rows_are_counted_and_not_refused() {
        let found = statistics("a,b\n1\n1,2,3\n1,2\n", COMMAS).unwrap();
        assert_eq!((found.rows, found.uneven_rows), (3, 2));
        assert_eq!((found.columns[1].count, found.columns[1].empty), (2, 1));
    }

    #[test]
    fn quotes_and_other_delimiters_are_understood() {
        let format = Format { delimiter: b';', has_header: false };
        let found = statistics("\"a;b\";\"line\nbreak\"\nc;d\n", format).unwrap();
        assert_eq!((found.rows, found.columns.len()), (2, 2));
        assert_eq!(found.columns[0].name, "column 1");
    }

    #[test]
    fn an_empty_table_and_a_very_wide_one_are_refused() {
        assert_eq!(statistics("", COMMAS).unwrap_err().code(), "no_rows");
        let wide = vec!["x"; MAX_COLUMNS + 1].join(",");
        assert_eq!(statistics(&wide, COMMAS).unwrap_err().code(), "too_many_columns");
    }

    #[test]
    fn a_header_alone_is_a_table_without_rows() {
        let found = statistics("a,b\n", COMMAS).unwrap();
        assert_eq!((found.rows, found.columns.len()), (0, 2));
        assert_eq!(found.columns[0].values, Values::Empty);
    }
}
