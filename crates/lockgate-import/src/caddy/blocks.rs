//! The blocks of a Caddyfile: sites, snippets and what `import` stands for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::tokens::{self, CaddyToken};
use crate::{ConversionReport, DraftTable, ImportError, Place, SourceFiles, StatementId, Verdict};

/// The deepest nesting of blocks.
const DEEPEST_BLOCK: usize = 64;
/// The longest chain of files and snippets that import each other.
const DEEPEST_IMPORT: usize = 16;
/// The most statements after all imports. Snippets that import each other twice would double
/// without end.
const MOST_STATEMENTS: usize = 200_000;

/// A directive, an option or a line of a block.
#[derive(Debug, Clone)]
pub(super) struct CaddyStatement {
    /// Its words; the first is its name.
    pub(super) words: Vec<String>,
    /// The statements of its block.
    pub(super) block: Option<Vec<CaddyStatement>>,
    /// Its line in the report.
    pub(super) id: StatementId,
    /// Where it is.
    pub(super) place: Place,
}

impl CaddyStatement {
    /// Its first word.
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The words after its name.
    pub(super) fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The first word after its name.
    pub(super) fn arg(&self) -> Option<&str> {
        self.args().first().map(String::as_str)
    }

    /// The statements of its block, none if it has no block.
    pub(super) fn inner(&self) -> &[CaddyStatement] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The number of statements in it, itself included.
    pub(super) fn size(&self) -> usize {
        1 + self.inner().iter().map(CaddyStatement::size).sum::<usize>()
    }

    /// Gives it and everything in its block a verdict.
    pub(super) fn set_all(&self, report: &mut ConversionReport, verdict: &Verdict) {
        report.set(self.id, verdict.clone());
        for inner in self.inner() {
            inner.set_all(report, verdict);
        }
    }

    /// Gives everything in its block that has no verdict yet one.
    pub(super) fn fill(&self, report: &mut ConversionReport, verdict: &Verdict) {
        if !report.has_verdict(self.id) {
            report.set(self.id, verdict.clone());
        }
        for inner in self.inner() {
            inner.fill(report, verdict);
        }
    }
}

/// A site: its addresses are the words of its statement.
#[derive(Debug, Default)]
pub(super) struct CaddySource {
    /// The statements of the global block.
    pub(super) options: Vec<CaddyStatement>,
    /// The sites.
    pub(super) sites: Vec<CaddyStatement>,
}

/// Reads the files and expands what they import.
pub(super) struct CaddyReader<'a> {
    files: &'a dyn SourceFiles,
    report: &'a mut ConversionReport,
    snippets: BTreeMap<String, CaddySnippet>,
    statements: usize,
    /// The files that are being read, each imported by the one before.
    open: Vec<PathBuf>,
}

struct CaddySnippet {
    statement: CaddyStatement,
    used: bool,
}

impl<'a> CaddyReader<'a> {
    /// A reader that has read nothing.
    pub(super) fn new(files: &'a dyn SourceFiles, report: &'a mut ConversionReport) -> Self {
        Self {
            files,
            report,
            snippets: BTreeMap::new(),
            statements: 0,
            open: Vec::new(),
        }
    }

    /// Reads a file that the user has named.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no Caddyfile.
    pub(super) fn read(
        &mut self,
        path: &Path,
        source: &mut CaddySource,
    ) -> Result<(), ImportError> {
        let text = self
            .files
            .read(path)
            .map_err(|reason| ImportError::Unreadable {
                file: path.to_owned(),
                reason,
            })?;
        self.read_text(&text, path, source, 0)
    }

    fn read_text(
        &mut self,
        text: &str,
        path: &Path,
        source: &mut CaddySource,
        depth: usize,
    ) -> Result<(), ImportError> {
        let file: Rc<Path> = path.into();
        let tokens = tokens::split(text, &file)?;
        let mut parser = CaddyParser {
            tokens,
            at: 0,
            file,
            report: self.report,
        };
        let blocks = parser.file()?;
        self.open.push(path.to_owned());
        for block in blocks {
            self.take_block(block, source, depth)?;
        }
        self.open.pop();
        Ok(())
    }

