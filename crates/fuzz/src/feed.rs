//! Structure from bytes: what a fuzzer chose, taken off the front piece by piece. Behind the end
//! all is zero.

/// The bytes that are left.
pub(crate) struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Feed<'a> {
        Feed(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most this many bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        front
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let mut number = [0; 8];
        let front = self.bytes(bytes);
        number[..front.len()].copy_from_slice(front);
        u64::from_le_bytes(number)
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    pub(crate) fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.number(8)
    }

    /// Any number, and small ones more often than not.
    pub(crate) fn small(&mut self) -> u64 {
        match self.u8() {
            255 => self.u64(),
            254 => u64::from(self.u32()),
            253 => u64::from(self.u16()),
            small => u64::from(small),
        }
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.u8()) % of.len()]
    }
}
