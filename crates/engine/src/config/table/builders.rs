//! Shorter forms of declarations of directives, by kind.

use super::super::directive::{Directive, Kind};
use super::super::text_form::TextForm;

pub(super) const ANY: i64 = i64::MAX;
pub(super) const I32: i64 = i32::MAX as i64;
pub(super) const PORT: i64 = 65_535;

pub(super) const fn flag(name: &'static str, default: bool, summary: &'static str) -> Directive {
    Directive::new(name, Kind::Flag, if default { "yes" } else { "no" }, summary)
}

pub(super) const fn integer(
    name: &'static str,
    default: &'static str,
    min: i64,
    max: i64,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Integer { min, max }, default, summary)
}

pub(super) const fn memory(
    name: &'static str,
    default: &'static str,
    min: i64,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Memory { min, max: i64::MAX as u64 }, default, summary)
}

/// A number of bytes that Valkey keeps in an unsigned number, so that it may be above 2^63.
pub(super) const fn unsigned_memory(
    name: &'static str,
    default: &'static str,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Memory { min: 0, max: u64::MAX }, default, summary)
}

pub(super) const fn choice(
    name: &'static str,
    default: &'static str,
    choices: &'static [&'static str],
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Choice(choices), default, summary)
}

pub(super) const fn text(
    name: &'static str,
    default: &'static str,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Text, default, summary)
}

pub(super) const fn form(
    name: &'static str,
    form: TextForm,
    default: &'static str,
    summary: &'static str,
) -> Directive {
    Directive::new(name, Kind::Form(form), default, summary)
}

pub(super) const fn secret(name: &'static str, summary: &'static str) -> Directive {
    Directive::new(name, Kind::Secret, "", summary)
}

pub(super) const fn cpus(name: &'static str, summary: &'static str) -> Directive {
    Directive::new(name, Kind::CpuList, "", summary)
}
