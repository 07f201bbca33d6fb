//! Replaying of a log at start, on the thread of the first worker, before there are clients.

use std::path::Path;
use std::sync::Arc;

use tidemill_engine::execute::{Batch, Requests, run_turn};
use tidemill_engine::shared::Shared;
use tidemill_engine::shared::clients::ClientOrigin;
use tidemill_engine::worker::Worker;
use tidemill_engine::worker::session::Session;
use tidemill_persist::append_only::Replay;
use tidemill_persist::disk::DiskFile;
use tidemill_persist::limits::{INSERTERS_MAX, REPLAY_BYTES};
use tidemill_persist::load::{LoadRules, load};
use tidemill_rcu::{Budget, Flavour};
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::request::{ArgumentView, RequestParser};
use tidemill_store::Member;

/// Executes the commands of a log. They are gathered, so that keys are looked ahead as those of a
/// pipeline are.
pub(crate) struct Replayer<'w, F: Flavour> {
    shared: &'w Arc<Shared>,
    worker: &'w mut Worker,
    reader: &'w mut Member<F>,
    session: Session,
    batch: Batch,
    reply: ReplyBuffer,
    commands: Vec<u8>,
}

impl<'w, F: Flavour> Replayer<'w, F> {
    /// A replayer of an empty server.
    pub(crate) fn new(
        shared: &'w Arc<Shared>,
        worker: &'w mut Worker,
        reader: &'w mut Member<F>,
    ) -> Replayer<'w, F> {
        let client = shared.clients.register(worker.index, ClientOrigin::default(), 0);
        worker.begin_replay();
        Replayer {
            session: Session::of_replay(client, &shared.users),
            shared,
            worker,
            reader,
            batch: Batch::default(),
            reply: ReplyBuffer::new(Protocol::Resp2),
            commands: Vec::new(),
        }
    }

    /// Ends the replaying. Returns the number of commands that were answered by an error.
    pub(crate) fn finish(mut self) -> u64 {
        self.flush();
        self.worker.end_replay(self.shared);
        self.shared.clients.unregister(self.session.id());
        self.worker.stats(self.shared).error_replies.value()
    }

    /// Executes what was gathered.
    fn flush(&mut self) {
        let commands = std::mem::take(&mut self.commands);
        let mut rest = &commands[..];
        // A long script takes several turns.
        while !rest.is_empty() || self.session.has_pending_script() {
            let Replayer { shared, worker, reader, session, batch, reply, .. } = self;
            reader.seat().enter();
            worker.boundary(shared);
            let requests = Requests::Unparsed(batch);
            let parser = &mut RequestParser::new();
            let turn = run_turn(shared, worker, session, *reader, requests, parser, rest, reply);
            rest = &rest[turn.consumed..];
            reader.seat().leave();
            reply.clear();
            reader.quiescent();
            worker.heap.retired().reclaim(reader.domain(), Budget::UNLIMITED);
        }
        self.commands = commands;
        self.commands.clear();
    }
}

impl<F: Flavour> Replay for Replayer<'_, F> {
    fn check(&self, arguments: &ArgumentView<'_>) -> Result<(), String> {
        let table = self.shared.commands;
        let text = |index| String::from_utf8_lossy(arguments.get(index)).into_owned();
        let Some(id) = table.find(arguments.get(0)) else {
            return Err(format!("unknown command '{}'", text(0)));
        };
        let mut command = table.command(id);
        if !command.subcommands.is_empty() && arguments.len() > 1 {
            let Some(id) = table.find_subcommand(command, arguments.get(1)) else {
                return Err(format!("unknown subcommand '{}'", text(1)));
            };
            command = table.command(id);
        }
        match command.takes(arguments.len()) {
            true => Ok(()),
            false => Err(format!("wrong number of arguments for '{}' command", command.name)),
        }
    }

    fn execute(&mut self, commands: &[u8]) {
        self.commands.extend_from_slice(commands);
        if self.commands.len() >= REPLAY_BYTES {
            self.flush();
        }
    }

    fn discard(&mut self) {
        self.flush();
        self.session.discard();
    }

    fn load_snapshot(&mut self, path: &Path, file: &dyn DiskFile) -> Result<u64, String> {
        let Replayer { shared, reader, .. } = self;
        let settings = shared.settings();
        let rules = LoadRules {
            keeps_expired: true,
            clock: shared.expiry_clock(),
            settings: &settings,
            verifies_checksum: settings.snapshot_checksum,
        };
        let inserter_count = shared.worker_count().min(INSERTERS_MAX);
        let domain = Arc::clone(reader.domain());
        let loaded = reader
            .offline(|| load(file, path, (shared, &domain), rules, inserter_count, &mut |_| {}));
        loaded.map(|loaded| loaded.bytes).map_err(|error| error.to_string())
    }
}
