//! The plan itself.

use std::collections::BTreeSet;

use super::allowed::Allowed;
use super::options::{Mode, PlacementError, PlacementOptions};
use crate::CpuSet;
use crate::limits::{
    CORES_PER_INTERRUPT_CORE, SEPARATE_INTERRUPTS_CORES_MIN, SEPARATE_ROLES_CORES_MIN,
    TWO_INTERRUPT_CORES_MIN, WORKERS_MAX,
};
use crate::topology::{Core, Topology};

/// CPUs of each role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The mode it was made for.
    pub mode: Mode,
    /// One set per worker, in worker order; the whole allowed set when nothing is pinned.
    pub workers: Vec<CpuSet>,
    /// Background threads: large frees, file synchronization, replication buffers.
    pub background: CpuSet,
    /// Threads that write snapshots.
    pub snapshot: CpuSet,
    /// Threads that rewrite the journal.
    pub journal_rewrite: CpuSet,
    /// Interrupts and packet processing; empty means that they stay where they are.
    pub irq: CpuSet,
    /// Siblings of workers that are left idle on purpose.
    pub reserved: CpuSet,
    /// The memory node to bind to; `None` when there is one only, or workers are on several.
    pub memory_node: Option<u32>,
    /// Numbers of the memory nodes that workers may run on, ascending; empty when none is known.
    pub worker_nodes: Vec<u32>,
    /// True if background threads share CPUs with workers and should run at low priority.
    pub is_background_low_priority: bool,
    /// Features that had to be given up, in that order.
    pub given_up: Vec<GivenUp>,
    /// Reasons of the plan, one sentence each, in the order of the decisions.
    pub reasons: Vec<String>,
    pub(super) pins_workers: bool,
    pub(super) pins_background: bool,
}

/// Features that a small machine cannot have, in the order in which they are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GivenUp {
    /// Another role runs on a worker's sibling.
    SiblingReservation,
    /// Background threads share their CPUs with another role.
    SeparateBackground,
    /// Interrupts have no CPU without a worker.
    SeparateInterrupts,
}

impl Placement {
    /// The affinity to set for a worker; `None` when none should be set.
    pub fn worker_affinity(&self, index: usize) -> Option<&CpuSet> {
        self.workers.get(index).filter(|_| self.pins_workers)
    }

    /// The affinity to set for background threads; `None` when none should be set.
    pub fn background_affinity(&self) -> Option<&CpuSet> {
        self.pins_background.then_some(&self.background)
    }

    /// All CPUs that workers may use.
    pub fn worker_cpus(&self) -> CpuSet {
        self.workers.iter().fold(CpuSet::new(), |all, cpus| all.or(cpus))
    }
}

/// Usable part of a core.
#[derive(Clone)]
struct Seat {
    cpus: CpuSet,
    node: usize,
    is_fast: bool,
}

/// Number of cores of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    workers: usize,
    interrupts: usize,
    background: usize,
}

/// The table to start from: how many of `count` cores go to workers, interrupts and background
/// threads.
fn shares(count: usize) -> Shares {
    let separate = match count {
        0..SEPARATE_ROLES_CORES_MIN => 0,
        SEPARATE_ROLES_CORES_MIN..TWO_INTERRUPT_CORES_MIN => 1,
        _ => count.div_ceil(CORES_PER_INTERRUPT_CORE).max(2),
    };
    let interrupts = separate.max(usize::from(count >= SEPARATE_INTERRUPTS_CORES_MIN));
    Shares { workers: count - interrupts - separate, interrupts, background: separate }
}

/// Plans which CPUs take workers, interrupts and background threads. Pure: the same input gives the
/// same plan.
///
/// # Errors
/// [`PlacementError`] when nothing is allowed or an option contradicts the machine.
pub fn plan(
    topology: &Topology,
    allowed: &Allowed,
    options: &PlacementOptions,
) -> Result<Placement, PlacementError> {
    Planner::new(topology, allowed, options)?.plan()
}

struct Planner<'a> {
    topology: &'a Topology,
    allowed: &'a Allowed,
    options: &'a PlacementOptions,
    /// Online, in the mask and in the cpuset.
    permitted: CpuSet,
    /// Permitted, without CPUs isolated for other programs.
    usable: CpuSet,
    /// CPUs to which interrupts were assigned; empty when they may land anywhere.
    interrupts: CpuSet,
    placement: Placement,
}

