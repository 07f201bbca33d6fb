//! Eviction of clients that together take more memory than `maxmemory-clients`.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use super::Shared;
use super::clients::Client;
use crate::slots::mailbox::Message;

impl Shared {
    /// Ends another client; its worker closes the connection by the message. A wait of its ends at
    /// once, so that nothing is given to it any more.
    pub(crate) fn end_client(&self, client: &Client, message: Message) {
        client.kill();
        // A wait that begins at this moment ends by itself: see `register`.
        if let Some(waiter) = client.waiter() {
            let _ = waiter.end();
        }
        self.mailboxes.post(client.owner(), message);
    }

    /// Evicts the largest clients of all workers until all together take no more than
    /// `limit_bytes`. Nothing that they send from now on is executed, but for that of `caller`,
    /// whose worker closes it behind its reply.
    ///
    /// Threads that choose at once do not evict twice for the same excess: both go down the same
    /// order, sizes and then ids, and what one of them has not seen go is at the head of its own.
    pub fn evict_clients(&self, limit_bytes: u64, caller: Option<u64>) {
        let mut clients = self.clients.all();
        clients.retain(|client| !client.is_ending());
        let mut sized: Vec<_> =
            clients.iter().map(|client| (client.memory_bytes(), client)).collect();
        let mut total_bytes: u64 = sized.iter().map(|(bytes, _)| bytes).sum();
        // Relaxed: a client that says so at this moment is early or late.
        sized.retain(|(_, client)| !client.no_evict.load(Ordering::Relaxed));
        sized.sort_unstable_by_key(|(bytes, client)| (Reverse(*bytes), client.id));
        for (bytes, client) in sized {
            if total_bytes <= limit_bytes {
                return;
            }
            total_bytes -= bytes;
            client.evict();
            let message = Message::Evict { session: client.id };
            if caller == Some(client.id) {
                self.mailboxes.post(client.owner(), message);
            } else {
                self.end_client(client, message);
            }
        }
    }
}
