//! Values that hold lines of a log: none of them is taken for such a line.

use super::super::group::GroupSum;
use super::*;
use crate::limits::SCAN_BYTES;

const POLICIES: [FsyncPolicy; 3] = [FsyncPolicy::Always, FsyncPolicy::EverySecond, FsyncPolicy::No];

/// Value with lines as a log has them, by somebody who knows the log, which has these bytes.
pub(super) fn value(random: &mut Rng, present: &[u8]) -> String {
    let mut text = String::from("\n");
    for _ in 0..random.usize(1..30) {
        let near = random.usize(0..present.len() + 2000);
        let offset = random.usize(0..=present.len());
        match random.u32(0..6) {
            0 => text.push_str("#GROUP\r\n"),
            1 => text.push_str(&format!("#SYNCED:{near}\r\n")),
            2 => text.push_str(&format!("#SYNCED:{near}:{:032x}\r\n", random.u128(..))),
            3 => {
                let mut sum = GroupSum::new();
                sum.add(&present[offset..]);
                text.push_str(&sum.line(offset as u64));
            }
            4 => text.push_str(SET),
            // A part of the log itself, with its marks.
            _ => {
                let end = present.len().min(offset + random.usize(0..400));
                text.push_str(&String::from_utf8_lossy(&present[offset..end]));
            }
        }
    }
    text
}

/// Commands of a log whose process was killed. A start cuts nothing off.
fn loaded_after_kill(disk: &PowerDisk, hint: &str) -> Vec<String> {
    let disk = disk.thawed();
    let before = disk.bytes_of_last_increment();
    let mut found = Collected::default();
    load(&disk, &names(), true, &mut found).unwrap_or_else(|error| panic!("{hint}: {error}"));
    assert_eq!(disk.bytes_of_last_increment().len(), before.len(), "{hint}: nothing is cut off");
    found.commands
}

#[test]
fn a_value_does_not_say_what_is_durable() {
    for policy in POLICIES {
        for text in ["\n#SYNCED:5\r\n", "\n#SYNCED:5:00112233445566778899aabbccddeeff\r\n"] {
            let disk = PowerDisk::default();
            let log = open(&disk, policy).expect("an empty disk");
            let mut pushed: Vec<_> =
                (0..100).map(|index| log.push(&[format!("SET key:{index} value")])).collect();
            log.file.write_and_sync();
            for count in [1, 2 * SCAN_BYTES / text.len()] {
                pushed.push(log.push(&[format!("SET evil {}", text.repeat(count))]));
                log.file.write_behind(0);
                log.file.write_and_sync();
            }
            let hint = format!("{policy:?}, {text:?}");
            assert_eq!(loaded_after_kill(&disk, &hint), pushed, "{hint}");
            log.file.stop();
            assert_eq!(loaded_after_kill(&disk, &hint), pushed, "{hint}: in order");
        }
    }
}

/// Every offset of the log is named, also those within its last line.
#[test]
fn a_value_that_names_offsets_of_the_end_does_not_move_it() {
    for policy in POLICIES {
        let disk = PowerDisk::default();
        let log = open(&disk, policy).expect("an empty disk");
        let lines: String = (0..2000).map(|offset| format!("\n#SYNCED:{offset}\r\n")).collect();
        let mut pushed = vec![log.push(&[format!("SET evil {lines}")])];
        let end = lines.len() + 200;
        let lines: String = (end..end + 60_000)
            .step_by(7)
            .map(|offset| format!("\n#SYNCED:{offset}:0\r\n#SYNCED:{offset}\r\n"))
            .collect();
        pushed.push(log.push(&[format!("SET evil {lines}")]));
        log.file.stop();
        assert_eq!(loaded_after_kill(&disk, "in order"), pushed);
        let log = open(&disk.thawed(), policy).expect("a log");
        assert_eq!(log.loaded, pushed);
    }
}