impl<'a> Planner<'a> {
    fn new(
        topology: &'a Topology,
        allowed: &'a Allowed,
        options: &'a PlacementOptions,
    ) -> Result<Self, PlacementError> {
        let mut permitted = topology.online.clone();
        for limit in [&allowed.mask, &allowed.cpuset].into_iter().flatten() {
            permitted = permitted.and(limit);
        }
        if permitted.is_empty() {
            return Err(PlacementError::NoCpuAllowed);
        }
        let foreign = foreign_isolated(topology, &permitted);
        let placement = Placement { mode: options.mode, ..Placement::default() };
        let usable = permitted.minus(&foreign);
        let interrupts = CpuSet::new();
        let mut planner =
            Self { topology, allowed, options, permitted, usable, interrupts, placement };
        planner.note_allowed_cpus(&foreign);
        planner.check_options()?;
        Ok(planner)
    }

    fn say(&mut self, reason: String) {
        self.placement.reasons.push(reason);
    }

    fn note_allowed_cpus(&mut self, foreign: &CpuSet) {
        let (online, usable) = (self.topology.online.len(), self.usable.clone());
        let mut limits = Vec::new();
        for (name, limit) in
            [("affinity mask", &self.allowed.mask), ("cpuset", &self.allowed.cpuset)]
        {
            if let Some(limit) =
                limit.as_ref().filter(|limit| !self.topology.online.is_subset(limit))
            {
                limits.push(format!("{name} {limit}"));
            }
        }
        if !foreign.is_empty() {
            limits.push(format!("CPU {foreign} isolated for others"));
        }
        let because =
            if limits.is_empty() { String::new() } else { format!(": {}", limits.join(", ")) };
        self.say(format!(
            "{} of {online} online CPUs may be used ({usable}){because}",
            usable.len()
        ));
        for note in &self.topology.notes {
            self.placement.reasons.push(note.clone());
        }
    }

    fn check_options(&self) -> Result<(), PlacementError> {
        let options = self.options;
        let lists = [
            ("server-cpulist", &options.server_cpus),
            ("bio-cpulist", &options.background_cpus),
            ("bgsave-cpulist", &options.snapshot_cpus),
            ("aof-rewrite-cpulist", &options.journal_rewrite_cpus),
        ];
        for (setting, list) in lists {
            let Some(list) = list else { continue };
            let wrong = list.minus(&self.permitted);
            if list.is_empty() {
                return Err(PlacementError::EmptyList(setting));
            }
            if !wrong.is_empty() {
                return Err(PlacementError::NotAllowed(setting, list.clone(), wrong));
            }
        }
        match (options.worker_count, options.workers_per_core) {
            (Some(count), _) if count == 0 || count > WORKERS_MAX => {
                Err(PlacementError::WorkerCount(count))
            }
            (_, count) if count > 2 => Err(PlacementError::WorkersPerCore(count)),
            _ => Ok(()),
        }
    }

    fn plan(mut self) -> Result<Placement, PlacementError> {
        match self.options.server_cpus.clone() {
            Some(list) => self.place_on_list(&list),
            None => self.place_freely()?,
        }
        self.bind_memory();
        self.apply_mode();
        self.apply_lists();
        Ok(self.placement)
    }

    /// Usable cores, in the order in which workers take them: cache by cache, cluster by cluster.
    fn seats(&self, within: &CpuSet) -> Vec<Seat> {
        let mut cores: Vec<(&Core, CpuSet)> = self
            .topology
            .cores
            .iter()
            .map(|core| (core, core.cpus.and(within)))
            .filter(|(_, cpus)| !cpus.is_empty())
            .collect();
        let any_fast = cores.iter().any(|(core, _)| core.is_top_class);
        let cache_size = |cache: &CpuSet| {
            cores
                .iter()
                .filter(|(core, _)| core.last_level_cache == *cache && core.is_top_class)
                .count()
        };
        let keys: Vec<_> = cores
            .iter()
            .map(|(core, cpus)| {
                let cache = &core.last_level_cache;
                (usize::MAX - cache_size(cache), cache.first(), core.cluster.first(), cpus.first())
            })
            .collect();
        let mut order: Vec<usize> = (0..cores.len()).collect();
        order.sort_by_key(|&index| keys[index]);
        let seat = |index: usize| {
            let (core, cpus) = &mut cores[index];
            Seat {
                cpus: std::mem::take(cpus),
                node: core.node,
                is_fast: core.is_top_class || !any_fast,
            }
        };
        order.into_iter().map(seat).collect()
    }

