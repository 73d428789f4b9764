//! Numbers, plurals, tables and near misses, as people read them.

use comfy_table::{CellAlignment, Table, presets};

/// Names longer than this are not compared: the comparison is quadratic.
const NAME_CHARS_MAX: usize = 64;

/// Returns a count with thousands separators.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a count with its noun: `1 message`, `1,200 messages`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Returns the change from one count to another in percent, with its sign; `-` where there is nothing to compare with.
pub(crate) fn change(from: u64, to: u64) -> String {
    if from == 0 {
        return "-".to_owned();
    }
    format!("{:+.1} %", (to as f64 / from as f64 - 1.0) * 100.0)
}

/// Returns a size in bytes as people write it.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// Returns rows in straight columns, each line indented; columns in `right` end at the same place.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>, right: &[usize], indent: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    if !header.is_empty() {
        table.set_header(header);
    }
    table.add_rows(rows);
    table.discover_columns();
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(&" ".repeat(indent));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Returns the known name that a mistyped one was meant to be, if one is close.
pub(crate) fn meant<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().filter_map(|name| Some((distance(written, name)?, name)));
    near.min_by_key(|(cost, _)| *cost).map(|(_, name)| name)
}

/// Edits (insert, delete, replace, swap of neighbours) between two names; `None` when they have little in common.
fn distance(a: &str, b: &str) -> Option<usize> {
    let normal = |text: &str| -> Vec<char> {
        text.chars().take(NAME_CHARS_MAX + 1).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (a, b) = (normal(a), normal(b));
    if a.len() > NAME_CHARS_MAX || b.len() > NAME_CHARS_MAX {
        return None;
    }
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let (Some(&diagonal), Some(&above), Some(&left)) = (row.get(j), row.get(j + 1), next.get(j)) else { break };
            let mut cost = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            let is_swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if let Some(&two_back) = before.get(j.wrapping_sub(1)).filter(|_| is_swapped) {
                cost = cost.min(two_back + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
    }
    let cost = row.last().copied()?;
    (cost <= (a.len().max(b.len()) / 3).clamp(1, 3)).then_some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_well() {
        let shown: Vec<String> = [0, 7, 999, 1_000, 12_345, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!((counted(1, "message"), counted(2, "message")), ("1 message".into(), "2 messages".into()));
        assert_eq!((change(200, 50), change(100, 103), change(0, 5)), ("-75.0 %".into(), "+3.0 %".into(), "-".into()));
    }

    #[test]
    fn columns_are_straight() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["日本".to_owned(), "100".to_owned()]];
        assert_eq!(table(&["NAME", "N"], rows, &[1], 2), "  NAME    N\n  a       1\n  日本  100\n");
    }

    #[test]
    fn a_mistyped_name_is_recognised() {
        assert_eq!(meant("lmc", ["lcm", "compressor"]), Some("lcm"));
        assert_eq!(meant("lcmm", ["lcm", "compressor"]), Some("lcm"));
        assert_eq!(meant("Compresor", ["lcm", "compressor"]), Some("compressor"));
        assert_eq!(meant("weather", ["lcm", "compressor"]), None);
        assert_eq!(meant(&"x".repeat(100_000), ["lcm"]), None);
    }
}
