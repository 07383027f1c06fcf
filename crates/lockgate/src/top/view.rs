//! What of the figures is shown, as the keys have chosen it: table, order, filter, place; and the
//! endpoint that is to be changed.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::change::{ChangeOutcome, EndpointChange, EndpointVerb};
use super::columns::{CellValue, Tab, TableRow};
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
    /// The row of the chosen endpoint; none is chosen before a key has moved.
    chosen: Option<usize>,
    /// The pool and the endpoint of that row, which it follows as the order changes.
    name: Option<(String, String)>,
    /// The change that is to be confirmed.
    pub(super) question: Option<EndpointChange>,
    /// What has come of the last change, until a key is pressed; a question is shown before it.
    pub(super) outcome: Option<ChangeOutcome>,
}

/// What a key leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Continue,
    /// An endpoint is to be changed.
    Change(EndpointChange),
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
            chosen: None,
            name: None,
            question: None,
            outcome: None,
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
        if let Some(change) = self.question.take() {
            return match key.code {
                KeyCode::Char('y' | 'Y') => Step::Change(change),
                _ => Step::Continue,
            };
        }
        self.outcome = None;
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
            KeyCode::Char('d') => self.ask_about(EndpointVerb::Drain),
            KeyCode::Char('r') => self.ask_about(EndpointVerb::Ready),
            KeyCode::Char('i') => {
                let (_, largest_first) = &mut self.orders[self.tab as usize];
                *largest_first = !*largest_first;
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => {
                self.filter.clear();
                self.choose_none();
            }
            KeyCode::Up => self.move_by(|row| row.saturating_sub(1)),
            KeyCode::Down => self.move_by(|row| row + 1),
            KeyCode::PageUp => self.move_by(|row| row.saturating_sub(page)),
            KeyCode::PageDown => self.move_by(|row| row + page),
            KeyCode::Home => self.move_to(0),
            KeyCode::End => self.move_to(self.shown.1),
            _ => {}
        }
        Step::Continue
    }

    /// Moves the chosen endpoint, or the rows of another table. The first key chooses the first
    /// endpoint that is shown.
    fn move_by(&mut self, moved: impl Fn(usize) -> usize) {
        match (self.tab, self.chosen) {
            (Tab::Endpoints, Some(row)) => self.move_to(moved(row)),
            (Tab::Endpoints, None) => self.move_to(self.top),
            _ => self.move_to(moved(self.top)),
        }
    }

    fn move_to(&mut self, row: usize) {
        if self.tab == Tab::Endpoints {
            (self.chosen, self.name) = (Some(row), None);
        } else {
            self.top = row;
        }
    }

    fn choose_none(&mut self) {
        (self.chosen, self.name) = (None, None);
    }

    /// Asks about a change of the chosen endpoint.
    fn ask_about(&mut self, verb: EndpointVerb) {
        if self.tab != Tab::Endpoints {
            return;
        }
        match self.name.clone() {
            Some((pool, endpoint)) => {
                self.question = Some(EndpointChange {
                    verb,
                    pool,
                    endpoint,
                });
            }
            None => {
                self.outcome = Some(ChangeOutcome {
                    text: "no endpoint is chosen: \u{2191} and \u{2193} choose one".to_owned(),
                    is_refusal: true,
                });
            }
        }
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
        self.choose_none();
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
    pub(super) fn rows<'s>(&self, sample: &'s TopSample) -> Vec<TableRow<'s>> {
        let mut rows = self.tab.rows(sample);
        if !self.filter.is_empty() {
            let wanted = self.filter.to_lowercase();
            let columns = self.tab.head().len();
            let is_wanted = |value: CellValue<'_>| value.text().to_lowercase().contains(&wanted);
            rows.retain(|row| (0..columns).any(|column| is_wanted(row.value(column))));
        }
        let (column, largest_first) = self.order();
        let rows = rows.into_iter();
        let mut keyed: Vec<_> = rows.map(|row| (row.value(column), row)).collect();
        keyed.sort_by(|(one, one_row), (other, other_row)| {
            let order = compare(one, other);
            let order = if largest_first {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| compare_names(*one_row, *other_row))
        });
        keyed.into_iter().map(|(_, row)| row).collect()
    }

    /// Moves the first row so that the rows fill so many lines, with the chosen one among them.
    pub(super) fn fit(&mut self, place: usize, rows: &[TableRow<'_>]) {
        let count = rows.len();
        self.find_chosen(rows);
        if let Some(row) = self.chosen {
            let least = (row + 1).saturating_sub(place);
            self.top = self.top.clamp(least, row.max(least));
        }
        self.top = self.top.min(count.saturating_sub(place));
        self.shown = (place.min(count), count);
    }

    /// Finds the chosen endpoint again; where it is gone, none is chosen.
    fn find_chosen(&mut self, rows: &[TableRow<'_>]) {
        let found = match &self.name {
            Some((pool, endpoint)) => {
                let name = Some((pool.as_str(), endpoint.as_str()));
                rows.iter().position(|row| row.endpoint_name() == name)
            }
            None => {
                let last = rows.len().checked_sub(1);
                self.chosen.and_then(|row| Some(row.min(last?)))
            }
        };
        self.chosen = found;
        let name = found.and_then(|row| rows.get(row)?.endpoint_name());
        self.name = name.map(|(pool, endpoint)| (pool.to_owned(), endpoint.to_owned()));
    }

    /// Whether this row of all is the chosen one.
    pub(super) fn is_chosen(&self, row: usize) -> bool {
        self.chosen == Some(row)
    }
}

/// Numbers by their size, then texts; what has no value is least.
fn compare(one: &CellValue<'_>, other: &CellValue<'_>) -> Ordering {
    match (one.number(), other.number()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (None, None) => match (one, other) {
            // Texts read from A to Z where the largest is first.
            (CellValue::Text(one), CellValue::Text(other)) => other.cmp(one),
            _ => Ordering::Equal,
        },
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
    }
}

/// From A to Z.
fn compare_names(one: TableRow<'_>, other: TableRow<'_>) -> Ordering {
    compare(&other.value(0), &one.value(0))
}
