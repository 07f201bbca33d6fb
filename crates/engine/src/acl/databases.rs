//! Databases that a selector allows.

use super::rules::RuleError;

/// Databases that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AllowedDatabases {
    /// All.
    All,
    /// Those of these numbers, in ascending order.
    Some(Box<[u32]>),
}

impl AllowedDatabases {
    /// The databases of a list: `0,3`.
    pub(super) fn parse(list: &[u8]) -> Result<AllowedDatabases, RuleError> {
        let mut numbers = Vec::new();
        for text in list.split(|&byte| byte == b',') {
            // As C's strtol: white space and a sign before the digits.
            let text = std::str::from_utf8(text).map_err(|_| RuleError::Syntax)?.trim_start();
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(RuleError::Syntax);
            }
            let number = text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok());
            numbers.push(number.ok_or(RuleError::DatabaseOutOfRange)?);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(AllowedDatabases::Some(numbers.into()))
    }

    /// No database.
    pub(super) fn none() -> AllowedDatabases {
        AllowedDatabases::Some(Box::default())
    }

    pub(super) fn are_all(&self) -> bool {
        matches!(self, AllowedDatabases::All)
    }

    pub(super) fn contains(&self, database: usize) -> bool {
        match self {
            AllowedDatabases::All => true,
            AllowedDatabases::Some(numbers) => {
                u32::try_from(database).is_ok_and(|number| numbers.binary_search(&number).is_ok())
            }
        }
    }

    /// The rule that allows these databases: `alldbs`, `db=0,3`; nothing for none.
    pub(super) fn describe(&self) -> String {
        match self {
            AllowedDatabases::All => String::from("alldbs"),
            AllowedDatabases::Some(numbers) if numbers.is_empty() => String::new(),
            AllowedDatabases::Some(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }
}
