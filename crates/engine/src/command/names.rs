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
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::MAY_REPLICATE, "may_replicate"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLEKEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

const CATEGORY_NAMES: &[(Categories, &str)] = &[
    (Categories::KEYSPACE, "@keyspace"),
    (Categories::STRING, "@string"),
    (Categories::BITMAP, "@bitmap"),
    (Categories::LIST, "@list"),
    (Categories::SET, "@set"),
    (Categories::SORTED_SET, "@sortedset"),
    (Categories::HASH, "@hash"),
    (Categories::PUBSUB, "@pubsub"),
    (Categories::ADMIN, "@admin"),
    (Categories::DANGEROUS, "@dangerous"),
    (Categories::CONNECTION, "@connection"),
    (Categories::TRANSACTION, "@transaction"),
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
    pub fn category_names(&self) -> Vec<&'static str> {
        let mut names = names_in(CATEGORY_NAMES, |category| self.categories.contains(category));
        if self.flags.contains(Flags::WRITE) {
            names.push("@write");
        }
        if self.flags.contains(Flags::READONLY) {
            names.push("@read");
        }
        names.push(if self.flags.contains(Flags::FAST) { "@fast" } else { "@slow" });
        if self.flags.contains(Flags::BLOCKING) {
            names.push("@blocking");
        }
        names
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
