//! `DEBUG` about the structures that data is made of. Valkey's are others: what tests read of them
//! is answered in its form.

use tidemill_store::value::{hash::Hash, set::Set, sorted_set::SortedSet};
use tidemill_store::{Encoding, EntryRef, SlotNumber, TableShape};

use crate::access::expiry::SlotJudge;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;
use crate::shared::clients::Client;
use crate::slots::registry::SlotRegistry;
use crate::worker::session::Session;

/// Entries of a bucket of a database's tables.
const BUCKET_ENTRIES: usize = 7;

/// `DEBUG HTSTATS`: sizes of a database's tables, all slots together. No table is ever between two
/// sizes.
pub(super) fn tables(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let shared = cx.shared;
    let database = usize::try_from(integer(cx.arg(2))?).ok();
    let database = database.filter(|&index| index < shared.keyspace.database_count());
    let database = database.ok_or(CommandError::from("ERR Out of range database"))?;
    let is_full = cx.args.len() == 4 && is(cx.arg(3), "full");
    let (mut shape, mut keys, mut expiring) = (TableShape::default(), 0, 0);
    cx.reader.section(&mut |section| {
        keys = shared.keyspace.key_count(database, section);
        expiring = shared.keyspace.expiring_count(database, section);
        for slot in (0..).map_while(SlotNumber::from_index) {
            let of_slot = shared.keyspace.table_shape(database, slot, section);
            shape.segments += of_slot.segments;
            shape.home_buckets += of_slot.home_buckets;
            shape.overflow_buckets += of_slot.overflow_buckets;
            shape.directories += of_slot.directories;
            shape.bytes += of_slot.bytes;
        }
    });
    let mut text = String::from("[Dictionary HT]\n");
    if keys > 0 {
        let places = BUCKET_ENTRIES * (shape.home_buckets + shape.overflow_buckets);
        text += &main_table(places as u64, keys);
        if is_full {
            text += &format!(
                " segments: {}\n directories: {}\n top-level buckets: {}\n child buckets: {}\n \
                 bytes: {}\n",
                shape.segments,
                shape.directories,
                shape.home_buckets,
                shape.overflow_buckets,
                shape.bytes,
            );
        }
    }
    text += "[Expires HT]\n";
    if expiring > 0 {
        text += &main_table(expiring, expiring);
    }
    cx.reply.verbatim(*b"txt", &text);
    Ok(())
}

fn main_table(places: u64, entries: u64) -> String {
    format!(
        "Hash table 0 stats (main hash table):\n table size: {places}\n number of entries: \
         {entries}\n rehashing index: -1\n"
    )
}

/// Result of `read` for a key's entry, without counting as a use.
fn look<T>(
    cx: &mut SessionCx<'_, '_>,
    read: impl Fn(EntryRef<'_>) -> T,
) -> Result<T, CommandError> {
    let (shared, database, key) = (cx.shared, cx.session.database, cx.arg(2));
    let key_hash = shared.keyspace.key_hash(key);
    let worker = &*cx.worker;
    let mut result = None;
    cx.reader.section(&mut |section| {
        let word = shared.keyspace.word(key_hash.slot);
        let judge = SlotJudge::unlocked(shared, worker, (word, word.load()));
        let entry = shared.keyspace.find(database, key_hash, key, section);
        let alive = entry.filter(|&entry| !(judge.is_over(entry) && judge.is_certain()));
        result = alive.map(&read);
    });
    result.ok_or(CommandError::from("ERR no such key"))
}

/// `DEBUG HTSTATS-KEY`: elements of a value that is a table in Valkey, and a tree here, which has
/// no free places.
pub(super) fn table_of(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let seed = cx.shared.keyspace.seed();
    let count = look(cx, |entry| match entry.encoding() {
        Encoding::Hashtable => {
            let of_hash = entry.view::<Hash<'_>>(seed).map(|hash| hash.len());
            of_hash.or_else(|| entry.view::<Set<'_>>(seed).map(|set| set.len()))
        }
        Encoding::Skiplist => entry.view::<SortedSet<'_>>(seed).map(|set| set.len()),
        _ => None,
    })?;
    let none = "ERR The value stored at the specified key is not represented using an hash table";
    let count = count.ok_or(CommandError::from(none))?;
    cx.reply.verbatim(*b"txt", main_table(count, count));
    Ok(())
}

/// `DEBUG SDSLEN`: lengths of a key and of its string, neither of which has unused bytes.
pub(super) fn string_lengths(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let key_bytes = cx.arg(2).len();
    let lengths = look(cx, |entry| {
        let is_text = matches!(entry.encoding(), Encoding::Raw | Encoding::Embstr);
        let length = entry.string().filter(|_| is_text).map(|string| string.len());
        length.map(|length| (length, entry.total_bytes()))
    })?;
    let (length, bytes) = lengths.ok_or(CommandError::from("ERR Not an sds encoded string."))?;
    cx.reply.simple_string(&format!(
        "key_sds_len:{key_bytes} key_sds_avail:0 obj_alloc:{bytes} val_sds_len:{length} \
         val_sds_avail:0 val_alloc:0"
    ));
    Ok(())
}

/// `DEBUG LISTPACK`. Valkey prints a listpack, of which there is none here: only the encoding is
/// checked.
pub(super) fn listpack(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if look(cx, |entry| entry.encoding())? != Encoding::Listpack {
        return Err("ERR Not a listpack encoded object.".into());
    }
    cx.reply.simple_string("Listpack structure printed on stdout");
    Ok(())
}

/// `DEBUG QUICKLIST`, likewise.
pub(super) fn quicklist(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if look(cx, |entry| entry.encoding())? != Encoding::Quicklist {
        return Err("ERR Not a quicklist encoded object.".into());
    }
    cx.reply.simple_string("Quicklist structure printed on stdout");
    Ok(())
}

/// `DEBUG STRUCTSIZE`.
pub(super) fn sizes(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.simple_string(&format!(
        "bits:{} session:{} client:{} slot_registry:{}",
        usize::BITS,
        size_of::<Session>(),
        size_of::<Client>(),
        size_of::<SlotRegistry>(),
    ));
    Ok(())
}
