//! Where gradients of results lie: room that is given back once the sweep is past a result.

use std::ops::Range;

/// Hands out ranges of a buffer, the first gap that is large enough, and takes them back.
///
/// The sweep back through a pass needs the gradient of a result from the last op that reads it to the op that made it. Of a
/// model with many layers that is a small part at any time, which then also stays in the cache.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// What is free below `end`, in order, with something taken between any two.
    gaps: Vec<Range<usize>>,
    /// Everything from here on is free.
    end: usize,
}

impl Room {
    /// Takes everything back.
    pub(super) fn clear(&mut self) {
        self.gaps.clear();
        self.end = 0;
    }

    /// A range of this length; where it ends, the buffer must reach.
    pub(super) fn take(&mut self, len: usize) -> Range<usize> {
        let Some(place) = self.gaps.iter().position(|gap| gap.len() >= len) else {
            let start = self.end;
            self.end += len;
            return start..self.end;
        };
        let gap = &mut self.gaps[place];
        let start = gap.start;
        gap.start += len;
        if gap.start == gap.end {
            self.gaps.remove(place);
        }
        start..start + len
    }

    /// Takes a range back that was handed out.
    pub(super) fn give_back(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if range.end == self.end {
            let last = self.gaps.pop_if(|gap| gap.end == range.start);
            self.end = last.map_or(range.start, |gap| gap.start);
            return;
        }
        let place = self.gaps.partition_point(|gap| gap.start < range.start);
        let before = place > 0 && self.gaps[place - 1].end == range.start;
        let behind = self
            .gaps
            .get(place)
            .is_some_and(|gap| gap.start == range.end);
        match (before, behind) {
            (true, true) => self.gaps[place - 1].end = self.gaps.remove(place).end,
            (true, false) => self.gaps[place - 1].end = range.end,
            (false, true) => self.gaps[place].start = range.start,
            (false, false) => self.gaps.insert(place, range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_are_used_again_and_joined() {
        let mut room = Room::default();
        let ranges = [4, 3, 2].map(|len| room.take(len));
        assert_eq!(ranges, [0..4, 4..7, 7..9]);
        room.give_back(0..4);
        assert_eq!(
            (room.take(5), room.take(1), room.take(3)),
            (9..14, 0..1, 1..4)
        );
        room.give_back(1..4);
        room.give_back(7..9);
        room.give_back(4..7);
        assert_eq!((room.gaps.len(), room.gaps[0].clone()), (1, 1..9));
        room.give_back(9..14);
        assert_eq!((room.gaps.len(), room.end), (0, 1));
        room.clear();
        assert_eq!(room.take(0).len(), 0);
    }

    proptest! {
        #[test]
        fn what_is_taken_does_not_overlap(steps in prop::collection::vec((0_usize..9, any::<prop::sample::Index>()), 1..60)) {
            let mut room = Room::default();
            let mut taken: Vec<Range<usize>> = Vec::new();
            for (len, index) in steps {
                if len < 4 && !taken.is_empty() {
                    room.give_back(taken.swap_remove(index.index(taken.len())));
                    continue;
                }
                let range = room.take(len);
                prop_assert_eq!(range.len(), len);
                for other in taken.iter().filter(|other| !other.is_empty()) {
                    prop_assert!(range.is_empty() || range.end <= other.start || other.end <= range.start);
                }
                taken.push(range);
            }
            taken.into_iter().for_each(|range| room.give_back(range));
            prop_assert_eq!((room.gaps.len(), room.end), (0, 0));
        }
    }
}
