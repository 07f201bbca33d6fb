//! Placement on machines made up here, from a laptop to four sockets.

use proptest::prelude::*;

use super::*;
use crate::CpuSet;
use crate::topology::{Core, Nic, Node, Topology};

/// A machine of equal nodes; siblings are numbered `stride` apart as on most servers.
#[derive(Clone, Debug)]
struct Shape {
    nodes: u32,
    cores_per_node: u32,
    threads: u32,
    cores_per_cache: u32,
    slow_cores_per_node: u32,
}

const fn shape(nodes: u32, cores_per_node: u32, threads: u32) -> Shape {
    Shape {
        nodes,
        cores_per_node,
        threads,
        cores_per_cache: cores_per_node,
        slow_cores_per_node: 0,
    }
}

impl Shape {
    /// The machine with only these CPUs online.
    fn machine(&self, online: &CpuSet) -> Topology {
        let core_count = self.nodes * self.cores_per_node;
        let siblings = |core: u32| (0..self.threads).map(move |thread| thread * core_count + core);
        let mut topology = Topology { online: online.clone(), ..Topology::default() };
        for node in 0..self.nodes {
            let first = node * self.cores_per_node;
            let mut node_cpus = CpuSet::new();
            for core in first..first + self.cores_per_node {
                let cpus = siblings(core).collect::<CpuSet>().and(online);
                if cpus.is_empty() {
                    continue;
                }
                node_cpus = node_cpus.or(&cpus);
                let cache_first =
                    first + (core - first) / self.cores_per_cache * self.cores_per_cache;
                let cache_end =
                    (cache_first + self.cores_per_cache).min(first + self.cores_per_node);
                let cache: CpuSet = (cache_first..cache_end).flat_map(siblings).collect();
                topology.cores.push(Core {
                    cpus,
                    package: node as i32,
                    last_level_cache: cache.and(online),
                    cluster: CpuSet::new(),
                    node: topology.nodes.len(),
                    is_top_class: core - first < self.cores_per_node - self.slow_cores_per_node,
                });
            }
            if !node_cpus.is_empty() {
                let (id, memory_kib) = (Some(node), Some(1 << 20));
                topology.nodes.push(Node { id, cpus: node_cpus, memory_kib });
            }
        }
        topology
    }

    fn all(&self) -> CpuSet {
        (0..self.nodes * self.cores_per_node * self.threads).collect()
    }

