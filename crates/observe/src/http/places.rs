//! Places for connections: when all are taken, a new client gets that of one that says nothing.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::AbortHandle;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    /// It has not sent a request.
    Nothing,
    /// It has had an answer, and has not asked again.
    Resting,
    /// A request is being answered.
    Asking,
}

struct Entry {
    number: u64,
    doing: Doing,
    task: Option<AbortHandle>,
}

/// The connections, oldest first.
#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    number: u64,
}

/// The places.
#[derive(Clone)]
pub struct Places {
    list: Arc<Mutex<List>>,
    most: usize,
}

/// A connection's place, given back when it is dropped.
pub struct Place {
    list: Arc<Mutex<List>>,
    number: u64,
}

fn locked(list: &Mutex<List>) -> std::sync::MutexGuard<'_, List> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Places for this many connections.
    pub fn new(most: usize) -> Places {
        Places { list: Arc::default(), most }
    }

    /// A place: a free one, or that of the oldest connection that has not sent a request, or else
    /// of the oldest that has none now, which ends. `None` if all are being answered.
    pub fn take(&self) -> Option<Arc<Place>> {
        let mut list = locked(&self.list);
        if list.entries.len() >= self.most {
            let idle = list.entries.iter().filter(|entry| entry.doing != Doing::Asking);
            let first = idle.min_by_key(|entry| (entry.doing, entry.number))?.number;
            let at = list.entries.iter().position(|entry| entry.number == first)?;
            if let Some(task) = list.entries.remove(at).task {
                task.abort();
            }
        }
        list.number += 1;
        let number = list.number;
        list.entries.push(Entry { number, doing: Doing::Nothing, task: None });
        Some(Arc::new(Place { list: self.list.clone(), number }))
    }
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        let mut list = locked(&self.list);
        if let Some(entry) = list.entries.iter_mut().find(|entry| entry.number == self.number) {
            change(entry);
        }
    }

    /// The task that serves the connection.
    pub fn served_by(&self, task: AbortHandle) {
        self.change(|entry| entry.task = Some(task));
    }

    /// A request has come.
    pub fn asks(&self) {
        self.change(|entry| entry.doing = Doing::Asking);
    }

    /// It has its answer.
    pub fn rests(&self) {
        self.change(|entry| entry.doing = Doing::Resting);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.list).entries.retain(|entry| entry.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_asks_nothing_gives_way() {
        let places = Places::new(3);
        let [first, second, third] = std::array::from_fn(|_| places.take().expect("free"));
        second.asks();
        third.asks();
        third.rests();
        let has =
            |place: &Place| locked(&places.list).entries.iter().any(|e| e.number == place.number);
        let fourth = places.take().expect("that of the first");
        assert!(!has(&first) && has(&third));
        fourth.asks();
        let fifth = places.take().expect("that of the third");
        assert!(!has(&third));
        fifth.asks();
        assert!(places.take().is_none(), "all are being answered");
        drop(second);
        assert!(places.take().is_some());
    }
}
