//! The users of a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::rules::{ChannelsOfNewUsers, RuleError, Rules};
use super::user::User;
use crate::command::CommandTable;

/// The user of connections that have not authenticated.
pub const DEFAULT_NAME: &[u8] = b"default";

/// A name's place among the users. It outlives its user's replacements, and its deletion where
/// somebody still holds it.
#[derive(Debug)]
pub struct Account {
    user: RwLock<Arc<User>>,
    is_deleted: AtomicBool,
}

impl Account {
    fn new(user: User) -> Arc<Account> {
        let user = RwLock::new(Arc::new(user));
        Arc::new(Account { user, is_deleted: AtomicBool::new(false) })
    }

    /// Its user now. Its lock is a leaf: nothing is waited for under it.
    #[must_use]
    pub fn user(&self) -> Arc<User> {
        Arc::clone(&self.user.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// True once it was deleted: its clients are to end.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        // Acquire: pairs with the Release in `delete`. A session that makes itself known as a
        // client of the account, and looks here then, sees the deletion or is seen by the deleter.
        self.is_deleted.load(Ordering::Acquire)
    }

    /// Replaces the user; true if it lost channels.
    fn set(&self, user: User) -> bool {
        let mut own = self.user.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *own, Arc::new(user));
        !own.keeps_channels_of(&before)
    }

    fn delete(&self) {
        // Release: pairs with the Acquire in `is_deleted`.
        self.is_deleted.store(true, Ordering::Release);
    }
}

/// Accounts whose clients are concerned when all users are replaced.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    /// Accounts that are gone.
    pub(crate) deleted: Vec<Arc<Account>>,
    /// Accounts of users who lost channels.
    pub(crate) revoked: Vec<Arc<Account>>,
}

type Accounts = HashMap<Box<[u8]>, Arc<Account>>;

/// The users of a server.
#[derive(Debug)]
pub struct Users {
    commands: &'static CommandTable,
    accounts: RwLock<Accounts>,
    /// Of connections that have not authenticated; never deleted.
    default: Arc<Account>,
    version: AtomicU64,
}

impl Users {
    /// The default user alone, who may do everything.
    #[must_use]
    pub fn new(commands: &'static CommandTable) -> Users {
        let default = Account::new(User::everything(commands, DEFAULT_NAME));
        let accounts = HashMap::from([(DEFAULT_NAME.into(), Arc::clone(&default))]);
        Users { commands, accounts: RwLock::new(accounts), default, version: AtomicU64::new(0) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Accounts> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Accounts> {
        self.accounts.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of the commands that rules name.
    #[must_use]
    pub fn commands(&self) -> &'static CommandTable {
        self.commands
    }

    /// Changes after each change of a user.
    #[must_use]
    #[inline]
    pub fn version(&self) -> u64 {
        // Acquire: pairs with the Release in `changed`: who sees the number sees the users.
        self.version.load(Ordering::Acquire)
    }

    fn changed(&self) {
        // Release: pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The account of connections that have not authenticated.
    #[must_use]
    pub fn default_account(&self) -> &Arc<Account> {
        &self.default
    }

    /// The account of a name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.read().get(name).cloned()
    }

    /// All users, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<User>> {
        let mut all: Vec<Arc<User>> = self.read().values().map(|account| account.user()).collect();
        all.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// The account that a name and a password open.
    #[must_use]
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<Account>> {
        self.find(name).filter(|account| account.user().accepts(password))
    }

    /// Makes or changes a user by rules: all of them or none. Returns the account of one who lost
    /// channels: the caller ends its clients that are subscribed to any of these.
    ///
    /// # Errors
    ///
    /// The first rule that is none.
    pub(crate) fn set<'r>(
        &self,
        name: &[u8],
        channels: ChannelsOfNewUsers,
        rules: &'r Rules<'_>,
    ) -> Result<Option<Arc<Account>>, (&'r [u8], RuleError)> {
        // Held throughout, so that of two changes of one user none is lost.
        let mut accounts = self.write();
        let known = accounts.get(name);
        let before = match known {
            Some(account) => User::clone(&account.user()),
            None => User::new(self.commands, name, channels),
        };
        let user = before.with_rules(self.commands, channels, rules)?;
        let revoked = match known {
            Some(account) => account.set(user).then(|| Arc::clone(account)),
            None => {
                accounts.insert(name.into(), Account::new(user));
                None
            }
        };
        self.changed();
        Ok(revoked)
    }

    /// A user made by rules, which is not among the users yet.
    pub(super) fn make<'r>(
        &self,
        name: &[u8],
        channels: ChannelsOfNewUsers,
        rules: &'r Rules<'_>,
    ) -> Result<User, (&'r [u8], RuleError)> {
        User::new(self.commands, name, channels).with_rules(self.commands, channels, rules)
    }

    /// Deletes a user. The caller ends the clients of the account.
    ///
    /// # Panics
    ///
    /// For the default user, who cannot be deleted.
    #[must_use]
    pub fn delete(&self, name: &[u8]) -> Option<Arc<Account>> {
        assert!(name != DEFAULT_NAME, "the default user stays");
        let account = self.write().remove(name)?;
        account.delete();
        self.changed();
        Some(account)
    }

    /// Puts users in the place of all. Without one for connections that have not authenticated,
    /// that one may do everything. The caller ends clients of accounts that are gone or lost
    /// channels.
    #[must_use]
    pub(crate) fn replace(&self, users: Vec<User>) -> Replaced {
        let mut accounts = self.write();
        let mut former = std::mem::take(&mut *accounts);
        let mut revoked = Vec::new();
        let is_default = |user: &User| *user.name == *DEFAULT_NAME;
        let default =
            (!users.iter().any(is_default)).then(|| User::everything(self.commands, DEFAULT_NAME));
        for user in users.into_iter().chain(default) {
            let name = user.name.clone();
            let account = match former.remove(&name) {
                Some(account) => {
                    revoked.extend(account.set(user).then(|| Arc::clone(&account)));
                    account
                }
                None => Account::new(user),
            };
            accounts.insert(name, account);
        }
        let deleted: Vec<Arc<Account>> = former.into_values().collect();
        deleted.iter().for_each(|account| account.delete());
        self.changed();
        Replaced { deleted, revoked }
    }

    /// Changes users and adds others, as a server's start does; the others stay.
    pub(crate) fn add(&self, users: Vec<User>) {
        let mut accounts = self.write();
        for user in users {
            match accounts.get(&user.name) {
                Some(account) => drop(account.set(user)),
                None => drop(accounts.insert(user.name.clone(), Account::new(user))),
            }
        }
        self.changed();
    }

    /// `requirepass`: gives the default user this password alone; none when it is empty.
    pub(crate) fn set_default_password(&self, password: &[u8]) {
        let rule = match password {
            [] => b"nopass".to_vec(),
            password => [b">", password].concat(),
        };
        let words = [&b"resetpass"[..], &rule];
        let rules = Rules::of(&words).expect("no selector is opened");
        let is_set = self.set(DEFAULT_NAME, ChannelsOfNewUsers::None, &rules);
        is_set.expect("rules about passwords alone are right");
    }
}
