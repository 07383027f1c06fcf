//! Parser of thresholds: from text to a condition, or to an error with its place.

use std::fmt;

use super::{Comparison, METRICS, Metric, MetricKind, OPERATORS, Operator, ThresholdCondition};

/// Parentheses within each other; more are a mistake, and would only cost stack.
const MAX_DEPTH: usize = 32;

/// Error of a threshold, shown with the text and a caret below its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ThresholdError {
    text: String,
    /// In characters, from 1 on.
    column: usize,
    message: String,
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            text,
            column,
            message,
        } = self;
        write!(
            f,
            "column {column}: {message}\n  {text}\n  {:>column$}",
            "^"
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ConditionToken<'a> {
    /// Letters, digits, dots and underscores, percent signs and slashes: a metric, a value, `and`,
    /// `or`.
    Word(&'a str),
    /// One or two of `<`, `>`, `=`, `!`.
    Operator(&'a str),
    Open,
    Close,
    Other(char),
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// Where the next token begins, in bytes.
    at: usize,
    depth: usize,
}

/// Parses the whole of a text.
pub(super) fn condition(text: &str) -> Result<ThresholdCondition, ThresholdError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let condition = parser.any()?;
    match parser.peek() {
        (ConditionToken::End, _) => Ok(condition),
        (ConditionToken::Close, _) => parser.wrong("this parenthesis was never opened"),
        (ConditionToken::Other('&'), _) => parser.wrong("write `and`"),
        (ConditionToken::Other('|'), _) => parser.wrong("write `or`"),
        _ => parser.wrong("`and`, `or` or the end was expected here"),
    }
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<ThresholdCondition, ThresholdError> {
        self.joined("or", Self::all, ThresholdCondition::Any)
    }

    fn all(&mut self) -> Result<ThresholdCondition, ThresholdError> {
        self.joined("and", Self::one, ThresholdCondition::All)
    }

    fn joined(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Result<ThresholdCondition, ThresholdError>,
        join: impl Fn(Vec<ThresholdCondition>) -> ThresholdCondition,
    ) -> Result<ThresholdCondition, ThresholdError> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.take(ConditionToken::Word(word)) {
            parts.push(part(self)?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            join(parts)
        })
    }

    fn one(&mut self) -> Result<ThresholdCondition, ThresholdError> {
        if self.peek().0 != ConditionToken::Open {
            return self.comparison().map(ThresholdCondition::Is);
        }
        if self.depth == MAX_DEPTH {
            return self.wrong("there are too many parentheses within each other");
        }
        self.take(ConditionToken::Open);
        self.depth += 1;
        let condition = self.any()?;
        self.depth -= 1;
        if self.take(ConditionToken::Close) {
            Ok(condition)
        } else {
            self.wrong("`)` was expected here")
        }
    }

    fn comparison(&mut self) -> Result<Comparison, ThresholdError> {
        let metric = self.metric()?;
        let operator = self.operator()?;
        let value = self.value(metric)?;
        Ok(Comparison {
            metric,
            operator,
            value,
        })
    }

    fn metric(&mut self) -> Result<Metric, ThresholdError> {
        let names = METRICS.map(|(name, _)| name).join(", ");
        let (ConditionToken::Word(word), end) = self.peek() else {
            return self.wrong(format!("a metric was expected here, one of {names}"));
        };
        match METRICS.iter().find(|(name, _)| *name == word) {
            Some((_, metric)) => {
                self.at = end;
                Ok(*metric)
            }
            None => self.wrong(format!("there is no metric `{word}`; there are {names}")),
        }
    }

    fn operator(&mut self) -> Result<Operator, ThresholdError> {
        let names = OPERATORS.map(|(name, _)| name).join(", ");
        let (ConditionToken::Operator(text), end) = self.peek() else {
            return self.wrong(format!("a comparison was expected here, one of {names}"));
        };
        match OPERATORS.iter().find(|(name, _)| *name == text) {
            Some((_, operator)) => {
                self.at = end;
                Ok(*operator)
            }
            None if text == "=" => self.wrong("write `==`"),
            None => self.wrong(format!(
                "there is no comparison `{text}`; there are {names}"
            )),
        }
    }

    fn value(&mut self, metric: Metric) -> Result<f64, ThresholdError> {
        let kind = metric.kind();
        let (ConditionToken::Word(word), mut end) = self.peek() else {
            return self.wrong(format!("{} was expected here", kind.expected()));
        };
        let digits = word
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(word.len());
        let (number, mut unit) = word.split_at(digits);
        let Some(value) = number.parse().ok().filter(|value: &f64| value.is_finite()) else {
            return self.wrong(format!("{} was expected here", kind.expected()));
        };
        if unit.is_empty() {
            // `20 ms` is as good as `20ms`.
            let next = Self {
                text: self.text,
                at: end,
                depth: 0,
            }
            .peek();
            if let (ConditionToken::Word(word), after) = next
                && !["and", "or"].contains(&word)
            {
                (unit, end) = (word, after);
            }
        }
        let scale = match (kind.units().iter().find(|(name, _)| *name == unit), unit) {
            (Some((_, scale)), _) => *scale,
            (None, "") if kind == MetricKind::Duration => {
                let readings = format!("{number}ns, {number}us, {number}ms or {number}s");
                return self.wrong(format!("{number} of what? Write {readings}"));
            }
            (None, "") => return self.wrong(format!("{number} of what? Write {number}%")),
            (None, _) => {
                let expected = kind.expected();
                return self.wrong(format!(
                    "`{unit}` does not belong behind this number: {expected} was expected"
                ));
            }
        };
        if kind == MetricKind::Count && value.fract() != 0.0 {
            return self.wrong("a whole number was expected here");
        }
        self.at = end;
        Ok(value * scale)
    }

    /// Takes the next token if it is this one.
    fn take(&mut self, token: ConditionToken<'_>) -> bool {
        let (next, end) = self.peek();
        let is = next == token;
        if is {
            self.at = end;
        }
        is
    }

    /// The next token and where it ends.
    fn peek(&self) -> (ConditionToken<'a>, usize) {
        let start = self.start();
        let rest = &self.text[start..];
        let run_of = |belongs: fn(char) -> bool| {
            let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
            (&rest[..length], start + length)
        };
        match rest.chars().next() {
            None => (ConditionToken::End, start),
            Some('(') => (ConditionToken::Open, start + 1),
            Some(')') => (ConditionToken::Close, start + 1),
            Some('<' | '>' | '=' | '!') => {
                let (text, end) = run_of(|c| "<>=!".contains(c));
                (ConditionToken::Operator(text), end)
            }
            Some(c) if belongs_to_word(c) => {
                let (text, end) = run_of(belongs_to_word);
                (ConditionToken::Word(text), end)
            }
            Some(c) => (ConditionToken::Other(c), start + c.len_utf8()),
        }
    }

    /// Where the next token begins, behind spaces.
    fn start(&self) -> usize {
        let rest = &self.text[self.at..];
        self.text.len() - rest.trim_start().len()
    }

    /// An error at the next token.
    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, ThresholdError> {
        let column = self.text[..self.start()].chars().count() + 1;
        // As many columns as before, and nothing that a terminal acts on.
        let text = self.text.replace(char::is_control, " ");
        Err(ThresholdError {
            text,
            column,
            message: message.into(),
        })
    }
}

fn belongs_to_word(c: char) -> bool {
    c.is_alphanumeric() || "._%/-+".contains(c)
}

impl MetricKind {
    fn expected(self) -> &'static str {
        match self {
            Self::Duration => "a duration such as 20ms (ns, us, ms, s)",
            Self::Count => "a whole number",
            Self::Rate => "a rate such as 5000/s or 5k/s",
            Self::Share => "a share such as 1%",
        }
    }

    /// The units of its values with their factors; the empty one is no unit.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Duration => &[
                ("ns", 1.0),
                ("us", 1e3),
                ("µs", 1e3),
                ("ms", 1e6),
                ("s", 1e9),
            ],
            Self::Count => &[("", 1.0)],
            Self::Rate => &[
                ("", 1.0),
                ("/s", 1.0),
                ("k", 1e3),
                ("k/s", 1e3),
                ("M", 1e6),
                ("M/s", 1e6),
            ],
            Self::Share => &[("%", 0.01)],
        }
    }
}