/// The log's own bytes as a value of it: its marks do not count at another offset.
#[test]
fn a_copy_of_the_log_within_a_value_says_nothing() {
    let disk = PowerDisk::default();
    let log = open(&disk, FsyncPolicy::Always).expect("an empty disk");
    for index in 0..20 {
        log.push(&[format!("SET key:{index} value")]);
        log.file.write_and_sync();
    }
    let copy = String::from_utf8(disk.bytes(Path::new(INCREMENT))).expect("text");
    // More before it than is looked at together, so that the true marks are in no piece with it.
    let filler = "v".repeat(2 * SCAN_BYTES);
    log.push(&[format!("SET copy {filler}\n{copy}")]);
    log.file.write_and_sync();
    // Damage of what was durable, behind all that the copy calls durable: it is refused.
    let mut bytes = disk.bytes(Path::new(INCREMENT));
    let at = bytes.windows(6).position(|six| six == b"key:19").expect("it is there");
    bytes[at - 5] = b'!';
    disk.put(Path::new(INCREMENT), &bytes);
    let error = load(&disk, &names(), true, &mut Collected::default()).expect_err("damaged");
    assert!(matches!(error, LoadError::Broken { .. }), "{error}");
    assert_eq!(disk.bytes(Path::new(INCREMENT)), bytes, "nothing was changed");
}

/// Log as versions without words wrote it: each group says that all before it is durable. Returns
/// its commands and the offset of its last group.
fn put_old_log(disk: &PowerDisk, values: &[String]) -> (Vec<String>, usize) {
    let (mut text, mut last) = (String::from("#SYNCED:0\r\n"), 0);
    let mut commands = Vec::new();
    for value in values {
        last = text.len();
        text.push_str(&format!("#GROUP\r\n#SYNCED:{last}\r\n"));
        let length = value.len();
        text.push_str(&format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n{value}\r\n"));
        let mut sum = GroupSum::new();
        sum.add(&text.as_bytes()[last..]);
        text.push_str(&sum.line(last as u64));
        commands.push(format!("SET k {value}"));
    }
    put_log(disk, &text);
    (commands, last)
}

#[test]
fn a_value_in_a_log_of_an_older_version_does_not_say_what_is_durable() {
    let evil = "\n#SYNCED:5\r\n".repeat(2 * SCAN_BYTES / 12);
    let offsets: String = (0..9000).map(|offset| format!("\n#SYNCED:{offset}\r\n")).collect();
    for value in ["\n#SYNCED:5\r\n", &evil, &offsets] {
        let disk = PowerDisk::default();
        let (commands, _) = put_old_log(&disk, &["1".into(), value.into()]);
        assert_eq!(loaded_after_kill(&disk, "old"), commands);
        // The next start begins an increment with a word, and damage in the old one is refused.
        let log = open(&disk, FsyncPolicy::EverySecond).expect("a log");
        assert_eq!(log.loaded, commands);
        let next = log.push(&["SET next value".into()]);
        log.file.write_and_sync();
        let after = disk.lose_power(&mut Rng::with_seed(1));
        let log = open(&after, FsyncPolicy::EverySecond).expect("a log");
        assert_eq!(log.loaded, [commands, vec![next]].concat());
        let manifest = read_manifest(&after, &names()).expect("a manifest").expect("one");
        assert_eq!(manifest.increments.len(), 2);
    }
}

#[test]
fn the_torn_end_of_a_log_of_an_older_version_is_cut_off_and_damage_is_refused() {
    let disk = PowerDisk::default();
    let values = ["\n#SYNCED:5\r\n".to_owned(), "v".repeat(3000), "w".repeat(3000)];
    let (commands, last) = put_old_log(&disk, &values);
    let whole = disk.bytes(Path::new(INCREMENT));
    let load_with = |range: std::ops::Range<usize>, end: usize| {
        let mut bytes = whole[..end].to_vec();
        bytes[range].fill(0);
        disk.put(Path::new(INCREMENT), &bytes);
        let mut found = Collected::default();
        let result = load(&disk, &names(), true, &mut found);
        let is_kept = disk.bytes(Path::new(INCREMENT)) == bytes;
        (result.map(|_| found.commands), is_kept)
    };
    for (lost, end) in [
        (last + 40..last + 60, whole.len()),
        (last + 1000..last + 1512, whole.len()),
        (0..0, whole.len() - 700),
        (0..0, whole.len() - 5),
    ] {
        let (found, _) = load_with(lost, end);
        assert_eq!(found.expect("the tail is cut off"), commands[..2]);
    }
    let (found, is_kept) = load_with(60..70, whole.len());
    found.expect_err("a later mark says that it was durable");
    assert!(is_kept, "nothing was changed");
}
