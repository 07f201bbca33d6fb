//! A copy of what the doctor reads, to be judged on another machine.
//!
//! The doctor runs once while everything it reads is recorded; the capture is that recording as a
//! tar archive. Symbolic links stay links, since sysfs is made of them. Nothing is copied as a
//! whole that may hold more than is asked: of INFO and CONFIG only the parameters that rules ask
//! for are kept, of connections only listening and loopback ones, of mounts no options but those of
//! control groups, of memory maps no file names, of processes only the names of known tuners.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::facts::{
    CAPTURED_CHANNELS, CAPTURED_PROCESSES, Host, Inspect, Server, captured_channels, channels, runs,
};
use crate::recording::Recording;
use crate::rules::Finding;
use crate::rules::{UNSUPPORTED, is_loopback};
use crate::{ReadError, Refusal, Root, apply, rules};

const MANIFEST: &str = "/tidemill/capture.json";
const FORMAT: &str = "tidemill capture";
const VERSION: u64 = 1;

/// INFO fields that rules ask for.
const INFO: &[&str] = &[
    "tidemill_version",
    "valkey_version",
    "redis_version",
    "total_forks",
    "latest_fork_usec",
    "connected_slaves",
    "tcp_port",
    "mem_allocator",
    "total_net_output_bytes",
    "total_commands_processed",
];

/// CONFIG parameters that rules ask for; passwords, users and addresses are none of them.
const CONFIG: &[&str] = &[
    "appendonly",
    "bgsave-cpulist",
    "dir",
    "loglevel",
    "maxclients",
    "maxmemory",
    "port",
    "repl-disable-tcp-nodelay",
    "save",
    "tcp-backlog",
    "unixsocket",
];

/// Programs whose presence rules ask for.
const PROGRAMS: &[&str] = &["bpftune", "irqbalance", "tuned"];

/// More symbolic links than any path of sysfs has.
const LINKS_MAX: usize = 40;

#[derive(Serialize, Deserialize)]
struct Manifest {
    format: String,
    version: u64,
    files: Vec<String>,
    refused: Vec<ReadError>,
}

/// Opens a root; a capture of ours is checked for completeness and answers as the captured machine
/// did.
///
/// # Errors
/// One line that says what is wrong: no such directory, half a capture, another version, no machine
/// at all.
pub fn open(directory: &Path) -> Result<Root, String> {
    let mut root = Root::open(directory).map_err(|error| error.to_string())?;
    if root.is_live() {
        return Ok(root);
    }
    let shown = directory.display();
    let text = match root.text(MANIFEST) {
        Ok(text) => text,
        Err(error) if error.refusal != Refusal::Absent => return Err(error.to_string()),
        Err(_) if !root.exists("/sys") && !root.exists("/proc") => {
            return Err(format!("{shown}: neither sys nor proc is below it"));
        }
        Err(_) => return Ok(root),
    };
    let manifest: Manifest = serde_json::from_str(&text)
        .map_err(|error| format!("{shown}{MANIFEST}: {error}: half a capture"))?;
    if manifest.format != FORMAT || manifest.version != VERSION {
        return Err(format!("{shown}{MANIFEST}: not a capture of version {VERSION}"));
    }
    let missing = manifest.files.iter().filter(|path| !root.exists(path)).count();
    if missing > 0 {
        let count = manifest.files.len();
        return Err(format!("{shown}: half a capture: {missing} of {count} files are missing"));
    }
    root.refuse(manifest.refused);
    Ok(root)
}

/// Examines a machine while recording, writes what was read as a tar archive, and returns what was
/// found. Blocks for the interval between the samples.
///
/// # Errors
/// When the archive cannot be written; what cannot be read becomes part of the capture.
pub fn capture(root: &mut Root, inspect: Inspect, out: impl Write) -> io::Result<Vec<Finding>> {
    root.record();
    let host = Host::read(root, inspect);
    let findings = rules::examine(&host);
    let second: Vec<(String, String)> = host.samples().1.map_or(Vec::new(), |sample| {
        sample.readable().map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
    });
    let mut own = own_files(&host);
    let links_root = root.directory().to_owned();
    let mut recording = root.recorded();
    own.append(&mut processes(root, &mut recording));
    // A capture of a capture keeps what system calls told the first time.
    let told = recording.texts.iter().filter(|(path, _)| {
        path.starts_with("/tidemill/ethtool/") || path.starts_with(CAPTURED_CHANNELS)
    });
    own.extend(told.map(|(path, text)| (path.clone(), text.clone())));
    let mut tree = Tree::new(&links_root);
    tree.add_recording(&recording);
    for (path, text) in own {
        tree.files.insert(path, text);
    }
    for (path, text) in second {
        tree.files.insert(format!("/second{path}"), clean(&path, &text));
    }
    let refused = recording.refused.into_values().filter(|error| !is_own(&error.path)).collect();
    tree.write(refused, out)?;
    Ok(findings)
}

