//! One proposed write and how it would outlive a reboot.

use serde::{Deserialize, Serialize};

use crate::facts::channels_path;

/// Manner in which a change is made to last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Persistence {
    /// A line `key = value` in a file of sysctl.d.
    Sysctl,
    /// A `w` line in a file of tmpfiles.d.
    Tmpfiles,
    /// An `echo` in a oneshot unit: for paths that appear late, such as queues of a network
    /// interface.
    Oneshot,
    /// A command in the oneshot unit that finds an interrupt by its position on the network
    /// interface, because interrupt numbers change from boot to boot.
    Interrupt {
        /// The network interface.
        interface: String,
        /// Position among its message-signalled interrupts, in the order of their numbers, from 0.
        index: usize,
    },
    /// A call of `ethtool -L` in the oneshot unit, before what it does to interrupts: a new number
    /// of queues numbers them anew.
    Queues {
        /// The network interface.
        interface: String,
    },
    /// A udev rule that sets an attribute when the network interface appears.
    Udev,
    /// A setting in the `[Service]` section of a drop-in for the server's systemd unit; nothing is
    /// written to the running kernel, because the unit takes it at its next start.
    DropIn {
        /// The unit, such as `valkey-server.service`.
        unit: String,
        /// The setting, such as `LimitNOFILE`.
        key: String,
    },
}

impl Persistence {
    /// True if the change is a write to the running kernel, too, and not only a file for the next
    /// start.
    pub fn is_runtime(&self) -> bool {
        !matches!(self, Self::DropIn { .. })
    }
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
    /// Manner in which it would last.
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

    /// An attribute of a network interface, by its path below `/sys/class/net`.
    pub(super) fn udev(
        rule: &'static str,
        path: &str,
        from: impl ToString,
        to: impl ToString,
    ) -> Self {
        debug_assert!(path.starts_with("/sys/class/net/"));
        Self::new(rule, path, from, to, Persistence::Udev)
    }

    /// The number of combined queues of a network interface.
    pub(super) fn queues(interface: &str, from: u32, to: u32) -> Self {
        let persistence = Persistence::Queues { interface: interface.to_owned() };
        Self::new("R11", &channels_path(interface), from, to, persistence)
    }

    /// A setting of a systemd unit, by a drop-in of our own.
    pub(super) fn drop_in(
        rule: &'static str,
        unit: &str,
        key: &str,
        from: impl ToString,
        to: impl ToString,
    ) -> Self {
        let path = format!("/etc/systemd/system/{unit}.d/90-tidemill.conf");
        let persistence = Persistence::DropIn { unit: unit.to_owned(), key: key.to_owned() };
        Self::new(rule, &path, from, to, persistence)
    }

    pub(crate) fn new(
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
