//! The words of a Caddyfile: quotes, heredocs, comments and continued lines.

use std::path::Path;
use std::rc::Rc;

use crate::{ImportError, Place};

/// A word of a Caddyfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CaddyToken {
    /// Its text, without quotes.
    pub(super) text: String,
    /// The line on which it begins.
    pub(super) line: usize,
    /// Whether it is the first word of a line.
    pub(super) first: bool,
    /// Whether it was quoted: a quoted `{` opens no block.
    pub(super) quoted: bool,
}

impl CaddyToken {
    /// Whether the word opens a block.
    pub(super) fn opens(&self) -> bool {
        !self.quoted && self.text == "{"
    }

    /// Whether the word closes a block.
    pub(super) fn closes(&self) -> bool {
        !self.quoted && self.text == "}"
    }
}

struct CaddyLexer<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    file: Rc<Path>,
}

/// Splits a file into words.
///
/// # Errors
/// A quote or a heredoc without an end.
pub(super) fn split(text: &str, file: &Rc<Path>) -> Result<Vec<CaddyToken>, ImportError> {
    let mut lexer = CaddyLexer {
        chars: text.trim_start_matches('\u{feff}').chars().peekable(),
        line: 1,
        file: file.clone(),
    };
    let mut tokens = Vec::new();
    let mut first = true;
    while let Some(&c) = lexer.chars.peek() {
        match c {
            '\n' => {
                lexer.next();
                first = true;
            }
            '#' => lexer.skip_line(),
            '\\' => {
                lexer.next();
                match lexer.line_break() {
                    true => {}
                    false => {
                        tokens.push(lexer.word("\\", first));
                        first = false;
                    }
                }
            }
            c if c.is_whitespace() => {
                lexer.next();
            }
            '"' | '`' => {
                tokens.push(lexer.quoted(c, first)?);
                first = false;
            }
            _ => {
                let token = lexer.word("", first);
                first = false;
                match token.text.strip_prefix("<<") {
                    Some(marker) if is_marker(marker) => {
                        let marker = marker.to_owned();
                        tokens.push(lexer.heredoc(token, &marker)?);
                    }
                    _ => tokens.push(token),
                }
            }
        }
    }
    Ok(tokens)
}

fn is_marker(text: &str) -> bool {
    let mut bytes = text.bytes();
    !text.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl CaddyLexer<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.next();
        if c == Some('\n') {
            self.line += 1;
        }
        c
    }

    fn skip_line(&mut self) {
        while self.chars.peek().is_some_and(|c| *c != '\n') {
            self.next();
        }
    }

    /// Skips a line break, if there is one here.
    fn line_break(&mut self) -> bool {
        if self.chars.peek() == Some(&'\r') {
            self.next();
        }
        match self.chars.peek() {
            Some('\n') => {
                self.next();
                true
            }
            _ => false,
        }
    }

    /// A word up to a space. A space in `{$NAME:a default}` belongs to the word.
    fn word(&mut self, begin: &str, first: bool) -> CaddyToken {
        let mut token = CaddyToken {
            text: begin.to_owned(),
            line: self.line,
            first,
            quoted: false,
        };
        let mut variable = false;
        while let Some(&c) = self.chars.peek() {
            if c == '\n' || (c.is_whitespace() && !variable) {
                break;
            }
            self.next();
            if c == '$' && token.text.ends_with('{') {
                variable = true;
            }
            if c == '}' {
                variable = false;
            }
            if c == '\\' && self.chars.peek().is_some_and(|c| *c == '\n' || *c == '\r') {
                self.line_break();
                break;
            }
            token.text.push(c);
        }
        token
    }

    fn quoted(&mut self, quote: char, first: bool) -> Result<CaddyToken, ImportError> {
        let line = self.line;
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(self.error(line, "this quote has no end")),
                Some(c) if c == quote => break,
                Some('\\') if quote == '"' => match self.next() {
                    Some('"') => text.push('"'),
                    Some(c) => {
                        text.push('\\');
                        text.push(c);
                    }
                    None => return Err(self.error(line, "this quote has no end")),
                },
                Some('\r') => {}
                Some(c) => text.push(c),
            }
        }
        // What follows a quote without a space is part of the same word for no reader of the
        // file, and a word of its own for Caddy.
        Ok(CaddyToken {
            text,
            line,
            first,
            quoted: true,
        })
    }

    fn heredoc(&mut self, begin: CaddyToken, marker: &str) -> Result<CaddyToken, ImportError> {
        self.skip_line();
        self.next();
        let mut lines: Vec<String> = Vec::new();
        loop {
            let mut line = String::new();
            let mut ended = true;
            while let Some(c) = self.next() {
                if c == '\n' {
                    ended = false;
                    break;
                }
                if c != '\r' {
                    line.push(c);
                }
            }
            if line.trim() == marker {
                let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
                let lines: Vec<&str> = lines
                    .iter()
                    .map(|line| line.strip_prefix(&indent).unwrap_or(line))
                    .collect();
                return Ok(CaddyToken {
                    text: lines.join("\n"),
                    quoted: true,
                    ..begin
                });
            }
            if ended {
                return Err(self.error(begin.line, "this heredoc has no end"));
            }
            lines.push(line);
        }
    }

    fn error(&self, line: usize, reason: &str) -> ImportError {
        ImportError::Syntax {
            place: Place {
                file: self.file.clone(),
                line,
            },
            reason: reason.to_owned(),
        }
    }
}
