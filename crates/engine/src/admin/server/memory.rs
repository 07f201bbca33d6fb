//! `MEMORY`.

use tidemill_resp::encode::ReplyBuffer;

use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;
use crate::shared::{AllocatorMemory, Shared};

/// Use of memory, in bytes.
pub(super) struct Usage {
    /// Keys and values that can be read.
    pub(super) live: u64,
    /// Clients and their buffers.
    pub(super) clients: u64,
    /// Scripts, libraries, interpreters and tracked keys.
    pub(super) other: u64,
    /// Live data, clients, others, and data that waits for its last readers or to be freed.
    pub(super) used: u64,
    /// The most that was used.
    pub(super) peak: u64,
    pub(super) allocator: AllocatorMemory,
    /// Physical memory of the process.
    pub(super) resident: u64,
}

impl Usage {
    pub(super) fn now(shared: &Shared) -> Usage {
        let (live, clients) = (shared.live_bytes(), shared.clients.memory_bytes());
        let other = shared.other_bytes();
        let used = shared.data_bytes() + clients + other;
        Usage {
            live,
            clients,
            other,
            used,
            peak: shared.raise_peak(used),
            allocator: shared.host.allocator(),
            resident: shared.host.resident_bytes(),
        }
    }

    /// Data that is used and does not count for `maxmemory`: it is nobody's any more.
    pub(super) fn not_counted(&self) -> u64 {
        self.used.saturating_sub(self.live + self.clients + self.other)
    }
}

/// One number over another; 0 over nothing.
pub(super) fn ratio(number: u64, over: u64) -> f64 {
    if over == 0 { 0.0 } else { number as f64 / over as f64 }
}

/// Bytes of the tables of a database, entries apart.
fn table_bytes(cx: &mut SessionCx<'_, '_>, database: usize) -> u64 {
    let (shared, mut bytes, mut next) = (cx.shared, 0, 0);
    loop {
        let mut slot = None;
        cx.reader.section(&mut |section| {
            slot = shared.keyspace.next_nonempty_slot(database, next, section);
            if let Some(slot) = slot {
                bytes += shared.keyspace.table_shape(database, slot, section).bytes as u64;
            }
        });
        let Some(slot) = slot else { return bytes };
        next = slot.index() + 1;
        cx.reader.quiescent();
    }
}

/// Tables of databases that have keys, and how many keys there are.
fn tables(cx: &mut SessionCx<'_, '_>) -> (Vec<(usize, u64)>, u64) {
    let shared = cx.shared;
    let (mut tables, mut all_keys) = (Vec::new(), 0);
    for database in shared.keyspace.written(0..usize::MAX) {
        let mut keys = 0;
        cx.reader.section(&mut |section| keys = shared.keyspace.key_count(database, section));
        if keys > 0 {
            all_keys += keys;
            tables.push((database, table_bytes(cx, database)));
        }
    }
    (tables, all_keys)
}

