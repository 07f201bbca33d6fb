//! Logs across losses of power, full disks, damage, and beside Valkey's files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tidemill_journal::limits::LANE_BYTES_MAX;
use tidemill_journal::{Journal, Record};
use tidemill_resp::request::{ArgumentView, Arguments, Limits, Progress, RequestParser};

use super::*;
use crate::disk::{Disk, DiskFile};
use crate::limits::LATE_SYNC;

mod hostile_values;
mod power;
mod rewrites;

use power::PowerDisk;

const INCREMENT: &str = "root/dir/log.1.incr.aof";

fn names() -> LogNames {
    LogNames {
        root: PathBuf::from("root"),
        directory_name: "dir".into(),
        file_name: "log".into(),
        snapshot_name: "dump.rdb".into(),
    }
}

/// Commands of a log as texts. Transactions are one each.
#[derive(Debug, Default)]
struct Collected {
    commands: Vec<String>,
    transaction: Option<Vec<String>>,
}

impl Replay for Collected {
    fn check(&self, command: &ArgumentView<'_>) -> Result<(), String> {
        match command.get(0) {
            b"UNKNOWN" => Err("unknown command 'UNKNOWN'".into()),
            _ => Ok(()),
        }
    }

    fn execute(&mut self, _offset: u64, commands: &[u8]) -> Result<(), Stopped> {
        let (mut parser, mut found) = (RequestParser::new(), Arguments::new());
        let limits = Limits { bulk_bytes_max: usize::MAX, authenticated: true };
        let parsed = parser.parse(commands, &limits, &mut found).expect("a command");
        assert_eq!(parsed, Progress::Complete { consumed: commands.len() });
        let words = found.view(commands);
        let words = (0..words.len()).map(|index| String::from_utf8_lossy(words.get(index)));
        let text = words.collect::<Vec<_>>().join(" ");
        match (text.as_str(), &mut self.transaction) {
            (text, _) if text.starts_with("SELECT") => {}
            ("MULTI", transaction) => *transaction = Some(Vec::new()),
            ("EXEC", transaction) => {
                let commands = transaction.take().expect("MULTI comes first");
                self.commands.push(commands.join(";"));
            }
            (_, Some(commands)) => commands.push(text),
            _ => self.commands.push(text),
        }
        Ok(())
    }

    fn discard(&mut self) {
        self.transaction = None;
    }

    fn load_snapshot(&mut self, _path: &Path, _file: &dyn DiskFile) -> Result<u64, ReplayFault> {
        Err(ReplayFault::Snapshot("no snapshots here".into()))
    }
}

type Failures = Arc<Mutex<Vec<Option<WriteFailure>>>>;

/// A log that is appended to, with what it held at first.
struct Log {
    journal: Arc<Journal>,
    file: AppendOnlyFile,
    loaded: Vec<String>,
    failures: Failures,
}

fn open(disk: &PowerDisk, policy: FsyncPolicy) -> Result<Log, LoadError> {
    let (log, went_on) = restart(disk, policy)?;
    went_on.expect("the disk has room");
    Ok(log)
}

/// As [`open`], with what became of the log's going on.
fn restart(disk: &PowerDisk, policy: FsyncPolicy) -> Result<(Log, std::io::Result<()>), LoadError> {
    let mut collected = Collected::default();
    let loaded = load(disk, &names(), true, &mut collected)?;
    let journal = Arc::new(Journal::new(1));
    let failures = Failures::default();
    let noted = Arc::clone(&failures);
    let on_failure = Box::new(move |failure| noted.lock().expect("no panic").push(failure));
    let wakes: Vec<WakeWorker> = vec![Box::new(|| {})];
    let file = AppendOnlyFile::new(
        (Arc::new(disk.clone()), names()),
        Arc::clone(&journal),
        policy,
        wakes,
        on_failure,
    );
    let empty = EmptyBase { is_snapshot: false, bytes: Vec::new() };
    let went_on = file.go_on(loaded, &empty);
    Ok((Log { journal, file, loaded: collected.commands, failures }, went_on))
}