    fn whole(&self) -> Topology {
        self.machine(&self.all())
    }
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

fn with(topology: &Topology, options: &PlacementOptions) -> Placement {
    plan(topology, &Allowed::default(), options).unwrap()
}

fn auto(topology: &Topology) -> Placement {
    with(topology, &PlacementOptions::default())
}

fn mode(mode: Mode) -> PlacementOptions {
    PlacementOptions { mode, ..PlacementOptions::default() }
}

fn nic(name: &str, node: Option<u32>, local: &str) -> Nic {
    Nic {
        name: name.into(),
        node,
        local_cpus: cpus(local),
        is_up: true,
        receive_queue_count: 8,
        transmit_queue_count: 8,
        interrupts: Vec::new(),
        interrupt_cpus: Vec::new(),
    }
}

#[test]
fn machines_without_siblings_follow_the_table() {
    for (count, workers, irq, background) in [
        (1, "0", "", "0"),
        (2, "0", "1", "1"),
        (3, "0-1", "2", "2"),
        (4, "0-2", "3", "3"),
        (8, "0-5", "6", "7"),
        (16, "0-11", "12-13", "14-15"),
        (64, "0-55", "56-59", "60-63"),
        (128, "0-111", "112-119", "120-127"),
    ] {
        let placement = auto(&shape(1, count, 1).whole());
        assert_eq!(placement.worker_cpus(), cpus(workers), "{count} CPUs");
        assert_eq!(placement.irq, cpus(irq), "{count} CPUs");
        assert_eq!(placement.background, cpus(background), "{count} CPUs");
        assert_eq!(placement.is_background_low_priority, count == 1, "{count} CPUs");
    }
}

#[test]
fn machines_with_siblings_give_up_the_idle_sibling_first() {
    let placement = auto(&shape(1, 8, 2).whole());
    assert_eq!((placement.worker_cpus(), placement.reserved), (cpus("0-5"), cpus("8-13")));
    let placement = auto(&shape(1, 4, 2).whole());
    assert_eq!((placement.worker_cpus(), placement.irq), (cpus("0-2"), cpus("3,7")));
    assert_eq!(
        (placement.background, placement.given_up),
        (cpus("4-6"), vec![GivenUp::SiblingReservation])
    );
    let placement = auto(&shape(1, 2, 2).whole());
    assert_eq!(placement.worker_cpus(), cpus("0-1"));
    assert_eq!((placement.background, placement.irq), (cpus("2"), cpus("3")));
    let placement = auto(&shape(1, 1, 2).whole());
    assert_eq!((placement.worker_cpus(), placement.background), (cpus("0"), cpus("1")));
    assert_eq!(placement.given_up, [GivenUp::SiblingReservation, GivenUp::SeparateBackground]);
}

#[test]
fn workers_fill_one_cache_before_the_next() {
    let many_caches = Shape { cores_per_cache: 4, ..shape(1, 16, 1) };
    let mut online = many_caches.all();
    online.remove(0);
    let placement = auto(&many_caches.machine(&online));
    // 15 cores: 13 workers; the cache that lost a core comes last, so interrupts land there.
    assert_eq!(placement.worker_cpus(), cpus("4-15,1"));
}

#[test]
fn the_node_of_the_only_interface_wins_over_a_larger_one() {
    let mut topology = shape(2, 8, 2).whole();
    topology.nics = vec![nic("eth0", Some(1), "")];
    assert_eq!(auto(&topology).worker_cpus(), cpus("8-13"));
    topology.nics = vec![nic("eth0", None, "8-15,24-31")];
    assert_eq!(auto(&topology).worker_cpus(), cpus("8-13"));
    topology.nics.push(nic("eth1", Some(0), ""));
    assert_eq!(auto(&topology).worker_cpus(), cpus("0-5"));
    let named = PlacementOptions { nic: Some("eth0".into()), ..PlacementOptions::default() };
    assert_eq!(with(&topology, &named).worker_cpus(), cpus("8-13"));
    let unknown = PlacementOptions { nic: Some("eth9".into()), ..PlacementOptions::default() };
    let error = plan(&topology, &Allowed::default(), &unknown).unwrap_err();
    assert_eq!(error, PlacementError::NoSuchNic("eth9".into()));
}

/// An interface whose interrupts may land on these CPUs.
fn nic_with(interrupts: &[&str]) -> Nic {
    Nic {
        interrupts: (24..).take(interrupts.len()).collect(),
        interrupt_cpus: interrupts.iter().map(|list| cpus(list)).collect(),
        ..nic("eth0", None, "")
    }
}

#[test]
fn workers_keep_off_the_cpus_that_interrupts_were_confined_to() {
    let mut topology = shape(1, 8, 1).whole();
    for (interrupts, workers, irq, background) in [
        // One for its settings may land anywhere, as those of all drivers do.
        (&["0", "0", "0-7"][..], "1-6", "0", "7"),
        (&["7"], "0-5", "7", "6"),
        // More cores than interrupts should have, or none: there is no decision.
        (&["0-3"], "0-5", "6", "7"),
        (&["0-7"], "0-5", "6", "7"),
        (&[""], "0-5", "6", "7"),
    ] {
        topology.nics = vec![nic_with(interrupts)];
        let placement = auto(&topology);
        assert_eq!(placement.worker_cpus(), cpus(workers), "{interrupts:?}");
        assert_eq!(placement.irq, cpus(irq), "{interrupts:?}");
        assert_eq!(placement.background, cpus(background), "{interrupts:?}");
        topology.nics[0].is_up = false;
        assert_eq!(auto(&topology).worker_cpus(), cpus("0-5"), "a link that is down decides");
    }
}

#[test]
fn where_interrupts_have_no_core_a_worker_takes_the_sibling_they_do_not_use() {
    let mut topology = shape(1, 2, 2).whole();
    topology.nics = vec![nic_with(&["0"])];
    let placement = auto(&topology);
    assert_eq!((placement.worker_cpus(), placement.irq), (cpus("1-2"), cpus("0")));
    topology.nics = vec![nic_with(&["0,2"])];
    let undecided = auto(&topology);
    assert_eq!((undecided.worker_cpus(), undecided.irq), (cpus("0-1"), cpus("3")));
}

#[test]
fn a_quota_decides_before_the_number_of_cores() {
    let topology = shape(1, 16, 1).whole();
    for (quota, workers) in [(0.5, 1), (1.0, 1), (2.0, 1), (3.0, 2), (4.9, 3), (8.0, 6), (64.0, 12)]
    {
        let allowed = Allowed { quota_cpus: Some(quota), ..Allowed::default() };
        let placement = plan(&topology, &allowed, &PlacementOptions::default()).unwrap();
        assert_eq!(placement.workers.len(), workers, "quota {quota}");
        assert!(!placement.background.intersects(&placement.worker_cpus()), "quota {quota}");
    }
}

#[test]
fn one_of_two_allowed_cpus_is_left_to_others() {
    let topology = shape(1, 8, 1).whole();
    let alone = |allowed: Allowed| {
        let placement = plan(&topology, &allowed, &PlacementOptions::default()).unwrap();
        (placement.workers, placement.background, placement.irq)
    };
    for (list, worker, others) in [("5", "5", "5"), ("2,5", "2", "5"), ("0-1", "0", "1")] {
        let mask = Allowed { mask: Some(cpus(list)), ..Allowed::default() };
        let irq = if worker == others { "" } else { others };
        assert_eq!(alone(mask), (vec![cpus(worker)], cpus(others), cpus(irq)), "mask {list}");
        // Interrupts belong to the owner of the host; background threads still get the free CPU.
        let cpuset = Allowed { cpuset: Some(cpus(list)), ..Allowed::default() };
        assert_eq!(alone(cpuset), (vec![cpus(worker)], cpus(others), cpus("")), "cpuset {list}");
    }
    let three = Allowed { mask: Some(cpus("1-3")), ..Allowed::default() };
    assert_eq!(alone(three), (vec![cpus("1"), cpus("2")], cpus("3"), cpus("3")));
}

#[test]
fn of_two_cpus_the_worker_takes_the_one_without_interrupts() {
    let mut topology = shape(1, 2, 1).whole();
    for (interrupts, worker, irq) in [("0", "1", "0"), ("1", "0", "1"), ("0-1", "0", "1")] {
        topology.nics = vec![nic_with(&[interrupts])];
        let placement = auto(&topology);
        assert_eq!((placement.worker_cpus(), placement.irq), (cpus(worker), cpus(irq)));
    }
}

#[test]
fn both_of_two_cores_have_a_worker_where_another_cpu_is_left_or_it_is_asked_for() {
    let cores = |topology: &Topology, options: &PlacementOptions| with(topology, options).workers;
    let two = shape(1, 2, 1).whole();
    let both = vec![cpus("0"), cpus("1")];
    let asked = PlacementOptions { worker_count: Some(2), ..PlacementOptions::default() };
    assert_eq!(cores(&two, &asked), both);
    let listed = PlacementOptions { server_cpus: Some(cpus("0-1")), ..PlacementOptions::default() };
    assert_eq!(cores(&two, &listed), both);
    let siblings = shape(1, 2, 2).whole();
    assert_eq!(cores(&siblings, &PlacementOptions::default()), both);
    assert_eq!(cores(&siblings, &mode(Mode::Split)), [cpus("0,2")]);
    let slower = Shape { slow_cores_per_node: 2, ..shape(1, 4, 1) }.whole();
    assert_eq!(cores(&slower, &PlacementOptions::default()), both);
    for every in [Mode::Auto, Mode::Off, Mode::Logical, Mode::Physical, Mode::Split] {
        assert_eq!(cores(&two, &mode(every)).len(), 1, "{every}");
    }
    let dealt: Vec<CpuSet> = dealt(&two, 2).list.into_iter().map(|one| one.cpus).collect();
    assert_eq!(dealt, both);
}

#[test]
fn isolated_cpus_are_left_alone_unless_the_process_was_put_there() {
    let mut topology = shape(1, 8, 1).whole();
    topology.isolated = cpus("4-7");
    assert_eq!(auto(&topology).worker_cpus(), cpus("0-2"));
    let allowed = Allowed { mask: Some(cpus("4-7")), ..Allowed::default() };
    let placement = plan(&topology, &allowed, &PlacementOptions::default()).unwrap();
    assert_eq!(placement.worker_cpus(), cpus("4-6"));
}

#[test]
fn modes_differ_as_documented() {
    let topology = shape(1, 8, 2).whole();
    let logical = with(&topology, &mode(Mode::Logical));
    assert_eq!((logical.workers[0].clone(), logical.background), (cpus("0"), cpus("0-5")));
    let physical = with(&topology, &mode(Mode::Physical));
    assert_eq!((physical.workers[0].clone(), physical.background), (cpus("0,8"), cpus("0-5,8-13")));
    let split = with(&topology, &mode(Mode::Split));
    assert_eq!((split.workers[0].clone(), split.background.clone()), (cpus("0,8"), cpus("7,15")));
    let off = with(&topology, &mode(Mode::Off));
    assert_eq!((off.workers.len(), off.worker_affinity(0)), (6, None));
    assert_eq!(off.background_affinity(), None);
    assert_eq!(split.worker_affinity(5), Some(&cpus("5,13")));
}

#[test]
fn a_split_on_one_core_still_gives_background_threads_a_cpu() {
    let split = with(&shape(1, 1, 2).whole(), &mode(Mode::Split));
    assert_eq!((split.workers.clone(), split.background), (vec![cpus("0-1")], cpus("0-1")));
    assert!(split.is_background_low_priority);
}

#[test]
fn asking_for_more_workers_takes_background_then_interrupts_then_other_nodes_then_shares() {
    let topology = shape(2, 8, 2).whole();
    let ask = |count| {
        with(
            &topology,
            &PlacementOptions { worker_count: Some(count), ..PlacementOptions::default() },
        )
    };
    assert_eq!((ask(7).irq, ask(7).background), (cpus("7,23"), cpus("16-22")));
    assert_eq!(ask(8).worker_cpus(), cpus("0-7"));
    assert_eq!(ask(10).worker_cpus(), cpus("0-9"));
    assert_eq!(ask(16).worker_cpus(), cpus("0-15"));
    let twenty = ask(20);
    assert_eq!((twenty.workers.len(), twenty.worker_cpus()), (20, cpus("0-19")));
    assert_eq!(ask(100).workers.len(), 100);
    assert_eq!(ask(2).worker_cpus(), cpus("0-1"));
}

#[test]
fn two_workers_per_core_take_both_siblings_or_share_the_cpu() {
    let two = PlacementOptions { workers_per_core: 2, ..PlacementOptions::default() };
    let placement = with(&shape(1, 8, 2).whole(), &two);
    assert_eq!((placement.workers.len(), placement.worker_cpus()), (12, cpus("0-5,8-13")));
    let placement = with(&shape(1, 2, 1).whole(), &two);
    assert_eq!((placement.workers.len(), placement.worker_cpus()), (2, cpus("0")));
}

#[test]
fn cpulists_are_obeyed_and_wrong_ones_refused() {
    let topology = shape(1, 8, 1).whole();
    let options = PlacementOptions {
        server_cpus: Some(cpus("2-4")),
        background_cpus: Some(cpus("6")),
        snapshot_cpus: Some(cpus("7")),
        ..PlacementOptions::default()
    };
    let placement = with(&topology, &options);
    assert_eq!((placement.workers.len(), placement.worker_cpus()), (3, cpus("2-4")));
    assert_eq!((placement.background, placement.snapshot), (cpus("6"), cpus("7")));
    assert_eq!(placement.journal_rewrite, cpus("6"));
    let wrong =
        PlacementOptions { background_cpus: Some(cpus("6-9")), ..PlacementOptions::default() };
    let error = plan(&topology, &Allowed::default(), &wrong).unwrap_err();
    assert_eq!(error, PlacementError::NotAllowed("bio-cpulist", cpus("6-9"), cpus("8-9")));
    let off = PlacementOptions { mode: Mode::Off, ..options };
    assert_eq!(with(&topology, &off).worker_affinity(0), Some(&cpus("2-4")));
}

#[test]
fn options_out_of_range_are_refused() {
    let topology = shape(1, 8, 1).whole();
    let refused = |options: PlacementOptions| {
        plan(&topology, &Allowed::default(), &options).unwrap_err().to_string()
    };
    let none = PlacementOptions { worker_count: Some(0), ..PlacementOptions::default() };
    assert!(refused(none).contains("worker-threads 0"));
    let many = PlacementOptions { workers_per_core: 3, ..PlacementOptions::default() };
    assert!(refused(many).contains("workers-per-core 3"));
    let nothing = Allowed { mask: Some(cpus("99")), ..Allowed::default() };
    let error = plan(&topology, &nothing, &PlacementOptions::default()).unwrap_err();
    assert_eq!(error, PlacementError::NoCpuAllowed);
}

#[test]
fn the_picture_names_every_cpu_and_its_role() {
    let topology = shape(1, 8, 2).whole();
    let picture = auto(&topology).picture(&topology);
    assert!(picture.contains("[0:w0 8:-]") && picture.contains("[6:i 14:i]"), "{picture}");
    assert!(picture.contains("[7:b 15:b]") && picture.contains("node 0"), "{picture}");
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1u32..=4, 1u32..=32, 1u32..=4, 1u32..=8, 0u32..=3).prop_map(
        |(nodes, cores_per_node, threads, cores_per_cache, slow)| Shape {
            nodes,
            cores_per_node,
            threads,
            cores_per_cache,
            slow_cores_per_node: slow.min(cores_per_node - 1),
        },
    )
}

