//! Big-endian integers in and out of byte slices, and a buffer for one message of bounded size.

/// Reads from the front of a slice; `None` where it is too short.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string preceded by its length in 32 bits.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }
}

/// Appends integers to a byte vector.
pub(crate) trait Put {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_string(&mut self, text: &str);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_string(&mut self, text: &str) {
        self.put_u32(u32::try_from(text.len()).expect("strings are shorter than 4 GiB"));
        self.extend_from_slice(text.as_bytes());
    }
}

/// Collects the bytes of one message over several feeds. Grows with what arrives, never by what a
/// header announces.
#[derive(Debug, Default)]
pub(crate) struct Gather(Vec<u8>);

impl Gather {
    /// Takes bytes off `input` until it holds `size`; returns whether it does.
    pub(crate) fn fill(&mut self, input: &mut &[u8], size: usize) -> bool {
        let wanted = size.saturating_sub(self.0.len()).min(input.len());
        let (front, rest) = input.split_at(wanted);
        self.0.extend_from_slice(front);
        *input = rest;
        self.0.len() >= size
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Takes up to `left` bytes off `input`, counting `left` down.
pub(crate) fn skip(input: &mut &[u8], left: &mut u64) {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *input = &input[count..];
    *left -= count as u64;
}