impl Log {
    /// Pushes a record of one or several effects; returns what it is when it is loaded.
    fn push(&self, commands: &[String]) -> String {
        let mut record = Record::default();
        for command in commands {
            record.push(0, command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        self.journal.push(0, self.journal.allocate(), &mut record);
        commands.join(";")
    }
}

/// Lives of a server on one disk, each ended by a loss of power at any moment. What was released is
/// there, in order, and what is there is a prefix of what was pushed.
fn lose_power_again_and_again(seed: u64, policy: FsyncPolicy) {
    let mut random = Rng::with_seed(seed);
    let mut disk = PowerDisk::default();
    let mut history: Vec<String> = Vec::new();
    for life in 0..random.usize(2..6) {
        let log = open(&disk, policy).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(log.loaded, history, "seed {seed}, life {life}");
        let before = history.len();
        for index in 0..random.usize(0..40) {
            let present = disk.bytes_of_last_increment();
            let value = |random: &mut Rng| match random.bool() {
                true => "v".repeat(random.usize(1..900)),
                false => hostile_values::value(random, &present),
            };
            let command = |random: &mut Rng| format!("SET {seed}:{life}:{index} {}", value(random));
            let commands: Vec<_> = (0..random.usize(1..3)).map(|_| command(&mut random)).collect();
            history.push(log.push(&commands));
            match (policy, random.u32(0..4)) {
                (FsyncPolicy::Always, 0) => log.file.write_and_sync(),
                (FsyncPolicy::Always, _) => {}
                (_, 0) => log.file.write_and_sync(),
                (_, _) => log.file.write_behind(0),
            }
        }
        let durable = before + log.file.durable() as usize;
        if policy == FsyncPolicy::Always {
            assert_eq!(log.file.released(), log.file.durable());
        }
        if random.u32(0..4) == 0 {
            log.file.stop();
            continue;
        }
        disk = disk.lose_power(&mut random);
        let mut survived = Collected::default();
        load(&disk, &names(), true, &mut survived)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let survived = survived.commands;
        assert!(survived.len() >= durable, "seed {seed}: {} of {durable}", survived.len());
        assert_eq!(survived, history[..survived.len()], "seed {seed}");
        history.truncate(survived.len());
    }
}

/// Loses power under a policy with TIDEMILL_POWER_SEEDS (250) seeds in a row.
fn lose_power_with_seeds(policy: FsyncPolicy) {
    let count = std::env::var("TIDEMILL_POWER_SEEDS").ok().and_then(|text| text.parse().ok());
    let first = fastrand::u64(..1 << 40);
    println!("seed {first}");
    (first..first + count.unwrap_or(250)).for_each(|seed| lose_power_again_and_again(seed, policy));
}

#[test]
fn a_loss_of_power_takes_nothing_that_was_released() {
    lose_power_with_seeds(FsyncPolicy::Always);
}

#[test]
fn a_loss_of_power_leaves_a_prefix() {
    lose_power_with_seeds(FsyncPolicy::EverySecond);
}

#[test]
fn a_loss_of_power_leaves_a_prefix_of_what_nobody_synced() {
    lose_power_with_seeds(FsyncPolicy::No);
}

/// The end of a log that a kill leaves is in the cache of the system alone, and power is lost while
/// the next start makes it durable and marks it so.
#[test]
fn a_loss_of_power_beside_a_restart_leaves_a_prefix() {
    for seed in 0..1_000 {
        let mut random = Rng::with_seed(seed);
        let disk = PowerDisk::default();
        let log = open(&disk, FsyncPolicy::No).expect("an empty disk");
        let mut history = Vec::new();
        for index in 0..random.usize(1..8) {
            let value = "v".repeat(random.usize(1..900));
            history.push(log.push(&[format!("SET {index} {value}")]));
            log.file.write_behind(0);
        }
        let killed = disk.thawed();
        killed.freeze_after(Some(random.usize(0..6)));
        drop(restart(&killed, FsyncPolicy::No).expect("the cache has all of it"));
        let mut survived = Collected::default();
        load(&killed.lose_power(&mut random), &names(), true, &mut survived)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let survived = survived.commands;
        assert_eq!(survived, history[..survived.len()], "seed {seed}");
    }
}

#[test]
fn a_full_disk_leaves_whole_records_and_goes_on_when_there_is_room() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    let mut pushed = vec![log.push(&["SET a 1".into()])];
    log.file.write_behind(0);
    assert_eq!(log.file.released(), 1);
    disk.limit(Some(40));
    pushed.push(log.push(&["SET b 1".into(), "SET c 1".into()]));
    log.file.write_behind(0);
    // Reads go on, and writes are refused.
    assert_eq!(log.file.released(), u64::MAX);
    assert!(log.file.status().has_failed);
    let failure = log.failures.lock().expect("no panic")[0].expect("it was told");
    assert!(!failure.is_of_sync);
    let mut found = Collected::default();
    load(&disk, &names(), false, &mut found).expect("whole records");
    assert_eq!(found.commands, pushed[..1]);
    disk.limit(None);
    log.file.write_and_sync();
    assert_eq!(log.file.durable(), 2);
    assert_eq!(*log.failures.lock().expect("no panic").last().expect("told"), None);
    let mut found = Collected::default();
    load(&disk, &names(), false, &mut found).expect("whole records");
    assert_eq!(found.commands, pushed);
}

#[test]
fn a_failed_sync_is_not_healed_by_a_later_one() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    log.push(&["SET a 1".into()]);
    disk.fail_sync(true);
    log.file.write_and_sync();
    disk.fail_sync(false);
    log.push(&["SET b 1".into()]);
    log.file.write_and_sync();
    assert_eq!(log.file.durable(), 0);
    assert!(log.file.status().has_failed);
    assert_eq!(log.failures.lock().expect("no panic").len(), 1);
}

