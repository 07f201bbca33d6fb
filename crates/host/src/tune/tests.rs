//! Applying and undoing on trees of files that stand for machines.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::rules::{Change, Persistence};
use crate::testing::{tree, write};
use crate::{Refusal, Root};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const RPS: &str = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
const IRQ: &str = "/proc/irq/24/smp_affinity_list";
const SYSCTL: &str = "etc/sysctl.d/99-tidemill.conf";

const MACHINE: &[(&str, &str)] = &[
    ("proc/sys/kernel/random/boot_id", "first\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n"),
    ("proc/irq/24/smp_affinity_list", "0-3\n"),
    ("etc/sysctl.d/10-theirs.conf", "vm.swappiness = 60\n"),
];

fn changes() -> Vec<Change> {
    let interrupt = Persistence::Interrupt { interface: "eth0".to_owned(), index: 1 };
    let drop_in =
        Persistence::DropIn { unit: "valkey.service".to_owned(), key: "LimitNOFILE".to_owned() };
    let unit = "/etc/systemd/system/valkey.service.d/90-tidemill.conf";
    vec![
        Change::new("R3", SWAPPINESS, 60, 1, Persistence::Sysctl),
        Change::new("R2", OVERCOMMIT, 0, 1, Persistence::Sysctl),
        Change::new("R1", THP, "always", "madvise", Persistence::Tmpfiles),
        Change::new("R10", RPS, "00", "0c", Persistence::Udev),
        Change::new("R11", IRQ, "0-3", 3, interrupt),
        Change::new("R15", unit, 1024, 10_032, drop_in),
    ]
}

const LASTING: ApplyOptions = ApplyOptions { only: Vec::new(), persist: true, take_over: false };

fn apply_all(root: &Root, options: ApplyOptions) -> Report {
    apply(root, &plan(root, changes()), &options).unwrap()
}

fn text(directory: &Path, path: &str) -> String {
    std::fs::read_to_string(directory.join(path.trim_start_matches('/'))).unwrap()
}

