//! Cgroups of a process and their limits: version 1, version 2 and both at once.
//!
//! A limit anywhere above counts, so every question walks from the process's group up to the root
//! of the mount. Mount points come from `/proc/mounts`, because they need not be below
//! `/sys/fs/cgroup`.

use crate::{CpuSet, Root};

/// Bytes of a group's name: the kernel's longest path.
const GROUP_BYTES_MAX: usize = 4_096;
/// Groups of version 1 that are asked; there are a dozen controllers.
const GROUPS_MAX: usize = 32;

/// The cgroup directories of one process, version 1 controllers first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Directory below the mount of each version 1 controller: (controller, mount point, group).
    first_version: Vec<(String, String, String)>,
    /// (mount point, group) of the version 2 hierarchy.
    second_version: Option<(String, String)>,
    /// `/proc/PID/cpuset`: the one source when `/proc/PID/cgroup` is missing.
    cpuset_group: Option<String>,
}

/// A CPU quota and the group that sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// CPUs' worth of time per period.
    pub cpus: f64,
    /// The directory whose file says so.
    pub directory: String,
}

impl Membership {
    /// Reads the groups of a process (`self` or a number). Missing files leave it empty.
    pub fn read(root: &Root, process: &str) -> Self {
        let mounts = root.text("/proc/mounts").unwrap_or_default();
        let groups = root.text(&format!("/proc/{process}/cgroup")).unwrap_or_default();
        let cpuset = root.text(&format!("/proc/{process}/cpuset")).ok();
        let mut membership =
            Self { cpuset_group: cpuset.filter(|group| group.starts_with('/')), ..Self::default() };
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(1);
            let (Some(point), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            match kind {
                "cgroup2" => {
                    let group = group_of(&groups, "").or(membership.cpuset_group.clone());
                    membership.second_version = group.map(|group| (point.to_owned(), group));
                }
                "cgroup" if membership.first_version.len() < GROUPS_MAX => {
                    membership.add_controllers(&groups, point, options);
                }
                _ => {}
            }
        }
        membership
    }

    fn add_controllers(&mut self, groups: &str, point: &str, options: &str) {
        for controller in ["cpu", "cpuset", "memory"] {
            if !options.split(',').any(|option| option == controller) {
                continue;
            }
            let group = group_of(groups, controller);
            let group =
                group.or_else(|| self.cpuset_group.clone().filter(|_| controller == "cpuset"));
            let group = group.unwrap_or_else(|| "/".to_owned());
            self.first_version.push((controller.to_owned(), point.to_owned(), group));
        }
    }

    /// The directories to ask about a controller, from the process's own group to the root of the
    /// mount.
    ///
    /// Version 1 first: a controller mounted there is absent from version 2. The boolean says
    /// version 2.
    pub fn directories(&self, controller: &str) -> Vec<(String, bool)> {
        let mut directories = Vec::new();
        for (_, point, group) in self.first_version.iter().filter(|(name, ..)| name == controller) {
            directories.extend(ancestors(point, group).map(|directory| (directory, false)));
        }
        if let Some((point, group)) = &self.second_version {
            directories.extend(ancestors(point, group).map(|directory| (directory, true)));
        }
        directories
    }

    /// The effective CPUs of the nearest group that tells them.
    pub fn effective_cpus(&self, root: &Root) -> Option<CpuSet> {
        let files = [
            "cpuset.cpus.effective",
            "cpuset.effective_cpus",
            "cpuset.cpus",
            "effective_cpus",
            "cpus",
        ];
        let directories = self.directories("cpuset");
        let candidates = directories
            .iter()
            .flat_map(|(directory, _)| files.iter().map(move |file| format!("{directory}/{file}")));
        let lists = candidates.filter_map(|path| root.cpu_list(&path).ok());
        lists.into_iter().find(|cpus| !cpus.is_empty())
    }

    /// The smallest quota on the way up.
    pub fn quota(&self, root: &Root) -> Option<Quota> {
        let directories = self.directories("cpu");
        let quotas = directories.into_iter().filter_map(|(directory, is_second)| {
            let cpus = match is_second {
                true => second_version_quota(root, &directory),
                false => first_version_quota(root, &directory),
            }?;
            Some(Quota { cpus, directory })
        });
        quotas.min_by(|a, b| a.cpus.total_cmp(&b.cpus))
    }
}

