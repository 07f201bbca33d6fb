//! Flags that must fit together, and what the commands print for trees made up here.

use clap::{CommandFactory, Parser};

use super::arguments::{Arguments, Command};
use super::{Outcome, examine, show};
use crate::facts::{Host, Inspect};
use crate::testing::tree;
use crate::{ReadError, Refusal, Root, rules};

const MACHINE: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sys/vm/zone_reclaim_mode", "1\n"),
];

fn examine(words: &[&str]) -> Result<Outcome, String> {
    let (_directory, root) = tree(MACHINE);
    let words = ["tidemill tune"].iter().chain(words);
    let mut arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
    match &mut arguments.command {
        Command::Doctor(arguments) => {
            arguments.look.machine.root = root.directory().to_owned();
            examine::doctor(arguments)
        }
        Command::Plan(arguments) => {
            arguments.look.machine.root = root.directory().to_owned();
            examine::plan(arguments)
        }
        other => panic!("{other:?} does not examine"),
    }
}

#[test]
fn the_flags_are_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn json_has_all_findings_of_the_text() {
    let plain = examine(&["doctor"]).unwrap();
    let told = examine(&["doctor", "--json"]).unwrap();
    assert_eq!((plain.status, told.status), (3, 3));
    let value: serde_json::Value = serde_json::from_str(&told.text).unwrap();
    let findings = value["findings"].as_array().unwrap();
    assert_eq!(findings[0]["verdict"], "problem");
    assert_eq!(findings[0]["id"], "R5");
    assert_eq!(findings[0]["changes"][0]["to"], "0");
    for finding in findings {
        let (id, summary) = (finding["id"].as_str().unwrap(), finding["summary"].as_str().unwrap());
        assert!(plain.text.lines().any(|line| line.contains(id) && line.ends_with(summary)));
    }
}

#[test]
fn a_client_machine_gets_no_advice_about_forks() {
    let change = "R2 /proc/sys/vm/overcommit_memory";
    assert!(examine(&["plan"]).unwrap().text.contains(change));
    assert!(!examine(&["plan", "--role", "client"]).unwrap().text.contains(change));
}

#[test]
fn a_plan_for_several_servers_says_why() {
    let text = examine(&["plan", "--instances", "2"]).unwrap().text;
    assert!(text.contains("2 servers: one node"), "{text}");
    assert!(text.contains("server 2: CPU 1\n"), "{text}");
    assert!(
        examine(&["plan", "--instances", "0"]).is_err_and(|error| error.contains("instances 0"))
    );
}

#[test]
fn root_would_add_the_readings_that_were_not_permitted() {
    let (_directory, mut root) = tree(MACHINE);
    let added = |root: &Root| {
        let findings = rules::examine(&Host::read(root, Inspect::default()));
        show::root_adds(&findings)
    };
    assert!(added(&root).contains("root could tell no more"), "{}", added(&root));
    let (path, refusal) = ("/proc/swaps".to_owned(), Refusal::NotPermitted);
    root.refuse(vec![ReadError { path, refusal, errno: libc::EACCES }]);
    assert!(added(&root).contains("root could tell of R3, too"), "{}", added(&root));
}

#[test]
fn a_plan_shows_the_interrupts_of_interfaces_now_and_then() {
    let (_directory, root) = tree(&[
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
        ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
        ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2\n"),
        ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
        ("sys/class/net/eth0/device/msi_irqs/24", "msix\n"),
        ("sys/class/net/eth0/device/msi_irqs/25", "msix\n"),
        ("sys/class/net/eth0/device/msi_irqs/26", "msix\n"),
        ("proc/irq/24/smp_affinity_list", "0-3\n"),
        ("proc/irq/24/effective_affinity_list", "2\n"),
        ("proc/irq/25/smp_affinity_list", "0-1\n"),
    ]);
    let words = ["tidemill tune", "plan"];
    let mut arguments = Arguments::try_parse_from(words).unwrap();
    let Command::Plan(plan) = &mut arguments.command else { panic!("no plan") };
    plan.look.machine.root = root.directory().to_owned();
    let text = examine::plan(plan).unwrap().text;
    assert!(text.contains("eth0 (no known node), queues: 1 receive, 0 transmit\n"), "{text}");
    assert!(text.contains("  interrupts 24-25 on CPU 0-2, planned on CPU 3\n"), "{text}");
}

#[test]
fn processes_and_ports_that_are_not_there_are_errors() {
    assert!(examine(&["doctor", "--pid", "7"]).is_err_and(|error| error.contains("/proc/7/task")));
    assert!(
        examine(&["doctor", "--port", "7"]).is_err_and(|error| error.contains("/proc/net/tcp"))
    );
    assert!(examine(&["doctor", "--port", "7", "--pid", "7"]).is_err());
    assert!(examine(&["doctor", "--interval", "-1"]).is_err());
}
