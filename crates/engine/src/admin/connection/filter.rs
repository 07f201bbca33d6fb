//! Filter of clients, for `CLIENT LIST` and `CLIENT KILL`.
//!
//! Every term but `MAXAGE`, `IDLE` and `SKIPME` has a twin with `NOT-` before it: [`Filter`] holds
//! one set of terms that all must be true and one of which none may be. A term given twice counts
//! as given last; ids add up.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tidemill_resp::number::parse_integer;

use super::client::flags;
use crate::access::options::is;
use crate::access::session_context::SessionCx;
use crate::error::{CommandError, until_nul};
use crate::shared::clients::Client;

/// The letters that `flags=` may show in Valkey 9.1, in any server.
const FLAG_LETTERS: &[u8] = b"ABEIMNOPRSTUbcdeirtux";

/// The letters of capabilities: `r` for redirections.
const CAPABILITY_LETTERS: &[u8] = b"r";

/// Those clients to which everything given applies.
#[derive(Default)]
pub(super) struct Filter<'s> {
    wanted: Terms<'s>,
    unwanted: Terms<'s>,
    age_s_min: Option<i64>,
    idle_s_min: Option<i64>,
    skips_me: Option<bool>,
}

/// Terms as they were given. Names and addresses end at a NUL, as in Valkey.
#[derive(Default)]
struct Terms<'s> {
    /// May be empty, which no client's is in.
    ids: Option<HashSet<i64>>,
    kind: Option<ClientKind>,
    address: Option<&'s [u8]>,
    local_address: Option<&'s [u8]>,
    ip: Option<&'s [u8]>,
    user: Option<&'s [u8]>,
    name: Option<&'s [u8]>,
    library_name: Option<&'s [u8]>,
    library_version: Option<&'s [u8]>,
    flags: Option<&'s [u8]>,
    capabilities: Option<&'s [u8]>,
    database: Option<usize>,
}

impl<'s> Filter<'s> {
    /// Parses the arguments from index 2 on, of which there are none or at least two.
    pub(super) fn parse(cx: &SessionCx<'_, 's>) -> Result<Filter<'s>, CommandError> {
        let mut filter = Filter::default();
        let mut index = 2;
        if cx.args.len() == 3 {
            return Err(CommandError::Syntax);
        }
        while index < cx.args.len() {
            index += filter.add(cx, index)?;
        }
        Ok(filter)
    }

    /// `CLIENT KILL <address>`.
    pub(super) fn of_address(address: &'s [u8]) -> Filter<'s> {
        let wanted = Terms { address: Some(until_nul(address)), ..Terms::default() };
        Filter { wanted, ..Filter::default() }
    }

    /// Says whether the caller is spared when the arguments do not.
    pub(super) fn with_default_skipme(mut self, skips_me: bool) -> Filter<'s> {
        self.skips_me.get_or_insert(skips_me);
        self
    }

    /// Adds the term at `index`; tells how many arguments it takes.
    fn add(&mut self, cx: &SessionCx<'_, 's>, index: usize) -> Result<usize, CommandError> {
        let option = cx.arg(index);
        if is(option, "ID") {
            return self.wanted.add_ids(cx, index);
        }
        if is(option, "NOT-ID") {
            return self.unwanted.add_ids(cx, index);
        }
        if index + 1 == cx.args.len() {
            return Err(CommandError::Syntax);
        }
        let value = cx.arg(index + 1);
        match () {
            () if is(option, "MAXAGE") => self.age_s_min = Some(seconds("maxage", value)?),
            () if is(option, "IDLE") => self.idle_s_min = Some(seconds("idle", value)?),
            () if is(option, "SKIPME") => {
                self.skips_me = match () {
                    () if is(value, "yes") => Some(true),
                    () if is(value, "no") => Some(false),
                    () => return Err(CommandError::Syntax),
                };
            }
            () => {
                let is_negated = option.len() > 4 && is(&option[..4], "NOT-");
                match is_negated {
                    true => self.unwanted.add(cx, &option[4..], value, true)?,
                    false => self.wanted.add(cx, option, value, false)?,
                }
            }
        }
        Ok(2)
    }

    pub(super) fn accepts(&self, client: &Client, own_id: u64, now_ms: u64) -> bool {
        let elapsed_s = |since_ms: u64| (now_ms.saturating_sub(since_ms) / 1000) as i64;
        // Relaxed: for information only, as in a listing.
        let last_ms = client.last_command_ms.load(Ordering::Relaxed);
        !client.has_gone()
            && self.wanted.answers(client).into_iter().flatten().all(|is_true| is_true)
            && !self.unwanted.answers(client).into_iter().flatten().any(|is_true| is_true)
            && self.age_s_min.is_none_or(|least| elapsed_s(client.connected_ms) >= least)
            && self.idle_s_min.is_none_or(|least| elapsed_s(last_ms) >= least)
            && !(self.skips_me == Some(true) && client.id == own_id)
    }
}