#[test]
fn a_write_beside_a_sync_does_not_wait_for_its_end() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    let until = |is_done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_done() {
            if begun.elapsed() > Duration::from_secs(60) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| log.file.run_writer());
        log.push(&["SET a 1".into()]);
        log.file.write_behind(0);
        // The log's thread may be about to write it; a sync of nothing would end at once.
        let is_written = until(&|| log.file.released() == 1);
        disk.hold_sync(true);
        scope.spawn(|| log.file.sync());
        let is_syncing = until(&|| log.file.status().is_syncing);
        log.push(&["SET b 1".into()]);
        log.file.write_behind(0);
        // The log's thread writes that; the sync's end does not come by itself.
        let is_released = until(&|| log.file.released() == 2);
        let is_still_syncing = log.file.status().is_syncing;
        disk.hold_sync(false);
        log.file.stop();
        assert!(is_written && is_syncing && is_released && is_still_syncing);
    });
    // A machine that gives the test no CPU for so long has a late sync.
    if begun.elapsed() < LATE_SYNC {
        assert_eq!(log.file.status().delayed_sync_count, 0);
    }
    assert_eq!(log.file.durable(), 2);
}

/// A group that gathers is not asked for by workers that add to it, so it has to begin by itself.
#[test]
fn a_group_that_has_gathered_is_written_unasked() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::Always).expect("an empty disk");
    let is_wanted = || file::lock(&log.file.requests).is_write_wanted;
    let gather = |target| {
        log.file.begin_gathering(target);
        log.file.write_behind(0);
        let is_asked = is_wanted();
        log.file.end_gathering(target, Duration::from_micros(1));
        (is_asked, is_wanted())
    };
    assert_eq!(gather(10), (false, false), "nothing came");
    log.push(&["SET a 1".into()]);
    assert_eq!(gather(10), (false, true), "one record of ten");
    assert_eq!(gather(1), (true, true), "all that is waited for");
    log.file.write_and_sync();
    assert_eq!(gather(10), (false, false), "all is durable");
}

/// A worker that has filled its lane writes by itself, and its replies wait for the sync.
#[test]
fn a_group_of_a_crowded_worker_is_synced_without_waiting_for_another() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::Always).expect("an empty disk");
    let is_wanted = || file::lock(&log.file.requests).is_write_wanted;
    log.push(&[format!("SET a {}", "x".repeat(2 * LANE_BYTES_MAX))]);
    log.file.write_behind(0);
    assert!(is_wanted());
    // It was asked for during the sync of the group before.
    log.file.begin_gathering(10);
    log.file.end_gathering(10, Duration::from_micros(1));
    assert!(is_wanted());
}

/// Text of a log of Valkey: no checksums.
fn put_log(disk: &PowerDisk, text: &str) {
    disk.put(Path::new("root/dir/log.manifest"), b"file log.1.incr.aof seq 1 type i\n");
    disk.put(Path::new(INCREMENT), text.as_bytes());
}

const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";

