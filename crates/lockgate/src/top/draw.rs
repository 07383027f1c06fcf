//! The drawing of `top`: a summary, the tables' names, one table, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::change::EndpointChange;
use super::columns::{STATE, Tab, TableRow};
use super::sample::{Figures, TopSample, UsageRow};
use super::view::TopView;
use crate::admin_client::units::{bytes_of, span};
use crate::printable::printable;
use crate::text_table::TextTable;

/// The space between two columns.
const GAP: usize = 2;
/// The least width of the first column.
const LEAST: usize = 24;
/// The most lines for what has come of a change.
const OUTCOME_LINES: usize = 3;
/// The keys.
const KEYS: &str =
    "1-5 table  \u{2190}\u{2192} order  i invert  / filter  \u{2191}\u{2193} move  q quit";
/// The keys for the table of endpoints.
const ENDPOINT_KEYS: &str =
    "\u{2191}\u{2193} choose  d drain  r ready  \u{2190}\u{2192} order  i invert  / filter  q quit";

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Palette {
    Coloured,
    /// Bold and reversed text only.
    Plain,
}

impl Palette {
    /// Colours, unless the user does not want them (<https://no-color.org>).
    pub(super) fn of_environment() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Self::Plain,
            _ => Self::Coloured,
        }
    }

    fn colour(self, colour: Color) -> Style {
        match self {
            Self::Coloured => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }

    /// The style of a state of an endpoint. What an operator has set comes first in it.
    fn of_state(self, text: &str) -> Style {
        match text.split(',').next().unwrap_or_default() {
            "up" => self.colour(Color::Green),
            "down" => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            "ejected" | "avoided" | "drain" | "maintenance" => self.colour(Color::Yellow),
            _ => Style::new(),
        }
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, figures: &Figures, view: &mut TopView, palette: Palette) {
    let outcome = outcome_lines(view, palette, usize::from(frame.area().width));
    let foot = outcome.len().max(1) as u16;
    let rooms = [4, 1, foot].map(Constraint::Length);
    let [summary, tabs, keys] = rooms;
    let layout = Layout::vertical([summary, tabs, Constraint::Min(0), keys]);
    let [summary, tabs, table, keys] = layout.areas(frame.area());
    let width = usize::from(summary.width);
    let lines = summary_lines(figures, palette).into_iter();
    for (line, row) in lines.zip(summary.rows()) {
        frame.render_widget(line, row);
    }
    frame.render_widget(tab_line(view), tabs);
    draw_table(frame, table, figures, view, palette);
    if outcome.is_empty() {
        frame.render_widget(key_line(figures, view, palette, width), keys);
    }
    for (line, row) in outcome.into_iter().zip(keys.rows()) {
        frame.render_widget(line, row);
    }
}

/// What has come of a change, in the place of the keys: its cure is to be read whole.
fn outcome_lines(view: &TopView, palette: Palette, width: usize) -> Vec<Line<'static>> {
    let Some(outcome) = view.outcome.as_ref().filter(|_| view.question.is_none()) else {
        return Vec::new();
    };
    let style = match outcome.is_refusal {
        true => palette.colour(Color::Red),
        false => Style::new(),
    };
    let mut lines: Vec<String> = Vec::new();
    for word in outcome.text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.truncate(OUTCOME_LINES);
    let lines = lines.into_iter();
    lines.map(|line| Line::styled(line, style)).collect()
}

fn summary_lines(figures: &Figures, palette: Palette) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = summary(&figures.sample)
        .into_iter()
        .map(Line::from)
        .collect();
    if let Some(first) = lines.first_mut() {
        first.style = Style::new().add_modifier(Modifier::BOLD);
    }
    let mut errors = vec![Span::raw("errors  ")];
    for (cause, count, new) in &figures.errors {
        let style = match new {
            0 => Style::new(),
            _ => palette.colour(Color::Red).add_modifier(Modifier::BOLD),
        };
        let new = if *new > 0 {
            format!(" (+{new})")
        } else {
            String::new()
        };
        errors.push(Span::styled(format!("{cause} {count}{new}"), style));
        errors.push(Span::raw("  "));
    }
    if figures.errors.is_empty() {
        errors.push(Span::raw("none"));
    }
    lines.push(Line::from(errors));
    lines
}

