//! The minimal JSON that the SDK itself needs. It is not a JSON library. To use one, such as serde_json, implement
//! [`Input`](crate::Input) and [`Output`](crate::Output) for your types.

use alloc::string::String;
use core::fmt::Write;

/// Encodes a text as a JSON string.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32); // writes to a String do not fail
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the index after the value that begins at `i`, and the white space around it.
fn skip(s: &[u8], mut i: usize) -> usize {
    let (mut depth, mut begun) = (0, false);
    while i < s.len() {
        match s[i] {
            b'"' => {
                i += 1;
                while i < s.len() && s[i] != b'"' {
                    i += if s[i] == b'\\' { 2 } else { 1 };
                }
                begun = true;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return i,
            b'}' | b']' => {
                depth -= 1;
                begun = true;
            }
            b',' | b':' if depth == 0 && begun => return i,
            c if c > b' ' => begun = true,
            _ => {}
        }
        i += 1;
    }
    s.len()
}

/// Returns the text of a field of an object, if there is one.
pub fn field<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    place(object, key).map(|at| object[at].trim())
}

/// Returns the range of the value of a field of an object, with the white space around it.
fn place(object: &str, key: &str) -> Option<core::ops::Range<usize>> {
    let s = object.as_bytes();
    let wanted = quote(key);
    let mut i = object.find('{')? + 1;
    while i < s.len() {
        let colon = skip(s, i);
        if s.get(colon) != Some(&b':') {
            return None;
        }
        let end = skip(s, colon + 1);
        if object[i..colon].trim() == wanted {
            return Some(colon + 1..end);
        }
        i = end + 1;
    }
    None
}

/// Returns an object with a field set to a JSON value. Text that does not end with a brace is returned unchanged.
pub(crate) fn set(object: &str, key: &str, value: &str) -> String {
    if let Some(at) = place(object, key) {
        return [&object[..at.start], value, &object[at.end..]].concat();
    }
    match object.trim_end().strip_suffix('}') {
        Some(s) if s.trim_end().ends_with('{') => [s, quote(key).as_str(), ":", value, "}"].concat(),
        Some(s) => [s, ",", quote(key).as_str(), ":", value, "}"].concat(),
        None => object.into(),
    }
}

/// Returns the texts of the elements of an array, none if it is not an array.
pub fn elements(array: &str) -> alloc::vec::Vec<&str> {
    let mut list = alloc::vec::Vec::new();
    let inner = match array.trim().strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
        Some(s) if !s.trim().is_empty() => s,
        _ => return list,
    };
    let mut i = 0;
    while i < inner.len() {
        let end = skip(inner.as_bytes(), i);
        list.push(inner[i..end].trim());
        i = end + 1;
    }
    list
}

/// Decodes a JSON string; `None` for other JSON.
pub fn text(value: &str) -> Option<String> {
    let inner = value.trim().strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    let unit = |chars: &mut core::str::Chars| -> Option<u32> {
        let s = chars.as_str();
        let n = u32::from_str_radix(s.get(..4)?, 16).ok()?;
        *chars = s[4..].chars();
        Some(n)
    };
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'u' => {
                let mut r = unit(&mut chars)?;
                if (0xd800..0xdc00).contains(&r) && chars.as_str().starts_with("\\u") {
                    chars = chars.as_str()[2..].chars();
                    r = 0x10000 + ((r - 0xd800) << 10) + unit(&mut chars)?.wrapping_sub(0xdc00);
                }
                out.push(char::from_u32(r).unwrap_or('\u{fffd}'));
            }
            c => out.push(c),
        }
    }
    Some(out)
}

/// Decodes a string field, empty if there is none.
pub fn text_field(object: &str, key: &str) -> String {
    field(object, key).and_then(text).unwrap_or_default()
}

/// Decodes an integer field, 0 if there is none.
pub fn number_field(object: &str, key: &str) -> i64 {
    field(object, key).and_then(|s| s.parse().ok()).unwrap_or(0)
}