#[test]
fn tails_are_cut_as_valkey_cuts_them() {
    for (tail, refused) in [
        ("*3\r\n$3\r\nSE", "Unexpected end of file"),
        (MULTI, "Unexpected end of file"),
        (&format!("{MULTI}{SET}*1\r\n$4\r\nEX"), "Unexpected end of file"),
        ("#TS:17", "Unexpected end of file"),
        ("\0\0\0\0", "at offset 27"),
        ("*0\r\n", "Bad file format"),
        ("*3\r\n$3\r\nSETxx", "Bad file format"),
        ("SET k v\r\n", "Bad file format"),
        ("*1\r\n$7\r\nUNKNOWN\r\n", "unknown command 'UNKNOWN'"),
    ] {
        let text = format!("{SET}{tail}");
        let disk = PowerDisk::default();
        put_log(&disk, &text);
        let error = load(&disk, &names(), false, &mut Collected::default()).expect_err(tail);
        assert!(error.to_string().contains(refused), "{tail:?}: {error}");
        assert_eq!(disk.bytes(Path::new(INCREMENT)), text.as_bytes(), "nothing was changed");
        let mut found = Collected::default();
        let result = load(&disk, &names(), true, &mut found);
        if refused == "Unexpected end of file" {
            let loaded = result.expect("the tail is cut off");
            assert_eq!(found.commands, ["SET k v"], "{tail:?}");
            assert_eq!(loaded.tail_bytes, SET.len() as u64);
            assert_eq!(disk.bytes(Path::new(INCREMENT)), SET.as_bytes());
        } else {
            result.expect_err("no tail but damage");
        }
    }
}

#[test]
fn damage_in_what_was_durable_stops_the_start() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::Always).expect("an empty disk");
    for index in 0..50 {
        log.push(&[format!("SET key:{index} value")]);
        log.file.write_and_sync();
    }
    let whole = disk.bytes(Path::new(INCREMENT));
    let offset = whole.len() / 2;
    for damage in
        [b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"*3\r\n$900\r\nxxxxxxxxxxxxxx"]
    {
        let mut bytes = whole.clone();
        let at =
            offset + bytes[offset..].windows(3).position(|three| three == b"*3\r").expect("one");
        bytes[at..at + damage.len()].copy_from_slice(damage);
        let disk = PowerDisk::default();
        put_log(&disk, "");
        disk.put(Path::new(INCREMENT), &bytes);
        let error = load(&disk, &names(), true, &mut Collected::default()).expect_err("damaged");
        assert!(
            matches!(error, LoadError::Broken { offset, .. } if offset == at as u64),
            "{error}"
        );
        assert_eq!(disk.bytes(Path::new(INCREMENT)), bytes, "nothing was changed");
    }
}

#[test]
fn what_valkey_appended_to_our_file_is_kept() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::Always).expect("an empty disk");
    log.push(&["SET a 1".into()]);
    log.file.write_and_sync();
    let mut bytes = disk.bytes(Path::new(INCREMENT));
    bytes.extend_from_slice(SET.as_bytes());
    disk.put(Path::new(INCREMENT), &bytes);
    let log = open(&disk, FsyncPolicy::Always).expect("a log");
    assert_eq!(log.loaded, ["SET a 1", "SET k v"]);
}

/// Valkey lost power, or was killed within a write: its whole commands are kept, as by itself.
#[test]
fn a_torn_end_of_what_valkey_appended_takes_nothing_before_it() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::Always).expect("an empty disk");
    log.push(&["SET a 1".into()]);
    log.file.stop();
    let mut bytes = disk.bytes(Path::new(INCREMENT));
    bytes.extend_from_slice(SET.as_bytes());
    bytes.extend_from_slice(&SET.as_bytes()[..9]);
    disk.put(Path::new(INCREMENT), &bytes);
    let log = open(&disk, FsyncPolicy::Always).expect("a log");
    assert_eq!(log.loaded, ["SET a 1", "SET k v"]);
}

/// The end of a group is lost, and what is left ends with a whole command: nothing says that it is
/// as it was written. Nor does a first line of which a part is lost.
#[test]
fn a_group_without_its_end_is_no_part_of_the_log() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    let kept = log.push(&["SET a 1".into()]);
    log.file.write_and_sync();
    let durable = disk.bytes(Path::new(INCREMENT)).len();
    log.push(&[format!("SET b {}", "v".repeat(100))]);
    log.push(&[format!("SET c {}", "v".repeat(100))]);
    log.file.write_behind(0);
    let written = disk.bytes(Path::new(INCREMENT));
    let find = |text: &[u8]| {
        let found = written[durable..].windows(text.len()).position(|part| part == text);
        durable + found.expect("it is written")
    };
    let (begin, end) = (find(b"#GROUP\r\n"), find(b"#GROUP:"));
    for lost in [begin + 60..begin + 120, begin + 3..begin + 40] {
        let mut bytes = written[..end].to_vec();
        bytes[lost].fill(0);
        disk.put(Path::new(INCREMENT), &bytes);
        let log = open(&disk, FsyncPolicy::EverySecond).expect("a log");
        assert_eq!(log.loaded, [kept.as_str()]);
    }
}

