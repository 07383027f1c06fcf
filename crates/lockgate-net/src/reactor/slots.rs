//! Values at places that are used again, under keys that are not.

/// The key of a value: its place, and how often the place was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotKey {
    place: u32,
    use_count: u32,
}

impl SlotKey {
    /// A key without a value.
    pub(super) const NONE: Self = Self {
        place: u32::MAX,
        use_count: u32::MAX,
    };

    /// The key as a number, for the kernel to keep.
    pub(super) fn to_u64(self) -> u64 {
        u64::from(self.use_count) << 32 | u64::from(self.place)
    }

    pub(super) fn from_u64(number: u64) -> Self {
        Self {
            place: number as u32,
            use_count: (number >> 32) as u32,
        }
    }
}

/// Values under keys; the key of a value that was removed finds nothing.
#[derive(Debug)]
pub(super) struct Slots<T> {
    all: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    use_count: u32,
    value: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        let (all, free) = (Vec::new(), Vec::new());
        Self { all, free }
    }
}

impl<T> Slots<T> {
    pub(super) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Adds the value that `value` makes of its key.
    pub(super) fn insert(&mut self, value: impl FnOnce(SlotKey) -> T) -> SlotKey {
        let place = self.free.pop().unwrap_or_else(|| {
            let place = u32::try_from(self.all.len()).expect("memory has room for fewer values");
            self.all.push(Slot {
                use_count: 0,
                value: None,
            });
            place
        });
        let slot = &mut self.all[place as usize];
        let key = SlotKey {
            place,
            use_count: slot.use_count,
        };
        slot.value = Some(value(key));
        key
    }

    pub(super) fn get(&self, key: SlotKey) -> Option<&T> {
        let slot = self.all.get(key.place as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.use_count == key.use_count)
    }

    pub(super) fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        let slot = self.all.get_mut(key.place as usize)?;
        slot.value
            .as_mut()
            .filter(|_| slot.use_count == key.use_count)
    }

    pub(super) fn remove(&mut self, key: SlotKey) -> Option<T> {
        let slot = self.all.get_mut(key.place as usize)?;
        if slot.use_count != key.use_count {
            return None;
        }
        let value = slot.value.take()?;
        // It takes days of new connections in one place to come to an earlier number.
        slot.use_count = slot.use_count.wrapping_add(1);
        self.free.push(key.place);
        Some(value)
    }

    /// The key of the first value from a place on, and the place after it.
    pub(super) fn first(&self, from: usize) -> Option<(SlotKey, usize)> {
        let rest = self.all.get(from..)?;
        let place = from + rest.iter().position(|slot| slot.value.is_some())?;
        let key = SlotKey {
            place: place as u32,
            use_count: self.all[place].use_count,
        };
        Some((key, place + 1))
    }
}
