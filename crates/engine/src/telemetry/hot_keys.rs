//! Keys that took the most time or bytes (`HOTKEYS`).
//!
//! Each worker has a sketch of its own, which it alone adds to: weights of a number of keys among
//! which the heaviest surely are (space-saving: a key that finds no room takes the place of the
//! lightest one and inherits its weight, which is noted as its error). What a sketch tells of a key
//! is its weight without the error: at least that much was the key's own, so that keys of an even
//! load do not look hot.
//!
//! A worker that finds its sketch locked, as somebody reads it, leaves a sample out instead of
//! waiting. While nobody asked for hot keys, a batch costs one comparison.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{HOT_KEY_BYTES_MAX, HOT_KEY_PLACES};

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotKeysPlan {
    /// Time of commands.
    pub by_time: bool,
    /// Bytes of requests and replies.
    pub by_bytes: bool,
    /// Number of keys that are told.
    pub count: usize,
    /// Duration, ms; 0 is until it is stopped.
    pub duration_ms: u64,
    /// Number of samples of which one is taken.
    pub sample_ratio: u64,
    /// Unix time of the beginning, ms.
    pub started_ms: u64,
    /// Processor time of the process at the beginning, user and system, ms.
    pub cpu_ms: (u64, u64),
}

impl HotKeysPlan {
    /// Unix time from which on nothing is measured, ms.
    fn end_ms(&self) -> u64 {
        match self.duration_ms {
            0 => u64::MAX,
            duration_ms => self.started_ms.saturating_add(duration_ms),
        }
    }
}

/// A command, or several of which this one was chosen.
#[derive(Clone, Copy, Debug)]
pub struct HotSample {
    /// Unix time, ms.
    pub now_ms: u64,
    /// Their time, ns.
    pub ns: u64,
    /// Bytes of their requests and replies.
    pub bytes: u64,
}

/// Heaviest keys of a stream of keys with weights.
#[derive(Debug)]
struct SpaceSaving {
    /// Weights by place, apart from the rest: all are compared when one has to make room.
    weights: Vec<u64>,
    /// Keys by place, each with the weight that it inherited.
    keys: Vec<(Arc<[u8]>, u64)>,
    places: HashMap<Arc<[u8]>, usize>,
    places_max: usize,
}

impl SpaceSaving {
    fn new(places_max: usize) -> SpaceSaving {
        let (weights, keys) = (Vec::new(), Vec::new());
        SpaceSaving { weights, keys, places: HashMap::new(), places_max }
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        if weight == 0 {
            return;
        }
        if let Some(&place) = self.places.get(key) {
            self.weights[place] = self.weights[place].saturating_add(weight);
            return;
        }
        let key: Arc<[u8]> = key.into();
        let lightest = self.weights.iter().enumerate().min_by_key(|(_, weight)| **weight);
        let place = match lightest {
            Some((place, &inherited)) if self.weights.len() >= self.places_max => {
                self.places.remove(&self.keys[place].0);
                self.weights[place] = inherited.saturating_add(weight);
                self.keys[place] = (Arc::clone(&key), inherited);
                place
            }
            _ => {
                self.weights.push(weight);
                self.keys.push((Arc::clone(&key), 0));
                self.weights.len() - 1
            }
        };
        self.places.insert(key, place);
    }

    /// Adds what is surely each key's own.
    fn add_to(&self, sums: &mut HashMap<Arc<[u8]>, u64>) {
        for ((key, inherited), weight) in self.keys.iter().zip(&self.weights) {
            *sums.entry(Arc::clone(key)).or_default() += weight - inherited;
        }
    }
}

/// One worker's measurements.
#[derive(Debug)]
struct Sketch {
    plan: HotKeysPlan,
    by_time: SpaceSaving,
    by_bytes: SpaceSaving,
    /// Time and bytes of all commands with keys.
    ns: u64,
    bytes: u64,
    /// Sessions that waited for a slot, by slot.
    parks: BTreeMap<usize, u64>,
    /// State of the random numbers by which samples are taken.
    random: u64,
}

