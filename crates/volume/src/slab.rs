//! Things by number, numbers reused.

/// A set of things by number.
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u64>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() as u64 - 1
        });
        self.items[index as usize] = Some(item);
        index
    }

    pub(crate) fn get_mut(&mut self, index: u64) -> &mut T {
        self.items[index as usize].as_mut().expect("a number in use")
    }

    pub(crate) fn get(&self, index: u64) -> Option<&T> {
        self.items.get(index as usize).and_then(Option::as_ref)
    }

    pub(crate) fn get_if(&mut self, index: u64) -> Option<&mut T> {
        self.items.get_mut(index as usize).and_then(Option::as_mut)
    }

    pub(crate) fn remove(&mut self, index: u64) -> T {
        self.free.push(index);
        self.items[index as usize].take().expect("a number in use")
    }

    /// Takes all out.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let items = self.items.iter_mut().filter_map(Option::take).collect();
        self.free = (0..self.items.len() as u64).rev().collect();
        items
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == self.free.len()
    }
}