/// The process, its traffic and its limits, a line each.
fn summary(sample: &TopSample) -> [String; 3] {
    let status = &sample.status;
    let up = span(status.uptime_seconds);
    let held = match status.held_to_earlier_generations {
        0 => String::new(),
        held => format!("  held by earlier generations {held}"),
    };
    let (total, limits) = (&sample.clients.total, &status.limits);
    let used = |usage: &UsageRow| match usage.size {
        Some(size) => format!("{}/{size}", usage.used),
        None => usage.used.to_string(),
    };
    [
        format!(
            "lockgate {}  pid {}  {}  up {up}  generation {}{held}",
            printable(&status.version),
            status.pid,
            printable(&status.phase),
            status.generation,
        ),
        format!(
            "requests {:.1}/s  received {}/s  sent {}/s",
            sample.request_rate(),
            bytes_of(total.received_bytes_per_second),
            bytes_of(total.sent_bytes_per_second),
        ),
        format!(
            "connections {}  handshakes {}  sockets {}  memory {}",
            used(&limits.connections),
            used(&limits.handshakes),
            used(&limits.sockets),
            bytes_of(limits.memory.used),
        ),
    ]
}

fn tab_line(view: &TopView) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, tab) in Tab::ALL.into_iter().enumerate() {
        let style = if tab == view.tab {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        spans.push(Span::styled(
            format!(" {} {} ", number + 1, tab.title()),
            style,
        ));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    figures: &Figures,
    view: &mut TopView,
    palette: Palette,
) {
    let rows = view.rows(&figures.sample);
    let place = usize::from(area.height).saturating_sub(1);
    view.fit(place, &rows);
    let visible = rows.iter().skip(view.top).take(place);
    let visible: Vec<Vec<String>> = visible.map(|row| texts(view, *row).collect()).collect();
    let columns = Columns::fit(view, &visible, usize::from(area.width));
    let shown = visible.iter().enumerate().map(|(number, row)| {
        let line = columns.row(row, palette);
        if view.is_chosen(view.top + number) {
            line.style(Style::new().add_modifier(Modifier::REVERSED))
        } else {
            line
        }
    });
    let lines = std::iter::once(columns.head(view)).chain(shown);
    for (line, row) in lines.zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// The texts of a row.
fn texts<'r>(view: &TopView, row: TableRow<'r>) -> impl Iterator<Item = String> + use<'r> {
    let columns = 0..view.tab.head().len();
    columns.map(move |column| row.value(column).text())
}

/// The line of the keys, or of the filter, or of what is wrong; and which rows are shown.
fn key_line(figures: &Figures, view: &TopView, palette: Palette, width: usize) -> Line<'static> {
    let (shown, count) = view.shown;
    let place = match count {
        0 => "no rows".to_owned(),
        _ => format!("{}-{} of {count}", view.top + 1, view.top + shown),
    };
    let (text, style) = match &figures.trouble {
        _ if view.question.is_some() => {
            let question = view.question.as_ref().map(EndpointChange::question);
            let style = palette.colour(Color::Yellow).add_modifier(Modifier::BOLD);
            (question.unwrap_or_default(), style)
        }
        Some(trouble) => (trouble.clone(), palette.colour(Color::Red)),
        None if view.typing => (
            format!("filter: {}_  Enter keeps it, Esc ends it", view.filter),
            Style::new(),
        ),
        None if !view.filter.is_empty() => (
            format!("filter: {}  Esc ends it  / changes it  q quit", view.filter),
            Style::new(),
        ),
        None if view.tab == Tab::Endpoints => (ENDPOINT_KEYS.to_owned(), Style::new()),
        None => (KEYS.to_owned(), Style::new()),
    };
    let room = width.saturating_sub(place.chars().count() + GAP);
    let text = fitted(&text, room, Side::Left);
    Line::from(vec![
        Span::styled(text, style),
        Span::raw(" ".repeat(GAP)),
        Span::raw(place),
    ])
}

/// The columns that fit, with their widths.
struct Columns {
    head: &'static [&'static str],
    widths: Vec<usize>,
    sides: Vec<Side>,
}

