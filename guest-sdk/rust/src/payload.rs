use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::json;

/// A type that can be decoded from a payload: an input, a result, a signal. Implement it for your types, with or without a JSON library.
pub trait Input: Sized {
    /// Decodes the value, or returns why it cannot.
    fn decode(bytes: &[u8]) -> core::result::Result<Self, String>;
}

/// A type that can be encoded as a payload.
pub trait Output {
    fn encode(&self) -> Vec<u8>;
}

/// A payload that is neither encoded nor decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Input for Bytes {
    fn decode(bytes: &[u8]) -> core::result::Result<Bytes, String> {
        Ok(Bytes(bytes.to_vec()))
    }
}

impl Output for Bytes {
    fn encode(&self) -> Vec<u8> {
        self.0.clone()
    }
}

/// JSON as text, for the functions of [`json`]. An empty payload is `null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(pub String);

impl Raw {
    /// A text field of an object; empty if there is none, or it is not a text.
    pub fn text(&self, key: &str) -> String {
        json::text_field(&self.0, key)
    }

    /// An integer field of an object; 0 if there is none, or it is not an integer.
    pub fn number(&self, key: &str) -> i64 {
        json::number_field(&self.0, key)
    }

    /// Whether the field of an object is `true`.
    pub fn is_true(&self, key: &str) -> bool {
        json::field(&self.0, key) == Some("true")
    }
}

fn utf8(bytes: &[u8]) -> core::result::Result<&str, String> {
    core::str::from_utf8(bytes).map_err(|e| e.to_string())
}

impl Input for Raw {
    fn decode(bytes: &[u8]) -> core::result::Result<Raw, String> {
        let s = utf8(bytes)?.trim();
        Ok(Raw(if s.is_empty() { "null".into() } else { s.into() }))
    }
}

impl Output for Raw {
    fn encode(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }
}

/// `()` accepts and ignores any payload.
impl Input for () {
    fn decode(_: &[u8]) -> core::result::Result<(), String> {
        Ok(())
    }
}

impl Output for () {
    fn encode(&self) -> Vec<u8> {
        b"null".to_vec()
    }
}

impl Input for String {
    fn decode(bytes: &[u8]) -> core::result::Result<String, String> {
        json::text(utf8(bytes)?).ok_or_else(|| format!("{:?} is no JSON string", String::from_utf8_lossy(bytes)))
    }
}

impl Output for String {
    fn encode(&self) -> Vec<u8> {
        json::quote(self).into_bytes()
    }
}

impl Output for &str {
    fn encode(&self) -> Vec<u8> {
        json::quote(self).into_bytes()
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Input for $t {
            fn decode(bytes: &[u8]) -> core::result::Result<$t, String> {
                let s = utf8(bytes)?.trim();
                s.parse().map_err(|_| format!("{:?} is no {}", s, stringify!($t)))
            }
        }
        impl Output for $t {
            fn encode(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        }
    )*};
}
plain!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, bool);

impl<T: Input> Input for Option<T> {
    fn decode(bytes: &[u8]) -> core::result::Result<Option<T>, String> {
        match utf8(bytes)?.trim() {
            "" | "null" => Ok(None),
            _ => T::decode(bytes).map(Some),
        }
    }
}

impl<T: Output> Output for Option<T> {
    fn encode(&self) -> Vec<u8> {
        self.as_ref().map_or_else(|| b"null".to_vec(), Output::encode)
    }
}

/// A list is a JSON array.
impl<T: Input> Input for Vec<T> {
    fn decode(bytes: &[u8]) -> core::result::Result<Vec<T>, String> {
        json::elements(utf8(bytes)?).into_iter().map(|e| T::decode(e.as_bytes())).collect()
    }
}

impl<T: Output> Output for Vec<T> {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(&b"["[..]);
        for (i, v) in self.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend(v.encode());
        }
        out.push(b']');
        out
    }
}

/// Makes types with `serde` implementations payloads, by `serde_json`, which must be a dependency of the program:
///
/// ```ignore
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Order { item: String, cents: u32 }
/// wf::serde_payload!(Order);
/// ```
#[macro_export]
macro_rules! serde_payload {
    ($($t:ty),+ $(,)?) => {$(
        impl $crate::Input for $t {
            fn decode(bytes: &[u8]) -> ::core::result::Result<Self, $crate::alloc::string::String> {
                ::serde_json::from_slice(bytes).map_err(|e| $crate::alloc::string::ToString::to_string(&e))
            }
        }
        impl $crate::Output for $t {
            fn encode(&self) -> $crate::alloc::vec::Vec<u8> {
                ::serde_json::to_vec(self).expect("a value that serde_json can write")
            }
        }
    )+};
}
