//! Statistics of a file's keys by database and type, as `valkey-check-rdb --stats` has them.
//!
//! An element is what the type counts: an entry of a stream, a field of a hash with its value, a
//! member of a sorted set without its score; a string is one. Lengths of elements are those of
//! their bytes. Percentiles are exact up to 2,047; above, numbers that agree in their first eleven
//! bits count as the greatest of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use tidemill_rdb::Text;
use tidemill_rdb::file::Event;
use tidemill_rdb::value::{Item, ValueType};

use crate::limits::STATISTICS_DATABASES_MAX;

/// Form in which statistics are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatisticsFormat {
    /// A column per type.
    #[default]
    Table,
    /// A line per value: `[info] db.0.type.string.keys.total:1`.
    Info,
    /// A row per value with a field per type, separated by commas.
    Csv,
}

impl StatisticsFormat {
    /// The form of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<StatisticsFormat> {
        match name {
            "table" => Some(StatisticsFormat::Table),
            "info" => Some(StatisticsFormat::Info),
            "csv" => Some(StatisticsFormat::Csv),
            _ => None,
        }
    }
}

/// Columns, in the order of Valkey's types. A file with values of modules is not read.
const COLUMNS: [(&str, Option<ValueType>); 7] = [
    ("string", Some(ValueType::String)),
    ("list", Some(ValueType::List)),
    ("set", Some(ValueType::Set)),
    ("zset", Some(ValueType::SortedSet)),
    ("hash", Some(ValueType::Hash)),
    ("module", None),
    ("stream", Some(ValueType::Stream)),
];

fn column_of(kind: ValueType) -> usize {
    let column = COLUMNS.iter().position(|&(_, of_column)| of_column == Some(kind));
    column.expect("each type has a column")
}

/// Bits of a number that are kept for percentiles.
const PRECISION_BITS: u32 = 11;

/// Numbers, of which the greatest, the sum and percentiles are kept.
#[derive(Clone, Debug, Default)]
struct Distribution {
    counts: BTreeMap<u64, u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Distribution {
    fn add(&mut self, number: u64) {
        let dropped_bits = (u64::BITS - number.leading_zeros()).saturating_sub(PRECISION_BITS);
        *self.counts.entry(number | ((1 << dropped_bits) - 1)).or_default() += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(number);
        self.max = self.max.max(number);
    }

    /// The least number that `percent` of all, rounded to a whole number, are not above.
    fn percentile(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(percent) + 50) / 100;
        let mut seen = 0;
        let reaches = self.counts.iter().find(|&(_, &count)| {
            seen += u128::from(count);
            seen >= wanted.max(1)
        });
        reaches.map_or(0, |(&number, _)| number)
    }
}

/// Keys of one type in one database.
#[derive(Clone, Debug, Default)]
struct TypeStatistics {
    keys: u64,
    expiring: u64,
    expired: u64,
    name_bytes: u64,
    /// Elements of each key.
    element_counts: Distribution,
    /// Bytes of each element.
    element_bytes: Distribution,
}

