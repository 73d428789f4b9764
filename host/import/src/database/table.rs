//! Tables of a database that may be damaged: which columns there are, the numbers of the rows, and one row at a time.

use super::open::failed;
use crate::ImportError;
use crate::problems::Problems;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use std::collections::HashMap;
use std::rc::Rc;

/// Most rows of a table; the largest store seen in the field holds 0.2 million, and each costs 8 bytes while it is read.
const ROWS_MAX: usize = 20_000_000;
/// How often a scan that met a damaged page goes on behind it; each time it skips twice as far.
const SKIPS_MAX: u32 = 40;

/// Names of the tables, views and virtual tables left out: they compute, and only rows are read here.
pub(super) fn names(connection: &Connection) -> Result<Vec<String>, ImportError> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
               AND name NOT LIKE '%\\_fts%' ESCAPE '\\' ORDER BY name";
    texts(connection, sql, []).map_err(|error| failed(&error))
}

/// Names of a table's columns, in their order.
pub(super) fn columns(connection: &Connection, table: &str) -> Result<Vec<String>, ImportError> {
    texts(connection, "SELECT name FROM pragma_table_info(?1)", [table]).map_err(|error| failed(&error))
}

fn texts(connection: &Connection, sql: &str, with: impl rusqlite::Params) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let rows =
        statement.query_map(with, |row| Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned()))?;
    rows.collect()
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Cell {
    #[default]
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Bytes that are no text of the database's encoding, with what can be read of them.
    Odd(String),
    /// Bytes over the limit.
    Over(u64),
}

impl Cell {
    /// The value as text; numbers as they are written.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Cell::Null | Cell::Over(_) => None,
            Cell::Integer(number) => Some(number.to_string()),
            Cell::Real(number) => Some(number.to_string()),
            Cell::Text(text) | Cell::Odd(text) => Some(text),
        }
    }
    /// The value as a whole number.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Cell::Integer(number) => Some(*number),
            // Casts of a float saturate.
            Cell::Real(number) if number.is_finite() => Some(*number as i64),
            Cell::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
    fn of(value: ValueRef<'_>) -> Cell {
        let text = |bytes: &[u8], is_text: bool| match std::str::from_utf8(bytes) {
            Ok(text) if is_text => Cell::Text(text.to_owned()),
            _ => Cell::Odd(String::from_utf8_lossy(bytes).into_owned()),
        };
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(bytes) => text(bytes, true),
            ValueRef::Blob(bytes) => text(bytes, false),
        }
    }
}

/// One table.
pub(super) struct Table<'c> {
    connection: &'c Connection,
    name: &'static str,
    columns: Vec<String>,
}

/// Row numbers by what they belong to.
pub(super) type Keys = HashMap<String, Vec<i64>>;

impl<'c> Table<'c> {
    /// Opens a table; nothing if the database has none of that name.
    pub(super) fn find(connection: &'c Connection, name: &'static str) -> Result<Option<Self>, ImportError> {
        if !names(connection)?.iter().any(|one| one == name) {
            return Ok(None);
        }
        Ok(Some(Table { connection, name, columns: columns(connection, name)? }))
    }