fn second_version_quota(root: &Root, directory: &str) -> Option<f64> {
    let text = root.text(&format!("{directory}/cpu.max")).ok()?;
    let (quota, period) = text.split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn first_version_quota(root: &Root, directory: &str) -> Option<f64> {
    let quota: i64 = root.value(&format!("{directory}/cpu.cfs_quota_us")).ok()?;
    let period: i64 = root.value(&format!("{directory}/cpu.cfs_period_us")).ok()?;
    ratio(quota, period)
}

/// A quota of -1 means none.
fn ratio(quota_us: i64, period_us: i64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The group of a controller in `/proc/PID/cgroup`; the empty controller is version 2.
fn group_of(groups: &str, controller: &str) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let found = controllers.split(',').any(|name| name == controller);
        (found && group.len() <= GROUP_BYTES_MAX).then(|| group.to_owned())
    })
}

/// The group's directory and those above it, up to the mount point.
fn ancestors<'a>(point: &'a str, group: &'a str) -> impl Iterator<Item = String> + 'a {
    let point = point.trim_end_matches('/');
    let mut rest = Some(group.trim_end_matches('/'));
    std::iter::from_fn(move || {
        let current = rest?;
        // A group outside the namespace's root shows as `/..`: only the mount itself can be read
        // then.
        let directory =
            if current.contains("/..") { point.to_owned() } else { format!("{point}{current}") };
        rest = if current.contains("/..") {
            None
        } else {
            current.rfind('/').map(|end| &current[..end])
        };
        Some(directory)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn the_smallest_quota_of_all_ancestors_counts() {
        let (_directory, root) = tree(&[
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/cgroup", "0::/pods/one/main\n"),
            ("sys/fs/cgroup/pods/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/pods/one/cpu.max", "250000 100000\n"),
            ("sys/fs/cgroup/pods/one/main/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/pods/cpuset.cpus.effective", "0-5\n"),
        ]);
        let groups = Membership::read(&root, "self");
        let quota = groups.quota(&root).unwrap();
        assert_eq!((quota.cpus, quota.directory.as_str()), (2.5, "/sys/fs/cgroup/pods/one"));
        assert_eq!(groups.effective_cpus(&root).unwrap().to_string(), "0-5");
    }

    #[test]
    fn a_mixed_hierarchy_takes_each_controller_where_it_is_mounted() {
        let (_directory, root) = tree(&[
            (
                "proc/mounts",
                "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                 cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                 cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n",
            ),
            ("proc/self/cgroup", "3:cpu,cpuacct:/a\n2:cpuset:/b\n0::/c\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuset/b/cpuset.effective_cpus", "2-3\n"),
        ]);
        let groups = Membership::read(&root, "self");
        assert_eq!(groups.quota(&root).unwrap().cpus, 1.5);
        assert_eq!(groups.effective_cpus(&root).unwrap().to_string(), "2-3");
    }

    #[test]
    fn a_cpuset_file_stands_in_for_a_missing_cgroup_file() {
        let (_directory, root) = tree(&[
            ("proc/mounts", "none /cgroup/unified cgroup2 rw 0 0\n"),
            ("proc/self/cpuset", "/uid/job\n"),
            ("cgroup/unified/uid/job/cpuset.cpus.effective", "0-5\n"),
        ]);
        let groups = Membership::read(&root, "self");
        assert_eq!(groups.effective_cpus(&root).unwrap().to_string(), "0-5");
    }

    #[test]
    fn names_and_mounts_beyond_any_kernels_are_passed_over() {
        let long = format!("0::{}\n1:cpu:/\n", "/".repeat(1 << 20));
        let mounts = "cgroup /c cgroup rw,cpu 0 0\n".repeat(1 << 15);
        let mounts = format!("{mounts}cgroup2 /two cgroup2 rw 0 0\n");
        let (_directory, root) = tree(&[("proc/mounts", &mounts), ("proc/self/cgroup", &long)]);
        let groups = Membership::read(&root, "self");
        assert_eq!(groups.directories("cpu").len(), GROUPS_MAX);
    }

    #[test]
    fn a_group_outside_the_namespace_is_asked_at_the_mount() {
        let directories: Vec<String> = ancestors("/sys/fs/cgroup", "/../../other").collect();
        assert_eq!(directories, ["/sys/fs/cgroup"]);
        let directories: Vec<String> = ancestors("/m", "/a/b").collect();
        assert_eq!(directories, ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(ancestors("/m", "/").collect::<Vec<_>>(), ["/m"]);
    }
}