/// Every file of a tree but the journal's own directory, with its content.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                open.push(path);
            } else if name != "var/lib/tidemill-tune/journal.json" {
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn applied_changes_are_in_force_last_and_are_undone_to_the_byte() {
    let (directory, root) = tree(MACHINE);
    let before = files(directory.path());
    let report = apply_all(&root, LASTING);
    assert_eq!(report.left_count, 0, "{report:#?}");
    assert_eq!(text(directory.path(), THP), "always [madvise] never\n");
    assert_eq!(text(directory.path(), RPS), "0c\n");
    assert_eq!(verify(&root).unwrap().left_count, 0);
    assert_eq!(
        text(directory.path(), SYSCTL)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect::<Vec<_>>(),
        ["vm.overcommit_memory = 1", "vm.swappiness = 1"]
    );
    assert!(text(directory.path(), SYSCTL).starts_with("# Written by `tidemill tune apply"));
    assert!(
        text(directory.path(), "etc/tmpfiles.d/tidemill.conf")
            .contains(&format!("w {THP} - - - - madvise\n"))
    );
    assert!(
        text(directory.path(), "etc/udev/rules.d/99-tidemill.rules")
            .contains("NAME==\"eth0\", ATTR{queues/rx-0/rps_cpus}=\"0c\"\n")
    );
    let unit = text(directory.path(), "etc/systemd/system/tidemill-tune.service");
    assert!(
        unit.contains(
            "n=$$(ls | sort -n | sed -n 2p) && echo 3 > /proc/irq/$$n/smp_affinity_list'"
        )
    );
    assert!(unit.contains(
        "Wants=sys-subsystem-net-devices-eth0.device\n\
         After=sys-subsystem-net-devices-eth0.device\n\n[Service]\n"
    ));
    assert!(
        directory.path().join("etc/systemd/system/multi-user.target.d/90-tidemill.conf").exists()
    );
    let drop_in = text(directory.path(), "etc/systemd/system/valkey.service.d/90-tidemill.conf");
    assert!(drop_in.ends_with("[Service]\n# R15\nLimitNOFILE=10032\n"), "{drop_in}");
    let report = revert(&root, &RevertOptions::default()).unwrap();
    assert_eq!(report.left_count, 0, "{report:#?}");
    assert_eq!(files(directory.path()), before);
    assert!(!directory.path().join("etc/systemd/system/valkey.service.d").exists());
    assert_eq!(revert(&root, &RevertOptions::default()).unwrap(), Report::default());
}

#[test]
fn the_journal_is_private_to_its_owner() {
    let (directory, root) = tree(MACHINE);
    let own = directory.path().join("var/lib/tidemill-tune");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
    apply_all(&root, ApplyOptions::default());
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(own.join("journal.json").metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn value_changed_by_others_since_is_left_alone_until_forgotten() {
    let (directory, root) = tree(MACHINE);
    apply_all(&root, ApplyOptions::default());
    write(directory.path(), "proc/sys/vm/swappiness", "30\n");
    assert_eq!(verify(&root).unwrap().left_count, 1);
    let report = revert(&root, &RevertOptions::default()).unwrap();
    assert_eq!(report.left_count, 1);
    assert!(
        report.lines.iter().any(|line| line.contains("swappiness: 30, changed by somebody else"))
    );
    assert_eq!(text(directory.path(), SWAPPINESS), "30\n");
    assert_eq!(text(directory.path(), OVERCOMMIT), "0\n");
    let forget = RevertOptions { forget: true, ..RevertOptions::default() };
    assert_eq!(revert(&root, &forget).unwrap().left_count, 0);
    assert_eq!(text(directory.path(), SWAPPINESS), "30\n");
    assert_eq!(revert(&root, &RevertOptions::default()).unwrap(), Report::default());
}

#[test]
fn after_a_reboot_files_go_and_values_are_reported_as_gone() {
    let (directory, root) = tree(MACHINE);
    apply_all(&root, LASTING);
    write(directory.path(), "proc/sys/kernel/random/boot_id", "second\n");
    // The file set swappiness at boot; the kernel's default came back for what had none.
    write(directory.path(), "proc/irq/24/smp_affinity_list", "0-3\n");
    let report = revert(&root, &RevertOptions::default()).unwrap();
    assert_eq!(report.left_count, 0, "{report:#?}");
    assert_eq!(report.lines.iter().filter(|line| line.starts_with("gone")).count(), 5);
    assert_eq!(text(directory.path(), SWAPPINESS), "1\n");
    assert!(!directory.path().join(SYSCTL).exists());
    assert_eq!(text(directory.path(), "etc/sysctl.d/10-theirs.conf"), "vm.swappiness = 60\n");
}

#[test]
fn after_a_reboot_an_interrupt_is_verified_under_its_new_number() {
    let (directory, root) = tree(MACHINE);
    apply_all(&root, LASTING);
    write(directory.path(), "proc/sys/kernel/random/boot_id", "second\n");
    write(directory.path(), "proc/irq/24/smp_affinity_list", "0-3\n");
    assert_eq!(verify(&root).unwrap().left_count, 1);
    // Changes are those of its second interrupt.
    for number in ["99", "101"] {
        write(directory.path(), &format!("sys/class/net/eth0/device/msi_irqs/{number}"), "msix\n");
    }
    write(directory.path(), "proc/irq/101/smp_affinity_list", "3\n");
    let report = verify(&root).unwrap();
    assert_eq!(report.left_count, 0, "{report:#?}");
    write(directory.path(), "proc/irq/101/smp_affinity_list", "0\n");
    assert_eq!(verify(&root).unwrap().left_count, 1);
}

/// One interrupt of eth0's, by number and position.
fn interrupt(number: u32, index: usize, from: &str, to: &str) -> Change {
    let lasting = Persistence::Interrupt { interface: "eth0".to_owned(), index };
    Change::new("R11", &format!("/proc/irq/{number}/smp_affinity_list"), from, to, lasting)
}

#[test]
fn interrupts_whose_numbers_changed_over_a_reboot_have_one_line_each() {
    let (directory, root) = tree(MACHINE);
    write(directory.path(), "proc/irq/25/smp_affinity_list", "0-3\n");
    let before = vec![interrupt(24, 0, "0-3", "3"), interrupt(25, 1, "0-3", "2")];
    apply(&root, &plan(&root, before), &LASTING).unwrap();
    // The numbers of this boot: 24 has become that of the second interrupt, whose new target is
    // another CPU.
    write(directory.path(), "proc/sys/kernel/random/boot_id", "second\n");
    for (number, list) in [(23, "3\n"), (24, "0-3\n")] {
        write(directory.path(), &format!("proc/irq/{number}/smp_affinity_list"), list);
        write(directory.path(), &format!("sys/class/net/eth0/device/msi_irqs/{number}"), "msix\n");
    }
    apply(&root, &plan(&root, vec![interrupt(24, 1, "0-3", "1")]), &LASTING).unwrap();
    let unit = text(directory.path(), "etc/systemd/system/tidemill-tune.service");
    let lines: Vec<&str> = unit.lines().filter(|line| line.starts_with("ExecStart")).collect();
    assert_eq!(lines.len(), 2, "{unit}");
    assert!(lines[0].contains("sed -n 1p") && lines[0].contains("echo 3 >"), "{unit}");
    assert!(lines[1].contains("sed -n 2p") && lines[1].contains("echo 1 >"), "{unit}");
    let report = verify(&root).unwrap();
    assert_eq!(report.left_count, 0, "{report:#?}");
    let told = report.lines.iter().filter(|line| line.contains("/proc/irq/")).count();
    assert_eq!(told, 2, "{report:#?}");
    assert_eq!(revert(&root, &RevertOptions::default()).unwrap().left_count, 0);
    assert_eq!(text(directory.path(), "proc/irq/24/smp_affinity_list"), "0-3\n");
}

#[test]
fn an_edited_file_of_ours_and_a_foreign_one_are_left_alone() {
    let (directory, root) = tree(MACHINE);
    write(directory.path(), "etc/tmpfiles.d/tidemill.conf", "# theirs\n");
    let report = apply_all(&root, LASTING);
    assert_eq!(report.left_count, 1, "{report:#?}");
    assert_eq!(text(directory.path(), "etc/tmpfiles.d/tidemill.conf"), "# theirs\n");
    write(directory.path(), SYSCTL, "vm.swappiness = 5\n");
    let report = revert(&root, &RevertOptions::default()).unwrap();
    assert_eq!(report.left_count, 1, "{report:#?}");
    assert_eq!(text(directory.path(), SYSCTL), "vm.swappiness = 5\n");
    assert_eq!(text(directory.path(), SWAPPINESS), "60\n");
    let forget = RevertOptions { forget: true, ..RevertOptions::default() };
    revert(&root, &forget).unwrap();
    assert_eq!(revert(&root, &RevertOptions::default()).unwrap(), Report::default());
}

#[test]
fn two_changes_of_one_file_are_undone_one_after_the_other() {
    let (directory, root) = tree(MACHINE);
    let change = |from: i32, to: i32| {
        plan(&root, vec![Change::new("R3", SWAPPINESS, from, to, Persistence::Sysctl)])
    };
    apply(&root, &change(60, 10), &LASTING).unwrap();
    apply(&root, &change(10, 1), &LASTING).unwrap();
    assert_eq!(text(directory.path(), SYSCTL).matches("vm.swappiness").count(), 1);
    let report = revert(&root, &RevertOptions::default()).unwrap();
    let restored: Vec<_> =
        report.lines.iter().filter_map(|line| line.strip_prefix("restored R3 ")).collect();
    assert_eq!(restored, [format!("{SWAPPINESS}: 1 -> 10"), format!("{SWAPPINESS}: 10 -> 60")]);
    assert_eq!(text(directory.path(), SWAPPINESS), "60\n");
}

#[test]
fn one_rule_can_be_undone_and_the_files_keep_the_others() {
    let (directory, root) = tree(MACHINE);
    apply_all(&root, LASTING);
    let only = RevertOptions { only: vec!["r3".to_owned()], forget: false };
    assert_eq!(revert(&root, &only).unwrap().left_count, 0);
    assert_eq!(text(directory.path(), SWAPPINESS), "60\n");
    assert_eq!(text(directory.path(), OVERCOMMIT), "1\n");
    assert!(!text(directory.path(), SYSCTL).contains("swappiness"));
    assert_eq!(verify(&root).unwrap().left_count, 0);
}

#[test]
fn settings_of_another_tuner_are_left_to_it_unless_taken_over() {
    let (directory, root) = tree(MACHINE);
    write(directory.path(), "tidemill/processes", "irqbalance\n");
    let report = apply_all(&root, LASTING);
    assert_eq!(report.left_count, 1);
    assert!(report.lines.iter().any(|line| line.contains("irqbalance manages it")));
    assert_eq!(text(directory.path(), IRQ), "0-3\n");
    let take_over = ApplyOptions { take_over: true, ..LASTING };
    let interrupt = vec![changes().remove(4)];
    assert_eq!(apply(&root, &plan(&root, interrupt), &take_over).unwrap().left_count, 0);
    assert_eq!(text(directory.path(), IRQ), "3\n");
}

#[test]
fn absent_files_links_and_stale_plans_are_refused_one_by_one() {
    let (directory, root) = tree(MACHINE);
    std::os::unix::fs::symlink("swappiness", directory.path().join("proc/sys/vm/link")).unwrap();
    let planned = plan(
        &root,
        vec![
            Change::new("R4", "/proc/sys/vm/none", 1, 2, Persistence::Sysctl),
            Change::new("R4", "/proc/sys/vm/link", 60, 2, Persistence::Sysctl),
            Change::new("R2", OVERCOMMIT, 2, 1, Persistence::Sysctl),
            Change::new("R3", SWAPPINESS, 60, 1, Persistence::Sysctl),
        ],
    );
    let report = apply(&root, &planned, &ApplyOptions::default()).unwrap();
    assert_eq!(report.left_count, 3, "{report:#?}");
    assert!(report.lines[0].contains("/proc/sys/vm/none: absent"), "{report:#?}");
    assert!(report.lines[1].contains("0 by now, 2 in the plan"), "{report:#?}");
    assert_eq!(text(directory.path(), SWAPPINESS), "1\n");
    revert(&root, &RevertOptions::default()).unwrap();
    assert_eq!(text(directory.path(), SWAPPINESS), "60\n");
}

#[test]
fn a_name_that_a_shell_would_run_never_gets_into_a_file() {
    let (_directory, root) = tree(MACHINE);
    let evil = Persistence::Interrupt { interface: "$(reboot)".to_owned(), index: 0 };
    let planned = plan(&root, vec![Change::new("R11", IRQ, "0-3", 3, evil)]);
    assert_eq!(planned[0].lasting_file, None);
    assert_eq!(apply(&root, &planned, &LASTING).unwrap().left_count, 1);
    assert_eq!(revert(&root, &RevertOptions::default()).unwrap(), Report::default());
}

#[test]
fn queues_are_set_before_the_interrupts_that_they_number_anew() {
    const QUEUES: &str = "tidemill/channels/eth0/combined";
    let (directory, root) = tree(MACHINE);
    write(directory.path(), QUEUES, "1\n");
    let mut changes: Vec<Change> = changes().drain(4..5).collect();
    let queues = Persistence::Queues { interface: "eth0".to_owned() };
    changes.push(Change::new("R11", &format!("/{QUEUES}"), 1, 2, queues));
    assert_eq!(apply(&root, &plan(&root, changes), &LASTING).unwrap().left_count, 0);
    assert_eq!(text(directory.path(), QUEUES), "2\n");
    let unit = text(directory.path(), "/etc/systemd/system/tidemill-tune.service");
    let at = |what: &str| unit.find(what).unwrap_or_else(|| panic!("no {what} in {unit}"));
    assert!(at("ethtool -L eth0 combined 2") < at("smp_affinity_list"), "{unit}");
    assert!(unit.contains("After=sys-subsystem-net-devices-eth0.device\n"), "{unit}");
    revert(&root, &RevertOptions::default()).unwrap();
    assert_eq!(text(directory.path(), QUEUES), "1\n");
    let evil = Persistence::Queues { interface: "$(reboot)".to_owned() };
    let planned = plan(&root, vec![Change::new("R11", &format!("/{QUEUES}"), 1, 2, evil)]);
    assert_eq!(planned[0].lasting_file, None);
}

#[test]
fn the_unit_waits_for_an_interface_by_its_escaped_name() {
    let (directory, root) = tree(MACHINE);
    let lasting = Persistence::Interrupt { interface: "br-lan.7".to_owned(), index: 0 };
    let planned = plan(&root, vec![Change::new("R11", IRQ, "0-3", 3, lasting)]);
    apply(&root, &planned, &LASTING).unwrap();
    let unit = text(directory.path(), "etc/systemd/system/tidemill-tune.service");
    assert!(unit.contains("After=sys-subsystem-net-devices-br\\x2dlan.7.device\n"), "{unit}");
}

#[test]
fn a_foreign_or_broken_journal_stops_everything_before_the_first_write() {
    let (directory, root) = tree(MACHINE);
    let before = files(directory.path());
    for (journal, says) in [
        ("{\"format\":\"tidemill tune journal\",\"version\":7,\"entries\":{}}", "version 7"),
        ("{\"format\":\"other\",\"version\":1}", "format"),
        ("half a jour", "journal.json"),
    ] {
        write(directory.path(), "var/lib/tidemill-tune/journal.json", journal);
        let planned = plan(&root, changes());
        let errors = [
            apply(&root, &planned, &LASTING).unwrap_err(),
            revert(&root, &RevertOptions::default()).unwrap_err(),
            verify(&root).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains(says), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        assert_eq!(files(directory.path()), before);
    }
}

#[test]
fn an_unwritable_journal_stops_apply_before_the_first_write() {
    let (directory, root) = tree(MACHINE);
    write(directory.path(), "var/lib", "a file where the directory should be\n");
    let before = files(directory.path());
    let error = apply(&root, &plan(&root, changes()), &LASTING).unwrap_err();
    let TuneError::Journal(error) = error else { panic!("{error}") };
    assert_eq!(error.refusal, Refusal::Absent);
    assert_eq!(files(directory.path()), before);
}

#[test]
fn two_processes_do_not_work_on_one_journal() {
    let (_directory, root) = tree(MACHINE);
    let held = journal::Journal::open(&root).unwrap();
    let planned = plan(&root, changes());
    assert!(matches!(apply(&root, &planned, &LASTING), Err(TuneError::Busy(_))));
    drop(held);
    assert!(apply(&root, &planned, &LASTING).is_ok());
}

#[test]
fn unknown_rules_are_named() {
    let error = select(&[], &["R99".to_owned()]).unwrap_err();
    assert_eq!(error.to_string(), "there is no rule R99");
}

#[test]
fn values_applied_before_are_made_to_last_later() {
    let (directory, root) = tree(MACHINE);
    apply_all(&root, ApplyOptions::default());
    assert_eq!(fleeting(&root, &["R3".to_owned()]).unwrap(), [format!("R3 {SWAPPINESS}: 1")]);
    let only = ApplyOptions { only: vec!["R3".to_owned()], ..LASTING };
    assert_eq!(apply(&root, &[], &only).unwrap().lines, [format!("wrote   /{SYSCTL}")]);
    assert!(text(directory.path(), SYSCTL).ends_with("# R3\nvm.swappiness = 1\n"));
    assert!(!text(directory.path(), SYSCTL).contains("overcommit"));
}

/// The machine with a finding of R5's.
fn machine_with_a_finding() -> (tempfile::TempDir, Root, Vec<crate::rules::Finding>) {
    let (directory, root) = tree(MACHINE);
    write(directory.path(), "proc/sys/vm/zone_reclaim_mode", "1\n");
    let findings = {
        let host = crate::facts::Host::read(&root, crate::facts::Inspect::default());
        crate::rules::examine(&host)
    };
    (directory, root, findings)
}

#[test]
fn a_trial_switches_one_rule_on_and_off_and_nothing_else() {
    let (directory, root, findings) = machine_with_a_finding();
    let before = files(directory.path());
    let mut trial = Trial::new(root, "R5", &findings).unwrap();
    for _ in 0..2 {
        trial.apply().unwrap();
        assert_eq!(text(directory.path(), "proc/sys/vm/zone_reclaim_mode"), "0\n");
        assert_eq!(text(directory.path(), SWAPPINESS), "60\n");
        trial.revert().unwrap();
        assert_eq!(files(directory.path()), before);
    }
    trial.revert().unwrap();
    trial.apply().unwrap();
    write(directory.path(), "proc/sys/vm/zone_reclaim_mode", "4\n");
    let error = trial.revert().unwrap_err().to_string();
    assert!(error.contains("changed by somebody else"), "{error}");
}

#[test]
fn a_trial_is_refused_where_it_cannot_be_undone_or_means_nothing() {
    let (_directory, root, findings) = machine_with_a_finding();
    let refused = |root: Root, rule: &str| Trial::new(root, rule, &findings).unwrap_err();
    let again = || Root::open(root.directory()).unwrap();
    assert_eq!(refused(again(), "R99"), "there is no rule R99");
    assert!(refused(again(), "R22").contains("proposes no change"));
    let planned = plan(&root, select(&findings, &["R5".to_owned()]).unwrap());
    apply(&root, &planned, &ApplyOptions::default()).unwrap();
    assert!(refused(again(), "R5").contains("is applied"));
}