    /// `server-cpulist`: a worker for each core of the list, the rest of the machine for background
    /// threads.
    fn place_on_list(&mut self, list: &CpuSet) {
        let seats = self.seats(list);
        let count = self.worker_count(seats.len());
        self.seat_workers(&seats, count);
        self.say(format!("workers on server-cpulist {list}; interrupts are left to the operator"));
        let nodes: BTreeSet<usize> = seats.iter().map(|seat| seat.node).collect();
        let near =
            nodes.iter().fold(CpuSet::new(), |all, &node| all.or(&self.topology.nodes[node].cpus));
        let (near, far) = (near.and(&self.usable).minus(list), self.usable.minus(list));
        self.placement.background = if near.is_empty() { far } else { near };
        if self.placement.background.is_empty() {
            self.share_background(list.clone());
        }
    }

    fn place_freely(&mut self) -> Result<(), PlacementError> {
        let seats = self.seats(&self.usable);
        let home = self.choose_node(&seats)?;
        let (mut near, far): (Vec<Seat>, Vec<Seat>) =
            seats.into_iter().partition(|seat| seat.node == home && seat.is_fast);
        let slow: Vec<Seat> =
            far.iter().filter(|seat| seat.node == home && !seat.is_fast).cloned().collect();
        if !slow.is_empty() {
            self.say(format!("CPU {} are slower: background threads only", union(&slow)));
        }
        let shares = self.limited_shares(&near, !slow.is_empty());
        let wanted = self.worker_count(shares.workers);
        let cores_wanted = wanted.div_ceil(self.workers_per_core());
        let shares = self.make_room(shares, near.len(), cores_wanted);
        self.leave_room_for_interrupts(shares, &mut near);
        let away = self.seats_away(&far, home, cores_wanted.saturating_sub(near.len()));
        let others = near.split_off(shares.workers.min(near.len()));
        near.extend(away);
        let wanted = wanted + self.extra_workers(&far, home, &mut near);
        self.seat_workers(&near, wanted);
        self.place_interrupts_and_background(shares, &near, &others, &slow);
        Ok(())
    }

    /// A quota limits workers before the number of cores does; a core it leaves over takes
    /// background work. Both of two cores get a worker where another CPU is left for interrupts.
    fn limited_shares(&mut self, near: &[Seat], has_slow: bool) -> Shares {
        let cores = near.len();
        let whole = self.allowed.quota_cpus.map_or(usize::MAX, |quota| (quota as usize).max(1));
        let mut shares = shares(cores.min(whole));
        if whole < cores {
            let quota = self.allowed.quota_cpus.unwrap_or_default();
            self.say(format!("a quota of {quota} CPUs is smaller than {cores} cores and decides"));
            shares.background = shares.background.max(1);
        } else if cores == SEPARATE_INTERRUPTS_CORES_MIN
            && (has_slow || self.has_siblings_left(near) || self.options.server_count > 1)
        {
            shares.workers += std::mem::take(&mut shares.interrupts);
        }
        if has_slow {
            let freed = std::mem::take(&mut shares.background);
            shares.workers += if whole < cores { 0 } else { freed };
        }
        shares
    }

    /// True if workers on these cores leave siblings to other roles.
    fn has_siblings_left(&self, seats: &[Seat]) -> bool {
        !self.takes_whole_cores() && seats.iter().any(|seat| seat.cpus.len() > 1)
    }

    fn takes_whole_cores(&self) -> bool {
        matches!(self.options.mode, Mode::Physical | Mode::Split)
    }

    /// An explicit number of workers takes cores from background threads first, then from
    /// interrupts.
    fn make_room(&self, mut shares: Shares, cores: usize, wanted: usize) -> Shares {
        shares.workers = wanted.min(cores);
        let left = cores - shares.workers;
        shares.interrupts = shares.interrupts.min(left);
        shares.background = shares.background.min(left - shares.interrupts);
        shares
    }

