//! The syntax of nginx: words, quotes, comments, blocks, and the files that are included.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::{ConversionReport, ImportError, Place, SourceFiles, StatementId, Verdict};

/// The deepest nesting of blocks.
const DEEPEST: usize = 64;

/// The deepest chain of includes.
const MOST_INCLUDES: usize = 16;

/// The bytes of all files together, each as often as it is included.
const MOST_BYTES: usize = 16 << 20;

/// A directive, with the block that it opens.
#[derive(Debug, Clone)]
pub(super) struct NginxDirective {
    pub(super) id: StatementId,
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<NginxDirective>>,
}

impl NginxDirective {
    /// An argument, or an empty text.
    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// Its block, or an empty one.
    pub(super) fn children(&self) -> &[NginxDirective] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Reads files into one tree.
pub(super) struct NginxReader<'a> {
    files: &'a dyn SourceFiles,
    folder: PathBuf,
    /// The files that are read now, each included by the one before it.
    open_files: Vec<PathBuf>,
    bytes: usize,
    /// Includes without a file, and their places.
    pub(super) missing: Vec<String>,
}

/// A word of a line.
enum Word {
    Text(String, usize),
    End(usize),
    Open(usize),
    Close(usize),
    Eof,
}

impl<'a> NginxReader<'a> {
    /// A reader for a main file: what it includes is looked up beside it.
    pub(super) fn new(files: &'a dyn SourceFiles, main: &Path) -> Self {
        Self {
            files,
            folder: main.parent().map(Path::to_owned).unwrap_or_default(),
            open_files: Vec::new(),
            bytes: 0,
            missing: Vec::new(),
        }
    }

    /// Reads a file.
    pub(super) fn read(
        &mut self,
        path: &Path,
        report: &mut ConversionReport,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        let text = self
            .files
            .read(path)
            .map_err(|reason| ImportError::Unreadable {
                file: path.to_owned(),
                reason,
            })?;
        self.parse(&text, path, report, 0)
    }

    /// Parses a file that is within `depth` blocks.
    fn parse(
        &mut self,
        text: &str,
        path: &Path,
        report: &mut ConversionReport,
        depth: usize,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        self.open_files.push(path.to_owned());
        let parsed = self.parse_text(text, path, report, depth);
        self.open_files.pop();
        parsed
    }

    fn parse_text(
        &mut self,
        text: &str,
        path: &Path,
        report: &mut ConversionReport,
        depth: usize,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        self.bytes += text.len();
        let file: Rc<Path> = path.into();
        let wrong = |line: usize, reason: &str| ImportError::Syntax {
            place: Place {
                file: Rc::clone(&file),
                line,
            },
            reason: reason.to_owned(),
        };
        let mut words = Words::new(text);
        let mut open: Vec<NginxDirective> = Vec::new();
        let mut top: Vec<NginxDirective> = Vec::new();
        let mut line_words: Vec<(String, usize)> = Vec::new();
        loop {
            let word = words
                .next_word()
                .map_err(|(line, reason)| wrong(line, reason))?;
            match word {
                Word::Text(text, line) => line_words.push((text, line)),
                Word::Eof => {
                    if let Some((_, line)) = line_words.first() {
                        return Err(wrong(*line, "this directive has no ; at its end"));
                    }
                    if let Some(block) = open.last() {
                        return Err(wrong(block.place.line, "this block has no closing brace"));
                    }
                    return Ok(top);
                }
                Word::Close(line) => {
                    if !line_words.is_empty() {
                        return Err(wrong(line, "a ; is missing before this brace"));
                    }
                    let Some(block) = open.pop() else {
                        return Err(wrong(line, "this brace closes nothing"));
                    };
                    push_into(&mut open, &mut top, block);
                }
                Word::End(line) | Word::Open(line) => {
                    let opens = matches!(word, Word::Open(_));
                    let Some(mut directive) = new_directive(&mut line_words, &file, report, opens)
                    else {
                        return Err(wrong(line, "a directive has no name"));
                    };
                    if opens {
                        if open.len() + depth >= DEEPEST {
                            return Err(wrong(line, "blocks are nested too deeply"));
                        }
                        if directive.name.ends_with("_by_lua_block") {
                            words
                                .skip_script()
                                .map_err(|(line, reason)| wrong(line, reason))?;
                            push_into(&mut open, &mut top, directive);
                        } else {
                            directive.block = Some(Vec::new());
                            open.push(directive);
                        }
                    } else if directive.name == "include" {
                        let depth = open.len() + depth;
                        let inner = self.include(&directive, report, depth)?;
                        push_into(&mut open, &mut top, directive);
                        for child in inner {
                            push_into(&mut open, &mut top, child);
                        }
                    } else {
                        push_into(&mut open, &mut top, directive);
                    }
                }
            }
        }
    }

