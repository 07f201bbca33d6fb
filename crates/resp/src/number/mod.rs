//! Numbers as Redis reads and prints them.
//!
//! A command's answer depends on details here: `"01"` is no integer, `" 1"` no float, and
//! `INCRBYFLOAT` computes in the 80-bit format of x87. All rules were found by asking Valkey 9.1;
//! the tests hold its answers.

mod double;
mod grisu;
mod integer;
mod long_double;

pub(crate) use double::printed_as_integer;
pub use double::{
    FormattedDouble, format_double, format_double_17_digits, format_double_in_short_digits,
    parse_double,
};
pub use integer::{format_integer, parse_integer};
pub use long_double::{LongDouble, format_long_double, parse_long_double};

#[cfg(test)]
mod tests;
