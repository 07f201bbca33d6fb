//! One proposed write and how it would outlive a reboot.

/// How a change is made to last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// A line `key = value` in a file of sysctl.d.
    Sysctl,
    /// A `w` line in a file of tmpfiles.d.
    Tmpfiles,
    /// An `echo` in a oneshot unit: for paths that appear late, such as queues of a network interface.
    Oneshot,
    /// The given shell command in the oneshot unit: for paths whose numbers change from boot to boot.
    OneshotCommand(String),
}

/// A write of one value to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The rule that wants it.
    pub rule: &'static str,
    /// The file, absolute.
    pub path: String,
    /// The value in force.
    pub from: String,
    /// The value wanted.
    pub to: String,
    /// How it would last.
    pub persistence: Persistence,
}

impl Change {
    /// A sysctl, by its path below `/proc/sys`.
    pub(super) fn sysctl(
        rule: &'static str,
        path: &str,
        from: impl ToString,
        to: impl ToString,
    ) -> Self {
        debug_assert!(path.starts_with("/proc/sys/"));
        Self::new(rule, path, from, to, Persistence::Sysctl)
    }

    /// A file of sysfs that exists from early boot on.
    pub(super) fn tmpfiles(
        rule: &'static str,
        path: &str,
        from: impl ToString,
        to: impl ToString,
    ) -> Self {
        Self::new(rule, path, from, to, Persistence::Tmpfiles)
    }

    /// A file that appears with its device.
    pub(super) fn oneshot(
        rule: &'static str,
        path: &str,
        from: impl ToString,
        to: impl ToString,
    ) -> Self {
        Self::new(rule, path, from, to, Persistence::Oneshot)
    }

    pub(super) fn new(
        rule: &'static str,
        path: &str,
        from: impl ToString,
        to: impl ToString,
        persistence: Persistence,
    ) -> Self {
        Self {
            rule,
            path: path.to_owned(),
            from: from.to_string(),
            to: to.to_string(),
            persistence,
        }
    }
}
