//! Persistent map: a clone costs one pointer, and a change of the clone copies the path to the
//! changed entry alone.
//!
//! It is a treap: a search tree by key and a heap by priority, which is a hash of the key with a
//! secret, so that its depth is logarithmic whatever the keys are. Clones share nodes. A change
//! copies a node that another clone has as well ([`Arc::make_mut`]), so no reader of another clone
//! sees it. Rejected: a `BTreeMap`, whose clone copies all entries, and a trie of hashes, since
//! the entries are listed in order.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Node<V> {
    key: Arc<[u8]>,
    value: V,
    /// At least those of its children.
    priority: u64,
    left: Tree<V>,
    right: Tree<V>,
}

type Tree<V> = Option<Arc<Node<V>>>;

/// Map from texts to values, in the order of the texts.
#[derive(Clone, Debug)]
pub(super) struct PersistentMap<V> {
    root: Tree<V>,
    count: usize,
    secret: RandomState,
}

impl<V> Default for PersistentMap<V> {
    fn default() -> PersistentMap<V> {
        PersistentMap { root: None, count: 0, secret: RandomState::new() }
    }
}

impl<V: Clone> PersistentMap<V> {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        let mut tree = &self.root;
        while let Some(node) = tree {
            tree = match key.cmp(&node.key) {
                Ordering::Less => &node.left,
                Ordering::Greater => &node.right,
                Ordering::Equal => return Some(&node.value),
            };
        }
        None
    }

    /// Values in the order of their keys.
    pub(super) fn values(&self) -> Values<'_, V> {
        let mut values = Values { ahead: Vec::new(), count: self.count };
        values.descend(&self.root);
        values
    }

    /// Sets the value of a key.
    pub(super) fn insert(&mut self, key: &[u8], value: V) {
        self.remove(key);
        let priority = self.secret.hash_one(key);
        let node = Node { key: key.into(), value, priority, left: None, right: None };
        insert(&mut self.root, node);
        self.count += 1;
    }

    /// Removes a key and returns its value.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        // Without it, the path to an absent key would be copied.
        self.get(key)?;
        self.count -= 1;
        remove(&mut self.root, key)
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        (self.root, self.count) = (None, 0);
    }
}

/// Adds a node whose key is not in the tree.
fn insert<V: Clone>(tree: &mut Tree<V>, mut new: Node<V>) {
    match tree {
        Some(node) if node.priority >= new.priority => {
            let node = Arc::make_mut(node);
            let side = if new.key < node.key { &mut node.left } else { &mut node.right };
            insert(side, new);
        }
        _ => {
            (new.left, new.right) = split(tree.take(), &new.key);
            *tree = Some(Arc::new(new));
        }
    }
}

/// Nodes below a key, and those above it.
fn split<V: Clone>(tree: Tree<V>, key: &[u8]) -> (Tree<V>, Tree<V>) {
    let Some(mut root) = tree else { return (None, None) };
    let node = Arc::make_mut(&mut root);
    if *node.key < *key {
        let (below, above) = split(node.right.take(), key);
        node.right = below;
        (Some(root), above)
    } else {
        let (below, above) = split(node.left.take(), key);
        node.left = above;
        (below, Some(root))
    }
}

fn remove<V: Clone>(tree: &mut Tree<V>, key: &[u8]) -> Option<V> {
    let node = Arc::make_mut(tree.as_mut()?);
    match key.cmp(&node.key) {
        Ordering::Less => remove(&mut node.left, key),
        Ordering::Greater => remove(&mut node.right, key),
        Ordering::Equal => {
            let value = node.value.clone();
            *tree = join(node.left.take(), node.right.take());
            Some(value)
        }
    }
}

/// Tree of two, all keys of the first one being below those of the second one.
fn join<V: Clone>(left: Tree<V>, right: Tree<V>) -> Tree<V> {
    let (mut left, mut right) = match (left, right) {
        (None, other) | (other, None) => return other,
        (Some(left), Some(right)) => (left, right),
    };
    if left.priority >= right.priority {
        let node = Arc::make_mut(&mut left);
        node.right = join(node.right.take(), Some(right));
        Some(left)
    } else {
        let node = Arc::make_mut(&mut right);
        node.left = join(Some(left), node.left.take());
        Some(right)
    }
}

/// Values in the order of their keys.
#[derive(Debug)]
pub(super) struct Values<'m, V> {
    /// Nodes that come with all to their right, the next one last.
    ahead: Vec<&'m Node<V>>,
    count: usize,
}

impl<'m, V> Values<'m, V> {
    fn descend(&mut self, mut tree: &'m Tree<V>) {
        while let Some(node) = tree {
            self.ahead.push(node);
            tree = &node.left;
        }
    }
}

impl<'m, V> Iterator for Values<'m, V> {
    type Item = &'m V;

    fn next(&mut self) -> Option<&'m V> {
        let node = self.ahead.pop()?;
        self.count -= 1;
        self.descend(&node.right);
        Some(&node.value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl<V> ExactSizeIterator for Values<'_, V> {}

#[cfg(test)]
impl<V> PersistentMap<V> {
    /// Number of nodes that another map does not share.
    pub(super) fn nodes_beside(&self, other: &PersistentMap<V>) -> usize {
        fn visit<V>(tree: &Tree<V>, look: &mut impl FnMut(*const Node<V>)) {
            if let Some(node) = tree {
                look(Arc::as_ptr(node));
                visit(&node.left, look);
                visit(&node.right, look);
            }
        }
        let (mut shared, mut count) = (std::collections::HashSet::new(), 0);
        visit(&other.root, &mut |node| {
            shared.insert(node);
        });
        visit(&self.root, &mut |node| count += usize::from(!shared.contains(&node)));
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Changes of a map and of a `BTreeMap`, which are to agree, and so are all earlier clones.
    #[test]
    fn map_and_its_earlier_clones_have_what_a_btreemap_has() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut map, mut model) = (PersistentMap::default(), BTreeMap::new());
        let mut clones = Vec::new();
        for step in 0..3_000 {
            let key = random.u8(..60).to_string().into_bytes();
            if random.u8(..3) > 0 {
                map.insert(&key, step);
                model.insert(key, step);
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
            if step % 10 == 0 {
                clones.push((map.clone(), model.clone()));
            }
        }
        clones.push((map, model));
        for (map, model) in clones {
            assert_eq!(map.len(), model.len());
            assert_eq!(map.values().len(), model.len());
            assert!(map.values().eq(model.values()));
            assert!(model.iter().all(|(key, value)| map.get(key) == Some(value)));
            assert_eq!(map.get(b"absent"), None);
        }
    }

    #[test]
    fn change_of_a_clone_copies_a_path() {
        let mut map = PersistentMap::default();
        for number in 0..100_000_u32 {
            map.insert(&number.to_be_bytes(), number);
        }
        let before = map.clone();
        map.insert(b"one more", 0);
        map.remove(&77_777_u32.to_be_bytes());
        map.insert(&55_555_u32.to_be_bytes(), 1);
        // A path has some 20 nodes, and rarely thrice as many.
        let count = map.nodes_beside(&before);
        assert!((1..300).contains(&count), "{count}");
        map.remove(b"absent");
        assert_eq!(map.nodes_beside(&map.clone()), 0);
        let copied = before.clone();
        map.clear();
        assert_eq!((map.len(), before.len(), before.nodes_beside(&copied)), (0, 100_000, 0));
    }
}