impl Sketch {
    fn new(plan: HotKeysPlan) -> Sketch {
        let places = plan.count * HOT_KEY_PLACES;
        Sketch {
            plan,
            by_time: SpaceSaving::new(places),
            by_bytes: SpaceSaving::new(places),
            ns: 0,
            bytes: 0,
            parks: BTreeMap::new(),
            random: plan.started_ms,
        }
    }

    /// True for one call of [`HotKeysPlan::sample_ratio`], at random.
    fn takes_sample(&mut self) -> bool {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).is_multiple_of(self.plan.sample_ratio)
    }

    fn add<'k>(&mut self, sample: HotSample, keys: impl ExactSizeIterator<Item = &'k [u8]>) {
        self.ns = self.ns.saturating_add(sample.ns);
        self.bytes = self.bytes.saturating_add(sample.bytes);
        if !self.takes_sample() {
            return;
        }
        let count = keys.len() as u64;
        for key in keys.filter(|key| key.len() <= HOT_KEY_BYTES_MAX) {
            if self.plan.by_time {
                self.by_time.add(key, sample.ns / count);
            }
            if self.plan.by_bytes {
                self.by_bytes.add(key, sample.bytes / count);
            }
        }
    }
}

/// Keys with their weights, the heaviest first.
pub type Heaviest = Vec<(Arc<[u8]>, u64)>;

/// Result of a measurement, or of its part so far.
#[derive(Debug)]
pub struct HotKeysReport {
    /// Its parameters.
    pub plan: HotKeysPlan,
    /// True if it goes on.
    pub is_active: bool,
    /// Duration so far, ms.
    pub elapsed_ms: u64,
    /// Time of all commands with keys, ns.
    pub ns: u64,
    /// Bytes of their requests and replies.
    pub bytes: u64,
    /// Keys by their time, ns.
    pub by_time: Heaviest,
    /// Keys by their bytes.
    pub by_bytes: Heaviest,
    /// Slots with the number of sessions that waited for them, the most first.
    pub parks: Vec<(usize, u64)>,
}

/// A measurement, running or over.
#[derive(Debug)]
struct Measurement {
    plan: HotKeysPlan,
    /// Duration, ms, if it was stopped.
    stopped_after_ms: Option<u64>,
}

impl Measurement {
    fn is_active(&self, now_ms: u64) -> bool {
        self.stopped_after_ms.is_none() && now_ms < self.plan.end_ms()
    }

    fn elapsed_ms(&self, now_ms: u64) -> u64 {
        let so_far_ms = now_ms.min(self.plan.end_ms()).saturating_sub(self.plan.started_ms);
        self.stopped_after_ms.unwrap_or(so_far_ms)
    }
}

