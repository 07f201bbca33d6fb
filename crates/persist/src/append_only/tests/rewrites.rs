//! Rewrites that end at any step: by the end of the process, by a loss of power, by a full disk.

use super::*;

const TRIES: usize = 40;

/// Form of the bases here.
const COMMANDS: BaseForm =
    BaseForm { is_snapshot: false, annotates_time: false, syncs_in_steps: false };

/// Commands found in a log after a crash.
fn survivors(disk: &PowerDisk, hint: &str) -> Vec<String> {
    let mut found = Collected::default();
    load(disk, &names(), true, &mut found).unwrap_or_else(|error| panic!("{hint}: {error}"));
    found.commands
}

/// Commands that make the history, as a base has them.
fn base_of(history: &[String]) -> Vec<u8> {
    let mut record = Record::default();
    for command in history.iter().flat_map(|unit| unit.split(';')) {
        record.push(0, command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    record.effects().flat_map(|effect| effect.bytes.to_vec()).collect()
}

/// A rewrite of a log beside writes, of which one part comes before the cut.
fn rewrite(log: &Log, disk: &PowerDisk, history: &mut Vec<String>, life: &str) -> bool {
    let push = |history: &mut Vec<String>, index: usize| {
        history.push(log.push(&[format!("SET {life}:{index} value")]));
    };
    push(history, 0);
    log.file.write_behind(0);
    let Ok(mut rewrite) = log.file.prepare(true, COMMANDS) else { return false };
    push(history, 1);
    log.file.note_cut(&mut rewrite);
    let base = base_of(history);
    // Behind the cut, before anybody has begun the next increment.
    push(history, 2);
    log.file.write_behind(0);
    if log.file.switch(&mut rewrite).is_err() {
        log.file.give_up();
        return false;
    }
    push(history, 3);
    log.file.write_and_sync();
    let written = disk.create(&log.file.temporary_base()).and_then(|file| {
        file.write_all_at(&base, 0)?;
        file.sync()
    });
    push(history, 4);
    log.file.write_behind(0);
    let is_done = written.and_then(|()| log.file.finish(rewrite, base.len() as u64)).is_ok();
    if !is_done {
        log.file.give_up();
    }
    push(history, 5);
    log.file.write_and_sync();
    is_done
}

#[test]
fn a_rewrite_keeps_the_data_and_removes_what_it_replaces() {
    let disk = PowerDisk::default();
    let mut history = Vec::new();
    for life in ["a", "b", "c"] {
        let log = open(&disk, FsyncPolicy::EverySecond).expect("a log");
        assert_eq!(log.loaded.join(";"), history.join(";"));
        assert!(rewrite(&log, &disk, &mut history, life));
        assert!(rewrite(&log, &disk, &mut history, &format!("{life}2")));
        log.file.stop();
    }
    let files: Vec<_> = disk.list(Path::new("root/dir")).expect("it is there");
    assert_eq!(files.len(), 3, "{files:?}");
    assert_eq!(
        String::from_utf8(disk.bytes(Path::new("root/dir/log.manifest"))).expect("text"),
        "file log.7.base.aof seq 7 type b\nfile log.7.incr.aof seq 7 type i\n"
    );
}

/// A log is switched off between the two first steps of a rewrite: no step behind that switches it
/// on, and what is written once it is on again does not end at the cut of that rewrite.
#[test]
fn a_log_that_is_switched_off_within_a_rewrite_stays_off() {
    for was_on in [false, true] {
        let disk = PowerDisk::default();
        let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
        if !was_on {
            log.file.switch_off();
        }
        let mut given_up = log.file.prepare(true, COMMANDS).expect("there is room");
        log.file.switch_off();
        log.file.note_cut(&mut given_up);
        assert!(!log.file.is_written(), "on before: {was_on}");
        log.file.switch(&mut given_up).expect_err("it was switched off");
        log.file.give_up();
        let mut history = Vec::new();
        assert!(rewrite(&log, &disk, &mut history, "x"), "on before: {was_on}");
        history.push(log.push(&["SET last value".into()]));
        log.file.write_and_sync();
        assert_eq!(survivors(&disk, "switched on again"), history, "on before: {was_on}");
    }
}

/// The process ends, or power is lost, before each operation on the disk in turn.
#[test]
fn a_rewrite_that_ends_anywhere_loses_nothing() {
    for stop in 0.. {
        let disk = PowerDisk::default();
        let mut history = Vec::new();
        // Under `always` the process would end where the disk fails.
        let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
        history.push(log.push(&["SET first value".into(), "SET second value".into()]));
        log.file.write_and_sync();
        disk.freeze_after(Some(stop));
        let is_done = rewrite(&log, &disk, &mut history, "x");
        let durable = log.file.durable() as usize;
        let hint = format!("stopped after {stop} changes");
        let found = survivors(&disk.thawed(), &hint).join(";");
        assert!(history.join(";").starts_with(&found), "{hint}: {found}");
        assert!(found.split(';').count() > durable, "{hint}: {found}, {durable}");
        for seed in 0..TRIES {
            let hint = format!("{hint}, seed {seed}");
            let after = disk.lose_power(&mut Rng::with_seed(seed as u64));
            let found = survivors(&after, &hint).join(";");
            assert!(history.join(";").starts_with(&found), "{hint}: {found}");
            assert!(found.split(';').count() > durable, "{hint}: {found}, {durable}");
            // The next start goes on with it.
            let again = open(&after, FsyncPolicy::EverySecond);
            let again = again.unwrap_or_else(|error| panic!("{hint}: {error}"));
            let mut history = again.loaded.clone();
            assert!(rewrite(&again, &after, &mut history, "y"), "{hint}");
            assert_eq!(survivors(&after, &hint).join(";"), history.join(";"), "{hint}");
        }
        if is_done {
            break;
        }
    }
}

#[test]
fn a_full_disk_leaves_several_increments_and_the_next_rewrite_removes_them() {
    let mut room = 0;
    loop {
        let disk = PowerDisk::default();
        let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
        let mut history = Vec::new();
        disk.limit(Some(room));
        let is_done = rewrite(&log, &disk, &mut history, "x");
        disk.limit(None);
        log.file.write_and_sync();
        assert!(!log.file.status().has_failed);
        assert_eq!(survivors(&disk, "full").join(";"), history.join(";"), "room {room}");
        let bases = disk.list(Path::new("root/dir")).expect("it is there");
        let bases = bases.iter().filter(|name| name.to_string_lossy().contains(".base.")).count();
        assert_eq!(bases, 1, "room {room}: a base that no manifest names");
        assert!(rewrite(&log, &disk, &mut history, "y"));
        assert_eq!(survivors(&disk, "room").join(";"), history.join(";"), "room {room}");
        let manifest = read_manifest(&disk, &names()).expect("a manifest").expect("one");
        assert_eq!(manifest.increments.len(), 1);
        if is_done {
            break;
        }
        room += 13;
    }
}

#[test]
fn a_failed_sync_is_healed_by_a_base_and_not_before() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    let mut history = vec![log.push(&["SET a 1".into()])];
    disk.fail_sync(true);
    log.file.write_and_sync();
    // The rewrite itself cannot be begun.
    assert!(!rewrite(&log, &disk, &mut history, "x"));
    assert!(log.file.status().has_failed);
    disk.fail_sync(false);
    log.file.write_and_sync();
    assert!(log.file.status().has_failed && log.file.durable() == 0);
    assert!(rewrite(&log, &disk, &mut history, "y"));
    assert!(!log.file.status().has_failed);
    assert_eq!(log.file.durable(), log.file.need());
    let after = disk.lose_power(&mut Rng::with_seed(1));
    assert_eq!(survivors(&after, "power").join(";"), history.join(";"));
}

#[test]
fn a_log_counts_once_its_first_base_is_complete() {
    let disk = PowerDisk::default();
    // An older log, which was switched off.
    put_log(&disk, SET);
    let log = closed(&disk);
    let mut history: Vec<String> = vec!["SET b 1".into()];
    assert_eq!(log.file.released(), u64::MAX);
    let mut first = log.file.prepare(true, COMMANDS).expect("the disk has room");
    log.file.note_cut(&mut first);
    log.push(&["SET lost 1".into()]);
    log.file.write_and_sync();
    assert!(log.file.awaits_first_base() && log.file.durable() == 0);
    assert_eq!(survivors(&disk, "the old one"), ["SET k v"]);
    // The first attempt fails; the second one begins with what was written meanwhile.
    log.file.give_up();
    history.push("SET lost 1".into());
    let mut second = log.file.prepare(true, COMMANDS).expect("the disk has room");
    log.file.note_cut(&mut second);
    let base = base_of(&history);
    history.push(log.push(&["SET c 1".into()]));
    log.file.write_and_sync();
    log.file.switch(&mut second).expect("nothing to do");
    let file = disk.create(&log.file.temporary_base()).expect("room");
    file.write_all_at(&base, 0).and_then(|()| file.sync()).expect("room");
    log.file.finish(second, base.len() as u64).expect("room");
    assert!(!log.file.awaits_first_base());
    assert_eq!(log.file.durable(), log.file.need());
    let after = disk.lose_power(&mut Rng::with_seed(1));
    assert_eq!(survivors(&after, "power"), history);
    log.file.switch_off();
    log.push(&["SET d 1".into()]);
    log.file.write_and_sync();
    assert_eq!(survivors(&disk, "off"), history);
}

/// A log that is off.
fn closed(disk: &PowerDisk) -> Log {
    let journal = Arc::new(Journal::new(1));
    let file = AppendOnlyFile::new(
        (Arc::new(disk.clone()), names()),
        Arc::clone(&journal),
        FsyncPolicy::EverySecond,
        vec![Box::new(|| {})],
        Box::new(|_| {}),
    );
    Log { journal, file, loaded: Vec::new(), failures: Failures::default() }
}

/// At the front of a small log, too: an orderly end says that all of it was durable.
#[test]
fn damage_of_a_log_that_ended_in_order_is_not_cut_off() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::EverySecond).expect("an empty disk");
    log.push(&["SET a 1".into()]);
    log.push(&["SET b 1".into()]);
    log.file.stop();
    let mut bytes = disk.bytes(Path::new(INCREMENT));
    let at = bytes.windows(3).position(|three| three == b"SET").expect("one");
    bytes[at - 5] = b'!';
    disk.put(Path::new(INCREMENT), &bytes);
    let error = load(&disk, &names(), true, &mut Collected::default()).expect_err("damaged");
    assert!(matches!(error, LoadError::Broken { .. }), "{error}");
    assert_eq!(disk.bytes(Path::new(INCREMENT)), bytes, "nothing was changed");
}
