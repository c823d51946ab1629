//! Items by number; numbers are used again.

/// A set of items by number.
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
    /// Inserts an item and returns its number.
    pub fn insert(&mut self, item: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() as u64 - 1
        });
        self.items[index as usize] = Some(item);
        index
    }

    /// The item of this number.
    ///
    /// # Panics
    /// If the number is not in use.
    pub fn get_mut(&mut self, index: u64) -> &mut T {
        self.items[index as usize].as_mut().expect("a number in use")
    }

    /// The item of this number, if there is one.
    pub fn get(&self, index: u64) -> Option<&T> {
        self.items.get(index as usize).and_then(Option::as_ref)
    }

    /// The item of this number, if there is one.
    pub fn get_if(&mut self, index: u64) -> Option<&mut T> {
        self.items.get_mut(index as usize).and_then(Option::as_mut)
    }

    /// Removes an item.
    ///
    /// # Panics
    /// If the number is not in use.
    pub fn remove(&mut self, index: u64) -> T {
        self.free.push(index);
        self.items[index as usize].take().expect("a number in use")
    }

    /// Removes all items.
    pub fn drain(&mut self) -> Vec<T> {
        let items = self.items.iter_mut().filter_map(Option::take).collect();
        self.free = (0..self.items.len() as u64).rev().collect();
        items
    }

    /// The items with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0..).zip(&self.items).filter_map(|(index, item)| Some((index, item.as_ref()?)))
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.len() == self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_items_are_counted() {
        let mut slab = Slab::default();
        assert!(slab.is_empty());
        assert_eq!([10, 11, 12].map(|item| slab.insert(item)), [0, 1, 2]);
        assert_eq!(slab.remove(1), 11);
        assert_eq!((slab.len(), slab.is_empty()), (2, false));
        assert_eq!((slab.get(1), slab.get(2), slab.get(3)), (None, Some(&12), None));
        assert_eq!(slab.get_if(1), None);
        *slab.get_mut(2) += 100;
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &10), (2, &112)]);
        assert_eq!(slab.insert(13), 1);
        assert_eq!(slab.drain(), [10, 13, 112]);
        assert_eq!((slab.len(), slab.is_empty()), (0, true));
        assert_eq!([20, 21].map(|item| slab.insert(item)), [0, 1]);
    }
}