    /// Interrupts that are on as few cores as they need already are left there, and workers
    /// keep off: moving them takes root, which a server should not be. Those that may land on all
    /// CPUs of the node are not a decision.
    fn leave_room_for_interrupts(&mut self, shares: Shares, near: &mut Vec<Seat>) {
        let node = union(near);
        let lists =
            self.topology.nics.iter().filter(|nic| nic.is_up).flat_map(|nic| &nic.interrupt_cpus);
        let put = lists.map(|list| list.and(&node)).filter(|list| *list != node);
        let put = put.fold(CpuSet::new(), |all, list| all.or(&list));
        let (taken, free): (Vec<Seat>, Vec<Seat>) =
            near.iter().cloned().partition(|seat| seat.cpus.intersects(&put));
        let fits = match shares.interrupts {
            0 => taken.iter().all(|seat| !seat.cpus.is_subset(&put)),
            count => taken.len() <= count,
        };
        if taken.is_empty() || !fits {
            return;
        }
        self.say(format!("interrupts of network interfaces were put on CPU {put}"));
        if shares.interrupts > 0 {
            *near = free;
            let after = near.split_off(shares.workers.min(near.len()));
            near.extend(taken);
            near.extend(after);
        }
        self.interrupts = put;
    }

    fn workers_per_core(&self) -> usize {
        self.options.workers_per_core.max(1)
    }

    fn worker_count(&self, cores: usize) -> usize {
        self.options.worker_count.unwrap_or(cores * self.workers_per_core())
    }

    /// Cores of other nodes, then slow cores, for workers that were asked for and do not fit.
    fn seats_away(&mut self, far: &[Seat], home: usize, missing: usize) -> Vec<Seat> {
        if missing == 0 {
            return Vec::new();
        }
        let mut order: Vec<&Seat> = far.iter().collect();
        order.sort_by_key(|seat| (!seat.is_fast, seat.node != home));
        let away: Vec<Seat> = order.into_iter().take(missing).cloned().collect();
        if !away.is_empty() {
            self.say(format!(
                "worker-threads asks for more cores than the node has: CPU {} too",
                union(&away)
            ));
        }
        away
    }

    /// `across_nodes`: the fast cores of other nodes too, without those their background threads
    /// need.
    fn extra_workers(&mut self, far: &[Seat], home: usize, seats: &mut Vec<Seat>) -> usize {
        if !self.options.across_nodes || self.options.worker_count.is_some() {
            return 0;
        }
        let before = seats.len();
        for node in (0..self.topology.nodes.len()).filter(|&node| node != home) {
            let there: Vec<&Seat> =
                far.iter().filter(|seat| seat.node == node && seat.is_fast).collect();
            let count = there.len() - shares(there.len()).background;
            seats.extend(there.into_iter().take(count).cloned());
        }
        let added = seats.len() - before;
        self.say(format!("asked to go beyond one node: {added} more cores"));
        added * self.workers_per_core()
    }

    /// Worker after worker over the cores; a second round takes the cores' next siblings.
    fn seat_workers(&mut self, seats: &[Seat], count: usize) {
        let threads = |seat: &Seat| {
            let mut threads: Vec<u32> = seat.cpus.iter().collect();
            threads.sort_by_key(|&cpu| self.interrupts.contains(cpu));
            threads
        };
        let threads: Vec<Vec<u32>> = seats.iter().map(threads).collect();
        let whole_core = self.takes_whole_cores();
        let workers = (0..count).map(|worker| {
            let (core, round) = (worker % seats.len(), worker / seats.len());
            match whole_core {
                true => seats[core].cpus.clone(),
                false => CpuSet::single(threads[core][round % threads[core].len()]),
            }
        });
        self.placement.workers = workers.collect();
        let mut used: Vec<&Seat> = seats.iter().take(count).collect();
        used.retain(|seat| seat.cpus.len() > 1);
        let on = self.placement.worker_cpus();
        self.say(match count.cmp(&seats.len()) {
            std::cmp::Ordering::Greater => {
                format!("{count} workers share {} cores (CPU {on})", seats.len())
            }
            _ => format!("{count} workers, one per core (CPU {on})"),
        });
        if whole_core || used.is_empty() {
            return;
        }
        let taken = self.placement.worker_cpus();
        let siblings = used.iter().fold(CpuSet::new(), |all, seat| all.or(&seat.cpus));
        self.placement.reserved = siblings.minus(&taken);
    }