/// Names of the values and the values, in the order of Valkey's tool.
type Value = (&'static str, fn(&TypeStatistics) -> String);

const VALUES: [Value; 17] = [
    ("keys.total", |of| of.keys.to_string()),
    ("expire_keys.total", |of| of.expiring.to_string()),
    ("already_expired.total", |of| of.expired.to_string()),
    ("keys.size", |of| of.name_bytes.to_string()),
    ("keys.value_size", |of| of.element_bytes.sum.to_string()),
    ("elements.total", |of| of.element_counts.sum.to_string()),
    ("elements.size", |of| of.element_bytes.sum.to_string()),
    ("elements.num.max", |of| of.element_counts.max.to_string()),
    ("elements.num.avg", |of| average(&of.element_counts)),
    ("elements.num.p99", |of| percentile(&of.element_counts, 99)),
    ("elements.num.p90", |of| percentile(&of.element_counts, 90)),
    ("elements.num.p50", |of| percentile(&of.element_counts, 50)),
    ("elements.size.max", |of| of.element_bytes.max.to_string()),
    ("elements.size.avg", |of| average(&of.element_bytes)),
    ("elements.size.p99", |of| percentile(&of.element_bytes, 99)),
    ("elements.size.p90", |of| percentile(&of.element_bytes, 90)),
    ("elements.size.p50", |of| percentile(&of.element_bytes, 50)),
];

fn average(distribution: &Distribution) -> String {
    let average = distribution.sum as f64 / distribution.count.max(1) as f64;
    format!("{average:.2}")
}

fn percentile(distribution: &Distribution, percent: u64) -> String {
    format!("{}.00", distribution.percentile(percent))
}

/// Statistics of one database.
type DatabaseStatistics = [TypeStatistics; COLUMNS.len()];

/// The key whose value is read.
#[derive(Clone, Copy, Debug)]
struct Current {
    column: usize,
    element_count: u64,
}

/// Statistics of a file, from its events.
#[derive(Clone, Debug)]
pub struct Statistics {
    now_ms: u64,
    databases: BTreeMap<u64, Box<DatabaseStatistics>>,
    database: u64,
    current: Option<Current>,
    /// Keys of databases for which there is no room.
    passed_over: u64,
}

impl Statistics {
    /// Statistics without a key, which judge expiries by this Unix time in milliseconds.
    #[must_use]
    pub fn new(now_ms: u64) -> Statistics {
        Statistics {
            now_ms,
            databases: BTreeMap::from([(0, Box::default())]),
            database: 0,
            current: None,
            passed_over: 0,
        }
    }

    /// Counts a part of the file.
    pub(super) fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Database(number) => self.database = *number,
            Event::Key { name, encoding, expires_at_ms, .. } => {
                let column = column_of(encoding.value_type());
                self.begin(column, name.len() as u64, *expires_at_ms);
            }
            Event::Item(item) => self.item(item),
            Event::KeyEnd => {
                if let Some((current, of_type)) = self.of_current() {
                    of_type.element_counts.add(current.element_count);
                }
                self.current = None;
            }
            _ => {}
        }
    }

    fn begin(&mut self, column: usize, name_bytes: u64, expires_at_ms: Option<i64>) {
        let is_full = self.databases.len() >= STATISTICS_DATABASES_MAX;
        if is_full && !self.databases.contains_key(&self.database) {
            self.passed_over += 1;
            return;
        }
        let has_expired = expires_at_ms.is_some_and(|at_ms| at_ms < self.now_ms.cast_signed());
        let of_type = &mut self.databases.entry(self.database).or_default()[column];
        of_type.keys += 1;
        of_type.name_bytes = of_type.name_bytes.saturating_add(name_bytes);
        of_type.expiring += u64::from(expires_at_ms.is_some());
        of_type.expired += u64::from(has_expired);
        self.current = Some(Current { column, element_count: 0 });
    }

    fn of_current(&mut self) -> Option<(&mut Current, &mut TypeStatistics)> {
        let current = self.current.as_mut()?;
        let database = self.databases.get_mut(&self.database)?;
        let column = current.column;
        Some((current, &mut database[column]))
    }

    fn item(&mut self, item: &Item<'_>) {
        let bytes = match item {
            Item::String(text)
            | Item::ListElement(text)
            | Item::SetMember(text)
            | Item::SortedSetMember { member: text, .. } => text.len(),
            Item::HashField { field, value, .. } => field.len() + value.len(),
            Item::StreamEntry { fields, .. } => {
                fields.clone().map(|(name, value)| text_bytes(name) + text_bytes(value)).sum()
            }
            // State and groups of a stream.
            _ => return,
        };
        if let Some((current, of_type)) = self.of_current() {
            current.element_count += 1;
            of_type.element_bytes.add(bytes as u64);
        }
    }

    /// Prints all values.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn print(&self, format: StatisticsFormat, out: &mut dyn Write) -> io::Result<()> {
        for (number, database) in &self.databases {
            if format != StatisticsFormat::Info {
                let names = COLUMNS.map(|(name, _)| name.to_owned());
                print_row(&format!("db.{number}.type.name"), &names, format, out)?;
            }
            for (name, value) in VALUES {
                let values = database.each_ref().map(value);
                if format != StatisticsFormat::Info {
                    print_row(&format!("db.{number}.{name}"), &values, format, out)?;
                    continue;
                }
                for ((column, _), value) in COLUMNS.iter().zip(values) {
                    writeln!(out, "[info] db.{number}.type.{column}.{name}:{value}")?;
                }
            }
        }
        if self.passed_over > 0 {
            let keys = self.passed_over;
            writeln!(
                out,
                "[info] {keys} keys of further databases, beyond {STATISTICS_DATABASES_MAX}"
            )?;
        }
        Ok(())
    }
}

