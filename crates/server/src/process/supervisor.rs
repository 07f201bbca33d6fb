//! Telling a service manager when the server is ready and when it stops.

use sd_notify::NotifyState;

/// Supervisor that is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supervisor {
    None,
    Systemd,
}

impl Supervisor {
    /// The one that `supervised` asks for: `no`, `systemd`, or `auto`. systemd is there when it
    /// gave us an address.
    pub(crate) fn detect(wish: &str) -> Supervisor {
        let has_address = std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty());
        match wish {
            "systemd" | "auto" if has_address => Supervisor::Systemd,
            "systemd" => {
                log::warn!("systemd supervision requested, but NOTIFY_SOCKET is not found");
                Supervisor::None
            }
            _ => Supervisor::None,
        }
    }

    /// The name that `INFO` shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Supervisor::None => "no",
            Supervisor::Systemd => "systemd",
        }
    }

    pub(crate) fn tell_ready(self) {
        self.tell(&[NotifyState::Status("Ready to accept connections"), NotifyState::Ready]);
    }

    pub(crate) fn tell_stopping(self) {
        self.tell(&[NotifyState::Status("Stopping"), NotifyState::Stopping]);
    }

    fn tell(self, states: &[NotifyState<'_>]) {
        if self == Supervisor::Systemd
            && let Err(error) = sd_notify::notify(states)
        {
            log::warn!("systemd cannot be notified: {error}");
        }
    }
}