impl<'s> Terms<'s> {
    /// Adds a term but `ID`; `name` is without `NOT-`.
    fn add(
        &mut self,
        cx: &SessionCx<'_, '_>,
        name: &[u8],
        value: &'s [u8],
        is_negated: bool,
    ) -> Result<(), CommandError> {
        let text = Some(until_nul(value));
        match () {
            () if is(name, "TYPE") => self.kind = Some(ClientKind::parse(value)?),
            () if is(name, "ADDR") => self.address = text,
            () if is(name, "LADDR") => self.local_address = text,
            () if is(name, "IP") => self.ip = text,
            () if is(name, "NAME") => self.name = text,
            () if is(name, "LIB-NAME") => self.library_name = Some(value),
            () if is(name, "LIB-VER") => self.library_version = Some(value),
            () if is(name, "USER") => {
                if cx.shared.users.find(value).is_none() {
                    return Err(CommandError::quoting("ERR No such user '", value, "'"));
                }
                self.user = text;
            }
            () if is(name, "FLAGS") => {
                check_letters(value, FLAG_LETTERS, "flags", is_negated)?;
                self.flags = text;
            }
            () if is(name, "CAPA") => {
                check_letters(value, CAPABILITY_LETTERS, "capa", is_negated)?;
                self.capabilities = text;
            }
            () if is(name, "DB") => {
                let count = cx.shared.keyspace.database_count();
                self.database = Some(database(value, count, is_negated)?);
            }
            () => return Err(CommandError::Syntax),
        }
        Ok(())
    }

    /// Adds the ids behind `index` up to the first argument that is no number; tells how many
    /// arguments that takes.
    fn add_ids(&mut self, cx: &SessionCx<'_, '_>, index: usize) -> Result<usize, CommandError> {
        let behind = index + 1..cx.args.len();
        let numbers = behind.map_while(|index| parse_integer(cx.arg(index)));
        let ids = self.ids.get_or_insert_default();
        let mut width = 1;
        for id in numbers {
            if id < 1 {
                return Err("ERR client-id should be greater than 0".into());
            }
            ids.insert(id);
            width += 1;
        }
        Ok(width)
    }

    /// Verdict of each given term on a client.
    fn answers(&self, client: &Client) -> [Option<bool>; 12] {
        // Relaxed: for information only, as in a listing.
        let database = client.database.load(Ordering::Relaxed);
        let texts = client.texts();
        // A text that was never set equals nothing, not even the empty one. Of names Valkey
        // compares C strings, of libraries all bytes.
        let is_text = |wanted: &[u8], text: &[u8]| !text.is_empty() && wanted == text;
        let is_name = |wanted| !texts.name.is_empty() && wanted == until_nul(&texts.name);
        [
            self.ids.as_ref().map(|ids| ids.contains(&(client.id as i64))),
            self.kind.map(|wanted| wanted == ClientKind::of(client)),
            self.address.map(|wanted| wanted == client.address.as_bytes()),
            self.local_address.map(|wanted| wanted == client.local_address.as_bytes()),
            self.ip.map(|wanted| wanted == ip(&client.address).as_bytes()),
            self.user.map(|wanted| wanted == client.user_name()),
            self.name.map(is_name),
            self.library_name.map(|wanted| is_text(wanted, &texts.library_name)),
            self.library_version.map(|wanted| is_text(wanted, &texts.library_version)),
            self.flags.map(|wanted| has_all(&flags(client), wanted)),
            self.capabilities.map(|wanted| has_all(client.capabilities(), wanted)),
            self.database.map(|wanted| wanted == database),
        ]
    }
}

fn has_all(letters: &str, wanted: &[u8]) -> bool {
    wanted.iter().all(|letter| letters.as_bytes().contains(letter))
}

/// An address without its port: `127.0.0.1:6379`, `[::1]:6379`, `/path:0`.
fn ip(address: &str) -> String {
    match address.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => address.rsplit_once(':').map_or(address, |(path, _)| path).to_owned(),
    }
}

/// Type of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientKind {
    Normal,
    /// It subscribes to something.
    PubSub,
    /// The other end of a replication; no client is.
    Replication,
}

impl ClientKind {
    fn parse(name: &[u8]) -> Result<ClientKind, CommandError> {
        match () {
            () if is(name, "normal") => Ok(ClientKind::Normal),
            () if is(name, "pubsub") => Ok(ClientKind::PubSub),
            () if ["replica", "slave", "master", "primary"].iter().any(|known| is(name, known)) => {
                Ok(ClientKind::Replication)
            }
            () => Err(CommandError::quoting("ERR Unknown client type '", name, "'")),
        }
    }

    fn of(client: &Client) -> ClientKind {
        if client.is_subscriber() { ClientKind::PubSub } else { ClientKind::Normal }
    }
}

fn check_letters(
    value: &[u8],
    known: &[u8],
    what: &str,
    is_negated: bool,
) -> Result<(), CommandError> {
    if until_nul(value).iter().all(|letter| known.contains(letter)) {
        return Ok(());
    }
    let filter =
        if is_negated { format!("NOT-{}", what.to_uppercase()) } else { "provided".to_owned() };
    let before = format!("ERR Unknown {what} found in the {filter} filter: ");
    Err(CommandError::quoting(&before, value, ""))
}

fn database(value: &[u8], count: usize, is_negated: bool) -> Result<usize, CommandError> {
    let option = if is_negated { "NOT-DB" } else { "DB" };
    let index =
        parse_integer(value).and_then(|value| i32::try_from(value).ok()).ok_or_else(|| {
            CommandError::err(format_args!("{option} is not an integer or out of range"))
        })?;
    usize::try_from(index).ok().filter(|&index| index < count).ok_or_else(|| {
        let last = count - 1;
        CommandError::err(format_args!("{option} number should be between 0 and {last}"))
    })
}

fn seconds(option: &str, value: &[u8]) -> Result<i64, CommandError> {
    match parse_integer(value) {
        None => Err(CommandError::err(format_args!("{option} is not an integer or out of range"))),
        Some(..1) => Err(CommandError::err(format_args!("{option} should be greater than 0"))),
        Some(seconds) => Ok(seconds),
    }
}