    fn take_block(
        &mut self,
        mut block: CaddyStatement,
        source: &mut CaddySource,
        depth: usize,
    ) -> Result<(), ImportError> {
        let name = block.name().to_owned();
        if name == "import" && block.block.is_none() {
            return self.import_blocks(&block, source, depth);
        }
        if let Some(name) = snippet_name(&block) {
            let snippet = CaddySnippet {
                statement: block,
                used: false,
            };
            self.snippets.insert(name, snippet);
            return Ok(());
        }
        let Some(inner) = block.block.take() else {
            if name.starts_with("{$") {
                let because = "the statements in this variable are not known here";
                self.report
                    .set(block.id, Verdict::not_supported(because, None));
            }
            return Ok(());
        };
        let inner = self.expand(inner, depth)?;
        if name.is_empty() {
            self.report.set(block.id, Verdict::Converted);
            source.options.extend(inner);
        } else {
            block.block = Some(inner);
            source.sites.push(block);
        }
        Ok(())
    }

    /// An import beside the sites: a snippet with sites, or files.
    fn import_blocks(
        &mut self,
        import: &CaddyStatement,
        source: &mut CaddySource,
        depth: usize,
    ) -> Result<(), ImportError> {
        if let Some(name) = import.arg()
            && let Some(snippet) = self.snippets.get_mut(name)
        {
            snippet.used = true;
            let blocks = snippet.statement.inner().to_vec();
            self.report.set(import.id, Verdict::Converted);
            for block in blocks {
                self.take_block(block, source, depth + 1)?;
            }
            return Ok(());
        }
        for (path, text) in self.imported(import, depth) {
            self.read_text(&text, &path, source, depth + 1)?;
        }
        Ok(())
    }

    /// The files that an import names, with the verdict of the import.
    fn imported(&mut self, import: &CaddyStatement, depth: usize) -> Vec<(PathBuf, String)> {
        let Some(name) = import.arg() else {
            self.report
                .set(import.id, Verdict::not_supported("it names nothing", None));
            return Vec::new();
        };
        if name.contains('{') {
            let because = "the file that it names depends on the environment";
            let verdict = Verdict::not_supported(because, Some("name the file itself"));
            self.report.set(import.id, verdict);
            return Vec::new();
        }
        if depth >= DEEPEST_IMPORT {
            let because = "imports are nested more than 16 deep, or import themselves";
            self.report
                .set(import.id, Verdict::not_supported(because, None));
            return Vec::new();
        }
        let folder = import.place.file.parent().unwrap_or(Path::new(""));
        let path = folder.join(name);
        let pattern = name.contains(['*', '?', '[']);
        let paths = match pattern {
            true => self.files.matching(&path),
            false => vec![path],
        };
        let mut read = Vec::new();
        for path in paths {
            if self.open.contains(&path) {
                let because = "the file imports itself";
                self.report
                    .set(import.id, Verdict::not_supported(because, None));
                continue;
            }
            match self.files.read(&path) {
                Ok(text) => read.push((path, text)),
                Err(reason) => {
                    let because = format!("{} cannot be read: {reason}", path.display());
                    self.report
                        .set(import.id, Verdict::not_supported(because, None));
                }
            }
        }
        let verdict = match read.is_empty() {
            true => Verdict::not_supported("no file or snippet has this name", None),
            false => Verdict::Converted,
        };
        if !self.report.has_verdict(import.id) {
            self.report.set(import.id, verdict);
        }
        read
    }

    /// Puts in the place of each import what it stands for.
    fn expand(
        &mut self,
        statements: Vec<CaddyStatement>,
        depth: usize,
    ) -> Result<Vec<CaddyStatement>, ImportError> {
        let mut expanded = Vec::with_capacity(statements.len());
        for mut statement in statements {
            self.statements += 1;
            if statement.name() == "import" {
                expanded.extend(self.expand_import(&statement, depth)?);
                continue;
            }
            if let Some(inner) = statement.block.take() {
                statement.block = Some(self.expand(inner, depth)?);
            }
            expanded.push(statement);
        }
        Ok(expanded)
    }