/// The side of a cell where its text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Columns {
    /// Gives each column the width that it needs. The first one shrinks where they do not fit, and
    /// then the last ones are left out.
    fn fit(view: &TopView, rows: &[Vec<String>], width: usize) -> Self {
        let (head, (ordering, _)) = (view.tab.head(), view.order());
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let width_of = |column: usize| {
            let texts = cells(column).map(|text| text.chars().count());
            // Room for the mark of the order.
            let mark = usize::from(column == ordering);
            let name = head[column].chars().count() + mark;
            texts.max().unwrap_or(0).max(name)
        };
        let side_of = |column: usize| match cells(column).all(|text| is_number(text)) {
            true if column > 0 => Side::Right,
            _ => Side::Left,
        };
        let mut widths: Vec<usize> = (0..head.len()).map(width_of).collect();
        let needed = |widths: &[usize]| {
            widths
                .iter()
                .map(|width| width + GAP)
                .sum::<usize>()
                .saturating_sub(GAP)
        };
        if let Some(first) = widths.first().copied() {
            let beyond = needed(&widths).saturating_sub(width);
            widths[0] = first.saturating_sub(beyond).max(LEAST.min(first));
        }
        while widths.len() > 1 && needed(&widths) > width {
            widths.pop();
        }
        // What the left-out columns have freed is the first one's again.
        if let Some(first) = widths.first().copied() {
            let free = width.saturating_sub(needed(&widths));
            widths[0] = (first + free).min(width_of(0)).max(first.min(width));
        }
        Self {
            head,
            sides: (0..widths.len()).map(side_of).collect(),
            widths,
        }
    }

    fn head(&self, view: &TopView) -> Line<'static> {
        let (ordering, largest_first) = view.order();
        let mark = if largest_first {
            '\u{25be}'
        } else {
            '\u{25b4}'
        };
        let spans = self.spans(|column| {
            let name = self.head[column];
            let is_ordering = column == ordering;
            let text = if is_ordering {
                format!("{name}{mark}")
            } else {
                name.to_owned()
            };
            (
                text,
                Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            )
        });
        Line::from(spans)
    }

    fn row(&self, row: &[String], palette: Palette) -> Line<'static> {
        let spans = self.spans(|column| {
            let text = row.get(column).map_or("", String::as_str);
            let text = if text.is_empty() { "-" } else { text };
            let style = match self.head[column] {
                STATE => palette.of_state(text),
                _ => Style::new(),
            };
            (text.to_owned(), style)
        });
        Line::from(spans)
    }

    fn spans(&self, cell: impl Fn(usize) -> (String, Style)) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        for (column, (width, side)) in self.widths.iter().zip(&self.sides).enumerate() {
            if column > 0 {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            let (text, style) = cell(column);
            spans.push(Span::styled(fitted(&text, *width, *side), style));
        }
        spans
    }
}

fn is_number(text: &str) -> bool {
    text.is_empty() || text.starts_with(|first: char| first.is_ascii_digit())
}

/// A text in exactly this width: filled with spaces, or cut with an ellipsis.
fn fitted(text: &str, width: usize, side: Side) -> String {
    let count = text.chars().count();
    if count > width {
        let kept = text.chars().take(width.saturating_sub(1));
        let end = if width > 0 { "\u{2026}" } else { "" };
        return kept.chain(end.chars()).collect();
    }
    match side {
        Side::Left => format!("{text:<width$}"),
        Side::Right => format!("{text:>width$}"),
    }
}

/// Everything as plain rows.
pub(super) fn plain(sample: &TopSample) -> String {
    let mut text = summary(sample).join("\n");
    let errors = sample.errors();
    let errors = errors
        .iter()
        .map(|(cause, count)| format!("{cause} {count}"));
    let errors = errors.collect::<Vec<_>>().join("  ");
    let errors = if errors.is_empty() { "none" } else { &errors };
    text.push_str(&format!("\nerrors  {errors}\n"));
    for tab in Tab::ALL {
        let view = TopView::of(tab);
        let mut table = TextTable::new(tab.head());
        for row in view.rows(sample) {
            table.row(texts(&view, row));
        }
        text.push_str(&format!("\n{}", table.render()));
    }
    text
}

#[cfg(test)]
mod tests;
