//! The configuration: redis.conf, command line, CONFIG.
//!
//! [`FAMILIES`] declares every directive once. From it come loading ([`load`]), CONFIG GET, SET and
//! REWRITE ([`Configuration`]), what the server and the engine read ([`Configuration::server`],
//! [`Configuration::settings`]) and the manual ([`manual`]). A configuration is a value: a change
//! makes a new one, checked as a whole, and the server that applies it may still decline, so that
//! CONFIG SET is all or nothing.
//!
//! A directive that promises what does not exist is refused, at start with file and line, all of
//! them at once; one whose absence harms nobody is accepted, and the manual says why. A [`Draft`]
//! gathers those faults with the ones that only the server can find. There is no I/O here:
//! [`Files`] is what the loader reads through.

mod configuration;
mod directive;
mod draft;
mod error;
mod load;
mod manual;
mod nearest;
mod rewrite;
mod table;
mod text_form;
mod typed;
mod value;

pub use configuration::{Configuration, Declaration};
pub use directive::{Change, Directive, Kind, Status};
pub use draft::Draft;
pub use error::{LoadError, SetError};
pub use load::{CommandLine, Files, load, read};
pub use manual::{directive_list, manual};
pub use nearest::nearest;
pub use table::{
    FAMILIES, Family, OBSOLETE, REFUSED, RENAME, STATEMENTS, STATEMENTS_TITLE, Statement, is_secret,
};
pub use text_form::TextForm;
pub use typed::{
    AppendOnlyConfig, CertificateUser, ClientCertificates, OomScoreMode, OutputBufferLimit,
    OutputBufferLimits, ServerConfig, Syslog, TlsConfig,
};
pub(crate) use value::parse_memory;

#[cfg(test)]
mod tests;
