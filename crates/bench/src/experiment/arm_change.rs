//! Change of an arm on the machine while it is measured: settings of the kernel, and effects of its
//! commands.
//!
//! Settings are written by the tuner, whose undo journal outlives this process: after SIGKILL
//! `tidemill tune revert` takes them back. Commands have no such safety.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;

use tidemill_host::Root;
use tidemill_host::tune::Trial;

use crate::experiment::ab::Change;
use crate::experiment::shell_change::ShellChange;
use crate::experiment::spec::Arm;

/// All of it as one change: made in order, undone in reverse.
pub(super) struct ArmChange {
    parts: Vec<Box<dyn Change>>,
}

impl ArmChange {
    /// Change of the arm; `None` when it changes nothing.
    ///
    /// # Errors
    /// When a setting is not there, or not to be had.
    pub fn of(arm: &Arm) -> Result<Option<Self>, String> {
        let mut parts: Vec<Box<dyn Change>> = Vec::new();
        if !arm.settings.is_empty() {
            parts.push(Box::new(Settings::plan(Root::live(), &arm.settings)?));
        }
        if let (Some(apply), Some(revert)) = (&arm.apply, &arm.revert) {
            parts.push(Box::new(ShellChange { apply: apply.clone(), revert: revert.clone() }));
        }
        Ok((!parts.is_empty()).then_some(Self { parts }))
    }
}

impl Change for ArmChange {
    fn apply(&mut self) -> io::Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.apply())
    }

    /// Undoes every part, also when one of them cannot be undone.
    fn revert(&mut self) -> io::Result<()> {
        let undone: Vec<_> = self.parts.iter_mut().rev().map(|part| part.revert()).collect();
        undone.into_iter().collect()
    }
}

/// Settings of the kernel.
struct Settings(Trial);

impl Settings {
    fn plan(root: Root, wanted: &BTreeMap<String, String>) -> Result<Self, String> {
        let wanted: Vec<_> =
            wanted.iter().map(|(name, value)| (path_of(name), value.clone())).collect();
        Trial::of_settings(root, &wanted).map(Self)
    }
}

impl Change for Settings {
    fn apply(&mut self) -> io::Result<()> {
        self.0.apply()
    }

    fn revert(&mut self) -> io::Result<()> {
        self.0.revert()
    }
}

/// The file of a setting: an absolute path is one, everything else the name of a sysctl.
fn path_of(name: &str) -> String {
    match name {
        path if path.starts_with('/') => path.into(),
        // As sysctl reads it: with slashes, the dots belong to names.
        name if name.contains('/') => format!("/proc/sys/{name}"),
        name => format!("/proc/sys/{}", name.replace('.', "/")),
    }
}

/// Reason that this process may not change one of the settings; `None` if it may change all.
pub(super) fn obstacle(settings: &BTreeMap<String, String>) -> Option<String> {
    settings.keys().find_map(|name| {
        let path = path_of(name);
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        opened.err().map(|error| format!("{path}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(std::path::PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            let name = format!("tidemill-settings-{name}-{}", std::process::id());
            let machine = Self(std::env::temp_dir().join(name));
            let _ = std::fs::remove_dir_all(&machine.0);
            for (path, text) in [
                ("proc/sys/kernel/random/boot_id", "1\n"),
                ("proc/sys/net/core/busy_poll", "7\n"),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ] {
                let path = machine.0.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            machine
        }

        fn root(&self) -> Root {
            Root::open(&self.0).unwrap()
        }

        fn values(&self) -> (String, String) {
            let read =
                |path| std::fs::read_to_string(self.0.join(path)).unwrap().trim().to_string();
            (
                read("proc/sys/net/core/busy_poll"),
                read("sys/kernel/mm/transparent_hugepage/enabled"),
            )
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn wanted() -> BTreeMap<String, String> {
        let thp = "/sys/kernel/mm/transparent_hugepage/enabled";
        [("net.core.busy_poll", "50"), (thp, "never")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into()
    }

    #[test]
    fn settings_are_written_and_restored() {
        let machine = Machine::new("back");
        let before = machine.values();
        for _ in 0..2 {
            let mut settings = Settings::plan(machine.root(), &wanted()).unwrap();
            settings.apply().unwrap();
            assert_eq!(machine.values(), ("50".into(), "always madvise [never]".into()));
            settings.revert().unwrap();
            assert_eq!(machine.values(), before);
            settings.revert().unwrap();
        }
    }

    #[test]
    fn tuner_undoes_the_changes_of_a_killed_experiment() {
        let machine = Machine::new("killed");
        let before = machine.values();
        Settings::plan(machine.root(), &wanted()).unwrap().apply().unwrap();
        let again = Settings::plan(machine.root(), &wanted()).map(|_| ()).unwrap_err();
        assert!(again.contains("`tidemill tune revert` first"), "{again}");
        tidemill_host::tune::revert(&machine.root(), &Default::default()).unwrap();
        assert_eq!(machine.values(), before);
    }

    #[test]
    fn missing_setting_is_refused_by_name() {
        let machine = Machine::new("absent");
        let missing = [("no.such".to_string(), "1".to_string())].into();
        let error = Settings::plan(machine.root(), &missing).map(|_| ()).unwrap_err();
        assert!(error.contains("/proc/sys/no/such"), "{error}");
        assert!(obstacle(&missing).is_some_and(|reason| reason.starts_with("/proc/sys/no/such: ")));
        assert_eq!(
            path_of("net/ipv4/conf/eth0.1/forwarding"),
            "/proc/sys/net/ipv4/conf/eth0.1/forwarding"
        );
    }

    #[test]
    fn every_part_is_undone_though_one_fails() {
        struct Part(std::rc::Rc<std::cell::Cell<u32>>, bool);
        impl Change for Part {
            fn apply(&mut self) -> io::Result<()> {
                Ok(())
            }
            fn revert(&mut self) -> io::Result<()> {
                self.0.set(self.0.get() + 1);
                if self.1 { Err(io::Error::other("no")) } else { Ok(()) }
            }
        }
        let undone: std::rc::Rc<std::cell::Cell<u32>> = std::rc::Rc::default();
        let parts = [false, true, false];
        let part = |fails| Box::new(Part(std::rc::Rc::clone(&undone), fails)) as Box<dyn Change>;
        assert!(ArmChange { parts: parts.map(part).into() }.revert().is_err());
        assert_eq!(undone.get(), 3);
    }
}