    fn expand_import(
        &mut self,
        import: &CaddyStatement,
        depth: usize,
    ) -> Result<Vec<CaddyStatement>, ImportError> {
        if self.statements > MOST_STATEMENTS {
            let because = "there are more than 200,000 statements after all imports";
            self.report
                .set(import.id, Verdict::not_supported(because, None));
            return Ok(vec![import.clone()]);
        }
        let arguments = import.args().get(1..).unwrap_or_default();
        let mut body = Vec::new();
        let mut found = true;
        let opened = self.open.len();
        if let Some(name) = import.arg()
            && depth < DEEPEST_IMPORT
            && let Some(snippet) = self.snippets.get_mut(name)
        {
            snippet.used = true;
            body = snippet.statement.inner().to_vec();
            self.report.set(import.id, Verdict::Converted);
        } else {
            let files = self.imported(import, depth);
            let is_pattern = import.arg().is_some_and(|name| name.contains('*'));
            found = is_pattern || !files.is_empty();
            for (path, text) in files {
                let file: Rc<Path> = path.as_path().into();
                let tokens = tokens::split(&text, &file)?;
                let mut parser = CaddyParser {
                    tokens,
                    at: 0,
                    file,
                    report: self.report,
                };
                let statements = parser.statements(true, 0)?;
                body.extend(statements);
                self.open.push(path);
            }
        }
        if !found {
            // Its place is kept: what is missing might refuse requests.
            return Ok(vec![import.clone()]);
        }
        let body = fill_in(body, arguments, import.inner());
        let expanded = self.expand(body, depth + 1);
        self.open.truncate(opened);
        expanded
    }

    /// Says of snippets that no site uses that they are not needed.
    pub(super) fn finish(self) {
        for snippet in self.snippets.into_values() {
            match snippet.used {
                true => self.report.set(snippet.statement.id, Verdict::Converted),
                false => snippet.statement.fill(self.report, &Verdict::Default),
            }
        }
    }
}

fn snippet_name(block: &CaddyStatement) -> Option<String> {
    let name = block.name();
    let inner = name.strip_prefix('(')?.strip_suffix(')')?;
    (block.words.len() == 1).then(|| inner.to_owned())
}

/// Puts the arguments of an import in the place of `{args[0]}` and its like, and its block in the
/// place of `{block}`.
fn fill_in(
    statements: Vec<CaddyStatement>,
    arguments: &[String],
    block: &[CaddyStatement],
) -> Vec<CaddyStatement> {
    let mut filled = Vec::with_capacity(statements.len());
    for mut statement in statements {
        if statement.name() == "{block}" {
            filled.extend(block.to_vec());
            continue;
        }
        if !arguments.is_empty() {
            let words = std::mem::take(&mut statement.words);
            for word in words {
                match word.as_str() {
                    "{args[:]}" | "{args[0:]}" | "{args.*}" => {
                        statement.words.extend(arguments.iter().cloned());
                    }
                    _ if word.contains("{args") => {
                        statement.words.push(with_arguments(&word, arguments))
                    }
                    _ => statement.words.push(word),
                }
            }
        }
        if let Some(inner) = statement.block.take() {
            statement.block = Some(fill_in(inner, arguments, block));
        }
        filled.push(statement);
    }
    filled
}

fn with_arguments(word: &str, arguments: &[String]) -> String {
    let mut filled = word.to_owned();
    for (index, argument) in arguments.iter().enumerate() {
        filled = filled.replace(&format!("{{args[{index}]}}"), argument);
        filled = filled.replace(&format!("{{args.{index}}}"), argument);
    }
    filled
}

struct CaddyParser<'a> {
    tokens: Vec<CaddyToken>,
    at: usize,
    file: Rc<Path>,
    report: &'a mut ConversionReport,
}

