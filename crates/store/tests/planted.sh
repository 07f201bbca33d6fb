#!/usr/bin/env bash
# Plants one bug at a time in a copy of the crate; each must make its test fail. `make planted-store`; an argument
# selects those whose name contains it.
set -euo pipefail
cd "$(dirname "$0")/../../.."
root=$PWD
copy=$root/target/planted-store
rm -rf "$copy"; mkdir -p "$copy"
cp -r Cargo.toml Cargo.lock clippy.toml crates "$copy"/
missed=0
only=${1:-}

loom() { RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$root/target/loom timeout 600 cargo test --quiet -p tidemill-store --lib --release -- word::model; }
model() { CARGO_TARGET_DIR=$root/target timeout 600 cargo test --quiet -p tidemill-store --test keyspace_model; }
unit() { CARGO_TARGET_DIR=$root/target timeout 600 cargo test --quiet -p tidemill-store --lib -- table; }
stress() { CARGO_TARGET_DIR=$root/target timeout 600 cargo test --quiet -p tidemill-store --test keyspace_stress -- --test-threads 1; }

flush() { CARGO_TARGET_DIR=$root/target timeout 600 cargo test --quiet -p tidemill-store --test flush_beside_readers; }

plant() { # plant NAME TEST FILE PERL-EXPRESSION
    [[ $1 == *$only* ]] || return 0
    local name=$1 test=$2 file=crates/store/src/$3 expression=$4
    perl -0pi -e "$expression" "$copy/$file"
    if cmp -s "$file" "$copy/$file"; then
        echo "NOT PLANTED   $name"; missed=1; return
    fi
    local status=0
    (cd "$copy" && "$test") >"$copy/log" 2>&1 || status=$?
    case $status in
    0) echo "NOT NOTICED   $name ($test)"; missed=1 ;;
    124) echo "TIMED OUT     $name ($test)"; missed=1 ;;
    *)
        if grep -q '^error\[' "$copy/log"; then
            echo "NOT COMPILED  $name"; missed=1
        else
            echo "noticed       $name ($test)"
        fi ;;
    esac
    cp "$file" "$copy/$file"
}

plant "no fence after the version turns odd" loom word.rs 's/(sees what is published next sees the odd version.\n\s*)fence\(Ordering::Release\);/$1/'
plant "a miss counts whatever the version" loom word.rs 's/(fn confirms_miss.*?\{\n\s*)self.is_unchanged\(now\)/$1true || self.is_unchanged(now)/s'
plant "a hit counts unless held afterwards" loom word.rs 's/!self.is_held\(\) && \(self.0 \^ now.0\) & HELD_COUNT == 0/!now.is_held()/'
plant "held only after the first publication" loom word/model.rs 's/(        slots.iter\(\).for_each\(\|slot\| slot.word.mark_held\(\)\);\n)(.*?slots\[0\].change\(1, 9\);\n)/$2$1/s'
plant "unlocked with Relaxed" loom word.rs 's/self.word.swap\(released, Ordering::SeqCst\)/self.word.swap(released, Ordering::Relaxed)/'
plant "locked with Relaxed" loom word.rs 's/Ordering::Acquire, Ordering::Relaxed\)/Ordering::Relaxed, Ordering::Relaxed)/'
plant "a waiter looks before it announces itself" loom word.rs 's/(        self.waiting.store\(1, Ordering::SeqCst\);\n\s*total_order_for_loom\(\);\n)(.*?;\n)/$2$1/s'
plant "the walk rounds a bucket's first hash down" model table/segment.rs 's/\(u128::from\(shifted\).div_ceil\(1 << depth\)\) as u64/shifted >> depth/'
plant "a walk takes a shared overflow bucket for its own" model table/segment.rs 's/self.home_of\(word, seed, section\) == Some\(home\)/word != 0/'
plant "unknown bits are taken for zero" unit table/known.rs 's/self.lowest \| u64::MAX.checked_shr\(self.count\).unwrap_or\(0\)/self.lowest/'
plant "moved entries keep the tag of the former depth" model table/rebuild.rs 's/let word = tagged\(word, known.lowest\(\), self.depth\);//'
plant "tails stay empty" unit table/known.rs 's/\.min\(TAIL_HASH_BITS_MAX\)/.min(0)/'
plant "an entry takes over the tail of the one before it" model table/segment.rs 's/self.set_tail\(KnownHash::whole\(hash\).tail\(depth\)\);//'
plant "moved entries leave their tails behind" model table/segment.rs 's/position.set_tail\(tail\);/position.set_tail(Tail::from_raw(0x7f));/'
plant "a longer chain spoils the tails" model table/bucket.rs 's/self.link.load\(Ordering::Relaxed\) \| \(index as u64 \+ 1\)/index as u64 + 1 | 0x7f << tail_shift(0)/'
plant "a resized segment is not retired" model table/root.rs 's/(None => self.divide.*?\}\n).*?unsafe \{ path.segment.retire\(heap\) \};/$1/s'
plant "a nested directory forgets the bits above it" model table/directory.rs 's/\(segment.prefix\(\) << base\) >>/segment.prefix() >>/'
plant "garbage is freed at once" stress heap.rs 's/self.retired.retire\(garbage\);/unsafe { garbage.free() };/; s/(\nuse std::cell)/\n#![allow(unsafe_code)]$1/'
plant "a hit counts unless held afterwards" stress word.rs 's/!self.is_held\(\) && \(self.0 \^ now.0\) & HELD_COUNT == 0/!now.is_held()/'
plant "a resize is published before it is built" stress table/rebuild.rs 's/moving.iter\(\).all/moving.iter().skip(1).all/'
plant "a detached database is free at once" flush keyspace.rs 's/heap.retire_uncounted\((unsafe \{ Garbage::new\(departing, 0, arrive\) \})\);/unsafe { $1.free() };/'
plant "a pinned version in a detached database is not looked for" flush detached.rs 's/stamp: pin::stamp\(\)/stamp: None/'
plant "a member does not wait while the gate is closed" flush gate.rs 's/if !is_closed.load\(Ordering::Acquire\)/if true/'
rm -rf "$copy"
exit "$missed"