/// A non-empty part of a set, chosen by bits.
fn part(set: &CpuSet, bits: &[bool]) -> CpuSet {
    let chosen: CpuSet =
        set.iter().zip(bits.iter().cycle()).filter(|(_, bit)| **bit).map(|(cpu, _)| cpu).collect();
    if chosen.is_empty() { set.iter().take(1).collect() } else { chosen }
}

fn used(placement: &Placement) -> CpuSet {
    let sets =
        [&placement.background, &placement.irq, &placement.snapshot, &placement.journal_rewrite];
    sets.into_iter().fold(placement.worker_cpus().or(&placement.reserved), |all, set| all.or(set))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_plan_uses_an_offline_forbidden_or_foreign_cpu(
        shape in shapes(),
        online in proptest::collection::vec(any::<bool>(), 1..300),
        mask in proptest::collection::vec(any::<bool>(), 1..300),
        cpuset in proptest::collection::vec(any::<bool>(), 1..300),
        isolated in proptest::collection::vec(proptest::bool::weighted(0.1), 1..300),
        quota in proptest::option::of(0.1f64..40.0),
        workers in proptest::option::of(1usize..80),
        per_core in 0usize..=2,
        interrupts in
            proptest::collection::vec(proptest::collection::vec(any::<bool>(), 1..40), 0..4),
        mode in prop_oneof![
            Just(Mode::Auto), Just(Mode::Logical), Just(Mode::Physical), Just(Mode::Split)
        ],
    ) {
        let online = part(&shape.all(), &online);
        let mut topology = shape.machine(&online);
        topology.isolated =
            shape
                .all()
                .iter()
                .zip(isolated.iter().cycle())
                .filter(|(_, bit)| **bit)
                .map(|(cpu, _)| cpu)
                .collect();
        let interrupt_cpus = interrupts.iter().map(|bits| part(&shape.all(), bits)).collect();
        topology.nics = vec![Nic { interrupt_cpus, ..nic("eth0", None, "") }];
        let mask = part(&online, &mask);
        let cpuset = part(&mask, &cpuset);
        let allowed = Allowed { mask: Some(mask), cpuset: Some(cpuset.clone()), quota_cpus: quota };
        let options =
            PlacementOptions {
                mode,
                worker_count: workers,
                workers_per_core: per_core,
                ..Default::default()
            };
        let placement = plan(&topology, &allowed, &options).unwrap();
        let is_isolated = cpuset.is_subset(&topology.isolated);
        let permitted = if is_isolated { cpuset } else { cpuset.minus(&topology.isolated) };
        prop_assert!(used(&placement).is_subset(&permitted), "{placement:?}");
        prop_assert!(!placement.workers.is_empty());
        prop_assert!(placement.workers.iter().all(|cpus| !cpus.is_empty()));
        prop_assert!(!placement.background.is_empty());
        prop_assert_eq!(workers.unwrap_or(placement.workers.len()), placement.workers.len());
        prop_assert_eq!(&plan(&topology, &allowed, &options).unwrap(), &placement, "not \
                                                                                    deterministic");
    }

    #[test]
    fn no_core_has_two_workers_unless_asked(
        shape in shapes(),
        online in proptest::collection::vec(any::<bool>(), 1..300),
        across_nodes in any::<bool>(),
    ) {
        let topology = shape.machine(&part(&shape.all(), &online));
        let options = PlacementOptions { across_nodes, ..Default::default() };
        let placement = with(&topology, &options);
        for core in &topology.cores {
            let here = placement.workers.iter().filter(|cpus| cpus.intersects(&core.cpus)).count();
            prop_assert!(here <= 1, "core {} has {here} workers", core.cpus);
        }
        let slow = topology.cores.iter().filter(|core| !core.is_top_class);
        let any_fast = topology.cores.iter().any(|core| core.is_top_class);
        for core in slow.filter(|_| any_fast) {
            prop_assert!(!placement.worker_cpus().intersects(&core.cpus));
        }
    }

    #[test]
    fn no_worker_is_on_the_core_that_an_interrupt_was_put_on(
        cores in 3u32..=64,
        threads in 1u32..=2,
        put in any::<proptest::sample::Index>(),
    ) {
        let mut topology = shape(1, cores, threads).whole();
        let put = put.index((cores * threads) as usize) as u32;
        topology.nics = vec![nic_with(&[&put.to_string()])];
        let placement = auto(&topology);
        let core = topology.cores.iter().find(|core| core.cpus.contains(put)).unwrap();
        prop_assert!(!placement.worker_cpus().intersects(&core.cpus), "{placement:?}");
        prop_assert!(placement.irq.contains(put), "{placement:?}");
    }

    /// Taking CPUs away one after the other from 128 to 1, in any order.
    #[test]
    fn roles_are_given_up_in_order_as_cpus_go(
        threads in prop_oneof![Just(1u32), Just(2), Just(4)],
        order in Just((0u32..128).collect::<Vec<u32>>()).prop_shuffle(),
    ) {
        let shape = shape(1, 128 / threads, threads);
        let mut online = shape.all();
        for &cpu in &order {
            let topology = shape.machine(&online);
            let placement = auto(&topology);
            let workers = placement.worker_cpus();
            let mut hosts = topology.cores.iter().filter(|core| core.cpus.intersects(&workers));
            let has_siblings = hosts.any(|core| core.cpus.len() > 1);
            let steps = [
                GivenUp::SiblingReservation,
                GivenUp::SeparateBackground,
                GivenUp::SeparateInterrupts,
            ];
            let steps = if has_siblings { &steps[..] } else { &steps[1..] };
            let first_steps = &steps[..placement.given_up.len()];
            prop_assert_eq!(&placement.given_up[..], first_steps, "{} left", online.len());
            let (cores, workers) = (topology.cores.len(), placement.workers.len());
            let least = if cores == 2 { 1 } else { (cores * 2).div_ceil(3) };
            prop_assert!(workers >= least, "{workers} workers on {cores} cores");
            online.remove(cpu);
            if online.is_empty() { break; }
        }
    }
}

