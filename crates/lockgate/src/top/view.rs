//! What of the figures is shown, as the keys have chosen it: table, order, filter, place.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::{Cell, Tab};
use super::sample::TopSample;

/// The most characters of a filter.
const LONGEST_FILTER: usize = 64;

/// The choices of the keys.
#[derive(Debug)]
pub(super) struct TopView {
    pub(super) tab: Tab,
    /// The column that orders each table, and whether its largest value is first.
    orders: [(usize, bool); Tab::ALL.len()],
    /// Rows show one of their texts with this in it.
    pub(super) filter: String,
    /// Whether keys change the filter.
    pub(super) typing: bool,
    /// The first row that is shown.
    pub(super) top: usize,
    /// The rows that were shown last, and those that there were.
    pub(super) shown: (usize, usize),
}

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Continue,
    End,
}

impl Default for TopView {
    fn default() -> Self {
        Self {
            tab: Tab::default(),
            orders: Tab::ALL.map(|tab| (tab.first_order(), true)),
            filter: String::new(),
            typing: false,
            top: 0,
            shown: (0, 0),
        }
    }
}

impl TopView {
    /// The first choices, with this table.
    pub(super) fn of(tab: Tab) -> Self {
        Self {
            tab,
            ..Self::default()
        }
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Step::End;
        }
        if self.typing {
            self.edit_filter(key.code);
            return Step::Continue;
        }
        let page = self.shown.0.max(1);
        match key.code {
            KeyCode::Char('q') => return Step::End,
            KeyCode::Char(digit @ '1'..='5') => {
                self.turn_to(digit as usize - '1' as usize);
            }
            KeyCode::Tab => self.turn_to(self.tab as usize + 1),
            KeyCode::BackTab => self.turn_to(self.tab as usize + Tab::ALL.len() - 1),
            KeyCode::Right => self.order_by(1),
            KeyCode::Left => self.order_by(self.tab.head().len() - 1),
            KeyCode::Char('r') => {
                let (_, largest_first) = &mut self.orders[self.tab as usize];
                *largest_first = !*largest_first;
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up => self.top = self.top.saturating_sub(1),
            KeyCode::Down => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(page),
            KeyCode::PageDown => self.top += page,
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = self.shown.1,
            _ => {}
        }
        Step::Continue
    }

    fn edit_filter(&mut self, key: KeyCode) {
        self.top = 0;
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(character);
            }
            _ => {}
        }
    }

    fn turn_to(&mut self, number: usize) {
        self.tab = Tab::ALL[number % Tab::ALL.len()];
        self.top = 0;
    }

    fn order_by(&mut self, columns_on: usize) {
        let count = self.tab.head().len();
        let (column, _) = &mut self.orders[self.tab as usize];
        *column = (*column + columns_on) % count;
    }

    /// The column that orders the table, and whether its largest value is first.
    pub(super) fn order(&self) -> (usize, bool) {
        self.orders[self.tab as usize]
    }

    /// The rows of the table that the filter leaves, in their order.
    pub(super) fn rows(&self, sample: &TopSample) -> Vec<Vec<Cell>> {
        let mut rows = self.tab.rows(sample);
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| {
            row.iter()
                .any(|cell| cell.text.to_lowercase().contains(&wanted))
        });
        let (column, largest_first) = self.order();
        rows.sort_by(|one, other| {
            let order = compare(&one[column], &other[column]);
            let order = if largest_first {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| one[0].text.cmp(&other[0].text))
        });
        rows
    }

    /// Moves the first row so that so many of `count` rows fill the place.
    pub(super) fn fit(&mut self, place: usize, count: usize) {
        self.top = self.top.min(count.saturating_sub(place));
        self.shown = (place.min(count), count);
    }
}

/// Numbers by their size, then texts; what has no value is least.
fn compare(one: &Cell, other: &Cell) -> Ordering {
    match (one.number, other.number) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        // Texts read from A to Z where the largest is first.
        (None, None) => other.text.cmp(&one.text),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
    }
}