fn is_own(path: &str) -> bool {
    path.starts_with("/tidemill/") || path.starts_with("/second/")
}

/// Facts that are no files of the host: the server's answers and results of system calls.
fn own_files(host: &Host<'_>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    if let Some(server) = host.server() {
        if let Some(pid) = server.pid {
            files.insert("/tidemill/pid".to_owned(), pid.to_string());
        }
        files.append(&mut words_of(server));
    }
    let nics = host.topology.as_ref().map(|topology| topology.nics.as_slice()).unwrap_or_default();
    for nic in nics.iter().filter(|_| host.root.is_live()) {
        if let Ok(Some(found)) = channels(host.root, &nic.name) {
            files.extend(captured_channels(&nic.name, found));
        }
        let text = match apply::coalescing(&nic.name) {
            Ok(text) => text,
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => UNSUPPORTED.to_owned(),
            Err(_) => continue,
        };
        files.insert(format!("/tidemill/ethtool/{}", nic.name), text);
    }
    files
}

fn words_of(server: &Server) -> BTreeMap<String, String> {
    let lines = |words: &BTreeMap<String, String>, wanted: &[&str], between: char| {
        let kept = words.iter().filter(|(name, _)| wanted.contains(&name.as_str()));
        kept.map(|(name, value)| format!("{name}{between}{value}\n")).collect::<String>()
    };
    let info = lines(&server.info, INFO, ':');
    let config = lines(&server.config, CONFIG, ' ');
    let files = [("/tidemill/info", info), ("/tidemill/config", config)];
    let told = files.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(path, text)| (path.to_owned(), text)).collect()
}

/// Known tuners among the processes, in place of the names of all others.
fn processes(root: &Root, recording: &mut Recording) -> BTreeMap<String, String> {
    recording.texts.retain(|path, _| !path.starts_with("/proc/") || !path.ends_with("/comm"));
    recording.names.remove("/proc");
    let running: Vec<&str> =
        PROGRAMS.iter().copied().filter(|name| runs(root, name).unwrap_or(false)).collect();
    let is_known = runs(root, "").is_ok();
    let file = is_known.then(|| (CAPTURED_PROCESSES.to_owned(), running.join("\n")));
    file.into_iter().collect()
}

/// A file's text without what no rule asks for.
fn clean(path: &str, text: &str) -> String {
    match path {
        "/proc/net/tcp" | "/proc/net/tcp6" => connections(text),
        "/proc/mounts" => mounts(text),
        path if path.ends_with("/numa_maps") => pages_by_node(text),
        _ => text.to_owned(),
    }
}

/// The head, listening sockets, and connections between loopback addresses.
fn connections(text: &str) -> String {
    let is_kept = |row: &str| {
        row.split_whitespace().nth(2).is_some_and(|remote| {
            is_loopback(remote) || remote.bytes().all(|byte| matches!(byte, b'0' | b':'))
        })
    };
    let rows = text.lines().enumerate().filter(|(index, row)| *index == 0 || is_kept(row));
    rows.map(|(_, row)| format!("{row}\n")).collect()
}

/// Mounts without who mounted them and without options, but those of control groups and whether
/// they are read-only.
fn mounts(text: &str) -> String {
    let rows = text.lines().map(|row| {
        let mut fields: Vec<&str> = row.split(' ').collect();
        // `user:password@host:/path`, as some network file systems name their source.
        fields[0] = fields[0].rsplit_once('@').map_or(fields[0], |(_, source)| source);
        if fields.len() > 3 && !fields[2].starts_with("cgroup") {
            let is_read_only = fields[3].split(',').any(|option| option == "ro");
            fields[3] = if is_read_only { "ro" } else { "rw" };
        }
        format!("{}\n", fields.join(" "))
    });
    rows.collect()
}

