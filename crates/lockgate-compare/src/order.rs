//! The order of the programs in each round: balanced, and the same in every run.
//!
//! A machine that warms up, or slows down as it gets hot, favours an early or a late program. A
//! random order does not spread that evenly over seven rounds; a design does.

/// The order of `programs` programs in a round, both from 0 on.
///
/// A Latin square after E. J. Williams (1949), each line of which is followed by its reverse. Over
/// any number of rounds from an even one on: how often programs are first differs by one at the
/// most, and so does how often one of two is before the other. Over `programs` rounds, twice as
/// many for an odd number, each is equally often in each place, and equally often right behind each
/// of the others.
pub fn order(round: usize, programs: usize) -> Vec<usize> {
    if programs == 0 {
        return Vec::new();
    }
    // 0, n-1, 1, n-2, …: no two steps are alike.
    let zigzag = (0..programs).map(|place| match place % 2 {
        0 => place / 2,
        _ => programs - 1 - place / 2,
    });
    // Lines are shifted so that the first programs of them and of their reverses take turns.
    let line = round / 2;
    let shift = match programs % 2 {
        0 => line % programs,
        _ => programs - 1 - (line + programs - 1) % programs,
    };
    let mut order: Vec<_> = zigzag.map(|nth| (nth + shift) % programs).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(order: &[usize], program: usize) -> usize {
        order.iter().position(|each| *each == program).unwrap()
    }

    /// The difference between the most and the least of these counts.
    fn difference(counts: &[usize]) -> usize {
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }

    #[test]
    fn every_round_has_each_program_once() {
        for programs in 0..8 {
            for round in 0..40 {
                let mut sorted = order(round, programs);
                sorted.sort_unstable();
                assert_eq!(sorted, (0..programs).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_program_is_first_more_often_than_another() {
        for programs in 1..8 {
            for begin in [0, 2, 4, 6, 8] {
                let mut first = vec![0; programs];
                for round in begin..40 {
                    first[order(round, programs)[0]] += 1;
                    assert!(difference(&first) <= 1, "{programs} {round} {first:?}");
                }
            }
        }
    }

    #[test]
    fn no_program_is_before_another_more_often_than_behind_it() {
        for programs in 2..8 {
            for (one, other) in (0..programs).flat_map(|one| (0..one).map(move |two| (one, two))) {
                let mut counts = [0, 0];
                for round in 0..40 {
                    let order = order(round, programs);
                    counts[usize::from(place(&order, one) < place(&order, other))] += 1;
                    assert!(difference(&counts) <= 1, "{programs} {round} {counts:?}");
                }
            }
        }
    }

    #[test]
    fn a_whole_latin_square_balances_places_and_neighbours() {
        for programs in 2..8 {
            let rounds = programs * (1 + programs % 2);
            let mut places = vec![vec![0; programs]; programs];
            let mut behind = vec![vec![0; programs]; programs];
            for order in (0..rounds).map(|round| order(round, programs)) {
                for (place, program) in order.iter().enumerate() {
                    places[*program][place] += 1;
                }
                for pair in order.windows(2) {
                    behind[pair[0]][pair[1]] += 1;
                }
            }
            let each = rounds / programs;
            assert!(places.iter().flatten().all(|count| *count == each));
            for (program, counts) in behind.iter().enumerate() {
                for (other, count) in counts.iter().enumerate() {
                    assert_eq!(*count, if program == other { 0 } else { each });
                }
            }
        }
    }

    #[test]
    fn two_programs_take_turns() {
        let rounds: Vec<_> = (0..4).map(|round| order(round, 2)).collect();
        assert_eq!(rounds, [[0, 1], [1, 0], [1, 0], [0, 1]]);
    }
}
