//! State of libraries that a script may change. A new run begins with the default.

use crate::host::Protocol;
use crate::limits::JSON_DEPTH_MAX;
use crate::shebang::Flags;
use crate::value::{Str, Value};

/// State of all libraries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) json: Json,
    pub(crate) random: Random,
    pub(crate) server: State,
}

impl Settings {
    /// Begins a run: random numbers go on from the one before.
    pub(crate) fn begin_run(&mut self) {
        self.json = Json::default();
        self.server.protocol = Protocol::default();
        self.server.is_loading = false;
        self.server.registrations.clear();
        self.server.registered_bytes = 0;
    }
}

/// Treatment of infinity and NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    Refused,
    Allowed,
    Null,
}

/// Settings that scripts change.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    pub(crate) sparse_converts: bool,
    pub(crate) sparse_ratio: i64,
    pub(crate) sparse_safe: i64,
    pub(crate) encode_depth_max: usize,
    pub(crate) decode_depth_max: usize,
    pub(crate) precision: usize,
    pub(crate) keeps_buffer: bool,
    pub(crate) encode_invalid: Invalid,
    pub(crate) decode_invalid: bool,
}

impl Default for Json {
    fn default() -> Self {
        Self {
            sparse_converts: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: JSON_DEPTH_MAX,
            decode_depth_max: JSON_DEPTH_MAX,
            precision: 14,
            keeps_buffer: true,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
        }
    }
}

/// `drand48` with a seed of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        // The state with which a server begins.
        Self(0x1234_abcd_330e)
    }
}

impl Random {
    pub(crate) fn seeded(seed: i32) -> Self {
        Self(u64::from(seed as u32) << 16 | 0x330e)
    }

    /// Number below 2^31.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        (self.0 >> 17) as u32
    }
}

/// A function that a library registers while it is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) name: Str,
    pub(crate) description: Option<Str>,
    pub(crate) flags: Flags,
    pub(crate) callback: Value,
}

impl Registration {
    /// Values that it keeps from being collected.
    pub(crate) fn values(&self) -> impl Iterator<Item = Value> {
        let texts = [Some(self.name), self.description].into_iter().flatten();
        texts.map(Value::Str).chain([self.callback])
    }
}

/// State of the run beyond its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) protocol: Protocol,
    /// A library is loaded: functions may be registered.
    pub(crate) is_loading: bool,
    pub(crate) registrations: Vec<Registration>,
    /// Bytes of the registrations and of their texts.
    pub(crate) registered_bytes: usize,
}