/// Length of a string, that of its digits for an integer.
fn text_bytes(text: Text<'_>) -> usize {
    match text {
        Text::Bytes(bytes) => bytes.len(),
        Text::Integer(0) => 1,
        Text::Integer(number) => {
            usize::from(number < 0) + number.unsigned_abs().ilog10() as usize + 1
        }
    }
}

fn print_row(
    name: &str,
    values: &[String; COLUMNS.len()],
    format: StatisticsFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    if format == StatisticsFormat::Csv {
        return writeln!(out, "{name},{}", values.join(","));
    }
    write!(out, "{name:<30}")?;
    values.iter().try_for_each(|value| write!(out, "\t{value:<5}"))?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_as_long_as_its_text() {
        for number in [0, 1, 9, 10, -1, -10, 12_345, i64::MAX, i64::MIN] {
            assert_eq!(text_bytes(Text::Integer(number)), number.to_string().len(), "{number}");
        }
    }

    #[test]
    fn percentiles_are_the_least_numbers_that_a_part_is_not_above() {
        let mut distribution = Distribution::default();
        assert_eq!((distribution.percentile(50), average(&distribution)), (0, "0.00".into()));
        (1..=100).for_each(|number| distribution.add(number));
        assert_eq!([50, 90, 99].map(|percent| distribution.percentile(percent)), [50, 90, 99]);
        assert_eq!((distribution.max, average(&distribution)), (100, "50.50".into()));
    }

    #[test]
    fn large_numbers_are_kept_to_a_part_in_a_thousand_and_little_room() {
        let mut distribution = Distribution::default();
        let numbers = (0..1_000_000).map(|index: u64| index * 1_000_003);
        numbers.clone().for_each(|number| distribution.add(number));
        assert!(distribution.counts.len() <= 64 << PRECISION_BITS, "{}", distribution.counts.len());
        for percent in [50, 90, 99] {
            let exact = numbers.clone().nth(percent as usize * 10_000 - 1).expect("in range");
            let found = distribution.percentile(percent);
            assert!(found >= exact && found - exact <= exact / 1024, "{found}, not {exact}");
        }
        distribution.add(u64::MAX);
        assert_eq!((distribution.max, distribution.sum), (u64::MAX, u64::MAX));
    }

    /// A file may name as many databases as it has room for.
    #[test]
    fn databases_are_counted_up_to_a_limit() {
        let mut statistics = Statistics::new(0);
        for number in 0..STATISTICS_DATABASES_MAX as u64 + 7 {
            statistics.database = u64::MAX - number;
            statistics.begin(0, 3, None);
            statistics.item(&Item::String(b"abc"));
            statistics.note(&Event::KeyEnd);
        }
        assert_eq!(statistics.databases.len(), STATISTICS_DATABASES_MAX);
        // The first database has room in any case.
        assert_eq!(statistics.passed_over, 8);
        let mut printed = Vec::new();
        statistics.print(StatisticsFormat::Csv, &mut printed).expect("memory takes all");
        let printed = String::from_utf8(printed).expect("text");
        assert!(printed.ends_with("[info] 8 keys of further databases, beyond 10000\n"));
    }
}
