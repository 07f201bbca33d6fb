//! Opens the connections of the load, at its start and again later.

use std::io;

use crate::load::cluster::NodeKeys;
use crate::load::connection::{Connection, MixPosition};
use crate::load::control::{Control, Stream};
use crate::load::keys::{KeySource, Random, below, mix};
use crate::load::settings::{End, Endpoint, Settings};
use crate::load::worker::Shared;

impl Shared {
    /// Endpoints that the clients of the load connect to: each to all of them.
    pub fn endpoints(&self) -> Vec<(Endpoint, Option<u16>)> {
        let settings = &self.settings;
        let Some(cluster) = &self.cluster else {
            return vec![(settings.target.endpoint.clone(), None)];
        };
        let nodes = cluster.nodes().into_iter().enumerate();
        let nodes = nodes.map(|(index, endpoint)| (endpoint, Some(index as u16)));
        nodes
            .filter(|(_, node)| node.is_some_and(|node| cluster.has_keys(node, &settings.keys)))
            .collect()
    }

    /// A socket whose handshake is done. Blocks.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn open_stream(&self, endpoint: &Endpoint) -> io::Result<Stream> {
        Control::connect_to(&self.settings.target, endpoint)?.into_stream()
    }

    /// A connection of client `number` to a server, or to a node of the cluster. Blocks.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn open(
        &self,
        number: u64,
        endpoint: &Endpoint,
        node: Option<u16>,
        limit: u64,
    ) -> io::Result<Connection> {
        let stream = self.open_stream(endpoint)?;
        let settings = &self.settings;
        let count = u64::from(settings.threads) * u64::from(settings.connections);
        let source = |pattern| {
            let source = KeySource::new(pattern, &settings.keys, number, count);
            match (&self.cluster, node) {
                (Some(cluster), Some(node)) => {
                    KeySource::OfNode(Box::new(NodeKeys::new(source, cluster.clone(), node)))
                }
                _ => source,
            }
        };
        let keys = settings.commands.iter().map(|command| match &command.replay {
            Some(replay) => KeySource::of_replay(replay, number, count),
            None => source(command.pattern),
        });
        let keys = keys.collect();
        let seed = if settings.seeds.distinct {
            mix(settings.seeds.run, number + 1)
        } else {
            mix(settings.seeds.run, 1)
        };
        // The connections of a client to other nodes draw other keys.
        let seed = node.map_or(seed, |node| mix(seed, u64::from(node)));
        let mut random = Random::new(seed);
        let mix_start = if settings.seeds.distinct {
            random_mix_position(settings, &mut random)
        } else {
            MixPosition::default()
        };
        let connection = Connection::new(stream, keys, random, mix_start);
        Ok(Connection { endpoint: endpoint.clone(), limit, ..connection })
    }

    /// The share of connection `index` of `count` in the requests of its client.
    pub fn request_limit(&self, index: usize, count: usize) -> u64 {
        match self.settings.end {
            End::Time(_) => u64::MAX,
            End::Requests(requests) => {
                let (index, count) = (index as u64, count as u64);
                requests / count + u64::from(index < requests % count)
            }
        }
    }
}

/// A random place in the mix, so that not all connections write at the same moment.
fn random_mix_position(settings: &Settings, random: &mut Random) -> MixPosition {
    let total: u64 = settings.commands.iter().map(|command| u64::from(command.ratio)).sum();
    let mut place = below(random, total.max(1));
    for (kind, command) in settings.commands.iter().enumerate() {
        if place < u64::from(command.ratio) {
            return MixPosition { kind, repeated: place as u32 };
        }
        place -= u64::from(command.ratio);
    }
    MixPosition::default()
}