/// Page counts by node without the names of mapped files.
fn pages_by_node(text: &str) -> String {
    let is_kept = |word: &&str| {
        word.starts_with("kernelpagesize_kB=") || (word.starts_with('N') && word.contains('='))
    };
    let rows = text.lines().map(|row| row.split(' ').filter(is_kept).collect::<Vec<_>>().join(" "));
    rows.map(|row| format!("{row}\n")).collect()
}

/// The archive's content, by the path each thing really has.
struct Tree<'a> {
    directory: &'a Path,
    files: BTreeMap<String, String>,
    directories: BTreeSet<String>,
    links: BTreeMap<String, String>,
}

impl<'a> Tree<'a> {
    fn new(directory: &'a Path) -> Self {
        let (files, directories, links) = Default::default();
        Self { directory, files, directories, links }
    }

    fn add_recording(&mut self, recording: &Recording) {
        for (path, text) in recording.texts.iter().filter(|(path, _)| !is_own(path)) {
            if let Some(real) = self.real_path(path, true) {
                self.files.insert(real, clean(path, text));
            }
        }
        for (path, names) in recording.names.iter().filter(|(path, _)| !is_own(path)) {
            let Some(real) = self.real_path(path, true) else { continue };
            for name in names {
                let child = format!("{}/{name}", real.trim_end_matches('/'));
                self.real_path(&child, false);
                self.directories.insert(child);
            }
            self.directories.insert(real);
        }
        for path in recording.seen.iter().filter(|path| !is_own(path)) {
            if let Some(real) = self.real_path(path, false) {
                self.directories.insert(real);
            }
        }
    }

    /// Follows links the way the kernel does below the root, and keeps each. The last component is
    /// followed on demand only: `None` when it is a link that was not to be followed, or there are
    /// too many.
    fn real_path(&mut self, path: &str, follows_last: bool) -> Option<String> {
        let mut rest: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).rev().map(str::to_owned).collect();
        let mut real: Vec<String> = Vec::new();
        let mut link_count = 0;
        while let Some(part) = rest.pop() {
            match part.as_str() {
                "." => continue,
                ".." => {
                    real.pop();
                    continue;
                }
                _ => real.push(part),
            }
            let below = real.join("/");
            let Ok(target) = std::fs::read_link(self.directory.join(&below)) else { continue };
            let target = target.to_str()?.to_owned();
            // A link of procfs need not show a path.
            if target.contains(":[") {
                return None;
            }
            self.links.insert(format!("/{below}"), target.clone());
            link_count += 1;
            if link_count > LINKS_MAX || (rest.is_empty() && !follows_last) {
                return None;
            }
            real.pop();
            if target.starts_with('/') {
                real.clear();
            }
            rest.extend(target.split('/').filter(|part| !part.is_empty()).rev().map(str::to_owned));
        }
        Some(format!("/{}", real.join("/")))
    }

    fn write(self, refused: Vec<ReadError>, out: impl Write) -> io::Result<()> {
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            files: self.files.keys().cloned().collect(),
            refused,
        };
        let mut archive = tar::Builder::new(out);
        append(&mut archive, MANIFEST, &serde_json::to_string_pretty(&manifest)?)?;
        for path in &self.directories {
            if !self.files.contains_key(path) && !self.links.contains_key(path) {
                let mut header = header(tar::EntryType::Directory, 0o755, 0);
                archive.append_data(&mut header, path.trim_start_matches('/'), io::empty())?;
            }
        }
        for (path, target) in &self.links {
            let mut header = header(tar::EntryType::Symlink, 0o777, 0);
            archive.append_link(&mut header, path.trim_start_matches('/'), target)?;
        }
        for (path, text) in &self.files {
            append(&mut archive, path, text)?;
        }
        archive.into_inner()?.flush()
    }
}

fn append(archive: &mut tar::Builder<impl Write>, path: &str, text: &str) -> io::Result<()> {
    let text = format!("{text}\n");
    let mut header = header(tar::EntryType::Regular, 0o644, text.len() as u64);
    archive.append_data(&mut header, path.trim_start_matches('/'), text.as_bytes())
}

