//! Names of flags, categories and groups in `COMMAND INFO` and `COMMAND DOCS`, in Valkey's order.

use super::declaration::{Categories, Command, Flags};
use super::keys::{Find, KeyFlags, Start};

const FLAG_NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_commandlog"),
    (Flags::ASKING, "asking"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLEKEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

/// In the order of `ACL CAT`.
const CATEGORY_NAMES: &[(Categories, &str)] = &[
    (Categories::KEYSPACE, "@keyspace"),
    (Categories::READ, "@read"),
    (Categories::WRITE, "@write"),
    (Categories::SET, "@set"),
    (Categories::SORTED_SET, "@sortedset"),
    (Categories::LIST, "@list"),
    (Categories::HASH, "@hash"),
    (Categories::STRING, "@string"),
    (Categories::BITMAP, "@bitmap"),
    (Categories::HYPERLOGLOG, "@hyperloglog"),
    (Categories::GEO, "@geo"),
    (Categories::STREAM, "@stream"),
    (Categories::PUBSUB, "@pubsub"),
    (Categories::ADMIN, "@admin"),
    (Categories::FAST, "@fast"),
    (Categories::SLOW, "@slow"),
    (Categories::BLOCKING, "@blocking"),
    (Categories::DANGEROUS, "@dangerous"),
    (Categories::CONNECTION, "@connection"),
    (Categories::TRANSACTION, "@transaction"),
    (Categories::SCRIPTING, "@scripting"),
];

const KEY_FLAG_NAMES: &[(KeyFlags, &str)] = &[
    (KeyFlags::RO, "RO"),
    (KeyFlags::RW, "RW"),
    (KeyFlags::OW, "OW"),
    (KeyFlags::RM, "RM"),
    (KeyFlags::ACCESS, "access"),
    (KeyFlags::UPDATE, "update"),
    (KeyFlags::INSERT, "insert"),
    (KeyFlags::DELETE, "delete"),
    (KeyFlags::NOT_KEY, "not_key"),
    (KeyFlags::INCOMPLETE, "incomplete"),
    (KeyFlags::VARIABLE_FLAGS, "variable_flags"),
];

impl Categories {
    /// Names of all categories without their `@`, in the order of `ACL CAT`.
    pub fn all_names() -> impl ExactSizeIterator<Item = &'static str> {
        CATEGORY_NAMES.iter().map(|(_, name)| &name[1..])
    }

    /// The category of a name without its `@`, in any case.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Categories> {
        let is_it = |known: &str| known.as_bytes()[1..].eq_ignore_ascii_case(name);
        CATEGORY_NAMES.iter().find(|(_, known)| is_it(known)).map(|(category, _)| *category)
    }
}

impl Flags {
    /// Names of the flags that clients see.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        names_in(FLAG_NAMES, |flag| self.contains(flag))
    }
}

impl KeyFlags {
    /// Names of the flags.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        names_in(KEY_FLAG_NAMES, |flag| self.contains(flag))
    }
}

fn names_in<F: Copy>(table: &[(F, &'static str)], is_set: impl Fn(F) -> bool) -> Vec<&'static str> {
    table.iter().filter(|(flag, _)| is_set(*flag)).map(|(_, name)| *name).collect()
}

impl Command {
    /// All ACL categories: those declared and those that follow from the flags.
    #[must_use]
    pub fn all_categories(&self) -> Categories {
        let mut all = self.categories;
        all.set(Categories::WRITE, self.flags.contains(Flags::WRITE));
        let is_script = all.contains(Categories::SCRIPTING);
        all.set(Categories::READ, self.flags.contains(Flags::READONLY) && !is_script);
        all.set(Categories::BLOCKING, self.flags.contains(Flags::BLOCKING));
        let is_fast = self.flags.contains(Flags::FAST);
        all | if is_fast { Categories::FAST } else { Categories::SLOW }
    }

    /// Names of all ACL categories, each behind its `@`.
    #[must_use]
    pub fn category_names(&self) -> Vec<&'static str> {
        let all = self.all_categories();
        names_in(CATEGORY_NAMES, |category| all.contains(category))
    }

    /// First key, last key and step, for clients that know nothing of specifications.
    #[must_use]
    pub fn legacy_range(&self) -> (i64, i64, i64) {
        let mut range: Option<(i64, i64, i64)> = None;
        for spec in self.keys {
            let (Start::Index(index), Find::Range { last, step, .. }) = (spec.start, spec.find)
            else {
                continue;
            };
            let index = index as i64;
            let last = if last >= 0 { index + i64::from(last) } else { i64::from(last) };
            range = match range {
                None => Some((index, last, step as i64)),
                Some((first, end, old_step)) if end + 1 == index => Some((first, last, old_step)),
                kept => kept,
            };
        }
        range.unwrap_or((0, 0, 0))
    }
}
