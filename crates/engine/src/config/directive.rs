//! Declaration of a directive, from which loading, CONFIG and the manual are derived.

use super::text_form::TextForm;

/// A directive of the configuration.
#[derive(Debug)]
pub struct Directive {
    /// The name CONFIG REWRITE writes.
    pub name: &'static str,
    /// Older names, which work as well and which CONFIG GET lists too.
    pub aliases: &'static [&'static str],
    /// Kind of its value.
    pub kind: Kind,
    /// Its value when nothing sets it, as CONFIG GET prints it.
    pub default: &'static str,
    /// The range that a number is silently brought into, if its kind accepts more.
    pub clamp: Option<(i64, i64)>,
    /// When it may be changed.
    pub change: Change,
    /// True if CONFIG SET applies it although its value stays: it says what is in a file, whose
    /// contents may have changed.
    pub is_reread: bool,
    /// Extent to which it is supported.
    pub status: Status,
    /// Only CONFIG GET by its name answers it: a directive for tests, as in Valkey.
    pub is_hidden: bool,
    /// One sentence for the manual.
    pub summary: &'static str,
}

/// Kind of a value. Bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Flag,
    /// A decimal integer.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// Permissions, in octal digits.
    Permissions,
    /// Bytes, with a unit or without: `k` 1000, `kb` 1024, `m`, `mb`, `g`, `gb`.
    Memory {
        /// Smallest, in bytes.
        min: i64,
        /// Largest, in bytes.
        max: u64,
    },
    /// Bytes, or a percentage of `maxmemory`.
    MemoryOrPercent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Several of these words; the first of them counts only by itself.
    Choices(&'static [&'static str]),
    /// Any text.
    Text,
    /// Text of a form.
    Form(TextForm),
    /// Text that is not printed by the manual's defaults nor logged.
    Secret,
    /// A list of CPUs: `0-3,8`, `0-7:2`.
    CpuList,
    /// Words, of a bounded number.
    Words {
        /// Fewest.
        min: usize,
        /// Most.
        max: usize,
    },
    /// Host and port of a primary, or `no one`.
    Primary,
    /// `<class> <hard> <soft> <soft seconds>`, for several classes of clients; classes not named
    /// keep their limits.
    OutputBufferLimits,
    /// `<seconds> <changes>`, several times; lines of a file add up.
    SavePoints,
    /// Percentages from 0 to 100.
    Percentiles,
    /// Three scores for the kernel's choice of a process to kill, -2000 to 2000.
    OomScores,
    /// Classes of keyspace events, a letter each.
    KeyspaceEvents,
}

impl Kind {
    /// True if a line of a file may give the directive no value.
    pub(super) fn may_be_empty(self) -> bool {
        matches!(
            self,
            Kind::Words { min: 0, .. }
                | Kind::SavePoints
                | Kind::OutputBufferLimits
                | Kind::Percentiles
        )
    }

    /// The values of the kind, in Markdown.
    #[must_use]
    pub fn describe(self) -> String {
        const NO_BOUND: i128 = i64::MAX as i128;
        let bounds = |min: i64, max: i128| match max {
            NO_BOUND.. => format!("from {min}"),
            max => format!("{min} to {max}"),
        };
        match self {
            Kind::Flag => String::from("yes, no"),
            Kind::Integer { min, max } => bounds(min, max.into()),
            Kind::Memory { min, max } => format!("memory, {}", bounds(min, max.into())),
            Kind::MemoryOrPercent => String::from("memory or percent"),
            Kind::Permissions => String::from("octal, 0 to 777"),
            Kind::Choice(choices) => choices.join(", "),
            Kind::Choices(choices) => format!("some of {}", choices.join(", ")),
            Kind::Text | Kind::Secret => String::from("text"),
            Kind::Form(form) => form.describe().to_owned(),
            Kind::CpuList => String::from("CPU list, `0-3,8` or `0-7:2`"),
            Kind::Primary => String::from("host and port, or `no one`"),
            Kind::Words { min: 0, .. } => String::from("words"),
            Kind::Words { min, .. } => format!("{min} words"),
            Kind::OutputBufferLimits => String::from("class, hard, soft, soft seconds"),
            Kind::SavePoints => String::from("seconds, changes"),
            Kind::Percentiles => String::from("percentages"),
            Kind::OomScores => String::from("three numbers from -2000 to 2000"),
            Kind::KeyspaceEvents => String::from("letters of `Ag$lshzxeKEtmdn`"),
        }
    }
}