    /// Opens a table that must be there with these columns.
    pub(super) fn need(connection: &'c Connection, name: &'static str, needed: &[&str]) -> Result<Self, ImportError> {
        let Some(table) = Table::find(connection, name)? else {
            return Err(ImportError::Database { what: format!("table {name} is missing") });
        };
        if let Some(column) = needed.iter().find(|column| !table.has(column)) {
            return Err(ImportError::Database { what: format!("table {name} has no column {column}") });
        }
        Ok(table)
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|one| one == column)
    }

    /// Notes the columns that are not known here.
    pub(super) fn note_unknown(&self, known: &[&str], problems: &mut Problems) {
        let unknown: Vec<&str> =
            self.columns.iter().map(String::as_str).filter(|column| !known.contains(column)).collect();
        if !unknown.is_empty() {
            problems
                .note(None, || format!("table {} has columns that are not read: {}", self.name, unknown.join(", ")));
        }
    }

    /// Lists the rows by the value of a column, each list in the order of the rows' numbers.
    ///
    /// The table itself is walked, not an index: a damaged index gives fewer rows and says nothing. Rows that only an
    /// index names are counted as lost.
    pub(super) fn keys(&self, key: &str, group: &str, problems: &mut Problems) -> Keys {
        let mut keys = Keys::new();
        let mut count = 0usize;
        let table = self.name;
        let sql = format!("SELECT {key}, {group} FROM {table} NOT INDEXED WHERE {key} > ?1 ORDER BY {key}");
        let mut from = i64::MIN;
        let mut skips = 0u32;
        let mut fault = None;
        loop {
            let scanned = self.scan(&sql, &mut from, &mut keys, &mut count, problems);
            let Err(error) = scanned else { break };
            fault.get_or_insert(error);
            if skips >= SKIPS_MAX {
                break;
            }
            from = from.max(0).saturating_add(1i64.checked_shl(skips).unwrap_or(i64::MAX));
            skips += 1;
        }
        if let Some(error) = fault {
            problems.lost(None, || {
                format!("table {table} is damaged and rows of it are missing; {count} were found: {error}")
            });
        }
        if count >= ROWS_MAX {
            problems.lost(None, || format!("table {table} has more than {ROWS_MAX} rows; the rest is left out"));
        }
        // A damaged tree may give rows out of order and twice.
        for list in keys.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        keys
    }

    /// Notes rows that an index of the table names and the table does not hold.
    pub(super) fn note_missing(&self, key: &str, group: &str, keys: &Keys, problems: &mut Problems) {
        let table = self.name;
        let is_indexed = texts(self.connection, "SELECT name FROM pragma_index_list(?1)", [table]);
        if is_indexed.map_or(true, |names| names.is_empty()) {
            return;
        }
        let mut known: Vec<i64> = keys.values().flatten().copied().collect();
        known.sort_unstable();
        // Without an order SQLite walks the smallest index that holds both columns.
        let sql = format!("SELECT {key}, {group} FROM {table}");
        let mut count = 0u64;
        let mut walk = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let ValueRef::Integer(number) = row.get_ref(0)?
                    && known.binary_search(&number).is_err()
                {
                    count += 1;
                }
            }
            Ok(())
        };
        // A damaged index costs nothing of what was said; the table was read.
        let fault = walk().err();
        if count > 0 {
            problems.lost(None, || format!("{count} rows that an index of table {table} names are not in it"));
        }
        if let Some(error) = fault {
            problems.note(None, || format!("an index of table {table} is damaged, the table itself was read: {error}"));
        }
    }

    fn scan(
        &self,
        sql: &str,
        from: &mut i64,
        keys: &mut Keys,
        count: &mut usize,
        problems: &mut Problems,
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([*from])?;
        while let Some(row) = rows.next()? {
            if *count >= ROWS_MAX {
                break;
            }
            let ValueRef::Integer(number) = row.get_ref(0)? else {
                problems.lost(None, || format!("table {} has a row without a number; left out", self.name));
                continue;
            };
            *count += 1;
            *from = number;
            let group = match row.get_ref(1)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) if keys.contains_key(text) => {
                        if let Some(list) = keys.get_mut(text) {
                            list.push(number);
                        }
                        continue;
                    }
                    _ => String::from_utf8_lossy(bytes).into_owned(),
                },
                ValueRef::Integer(id) => id.to_string(),
                ValueRef::Real(id) => id.to_string(),
                ValueRef::Null => String::new(),
            };
            keys.entry(group).or_default().push(number);
        }
        Ok(())
    }

    /// Prepares the reading of single rows. Columns that the table lacks are null; `wide` ones are held to the limit.
    pub(super) fn reader(
        &self,
        key: &str,
        columns: &[&'static str],
        bytes_max: usize,
    ) -> Result<RowReader<'c>, ImportError> {
        self.selection(&format!("WHERE {key} = ?1"), columns, bytes_max)
    }

    /// Prepares a reading with any ending of the statement, whose `?1` is given with each reading.
    pub(super) fn selection(
        &self,
        ending: &str,
        columns: &[&'static str],
        bytes_max: usize,
    ) -> Result<RowReader<'c>, ImportError> {
        let mut selected = Vec::with_capacity(columns.len() * 2);
        for column in columns {
            if self.has(column) {
                selected.push(format!("octet_length({column})"));
                selected.push(format!("CASE WHEN octet_length({column}) <= {bytes_max} THEN {column} END"));
            } else {
                selected.extend(["NULL".to_owned(), "NULL".to_owned()]);
            }
        }
        let sql = format!("SELECT {} FROM {} {ending}", selected.join(", "), self.name);
        let statement = self.connection.prepare(&sql).map_err(|error| failed(&error))?;
        Ok(RowReader { statement, table: self.name, columns: columns.into(), bytes_max })
    }
}