impl CaddyParser<'_> {
    fn peek(&self) -> Option<&CaddyToken> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<CaddyToken> {
        let token = self.tokens.get_mut(self.at)?;
        self.at += 1;
        Some(CaddyToken {
            text: std::mem::take(&mut token.text),
            ..*token
        })
    }

    /// All blocks of a file. The global block has no words.
    fn file(&mut self) -> Result<Vec<CaddyStatement>, ImportError> {
        let mut blocks = Vec::new();
        while let Some(token) = self.peek() {
            let line = token.line;
            let words = self.addresses();
            let opens = self.peek().is_some_and(CaddyToken::opens);
            if words.is_empty() && !opens {
                return Err(self.error(line, "this brace closes no block"));
            }
            let mut block = self.statement(words, line, opens);
            if opens {
                self.next();
                block.block = Some(self.statements(false, 0)?);
            } else if block.name() != "import" && !block.name().starts_with("{$") {
                // A file with one site needs no braces.
                block.block = Some(self.statements(true, 0)?);
            } else if block.name() != "import" && self.peek().is_some() && !self.has_block_next() {
                // An address from the environment, and no brace.
                block.block = Some(self.statements(true, 0)?);
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Whether the next line is the opening of a site.
    fn has_block_next(&self) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let line = rest
            .iter()
            .enumerate()
            .take(64)
            .take_while(|(index, token)| *index == 0 || !token.first);
        line.into_iter().any(|(_, token)| token.opens())
            || rest
                .iter()
                .take(1)
                .any(|token| token.text.starts_with("{$") || token.text == "import")
    }

    /// The addresses of a site: up to a brace or the end of the line, but a comma goes on.
    fn addresses(&mut self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        while let Some(token) = self.peek() {
            let goes_on = words.last().is_some_and(|word| word.ends_with(','));
            if token.opens() || token.closes() || (token.first && !words.is_empty() && !goes_on) {
                break;
            }
            if let Some(token) = self.next() {
                words.push(token.text);
            }
        }
        words
    }

    fn statement(&mut self, words: Vec<String>, line: usize, opens: bool) -> CaddyStatement {
        let place = self.place(line);
        let mut text = words.join(" ");
        if opens {
            text.push_str(" {");
        }
        let id = self.report.add(place.clone(), text.trim());
        CaddyStatement {
            words,
            block: None,
            id,
            place,
        }
    }

    /// The statements up to the brace that closes their block, or to the end of the file.
    fn statements(
        &mut self,
        to_end: bool,
        depth: usize,
    ) -> Result<Vec<CaddyStatement>, ImportError> {
        let mut statements = Vec::new();
        let mut line = self.peek().map_or(1, |token| token.line);
        loop {
            let Some(token) = self.next() else {
                if to_end {
                    return Ok(statements);
                }
                return Err(self.error(line, "a block that is open here has no closing brace"));
            };
            line = token.line;
            if token.closes() {
                if to_end {
                    return Err(self.error(line, "this brace closes no block"));
                }
                return Ok(statements);
            }
            if token.opens() {
                return Err(self.error(line, "this block has no name"));
            }
            let mut words = vec![token.text];
            while let Some(next) = self.peek() {
                if next.first || next.opens() || next.closes() {
                    break;
                }
                if let Some(next) = self.next() {
                    words.push(next.text);
                }
            }
            let opens = self.peek().is_some_and(|next| next.opens() && !next.first);
            let mut statement = self.statement(words, line, opens);
            if opens {
                if depth >= DEEPEST_BLOCK {
                    return Err(self.error(line, "blocks are nested more than 64 deep"));
                }
                self.next();
                statement.block = Some(self.statements(false, depth + 1)?);
            }
            statements.push(statement);
        }
    }

    fn place(&self, line: usize) -> Place {
        Place {
            file: self.file.clone(),
            line,
        }
    }

    fn error(&self, line: usize, reason: &str) -> ImportError {
        ImportError::Syntax {
            place: self.place(line),
            reason: reason.to_owned(),
        }
    }
}

/// A comment that says where a table comes from: `Caddyfile:12`.
pub(super) fn come_from(table: &mut DraftTable, place: &Place) {
    let file = place.file.file_name().unwrap_or(place.file.as_os_str());
    let comment = format!("{}:{}", file.to_string_lossy(), place.line);
    if !table.comments.contains(&comment) {
        table.comments.push(comment);
    }
}