#[test]
fn a_log_is_cut_at_a_time_between_two_groups() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    let kept = log.push(&["SET a 1".into()]);
    log.file.write_and_sync();
    let end = disk.bytes(Path::new(INCREMENT)).len() as u64;
    log.file.configure(FsyncPolicy::EverySecond, true);
    log.push(&["SET b 1".into()]);
    log.file.write_and_sync();
    let file = disk.open(Path::new(INCREMENT)).expect("it is there");
    let found = check_file(&*file, 0, Some(1)).expect("it is read");
    assert_eq!(found.later_than_asked, Some(end));
    file.set_length(end).expect("it is shrunk");
    assert_eq!(check_file(&*file, 0, None).expect("it is read").fault, None);
    let mut found = Collected::default();
    load(&disk, &names(), false, &mut found).expect("whole groups");
    assert_eq!(found.commands, [kept]);
}

#[test]
fn an_old_single_file_is_taken_over_also_after_an_interruption() {
    for is_begun in [false, true] {
        let disk = PowerDisk::default();
        disk.put(Path::new("root/log"), SET.as_bytes());
        if is_begun {
            disk.put(Path::new("root/dir/log.manifest"), b"file log seq 1 type b\n");
        }
        let log = open(&disk, FsyncPolicy::Always).expect("an old log");
        assert_eq!(log.loaded, ["SET k v"]);
        log.push(&["SET a 1".into()]);
        log.file.stop();
        let mut random = Rng::with_seed(1);
        let log = open(&disk.lose_power(&mut random), FsyncPolicy::Always).expect("a log");
        assert_eq!(log.loaded, ["SET k v", "SET a 1"]);
    }
}

/// The manifest has the name in quotes.
#[test]
fn an_old_single_file_of_any_name_is_taken_over() {
    let disk = PowerDisk::default();
    let names = LogNames { file_name: "my log".into(), ..names() };
    disk.put(Path::new("root/my log"), SET.as_bytes());
    for _ in 0..2 {
        let mut found = Collected::default();
        let loaded = load(&disk, &names, true, &mut found).expect("an old log");
        assert_eq!(found.commands, ["SET k v"]);
        assert_eq!(loaded.manifest.base_sequence, 1);
    }
}

#[test]
fn a_snapshot_without_a_log_is_not_ignored() {
    let disk = PowerDisk::default();
    disk.put(Path::new("root/dump.rdb"), b"REDIS0011");
    let error = load(&disk, &names(), true, &mut Collected::default()).expect_err("refused");
    assert!(matches!(error, LoadError::SnapshotWithoutLog { .. }), "{error}");
}

#[test]
fn an_absent_file_of_the_manifest_stops_the_start() {
    let disk = PowerDisk::default();
    disk.put(Path::new("root/dir/log.manifest"), b"file log.1.incr.aof seq 1 type i\n");
    let error = load(&disk, &names(), true, &mut Collected::default()).expect_err("refused");
    assert!(matches!(error, LoadError::Absent { .. }), "{error}");
}

/// Whatever is wrong with a log, the operator is told where and what to do about it.
#[test]
fn a_fault_of_a_log_says_what_to_do() {
    let path = PathBuf::from("dir/log.1.incr.aof");
    let manifest = String::from("dir/log.manifest");
    let denied = std::io::ErrorKind::PermissionDenied;
    let faults = [
        (
            LoadError::Io { path: path.clone(), error: denied.into() },
            "give the server's user access",
        ),
        (
            LoadError::Manifest(Manifest::parse(b"file x seq 1\n").expect_err("no kind")),
            "restore the manifest",
        ),
        (LoadError::Absent { path: path.clone() }, "restore it from a backup"),
        (
            LoadError::Broken { path: path.clone(), offset: 7, manifest: manifest.clone() },
            "check-aof --fix dir/log.manifest",
        ),
        (
            LoadError::Truncated { path: path.clone(), offset: 7, manifest, is_last: false },
            "check-aof --fix dir/log.manifest",
        ),
        (
            LoadError::BadCommand { path: path.clone(), offset: 7, reason: "no such".into() },
            "load it with the server that wrote it",
        ),
        (LoadError::SnapshotWithoutLog { path }, "Start with appendonly no"),
    ];
    for (fault, advice) in faults {
        let text = fault.to_string();
        assert!(text.contains(advice), "{text}");
        assert!(text.contains("dir/") || text.contains("line 1"), "no place: {text}");
    }
}