fn dealt(machine: &Topology, count: usize) -> Instances {
    instances(machine, &Allowed::default(), &PlacementOptions::default(), count).unwrap()
}

#[test]
fn servers_stay_on_one_node_while_its_cores_suffice_and_are_spread_after_that() {
    let whole = shape(2, 16, 1);
    let machine = whole.machine(&(0..32).collect());
    let few = dealt(&machine, 4);
    assert!(few.reason.starts_with("one node"), "{}", few.reason);
    assert!(few.list.iter().all(|one| one.cpus.len() == 3 && one.memory_node == Some(0)));
    let many = dealt(&machine, 20);
    assert!(many.reason.starts_with("spread"), "{}", many.reason);
    for node in [0, 1] {
        let share = many.list.iter().filter(|one| one.memory_node == Some(node)).count();
        assert!((9..12).contains(&share), "{share} on node {node}");
    }
    let small = dealt(&shape(1, 2, 1).machine(&(0..2).collect()), 5);
    assert!(small.reason.contains("share"), "{}", small.reason);
    assert_eq!(small.list.len(), 5);
}

proptest! {
    #[test]
    fn no_server_of_several_is_on_two_nodes_or_shares_a_cpu_it_need_not(
        nodes in 1u32..5, cores in 1u32..20, threads in 1u32..3, count in 1usize..40,
    ) {
        let cpu_count = nodes * cores * threads;
        let machine = shape(nodes, cores, threads).machine(&(0..cpu_count).collect());
        let several = dealt(&machine, count);
        prop_assert_eq!(several.list.len(), count);
        let mut taken = CpuSet::new();
        for one in &several.list {
            prop_assert!(machine.node_holding(&one.cpus).is_some(), "{}", one.cpus);
            if several.placement.workers.len() >= count {
                prop_assert!(!taken.intersects(&one.cpus), "{} twice", one.cpus);
            }
            taken = taken.or(&one.cpus);
        }
    }
}