/// The server's hot keys.
///
/// Locks in this order: the measurement, then sketches one by one.
#[derive(Debug)]
pub struct HotKeys {
    /// Written under the lock of the measurement, or of the sketch that found its time over.
    is_on: AtomicBool,
    measurement: Mutex<Option<Measurement>>,
    sketches: Box<[Mutex<Option<Sketch>>]>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HotKeys {
    /// No measurement, and room for one of each worker.
    #[must_use]
    pub fn new(worker_count: usize) -> HotKeys {
        HotKeys {
            is_on: AtomicBool::new(false),
            measurement: Mutex::default(),
            sketches: (0..worker_count).map(|_| Mutex::default()).collect(),
        }
    }

    /// True if workers are to tell what they execute.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed, here and below: a hint; what is measured is in the sketches, under their locks.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Begins a measurement; returns false if one is running.
    #[must_use]
    pub fn start(&self, plan: HotKeysPlan) -> bool {
        let mut measurement = lock(&self.measurement);
        let is_running = |running: &Measurement| running.is_active(plan.started_ms);
        if measurement.as_ref().is_some_and(is_running) {
            return false;
        }
        *measurement = Some(Measurement { plan, stopped_after_ms: None });
        for sketch in &self.sketches {
            *lock(sketch) = Some(Sketch::new(plan));
        }
        // Behind the sketches: no worker switches it off any more for one whose time is over.
        self.is_on.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the measurement; its result stays. Returns false if none is running.
    #[must_use]
    pub fn stop(&self, now_ms: u64) -> bool {
        let mut measurement = lock(&self.measurement);
        let running = measurement.as_mut().filter(|measurement| measurement.is_active(now_ms));
        let Some(running) = running else { return false };
        running.stopped_after_ms = Some(running.elapsed_ms(now_ms));
        self.is_on.store(false, Ordering::Relaxed);
        true
    }

    /// Forgets the result; returns false if a measurement is running.
    #[must_use]
    pub fn reset(&self, now_ms: u64) -> bool {
        let mut measurement = lock(&self.measurement);
        if measurement.as_ref().is_some_and(|measurement| measurement.is_active(now_ms)) {
            return false;
        }
        *measurement = None;
        self.is_on.store(false, Ordering::Relaxed);
        self.sketches.iter().for_each(|sketch| *lock(sketch) = None);
        true
    }

    /// A worker's sketch, if it is to add to it now.
    fn sketch(&self, worker: usize, now_ms: u64) -> Option<MutexGuard<'_, Option<Sketch>>> {
        // A reader has it: this sample is left out.
        let mut sketch = self.sketches[worker].try_lock().ok()?;
        let plan = sketch.as_mut()?.plan;
        if now_ms >= plan.end_ms() {
            self.is_on.store(false, Ordering::Relaxed);
            return None;
        }
        Some(sketch)
    }

    /// Notes a sample of what a worker executed, with its keys, one at least.
    pub fn note<'k>(
        &self,
        worker: usize,
        sample: HotSample,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
    ) {
        if let Some(mut sketch) = self.sketch(worker, sample.now_ms)
            && let Some(sketch) = sketch.as_mut()
        {
            sketch.add(sample, keys);
        }
    }

    /// Notes that a session of a worker waits for a slot.
    pub fn note_park(&self, worker: usize, slot: usize, now_ms: u64) {
        if let Some(mut sketch) = self.sketch(worker, now_ms)
            && let Some(sketch) = sketch.as_mut()
        {
            *sketch.parks.entry(slot).or_default() += 1;
        }
    }

    /// The result so far; none if nothing was measured.
    #[must_use]
    pub fn report(&self, now_ms: u64) -> Option<HotKeysReport> {
        let measurement = lock(&self.measurement);
        let measurement = measurement.as_ref()?;
        let (mut ns, mut bytes) = (0_u64, 0_u64);
        let (mut by_time, mut by_bytes) = (HashMap::new(), HashMap::new());
        let mut parks = BTreeMap::<usize, u64>::new();
        for sketch in &self.sketches {
            let sketch = lock(sketch);
            let Some(sketch) = sketch.as_ref() else { continue };
            ns = ns.saturating_add(sketch.ns);
            bytes = bytes.saturating_add(sketch.bytes);
            sketch.by_time.add_to(&mut by_time);
            sketch.by_bytes.add_to(&mut by_bytes);
            for (&slot, count) in &sketch.parks {
                *parks.entry(slot).or_default() += count;
            }
        }
        let count = measurement.plan.count;
        let mut parks: Vec<_> = parks.into_iter().collect();
        parks.sort_by_key(|&(slot, count)| (Reverse(count), slot));
        parks.truncate(count);
        Some(HotKeysReport {
            plan: measurement.plan,
            is_active: measurement.is_active(now_ms),
            elapsed_ms: measurement.elapsed_ms(now_ms),
            ns,
            bytes,
            by_time: heaviest(by_time, count),
            by_bytes: heaviest(by_bytes, count),
            parks,
        })
    }
}

