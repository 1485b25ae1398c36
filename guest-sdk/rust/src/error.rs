use alloc::string::{String, ToString};
use core::fmt;

use crate::json;

/// A code of the host's answers; see section 10 of abi/ABI.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    InvalidArgument,
    DuplicateName,
    InvalidDuration,
    InvalidDate,
    NotHere,
    StepFailed,
    Timeout,
    Cancelled,
    TooLarge,
    UnknownHandle,
    UnknownHandler,
    Denied,
    Limit,
    ChildFailed,
    Conflict,
    Pending,
    Query,
    /// A code that this release of the SDK does not know.
    Other(i64),
}

const CODES: &[(Code, &str)] = &[
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DuplicateName, "DUPLICATE_NAME"),
    (Code::InvalidDuration, "INVALID_DURATION"),
    (Code::InvalidDate, "INVALID_DATE"),
    (Code::NotHere, "NOT_HERE"),
    (Code::StepFailed, "STEP_FAILED"),
    (Code::Timeout, "TIMEOUT"),
    (Code::Cancelled, "CANCELLED"),
    (Code::TooLarge, "TOO_LARGE"),
    (Code::UnknownHandle, "UNKNOWN_HANDLE"),
    (Code::UnknownHandler, "UNKNOWN_HANDLER"),
    (Code::Denied, "DENIED"),
    (Code::Limit, "LIMIT"),
    (Code::ChildFailed, "CHILD_FAILED"),
    (Code::Conflict, "CONFLICT"),
    (Code::Pending, "PENDING"),
    (Code::Query, "QUERY"),
];

impl Code {
    pub(crate) fn of(answer: i64) -> Code {
        usize::try_from(-answer - 1).ok().and_then(|i| CODES.get(i)).map_or(Code::Other(-answer), |c| c.0)
    }

    /// The name of the code in error JSON.
    pub fn name(self) -> &'static str {
        CODES.iter().find(|c| c.0 == self).map_or("UNKNOWN", |c| c.1)
    }
}

/// A call that was refused or has failed.
#[derive(Clone, Debug)]
pub struct Error {
    pub code: Code,
    /// Error JSON, see section 2 of abi/ABI.md.
    pub json: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: &str) -> Error {
        let json = alloc::format!(r#"{{"code":"{}","message":{}}}"#, code.name(), json::quote(message));
        Error { code, json }
    }

    pub fn message(&self) -> String {
        json::text_field(&self.json, "message")
    }

    /// Why a step or child failed: `error`, `timeout`, `trap`, `memory`, `stack`, `unknown`; `failed`, `cancelled`, `terminated`.
    pub fn kind(&self) -> String {
        json::text_field(&self.json, "kind")
    }

    /// The number of attempts of the step.
    pub fn attempts(&self) -> i64 {
        json::number_field(&self.json, "attempts")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message())
    }
}

#[cfg(feature = "std")]
impl std::error::Error for Error {}

/// The maximum length of a message in a [`Failure`]'s JSON, in bytes. A host accepts errors of at most 1 MiB, and JSON may need
/// six bytes for one.
const MAX_MESSAGE: usize = 64 << 10;

/// Encodes a message as a JSON string. A message over [`MAX_MESSAGE`] is truncated and ends with "…".
fn quoted(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return json::quote(message);
    }
    let mut end = MAX_MESSAGE;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    json::quote(&[&message[..end], "…"].concat())
}

/// The error of a workflow, a body or a step function. `?` converts an [`Error`] of a call, or a text, to one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The host gets its first 64 KiB.
    pub message: String,
    /// The name of the error in your own code.
    pub kind: String,
    /// For steps: whether another attempt may succeed.
    pub retryable: bool,
    /// For steps: the delay before the next attempt, in milliseconds, in place of the back-off's.
    pub retry_after_ms: Option<u64>,
    /// The error of a call that it was made from.
    cause: Option<Error>,
}

impl Failure {
    pub fn new(message: &str) -> Failure {
        Failure { message: message.into(), kind: String::new(), retryable: true, retry_after_ms: None, cause: None }
    }

    /// Prevents further attempts of the step.
    pub fn fatal(mut self) -> Failure {
        self.retryable = false;
        self
    }

    /// Sets the delay before the next attempt of the step.
    pub fn retry_after(mut self, delay: core::time::Duration) -> Failure {
        self.retry_after_ms = Some(crate::call::millis(delay) as u64);
        self
    }

    /// Names the kind of the error.
    pub fn kind(mut self, name: &str) -> Failure {
        self.kind = name.into();
        self
    }

    pub(crate) fn json(&self) -> String {
        match &self.cause {
            Some(e) if e.json.trim_end().ends_with('}') => self.changed(e),
            _ => self.own(),
        }
    }

    /// The JSON of the error that it was made from, with later changes.
    fn changed(&self, e: &Error) -> String {
        let (was, mut s) = (Failure::from(e.clone()), e.json.clone());
        if self.message != was.message {
            s = json::set(&s, "message", &quoted(&self.message));
        }
        if self.kind != was.kind {
            s = json::set(&s, "type", &json::quote(&self.kind));
        }
        if self.retryable != was.retryable {
            s = json::set(&s, "retryable", if self.retryable { "true" } else { "false" });
        }
        match self.retry_after_ms {
            Some(ms) if self.retry_after_ms != was.retry_after_ms => json::set(&s, "retry_after_ms", &ms.to_string()),
            _ => s,
        }
    }

    fn own(&self) -> String {
        let mut s = alloc::format!(r#"{{"message":{}"#, quoted(&self.message));
        if !self.kind.is_empty() {
            s.push_str(&alloc::format!(r#","type":{}"#, json::quote(&self.kind)));
        }
        if !self.retryable {
            s.push_str(r#","retryable":false"#);
        }
        if let Some(ms) = self.retry_after_ms {
            s.push_str(&alloc::format!(r#","retry_after_ms":{}"#, ms));
        }
        s.push('}');
        s
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        let mut f = Failure::new(&e.to_string());
        f.kind = json::text_field(&e.json, "type");
        f.retryable = json::field(&e.json, "retryable") != Some("false");
        f.cause = Some(e);
        f
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::new(message)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::new(&message)
    }
}

/// The result of a workflow, a body or a step function.
pub type Result<T> = core::result::Result<T, Failure>;
