//! The claim of a domain: which RCU domain the keyspaces of the process are read under.
//!
//! See [`member`](crate::member) for the reason why there is one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidemill_rcu::DomainId;

/// Reason why a thread cannot join a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The keyspace, or another one of the process, is read under another domain.
    OtherDomain,
    /// All seats are taken.
    Full,
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            JoinError::OtherDomain => {
                "the keyspaces of this process are read under another RCU domain"
            }
            JoinError::Full => "too many threads use the keyspace",
        })
    }
}

impl std::error::Error for JoinError {}

/// Domain under which keyspaces are read. Alive while any of their keyspaces, members or heaps is.
#[derive(Debug)]
pub(crate) struct Claim {
    domain: DomainId,
}

/// Claim of the process's domain.
static CLAIM: Mutex<Weak<Claim>> = Mutex::new(Weak::new());

impl Claim {
    /// The process's claim, made if there was none; an error if it is of another domain.
    pub(crate) fn of_process(domain: DomainId) -> Result<Arc<Claim>, JoinError> {
        let mut current = CLAIM.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claim) = current.upgrade() {
            return if claim.domain == domain { Ok(claim) } else { Err(JoinError::OtherDomain) };
        }
        let claim = Arc::new(Claim { domain });
        *current = Arc::downgrade(&claim);
        Ok(claim)
    }

    /// Claim that is not the process's.
    pub(crate) fn beside(domain: DomainId) -> Arc<Claim> {
        Arc::new(Claim { domain })
    }

    pub(crate) fn is_of(&self, domain: &DomainId) -> bool {
        self.domain == *domain
    }
}
