//! Commands on sorted sets.

mod add;
mod bounds;
mod combine;
mod declarations;
mod encoding;
mod pieces;
mod pop;
mod random;
mod range;
mod read;
mod remove;
mod sift;
mod source;
mod store;
mod write_run;

pub(super) use add::{Options as AddOptions, add_and_answer};
pub(super) use encoding::Limits;
pub(super) use store::store;

use crate::access::handler::Handler;
use crate::access::write_run::WriteRunCommands;
use crate::command::{Command, WriteRunFamily};

use declarations::*;

/// Commands that may follow each other in a run.
pub(crate) const WRITE_RUN: WriteRunCommands =
    (WriteRunFamily::SortedSets, &[&ZADD, &ZINCRBY, &ZREM], write_run::add_and_remove);

/// Commands of the family, subcommands included, with their handlers.
pub(crate) const HANDLERS: &[(&Command, Handler)] = &[
    (&ZADD, Handler::Keyed(add::zadd)),
    (&ZINCRBY, Handler::Keyed(add::zincrby)),
    (&ZCARD, Handler::Keyed(read::zcard)),
    (&ZSCORE, Handler::Keyed(read::zscore)),
    (&ZMSCORE, Handler::Keyed(read::zmscore)),
    (&ZRANK, Handler::Keyed(read::zrank)),
    (&ZREVRANK, Handler::Keyed(read::zrank)),
    (&ZCOUNT, Handler::Keyed(read::zcount)),
    (&ZLEXCOUNT, Handler::Keyed(read::zlexcount)),
    (&ZRANGE, Handler::Keyed(range::zrange)),
    (&ZREVRANGE, Handler::Keyed(range::zrange)),
    (&ZRANGEBYSCORE, Handler::Keyed(range::zrange)),
    (&ZREVRANGEBYSCORE, Handler::Keyed(range::zrange)),
    (&ZRANGEBYLEX, Handler::Keyed(range::zrange)),
    (&ZREVRANGEBYLEX, Handler::Keyed(range::zrange)),
    (&ZREM, Handler::Keyed(remove::zrem)),
    (&ZREMRANGEBYRANK, Handler::Keyed(remove::zremrange)),
    (&ZREMRANGEBYSCORE, Handler::Keyed(remove::zremrange)),
    (&ZREMRANGEBYLEX, Handler::Keyed(remove::zremrange)),
    (&ZPOPMIN, Handler::Keyed(pop::zpop)),
    (&ZPOPMAX, Handler::Keyed(pop::zpop)),
    (&ZMPOP, Handler::Keyed(pop::zmpop)),
    (&BZPOPMIN, Handler::Keyed(pop::bzpop)),
    (&BZPOPMAX, Handler::Keyed(pop::bzpop)),
    (&BZMPOP, Handler::Keyed(pop::bzmpop)),
    (&ZSCAN, Handler::Keyed(read::zscan)),
    (&ZRANDMEMBER, Handler::Keyed(random::zrandmember)),
    (&ZRANGESTORE, Handler::Keyed(range::zrangestore)),
    (&ZINTERCARD, Handler::Keyed(combine::zintercard)),
    (&ZUNION, Handler::Keyed(combine::combine)),
    (&ZUNIONSTORE, Handler::Keyed(combine::combine_and_store)),
    (&ZINTER, Handler::Keyed(combine::combine)),
    (&ZINTERSTORE, Handler::Keyed(combine::combine_and_store)),
    (&ZDIFF, Handler::Keyed(combine::combine)),
    (&ZDIFFSTORE, Handler::Keyed(combine::combine_and_store)),
];