/// Reads single rows.
pub(super) struct RowReader<'c> {
    statement: Statement<'c>,
    table: &'static str,
    columns: Rc<[&'static str]>,
    bytes_max: usize,
}

impl RowReader<'_> {
    /// Reads a row; one that cannot be read becomes a problem that names it.
    pub(super) fn row(&mut self, key: i64, bytes: &mut u64, problems: &mut Problems) -> Option<Cells> {
        let rows = self.rows(key, bytes, problems);
        rows.into_iter().next()
    }

    /// Reads the rows that belong to a key.
    pub(super) fn rows(&mut self, key: impl rusqlite::ToSql, bytes: &mut u64, problems: &mut Problems) -> Vec<Cells> {
        let (table, columns, bytes_max) = (self.table, &self.columns, self.bytes_max);
        let mut all: Vec<Cells> = Vec::new();
        let mut read = || -> rusqlite::Result<()> {
            let mut rows = self.statement.query([&key])?;
            while let Some(row) = rows.next()? {
                let mut cells = Vec::with_capacity(columns.len());
                for (index, column) in columns.iter().enumerate() {
                    let length = match row.get_ref(index * 2)? {
                        ValueRef::Integer(length) => u64::try_from(length).unwrap_or(0),
                        _ => 0,
                    };
                    let cell = if length > bytes_max as u64 {
                        problems.lost(None, || {
                            format!(
                                "{} of table {table} is {length} bytes, over the limit of {bytes_max}; left out",
                                place(column, &key)
                            )
                        });
                        Cell::Over(length)
                    } else {
                        *bytes = bytes.saturating_add(length);
                        Cell::of(row.get_ref(index * 2 + 1)?)
                    };
                    if let Cell::Odd(_) = cell {
                        problems.warn(None, || {
                            format!("{} of table {table} is no text; read as well as it can be", place(column, &key))
                        });
                    }
                    cells.push(cell);
                }
                all.push(Cells { cells, columns: columns.clone() });
            }
            Ok(())
        };
        if let Err(error) = read() {
            problems.lost(None, || {
                format!("{} of table {table} cannot be read and is left out: {error}", place("row", &key))
            });
        }
        all
    }
}

fn place(column: &str, key: &dyn rusqlite::ToSql) -> String {
    use rusqlite::types::{ToSqlOutput, Value};
    let key = match key.to_sql() {
        Ok(ToSqlOutput::Borrowed(ValueRef::Integer(key)) | ToSqlOutput::Owned(Value::Integer(key))) => key.to_string(),
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(key))) => String::from_utf8_lossy(key).into_owned(),
        _ => "?".to_owned(),
    };
    if column == "row" { format!("row {key}") } else { format!("column {column} in row {key}") }
}

/// The values of a row.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    columns: Rc<[&'static str]>,
}

impl Cells {
    /// Takes a value out; null if there is none of that name.
    pub(super) fn take(&mut self, column: &str) -> Cell {
        let at = self.columns.iter().position(|one| *one == column);
        at.and_then(|at| self.cells.get_mut(at)).map(std::mem::take).unwrap_or_default()
    }
    /// Takes a text out; empty text counts as none.
    pub(super) fn text(&mut self, column: &str) -> Option<String> {
        self.take(column).into_text().filter(|text| !text.is_empty())
    }
    pub(super) fn integer(&self, column: &str) -> Option<i64> {
        let at = self.columns.iter().position(|one| *one == column)?;
        self.cells.get(at)?.integer()
    }
    /// Takes a time out, as milliseconds since 1970.
    pub(super) fn time(&mut self, column: &str) -> Option<i64> {
        match self.take(column) {
            Cell::Integer(seconds) => seconds.checked_mul(1_000),
            // Casts of a float saturate.
            Cell::Real(seconds) if seconds.is_finite() => Some((seconds * 1_000.0).round() as i64),
            Cell::Text(text) => super::row::time(&text),
            _ => None,
        }
    }
}

/// Reads a single number, if it can be read.
pub(super) fn first_number(connection: &Connection, sql: &str) -> Option<i64> {
    connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).ok().flatten()
}