/// Without names, numbers and times of the machine it was made on.
fn header(kind: tar::EntryType, mode: u32, size_bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size_bytes);
    header
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::testing::{tree, write};

    const SECRET: &str = "hunter2";

    /// The capture of a machine, unpacked, with what was found while it was made.
    fn captured(mut root: Root, inspect: Inspect) -> (TempDir, Vec<Finding>, Vec<u8>) {
        let mut archive = Vec::new();
        let findings = capture(&mut root, inspect, &mut archive).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("capture.tar");
        std::fs::write(&file, &archive).unwrap();
        let mut unpack = Command::new("tar");
        unpack.arg("-xf").arg(&file).arg("-C").arg(directory.path());
        assert!(unpack.status().unwrap().success());
        (directory, findings, archive)
    }

    fn doctor(directory: &Path) -> Vec<Finding> {
        let root = open(directory).unwrap();
        let server = Server::captured(&root).unwrap();
        rules::examine(&Host::read(&root, Inspect { server, ..Inspect::default() }))
    }

    fn check_same(found: &[Finding], again: &[Finding]) {
        assert_eq!(found.len(), again.len());
        for (one, other) in found.iter().zip(again) {
            assert_eq!(format!("{one:#?}"), format!("{other:#?}"));
        }
    }

    fn words(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// A server with everything rules ask for, and with what must stay where it is.
    fn server(pid: u32) -> Server {
        let fork = [("valkey_version", "9.1.2"), ("total_forks", "3"), ("latest_fork_usec", "9")];
        let stats = [("total_net_output_bytes", "900"), ("total_commands_processed", "9")];
        let more = [("mem_allocator", "libc"), ("connected_slaves", "0"), ("master_auth", SECRET)];
        let lists = [("bgsave-cpulist", "1"), ("save", "900 1"), ("dir", "/"), ("port", "6379")];
        let sizes = [("maxclients", "10000"), ("maxmemory", "99"), ("tcp-backlog", "511")];
        let modes = [
            ("repl-disable-tcp-nodelay", "yes"),
            ("loglevel", "debug"),
            ("unixsocket", "/run/x"),
            ("appendonly", "no"),
        ];
        let secrets =
            [("requirepass", SECRET), ("masterauth", SECRET), ("tls-key-file-pass", SECRET)];
        Server {
            pid: Some(pid),
            info: words(&[&fork[..], &stats, &more].concat()),
            config: words(&[&lists[..], &sizes, &modes, &secrets].concat()),
            silence: None,
        }
    }

    #[test]
    fn doctor_says_the_same_of_a_capture_as_of_the_machine() {
        // Threads of this process come and go while it is read.
        let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
        // Until a moment after it was started a process has the name of the thread that started it.
        while std::fs::read_to_string(format!("/proc/{}/comm", sleeper.id())).unwrap() != "sleep\n"
        {
            std::thread::yield_now();
        }
        let inspect = Inspect {
            server: Some(server(sleeper.id())),
            interval: Duration::from_millis(50),
            ..Inspect::default()
        };
        let (directory, findings, archive) = captured(Root::live(), inspect);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        check_same(&findings, &doctor(directory.path()));
        assert!(!String::from_utf8_lossy(&archive).contains(SECRET));
        // And of a capture of the capture.
        let root = open(directory.path()).unwrap();
        let server = Server::captured(&root).unwrap();
        let (again, _, _) = captured(root, Inspect { server, ..Inspect::default() });
        check_same(&findings, &doctor(again.path()));
    }

    #[test]
    fn devices_behind_links_are_found_again() {
        let (directory, root) = tree(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/pci/0000:01/numa_node", "0\n"),
            ("sys/devices/pci/0000:01/msi_irqs/24", "msix\n"),
            ("sys/devices/pci/0000:01/virtio0/net/eth0/operstate", "up\n"),
            ("sys/devices/pci/0000:01/virtio0/net/eth0/queues/rx-0/rps_cpus", "f\n"),
            ("sys/bus/virtio/x", ""),
            ("proc/irq/24/smp_affinity_list", "0-1\n"),
            ("tidemill/ethtool/eth0", UNSUPPORTED),
        ]);
        for cpu in 0..4 {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
            write(directory.path(), &path, &format!("{cpu}\n"));
        }
        let device = directory.path().join("sys/devices/pci/0000:01/virtio0");
        symlink("../../../../../bus/virtio", device.join("subsystem")).unwrap();
        symlink("../../../virtio0", device.join("net/eth0/device")).unwrap();
        std::fs::create_dir_all(directory.path().join("sys/class/net")).unwrap();
        let interface = directory.path().join("sys/class/net/eth0");
        symlink("../../devices/pci/0000:01/virtio0/net/eth0", interface).unwrap();
        let (copy, findings, _) = captured(root, Inspect::default());
        let moved = findings.iter().find(|finding| finding.id == "R11").unwrap();
        assert_eq!(moved.changes.len(), 1, "{moved:#?}");
        check_same(&findings, &doctor(copy.path()));
    }

    /// Texts that no kernel writes: nothing, extremes, brackets, every CPU there could be, far more
    /// lines than fields.
    const NONSENSE: &[&str] = &[
        "",
        "-1 -1 -1",
        "18446744073709551615 18446744073709551615 18446744073709551615",
        "cpu0 cpu cpu\u{e9} [] (null) ][ =:=,-",
        "0-65535,0-65535",
        "Cpus_allowed_list:\t65535-0\nnonvoluntary_ctxt_switches:\t-\nMemTotal: kB\n0::/../..\n",
        "0: 0:0 0 0A 0 0 0 0 0 0\n0: zz:zz 0:0 01\ncgroup2 / cgroup2 rw\ncgroup / cgroup \
         cpu,cpuset\n",
    ];

    #[test]
    fn nonsense_in_any_file_of_a_machine_is_judged_without_a_panic() {
        let inspect = Inspect {
            server: Some(server(std::process::id())),
            interval: Duration::from_millis(1),
            ..Inspect::default()
        };
        let (directory, _, _) = captured(Root::live(), inspect);
        let manifest =
            std::fs::read_to_string(directory.path().join("tidemill/capture.json")).unwrap();
        let manifest: Manifest = serde_json::from_str(&manifest).unwrap();
        assert!(manifest.files.len() > 50, "{:?}", manifest.files);
        for (index, path) in manifest.files.iter().enumerate() {
            let file = directory.path().join(path.trim_start_matches('/'));
            let text = std::fs::read(&file).unwrap();
            std::fs::write(&file, NONSENSE[index % NONSENSE.len()]).unwrap();
            doctor(directory.path());
            std::fs::write(&file, [0xff, 0x00, 0xfe]).unwrap();
            doctor(directory.path());
            std::fs::write(&file, text).unwrap();
        }
        for (index, path) in manifest.files.iter().enumerate() {
            let file = directory.path().join(path.trim_start_matches('/'));
            std::fs::write(&file, NONSENSE[index % NONSENSE.len()]).unwrap();
        }
        doctor(directory.path());
    }

    #[test]
    fn half_a_capture_and_no_machine_are_told_in_one_line() {
        let (directory, _, _) = captured(Root::live(), Inspect::default());
        std::fs::remove_dir_all(directory.path().join("sys/devices/system/cpu")).unwrap();
        let error = open(directory.path()).unwrap_err();
        assert!(error.contains("half a capture") && !error.contains('\n'), "{error}");
        let (other, _root) = tree(&[("tidemill/capture.json", "{\"format\":\"tidem")]);
        assert!(open(other.path()).unwrap_err().contains("half a capture"));
        let (empty, _root) = tree(&[("readme", "")]);
        assert!(open(empty.path()).unwrap_err().contains("neither sys nor proc"));
    }

    #[test]
    fn addresses_options_of_mounts_and_names_of_files_stay_where_they_are() {
        let maps = "7f00 default file=/secret/x mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n";
        assert_eq!(clean("/proc/7/numa_maps", maps), "N0=2 N1=1 kernelpagesize_kB=4\n");
        let table =
            "head\n 0: 0100007F:18EB 0100007F:9000 01\n 1: 0A00000A:18EB 0B00000A:9000 01\n";
        assert_eq!(connections(table).lines().count(), 2);
        let table = "//srv/share /mnt cifs ro,username=me 0 0\ncgroup /c cgroup rw,cpu 0 0\n";
        assert_eq!(mounts(table), "//srv/share /mnt cifs ro 0 0\ncgroup /c cgroup rw,cpu 0 0\n");
        assert_eq!(
            mounts("me:hunter2@host:/x /y fuse.sshfs rw 0 0"),
            "host:/x /y fuse.sshfs rw 0 0\n"
        );
    }
}