    fn place_interrupts_and_background(
        &mut self,
        shares: Shares,
        workers: &[Seat],
        others: &[Seat],
        slow: &[Seat],
    ) {
        let own_interrupts = union(&others[..shares.interrupts]);
        let end = shares.interrupts + shares.background;
        let own_background = union(&others[shares.interrupts..end]).or(&union(slow));
        let mut siblings: Vec<u32> = self.placement.reserved.iter().collect();
        siblings.sort_by_key(|&cpu| self.interrupts.contains(cpu));
        if self.options.mode == Mode::Split {
            siblings.clear();
        }
        self.place_interrupts(own_interrupts, &own_background, &mut siblings);
        self.place_background(own_background, &siblings, workers);
        self.leave_interrupts_to_the_host();
        let busy = self.placement.background.or(&self.placement.irq);
        if self.placement.reserved.intersects(&busy) {
            self.placement.given_up.insert(0, GivenUp::SiblingReservation);
            self.placement.reserved = self.placement.reserved.minus(&busy);
        } else if !self.placement.reserved.is_empty() {
            self.say(format!("siblings {} of the workers are left idle", self.placement.reserved));
        }
        self.placement.given_up.sort();
    }

    fn place_interrupts(&mut self, own: CpuSet, background: &CpuSet, siblings: &mut Vec<u32>) {
        let slow_cpu = background.first().filter(|_| background.len() > 1);
        self.placement.irq = if !own.is_empty() {
            own
        } else if let Some(sibling) = siblings.pop() {
            CpuSet::single(sibling)
        } else if let Some(cpu) = slow_cpu {
            CpuSet::single(cpu)
        } else {
            background.clone()
        };
        if self.placement.irq.is_empty() {
            self.placement.given_up.push(GivenUp::SeparateInterrupts);
            self.say(
                "too few CPUs for interrupts of their own: they stay where they are".to_owned(),
            );
        } else {
            self.say(format!("interrupts on CPU {}", self.placement.irq));
        }
    }

    /// Interrupts of a host of which the server has one or two CPUs are not for it to move.
    fn leave_interrupts_to_the_host(&mut self) {
        if self.usable.len() < 3
            && self.allowed.cpuset.as_ref().is_some_and(|set| set != &self.topology.online)
        {
            self.placement.irq = CpuSet::new();
            self.say("the cpuset is small: interrupts belong to the host's owner".to_owned());
        }
    }

    fn place_background(&mut self, own: CpuSet, siblings: &[u32], workers: &[Seat]) {
        let own = if own.len() > 1 && own != self.placement.irq {
            own.minus(&self.placement.irq)
        } else {
            own
        };
        if !own.is_empty() {
            self.say(format!("background threads on CPU {own}"));
            self.placement.background = own;
        } else if !siblings.is_empty() {
            self.placement.background = siblings.iter().copied().collect();
            self.say(format!(
                "background threads on the workers' siblings {}",
                self.placement.background
            ));
        } else if !self.placement.irq.is_empty() {
            self.placement.background = self.placement.irq.clone();
            self.placement.given_up.push(GivenUp::SeparateBackground);
            self.say("too few CPUs: background threads share those of the interrupts".to_owned());
        } else {
            self.share_background(union(workers));
        }
    }

    fn share_background(&mut self, cpus: CpuSet) {
        self.placement.background = cpus;
        self.placement.is_background_low_priority = true;
        self.placement.given_up.push(GivenUp::SeparateBackground);
        self.say("too few CPUs: background threads share the workers', at low priority".to_owned());
    }

    /// The index of the node for the workers.
    fn choose_node(&mut self, seats: &[Seat]) -> Result<usize, PlacementError> {
        let count =
            |node: usize| seats.iter().filter(|seat| seat.node == node && seat.is_fast).count();
        let candidates: Vec<usize> =
            (0..self.topology.nodes.len()).filter(|&node| count(node) > 0).collect();
        let near_nic = self.nodes_of_nics()?;
        let reachable: Vec<usize> =
            near_nic.iter().copied().filter(|node| candidates.contains(node)).collect();
        if let [only] = candidates[..] {
            return Ok(only);
        }
        if let ([node], 1) = (&reachable[..], near_nic.len()) {
            self.say(format!("{}: the network interface is there", self.node_name(*node)));
            return Ok(*node);
        }
        match near_nic.len() {
            0 => self.say("no network interface tells its node".to_owned()),
            1 => self.say("the network interface's node has no usable CPU".to_owned()),
            _ => self.say("network interfaces are on several nodes".to_owned()),
        }
        let bytes = |node: usize| {
            let id = self.topology.nodes[node].id;
            let told = self.options.memory_bytes_by_node.iter().find(|(told, _)| Some(*told) == id);
            told.map_or(0, |(_, bytes)| *bytes)
        };
        let by_memory =
            candidates.iter().copied().max_by_key(|&node| (bytes(node), usize::MAX - node));
        if let Some(node) = by_memory.filter(|&node| bytes(node) > 0) {
            self.say(format!("{}: most of the server's memory is there", self.node_name(node)));
            return Ok(node);
        }
        let by_cores = candidates.iter().copied().max_by_key(|&node| {
            (self.topology.nodes[node].id.is_some(), count(node), usize::MAX - node)
        });
        let node = by_cores.ok_or(PlacementError::NoCpuAllowed)?;
        self.say(format!(
            "{}: {} usable cores, no node has more",
            self.node_name(node),
            count(node)
        ));
        Ok(node)
    }