/// A field of `MEMORY STATS`.
enum Field {
    Bytes(&'static str, u64),
    Ratio(&'static str, f64),
    /// A database's tables.
    Database(usize, u64),
}

impl Field {
    fn write(&self, reply: &mut ReplyBuffer) {
        match *self {
            Field::Bytes(name, bytes) => {
                reply.bulk(name);
                reply.integer(bytes as i64);
            }
            Field::Ratio(name, ratio) => {
                reply.bulk(name);
                reply.double(ratio);
            }
            Field::Database(database, bytes) => {
                reply.bulk(format!("db.{database}"));
                reply.map(2);
                reply.bulk("overhead.hashtable.main");
                reply.integer(bytes as i64);
                reply.bulk("overhead.hashtable.expires");
                // Expiries stand in the entries.
                reply.integer(0);
            }
        }
    }
}

pub(super) fn stats(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let usage = Usage::now(cx.shared);
    let (tables, keys) = tables(cx);
    let table_bytes: u64 = tables.iter().map(|(_, bytes)| bytes).sum();
    let Usage { live, clients, used, peak, allocator, resident, .. } = usage;
    let dataset = live.saturating_sub(table_bytes);
    let percent = |part: u64, whole: u64| ratio(part, whole) * 100.0;
    let AllocatorMemory { allocated_bytes, active_bytes, resident_bytes, muzzy_bytes } = allocator;
    let mut fields = vec![
        Field::Bytes("peak.allocated", peak),
        Field::Bytes("total.allocated", used),
        Field::Bytes("startup.allocated", 0),
    ];
    let absent = |name| Field::Bytes(name, 0);
    fields.extend(["replication.backlog", "replicas.repl.buffer", "clients.slaves"].map(absent));
    fields.push(Field::Bytes("clients.normal", clients));
    let others = ["cluster.links", "cluster.slot_import", "cluster.slot_export", "aof.buffer"];
    fields.extend(others.map(absent));
    fields.push(Field::Bytes("lua.caches", cx.shared.scripts.cache.bytes()));
    fields.push(Field::Bytes("functions.caches", cx.shared.scripts.functions.bytes()));
    fields.extend(tables.iter().map(|&(database, bytes)| Field::Database(database, bytes)));
    fields.extend([
        Field::Bytes("overhead.db.hashtable.lut", table_bytes),
        Field::Bytes("overhead.db.hashtable.rehashing", 0),
        Field::Bytes("overhead.total", used.saturating_sub(dataset)),
        Field::Bytes("db.dict.rehashing.count", 0),
        Field::Bytes("keys.count", keys),
        Field::Bytes("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0)),
        Field::Bytes("dataset.bytes", dataset),
        Field::Ratio("dataset.percentage", percent(dataset, used)),
        Field::Ratio("peak.percentage", percent(used, peak)),
        Field::Bytes("allocator.allocated", allocated_bytes),
        Field::Bytes("allocator.active", active_bytes),
        Field::Bytes("allocator.resident", resident_bytes),
        Field::Bytes("allocator.muzzy", muzzy_bytes),
        Field::Ratio("allocator-fragmentation.ratio", ratio(active_bytes, allocated_bytes)),
        Field::Bytes("allocator-fragmentation.bytes", active_bytes.saturating_sub(allocated_bytes)),
        Field::Ratio("allocator-rss.ratio", ratio(resident_bytes, active_bytes)),
        Field::Bytes("allocator-rss.bytes", resident_bytes.saturating_sub(active_bytes)),
        Field::Ratio("rss-overhead.ratio", ratio(resident, resident_bytes)),
        Field::Bytes("rss-overhead.bytes", resident.saturating_sub(resident_bytes)),
        Field::Ratio("fragmentation", ratio(resident, used)),
        Field::Bytes("fragmentation.bytes", resident.saturating_sub(used)),
    ]);
    cx.reply.map(fields.len());
    fields.iter().for_each(|field| field.write(cx.reply));
    Ok(())
}

/// Bytes below which nothing can be said about how well memory is used.
const JUDGED_BYTES_MIN: u64 = 5 << 20;
/// Bytes below which waste is not worth a word.
const WASTE_BYTES_MIN: u64 = 10 << 20;

/// Verdict on the use of memory, as text.
fn judge(usage: &Usage) -> String {
    let Usage { live, clients, other, used, peak, allocator, resident } = *usage;
    if used < JUDGED_BYTES_MIN {
        return "There is too little data to judge the use of memory by.\n".into();
    }
    let is_waste = |part: u64, over: u64, limit: f64| {
        part > over + WASTE_BYTES_MIN && ratio(part, over) > limit
    };
    let mut text = String::new();
    let mut say = |line: &str| text.extend(["- ", line, "\n"]);
    if is_waste(peak, used, 1.5) {
        say(
            "Peak: much more was used once than is now. The allocator may still hold pages of that \
             time; MEMORY PURGE gives them back.",
        );
    }
    if is_waste(allocator.active_bytes, allocator.allocated_bytes, 1.1) {
        say("Fragmentation: pages are partly empty. Values of many sizes that come and go leave \
             such gaps.");
    }
    if is_waste(allocator.resident_bytes, allocator.active_bytes, 1.1) {
        say("Unused pages: the allocator keeps pages that nothing stands on. MEMORY PURGE gives \
             them back.");
    }
    if is_waste(resident, allocator.resident_bytes, 1.1) {
        say("Process: memory beyond the allocator's is in use: stacks, code, mapped files.");
    }
    if is_waste(used, live + clients + other, 1.1) {
        say("Retired: much replaced data waits for readers that began before it was replaced. A \
             command that takes long holds it; see SLOWLOG GET.");
    }
    if text.is_empty() {
        return "No problem was found in the use of memory.\n".into();
    }
    format!("Problems were found in the use of memory:\n\n{text}")
}

pub(super) fn doctor(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let report = judge(&Usage::now(cx.shared));
    cx.reply.verbatim(*b"txt", report);
    Ok(())
}

pub(super) fn malloc_stats(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let report = cx.shared.host.allocator_report();
    cx.reply.verbatim(*b"txt", report);
    Ok(())
}

pub(super) fn purge(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.host.purge_memory();
    cx.reply.ok();
    Ok(())
}

/// Sizes are exact and known without a walk, so the number of samples is checked and not needed.
pub(super) fn usage(cx: &mut Cx<'_, '_>) -> Outcome {
    let mut index = 3;
    while index < cx.args.len() {
        if !is(cx.arg(index), "SAMPLES") || index + 1 == cx.args.len() {
            return Err(CommandError::Syntax.into());
        }
        if integer(cx.arg(index + 1))? < 0 {
            return Err(CommandError::Syntax.into());
        }
        index += 2;
    }
    match cx.peek(cx.arg(2)) {
        Some(entry) => cx.reply.integer(entry.total_bytes() as i64),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "MEMORY",
        &[
            ("DOCTOR", "What is wrong with the use of memory."),
            ("MALLOC-STATS", "What the allocator reports of itself."),
            ("PURGE", "Gives unused memory back to the system."),
            ("STATS", "How memory is used."),
            (
                "USAGE <key> [SAMPLES <count>]",
                "The bytes that a key and its value take; exact, whatever the count.",
            ),
        ],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_names_what_is_wasted() {
        let mib = |count: u64| count << 20;
        let allocator = AllocatorMemory {
            allocated_bytes: mib(100),
            active_bytes: mib(101),
            resident_bytes: mib(102),
            muzzy_bytes: 0,
        };
        let healthy = Usage {
            live: mib(59),
            clients: mib(40),
            other: 0,
            used: mib(100),
            peak: mib(100),
            allocator,
            resident: mib(103),
        };
        assert!(judge(&healthy).starts_with("No problem"), "{}", judge(&healthy));
        let usage = Usage { live: mib(10), peak: mib(300), resident: mib(400), ..healthy };
        let report = judge(&usage);
        let names = report.lines().filter_map(|line| line.strip_prefix("- ")?.split(':').next());
        assert_eq!(names.collect::<Vec<_>>(), ["Peak", "Process", "Retired"]);
        assert_eq!((healthy.not_counted(), usage.not_counted()), (mib(1), mib(50)));
        assert!(judge(&Usage { used: 1, ..usage }).contains("too little"));
    }
}
