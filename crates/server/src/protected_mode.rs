//! `protected-mode`: a server without a password, which any client could use, serves its own host
//! alone.
//!
//! The origin of a client counts, not which of the server's addresses it connects to: a server that
//! listens everywhere still serves its own host over any of them. As in Valkey, connected clients
//! stay.

use crate::listen::Origin;

/// Text that a refused client is sent; the words are part of the protocol, Valkey 9.1's.
pub(crate) const REFUSAL: &str = "-DENIED Running in protected mode because protected mode is \
enabled and no password is set for the default user. In this mode connections are only accepted \
from the loopback interface. If you want to connect from external computers, you may adopt one of \
the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET \
protected-mode no' from the loopback interface by connecting from the same host the server is \
running, however MAKE SURE it's not publicly accessible from internet if you do so. Use CONFIG \
REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode \
by editing the configuration file, and setting the protected mode option to 'no', and then \
restarting the server. 3) If you started the server manually just for testing, restart it with \
the '--protected-mode no' option. 4) Set up an authentication password for the default user. \
NOTE: You only need to do one of the above things in order for the server to start accepting \
connections from the outside.\r\n";

/// True if a new connection is refused.
pub(crate) fn refuses(is_on: bool, has_password: bool, origin: &Origin) -> bool {
    let is_from_elsewhere = matches!(origin, Origin::Tcp { is_loopback: false, .. });
    is_on && !has_password && is_from_elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_of_other_hosts_are_refused_and_only_without_a_password() {
        let tcp = |is_loopback| {
            let text = String::new();
            Origin::Tcp { peer: text.clone(), local: text, is_loopback }
        };
        let unix = Origin::Unix { path: "/socket".into() };
        for (is_on, has_password, origin, is_refused) in [
            (true, false, tcp(false), true),
            (true, true, tcp(false), false),
            (false, false, tcp(false), false),
            (true, false, tcp(true), false),
            (true, false, unix, false),
        ] {
            assert_eq!(refuses(is_on, has_password, &origin), is_refused, "{origin:?}");
        }
    }
}