    fn node_name(&self, node: usize) -> String {
        let node = &self.topology.nodes[node];
        match node.id {
            Some(id) => format!("node {id}"),
            None => format!("CPU {}", node.cpus),
        }
    }

    /// Nodes of the interfaces that are up, or of the one asked for.
    fn nodes_of_nics(&self) -> Result<BTreeSet<usize>, PlacementError> {
        let topology = self.topology;
        let node_of = |nic: &crate::topology::Nic| {
            let told = nic.node.and_then(|id| topology.node_index(id));
            told.or_else(|| topology.node_holding(&nic.local_cpus))
        };
        let Some(name) = &self.options.nic else {
            return Ok(topology.nics.iter().filter(|nic| nic.is_up).filter_map(node_of).collect());
        };
        let named = topology.nics.iter().find(|nic| nic.name == *name);
        let nic = named.ok_or_else(|| PlacementError::NoSuchNic(name.clone()))?;
        Ok(node_of(nic).into_iter().collect())
    }

    fn bind_memory(&mut self) {
        let cpus = self.placement.worker_cpus();
        if let (Some(node), true) =
            (self.topology.node_holding(&cpus), self.topology.nodes.len() > 1)
        {
            self.placement.memory_node = self.topology.nodes[node].id;
        }
        self.placement.worker_nodes = self.nodes_of(&cpus);
    }

    fn nodes_of(&self, cpus: &CpuSet) -> Vec<u32> {
        let touched = self.topology.nodes.iter().filter(|node| node.cpus.intersects(cpus));
        touched.filter_map(|node| node.id).collect()
    }

    fn apply_mode(&mut self) {
        self.placement.pins_workers = self.options.mode != Mode::Off;
        self.placement.pins_background = self.options.mode != Mode::Off;
        match self.options.mode {
            Mode::Auto | Mode::Split => {}
            Mode::Off => {
                let everywhere = self.options.server_cpus.clone();
                self.placement.pins_workers = everywhere.is_some();
                let everywhere = everywhere.unwrap_or_else(|| self.permitted.clone());
                self.placement.worker_nodes = self.nodes_of(&everywhere);
                self.placement.workers.fill(everywhere);
                self.placement.background = self.permitted.clone();
                self.placement.irq = CpuSet::new();
                self.placement.reserved = CpuSet::new();
                self.placement.memory_node = None;
                self.placement.is_background_low_priority = false;
                self.placement.given_up.clear();
                self.placement.reasons.truncate(1);
                self.say("cpu-placement off: the kernel's scheduler decides".to_owned());
            }
            Mode::Logical | Mode::Physical => {
                self.placement.background = self.placement.worker_cpus();
                self.placement.reserved = CpuSet::new();
                self.say(format!(
                    "cpu-placement {}: background threads among the workers",
                    self.options.mode
                ));
            }
        }
    }

    fn apply_lists(&mut self) {
        if let Some(list) = &self.options.background_cpus {
            self.placement.background = list.clone();
            self.placement.pins_background = true;
            self.placement.reasons.push(format!("background threads on bio-cpulist {list}"));
        }
        let lists = [&self.options.snapshot_cpus, &self.options.journal_rewrite_cpus];
        let [snapshot, journal_rewrite] =
            lists.map(|list| list.clone().unwrap_or_else(|| self.placement.background.clone()));
        self.placement.snapshot = snapshot;
        self.placement.journal_rewrite = journal_rewrite;
    }
}

fn union(seats: &[Seat]) -> CpuSet {
    seats.iter().fold(CpuSet::new(), |all, seat| all.or(&seat.cpus))
}

/// Isolated CPUs, unless the process was put on nothing else: then they are isolated for it.
fn foreign_isolated(topology: &Topology, permitted: &CpuSet) -> CpuSet {
    if permitted.is_subset(&topology.isolated) { CpuSet::new() } else { topology.isolated.clone() }
}
