//! The syntax of DiskSim 4 parameter files.
//!
//! `kind name { Key with spaces = value, ... }`, where a value is a number, words, a list in
//! brackets or a block; `#` begins a comment.

use super::{ConvertError, Source};

/// Deepest nesting read.
const DEEPEST: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// One word or more.
    Words(String),
    /// `[ a, b ]`.
    List(Vec<(Value, usize)>),
    /// `kind { ... }`.
    Block(Block),
}

/// `kind name { ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The word or words before the brace.
    pub kind: String,
    /// The line it begins on.
    pub line: usize,
    /// What is inside, in order.
    pub entries: Vec<Entry>,
}

/// `Key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key, words separated by single blanks.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// The line of the key.
    pub line: usize,
}

/// The blocks of a file.
///
/// # Errors
/// The first place where the text does not follow the syntax.
pub fn parse(source: Source<'_>) -> Result<Vec<Block>, ConvertError> {
    let mut reader = Reader { source, at: 0, line: 1 };
    let mut blocks = Vec::new();
    while reader.peek().is_some() {
        let line = reader.line;
        let kind = reader.words("={}[],")?;
        reader.expect('{')?;
        blocks.push(reader.block(kind, line, 0)?);
    }
    Ok(blocks)
}

struct Reader<'a> {
    source: Source<'a>,
    at: usize,
    line: usize,
}

impl Reader<'_> {
    fn error<T>(&self, message: impl Into<String>) -> Result<T, ConvertError> {
        Err(ConvertError {
            file: self.source.file.to_string(),
            line: self.line,
            message: message.into(),
        })
    }

    fn next_raw(&self) -> Option<char> {
        self.source.text[self.at..].chars().next()
    }

    fn bump(&mut self, c: char) {
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
    }

    /// The next character that is neither blank nor comment, not taken.
    fn peek(&mut self) -> Option<char> {
        let mut comment = false;
        while let Some(c) = self.next_raw() {
            comment = (comment || c == '#') && c != '\n';
            if !comment && !c.is_whitespace() {
                return Some(c);
            }
            self.bump(c);
        }
        None
    }

    fn expect(&mut self, wanted: char) -> Result<(), ConvertError> {
        match self.peek() {
            Some(c) if c == wanted => {
                self.bump(c);
                Ok(())
            }
            Some(c) => self.error(format!("expected `{wanted}`, found `{c}`")),
            None => self.error(format!("expected `{wanted}`, found the end of the file")),
        }
    }

    /// Words up to one of the stops, with single blanks between them.
    fn words(&mut self, stops: &str) -> Result<String, ConvertError> {
        let mut words = String::new();
        while let Some(c) = self.peek().filter(|c| !stops.contains(*c)) {
            let _ = c;
            if !words.is_empty() {
                words.push(' ');
            }
            while let Some(c) = self.next_raw() {
                if c.is_whitespace() || c == '#' || stops.contains(c) {
                    break;
                }
                words.push(c);
                self.bump(c);
            }
        }
        match words.is_empty() {
            true => match self.peek() {
                Some(c) => self.error(format!("expected a name, found `{c}`")),
                None => self.error("expected a name, found the end of the file"),
            },
            false => Ok(words),
        }
    }

    /// Entries up to the closing brace.
    fn block(&mut self, kind: String, line: usize, depth: usize) -> Result<Block, ConvertError> {
        if depth > DEEPEST {
            return self.error("blocks and lists are nested too deeply");
        }
        let mut entries = Vec::new();
        loop {
            match self.peek() {
                Some('}') => {
                    self.bump('}');
                    return Ok(Block { kind, line, entries });
                }
                Some(',') => self.bump(','),
                _ => {
                    let line = self.line;
                    let key = self.words("={}[],")?;
                    self.expect('=')?;
                    let value = self.value(depth)?;
                    entries.push(Entry { key, value, line });
                }
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ConvertError> {
        if self.peek() == Some('[') {
            self.bump('[');
            return self.list(depth + 1);
        }
        let line = self.line;
        let words = self.words("={}[],")?;
        if self.peek() == Some('{') {
            self.bump('{');
            return Ok(Value::Block(self.block(words, line, depth + 1)?));
        }
        Ok(words.parse().map_or(Value::Words(words), Value::Number))
    }

    fn list(&mut self, depth: usize) -> Result<Value, ConvertError> {
        if depth > DEEPEST {
            return self.error("blocks and lists are nested too deeply");
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Some(']') => {
                    self.bump(']');
                    return Ok(Value::List(values));
                }
                Some(',') => self.bump(','),
                _ => {
                    let line = self.line;
                    values.push((self.value(depth)?, line));
                }
            }
        }
    }
}