/// When a directive may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At any time, by CONFIG SET.
    Live,
    /// At start only. CONFIG SET refuses the present value too, as Valkey does.
    AtStart,
    /// At start only, and CONFIG SET takes the present value: tools that set what CONFIG GET told
    /// them leave out Valkey's directives of that kind by name, and know none of Tidemill's own.
    Fixed,
    /// By CONFIG SET of clients that `enable-protected-configs` trusts: it says where files are
    /// written, or what scripts may do.
    Protected,
}

/// Extent to which a directive is supported.
#[derive(Clone, Copy, Debug)]
pub enum Status {
    /// It does what Valkey's does.
    Works,
    /// It is checked, kept and shown, and changes nothing; this says why that is harmless.
    WithoutEffect(&'static str),
    /// Only these values are accepted, as CONFIG GET prints them; the others promise what does not
    /// exist.
    Only {
        /// Accepted values.
        accepted: &'static [&'static str],
        /// Missing part, to go with "is not supported: ".
        missing: &'static str,
    },
}

impl Directive {
    /// Reason why this directive refuses `value`, if it does.
    #[must_use]
    pub fn refusal(&self, value: &str) -> Option<String> {
        match self.status {
            Status::Only { accepted, missing } if !accepted.contains(&value) => {
                Some(format!("'{value}' is not supported: {missing}"))
            }
            _ => None,
        }
    }

    /// The values that the directive accepts, for people.
    #[must_use]
    pub fn accepted(&self) -> String {
        match self.status {
            Status::Only { accepted, .. } => {
                let accepted: Vec<String> =
                    accepted.iter().map(|accepted| format!("'{accepted}'")).collect();
                accepted.join(", ")
            }
            Status::Works | Status::WithoutEffect(_) => self.kind.describe().replace('`', ""),
        }
    }

    /// A checked value as it is kept.
    #[must_use]
    pub fn clamped_value(&self, value: String) -> String {
        match (self.clamp, value.parse::<i64>()) {
            (Some((min, max)), Ok(number)) => number.clamp(min, max).to_string(),
            _ => value,
        }
    }

    /// All names, the current one first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    pub(super) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        summary: &'static str,
    ) -> Directive {
        Directive {
            name,
            aliases: &[],
            kind,
            default,
            clamp: None,
            change: Change::Live,
            is_reread: false,
            status: Status::Works,
            is_hidden: false,
            summary,
        }
    }

    pub(super) const fn aliases(mut self, aliases: &'static [&'static str]) -> Directive {
        self.aliases = aliases;
        self
    }

    pub(super) const fn clamped(mut self, min: i64, max: i64) -> Directive {
        self.clamp = Some((min, max));
        self
    }

    pub(super) const fn at_start(mut self) -> Directive {
        self.change = Change::AtStart;
        self
    }

    pub(super) const fn fixed(mut self) -> Directive {
        self.change = Change::Fixed;
        self
    }

    pub(super) const fn protected(mut self) -> Directive {
        self.change = Change::Protected;
        self
    }

    pub(super) const fn reread(mut self) -> Directive {
        self.is_reread = true;
        self
    }

    pub(super) const fn hidden(mut self) -> Directive {
        self.is_hidden = true;
        self
    }

    pub(super) const fn without_effect(mut self, why: &'static str) -> Directive {
        self.status = Status::WithoutEffect(why);
        self
    }

    pub(super) const fn only(
        mut self,
        accepted: &'static [&'static str],
        missing: &'static str,
    ) -> Directive {
        self.status = Status::Only { accepted, missing };
        self
    }
}