fn heaviest(sums: HashMap<Arc<[u8]>, u64>, count: usize) -> Heaviest {
    let mut all: Heaviest = sums.into_iter().filter(|(_, weight)| *weight > 0).collect();
    all.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: HotKeysPlan = HotKeysPlan {
        by_time: true,
        by_bytes: true,
        count: 4,
        duration_ms: 0,
        sample_ratio: 1,
        started_ms: 1_000,
        cpu_ms: (0, 0),
    };

    fn note(hot_keys: &HotKeys, worker: usize, keys: &[&str], (ns, bytes): (u64, u64)) {
        let sample = HotSample { now_ms: 1_001, ns, bytes };
        hot_keys.note(worker, sample, keys.iter().map(|key| key.as_bytes()));
    }

    fn shown(heaviest: &Heaviest) -> Vec<(String, u64)> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        heaviest.iter().map(|(key, weight)| (text(key), *weight)).collect()
    }

    #[test]
    fn weights_of_all_workers_are_summed_and_divided_among_keys() {
        let hot_keys = HotKeys::new(2);
        assert!(hot_keys.report(1_000).is_none());
        assert!(hot_keys.start(PLAN));
        assert!(!hot_keys.start(PLAN), "one is running");
        note(&hot_keys, 0, &["a"], (100, 10));
        note(&hot_keys, 1, &["a", "b"], (60, 200));
        let report = hot_keys.report(1_500).expect("it is running");
        assert_eq!((report.ns, report.bytes, report.elapsed_ms), (160, 210, 500));
        assert_eq!(shown(&report.by_time), [("a".into(), 130), ("b".into(), 30)]);
        assert_eq!(shown(&report.by_bytes), [("a".into(), 110), ("b".into(), 100)]);
    }

    #[test]
    fn heavy_keys_stay_among_many_light_ones_which_do_not_look_heavy() {
        let hot_keys = HotKeys::new(1);
        assert!(hot_keys.start(PLAN));
        for number in 0..10_000 {
            note(&hot_keys, 0, &["heavy"], (10, 1));
            note(&hot_keys, 0, &[&format!("light{number}")], (10, 1));
        }
        let report = hot_keys.report(1_500).expect("it is running");
        let by_time = shown(&report.by_time);
        assert_eq!(by_time.len(), 4);
        assert_eq!(by_time[0], ("heavy".into(), 100_000));
        assert!(by_time[1..].iter().all(|(_, weight)| *weight == 10), "{by_time:?}");
        let sketch = lock(&hot_keys.sketches[0]);
        let places = sketch.as_ref().map(|sketch| sketch.by_time.places.len());
        assert_eq!(places, Some(PLAN.count * HOT_KEY_PLACES));
    }

    #[test]
    fn long_keys_are_left_out_and_samples_taken_by_their_ratio() {
        let hot_keys = HotKeys::new(1);
        assert!(hot_keys.start(HotKeysPlan { sample_ratio: 10, ..PLAN }));
        let long = "x".repeat(HOT_KEY_BYTES_MAX + 1);
        for _ in 0..10_000 {
            note(&hot_keys, 0, &["k", &long], (2, 2));
        }
        let report = hot_keys.report(1_500).expect("it is running");
        assert_eq!(report.ns, 20_000, "all count in the total");
        let by_time = shown(&report.by_time);
        assert_eq!(by_time.len(), 1);
        assert!((800..1_200).contains(&by_time[0].1), "{by_time:?}");
    }

    #[test]
    fn measurement_ends_by_its_duration_or_is_stopped_and_its_result_stays() {
        let hot_keys = HotKeys::new(1);
        assert!(hot_keys.start(HotKeysPlan { duration_ms: 100, ..PLAN }));
        note(&hot_keys, 0, &["k"], (1, 1));
        assert!(!hot_keys.reset(1_050), "it is running");
        let late = HotSample { now_ms: 1_100, ns: 7, bytes: 7 };
        hot_keys.note(0, late, std::iter::once(&b"late"[..]));
        assert!(!hot_keys.is_on());
        let report = hot_keys.report(5_000).expect("its result stays");
        assert_eq!((report.is_active, report.elapsed_ms, report.ns), (false, 100, 1));
        assert!(!hot_keys.stop(5_000), "it is over");

        let next = HotKeysPlan { started_ms: 1_100, ..PLAN };
        assert!(hot_keys.start(next), "after one whose time is over");
        assert!(hot_keys.is_on());
        hot_keys.note_park(0, 7, 1_110);
        assert!(hot_keys.stop(1_120));
        let report = hot_keys.report(9_000).expect("its result stays");
        assert_eq!((report.elapsed_ms, report.parks), (20, vec![(7, 1)]));
        assert!(report.by_time.is_empty(), "that of the one before is forgotten");
        assert!(hot_keys.reset(9_000));
        assert!(hot_keys.report(9_000).is_none());
    }
}
