//! Declarations of the commands on HyperLogLogs: a row each, then what differs from the family.

use crate::command::prelude::*;

const HYPERLOGLOG: Command = Command::keyed(Group::HyperLogLog, Categories::HYPERLOGLOG);

pub(super) const PFADD: Command = HYPERLOGLOG
    .command("pfadd", -2, "2.8.9", "Adds elements to a HyperLogLog.")
    .complexity("O(1) to add every element.")
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[key("key"), string("element").optional().multiple()]);

pub(super) const PFCOUNT: Command = HYPERLOGLOG
    .command("pfcount", -2, "2.8.9", "Estimates how many different elements were added.")
    .complexity(
        "O(1) with a very small average constant time when called with a single key. O(N) with N \
         being the number of keys, and much bigger constant times, when called with multiple keys.",
    )
    .flags(&[READONLY, MAY_REPLICATE])
    .keys(&[KeySpec::all(&[RW, ACCESS]).notes("The estimate is kept in the string.")])
    .arguments(&[key("key").multiple()]);

pub(super) const PFMERGE: Command = HYPERLOGLOG
    .command("pfmerge", -2, "2.8.9", "Adds what was added to other HyperLogLogs.")
    .complexity("O(N) to merge N HyperLogLogs, but with high constant times.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[
        KeySpec::first(&[RW, ACCESS, INSERT]),
        KeySpec::range(2, -1, &[RO, ACCESS]).may_be_none(),
    ])
    .arguments(&[key("destkey"), key_of(1, "sourcekey").optional().multiple()]);

const INTERNAL: &[Categories] =
    &[Categories::HYPERLOGLOG, Categories::ADMIN, Categories::DANGEROUS];

pub(super) const PFDEBUG: Command = HYPERLOGLOG
    .command("pfdebug", 3, "2.8.9", "Shows how a HyperLogLog is stored, for tests.")
    .complexity("N/A")
    .flags(&[WRITE, DENYOOM, ADMIN, SYSTEM])
    .categories(INTERNAL)
    .keys(&[KeySpec::one(2, &[RW, ACCESS])])
    .arguments(&[string("subcommand"), key("key")]);

pub(super) const PFSELFTEST: Command = HYPERLOGLOG
    .command("pfselftest", 1, "2.8.9", "Tests the registers and the estimate.")
    .complexity("N/A")
    .flags(&[ADMIN, SYSTEM])
    .categories(INTERNAL);
