//! Things by number, numbers reused.

/// A set of things by number.
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u64>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a thing in; its number.
    pub fn insert(&mut self, item: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() as u64 - 1
        });
        self.items[index as usize] = Some(item);
        index
    }

    /// The thing of a number.
    ///
    /// # Panics
    /// If the number is not in use.
    pub fn get_mut(&mut self, index: u64) -> &mut T {
        self.items[index as usize].as_mut().expect("a number in use")
    }

    /// The thing of a number, if there is one.
    pub fn get(&self, index: u64) -> Option<&T> {
        self.items.get(index as usize).and_then(Option::as_ref)
    }

    /// The thing of a number, if there is one.
    pub fn get_if(&mut self, index: u64) -> Option<&mut T> {
        self.items.get_mut(index as usize).and_then(Option::as_mut)
    }

    /// Takes a thing out.
    ///
    /// # Panics
    /// If the number is not in use.
    pub fn remove(&mut self, index: u64) -> T {
        self.free.push(index);
        self.items[index as usize].take().expect("a number in use")
    }

    /// Takes all out.
    pub fn drain(&mut self) -> Vec<T> {
        let items = self.items.iter_mut().filter_map(Option::take).collect();
        self.free = (0..self.items.len() as u64).rev().collect();
        items
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.len() == self.free.len()
    }
}