    fn include(
        &mut self,
        directive: &NginxDirective,
        report: &mut ConversionReport,
        depth: usize,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        let pattern = directive.arg(0);
        let path = self.folder.join(pattern);
        let refuse = |report: &mut ConversionReport, because: &str| {
            report.set(
                directive.id,
                Verdict::not_supported(because, Some("name it in the place where it is read")),
            );
        };
        if self.open_files.len() > MOST_INCLUDES {
            refuse(report, "files include each other too deeply");
            return Ok(Vec::new());
        }
        // A pattern matches no hidden name.
        let dot = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(b".")
        };
        let paths = if pattern.contains(['*', '?', '[']) {
            let mut found = self.files.matching(&path);
            found.retain(|found| dot(&path) || !dot(found));
            found
        } else {
            vec![path]
        };
        let mut all = Vec::new();
        let mut read = 0_usize;
        for path in &paths {
            if self.open_files.contains(path) {
                refuse(report, "this file includes itself");
                return Ok(all);
            }
            let Ok(text) = self.files.read(path) else {
                continue;
            };
            if self.bytes.saturating_add(text.len()) > MOST_BYTES {
                refuse(report, "the included files are too long together");
                return Ok(all);
            }
            read += 1;
            all.extend(self.parse(&text, path, report, depth)?);
        }
        let name = Path::new(pattern).file_name().unwrap_or_default();
        if read > 0 {
            report.set(directive.id, Verdict::Converted);
        } else if name == "mime.types" {
            report.set(directive.id, Verdict::Default); // Lockgate has its own list
        } else {
            let because = "there is no such file here: what it says is not in the new file";
            refuse(report, because);
            self.missing
                .push(format!("{}: include {pattern}", directive.place));
        }
        Ok(all)
    }
}

fn push_into(
    open: &mut [NginxDirective],
    top: &mut Vec<NginxDirective>,
    directive: NginxDirective,
) {
    match open.last_mut().and_then(|parent| parent.block.as_mut()) {
        Some(block) => block.push(directive),
        None => top.push(directive),
    }
}

fn new_directive(
    words: &mut Vec<(String, usize)>,
    file: &Rc<Path>,
    report: &mut ConversionReport,
    opens: bool,
) -> Option<NginxDirective> {
    let mut words = words.drain(..);
    let (name, line) = words.next()?;
    let args: Vec<String> = words.map(|(text, _)| text).collect();
    let place = Place {
        file: Rc::clone(file),
        line,
    };
    let mut text = name.clone();
    for arg in &args {
        text.push(' ');
        if arg.is_empty() || arg.contains(char::is_whitespace) {
            text.push_str(&format!("\"{arg}\""));
        } else {
            text.push_str(arg);
        }
    }
    if opens {
        text.push_str(" {");
    }
    Some(NginxDirective {
        id: report.add(place.clone(), &text),
        place,
        name,
        args,
        block: None,
    })
}

/// The words of a text, by the rules of nginx's own parser.
struct Words<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
}

type WordError = (usize, &'static str);

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            rest: text.chars().peekable(),
            line: 1,
        }
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.rest.next();
        if c == Some('\n') {
            self.line += 1;
        }
        c
    }

    fn next_word(&mut self) -> Result<Word, WordError> {
        loop {
            let Some(&c) = self.rest.peek() else {
                return Ok(Word::Eof);
            };
            match c {
                c if c.is_whitespace() => {
                    self.bump();
                }
                '#' => while self.bump().is_some_and(|c| c != '\n') {},
                ';' => {
                    self.bump();
                    return Ok(Word::End(self.line));
                }
                '{' => {
                    self.bump();
                    return Ok(Word::Open(self.line));
                }
                '}' => {
                    self.bump();
                    return Ok(Word::Close(self.line));
                }
                '"' | '\'' => return self.quoted(c),
                _ => return self.bare(),
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Word, WordError> {
        let line = self.line;
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err((line, "this quote has no end")),
                Some('\\') => self.escape(&mut text),
                Some(c) if c == quote => break,
                Some(c) => text.push(c),
            }
        }
        match self.rest.peek() {
            None | Some(';' | '{' | ')') => {}
            Some(c) if c.is_whitespace() => {}
            Some(_) => return Err((self.line, "text follows a quote without a space")),
        }
        Ok(Word::Text(text, line))
    }

    fn bare(&mut self) -> Result<Word, WordError> {
        let line = self.line;
        let mut text = String::new();
        while let Some(&c) = self.rest.peek() {
            match c {
                ';' => break,
                '{' if !text.ends_with('$') => break,
                c if c.is_whitespace() => break,
                '\\' => {
                    self.bump();
                    self.escape(&mut text);
                }
                c => {
                    self.bump();
                    text.push(c);
                }
            }
        }
        Ok(Word::Text(text, line))
    }

    fn escape(&mut self, text: &mut String) {
        match self.bump() {
            Some(c @ ('"' | '\'' | '\\')) => text.push(c),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('n') => text.push('\n'),
            Some(c) => {
                text.push('\\');
                text.push(c);
            }
            None => text.push('\\'),
        }
    }

    /// Skips a block of Lua, the opening brace of which was read.
    fn skip_script(&mut self) -> Result<(), WordError> {
        let line = self.line;
        let mut depth = 1_usize;
        while let Some(c) = self.bump() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '-' if self.rest.peek() == Some(&'-') => {
                    while self.bump().is_some_and(|c| c != '\n') {}
                }
                '"' | '\'' => {
                    while let Some(inner) = self.bump() {
                        if inner == '\\' {
                            self.bump();
                        } else if inner == c || inner == '\n' {
                            break;
                        }
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err((line, "this block has no closing brace"))
    }
}
