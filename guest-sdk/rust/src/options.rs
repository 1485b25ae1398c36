use alloc::format;
use alloc::string::{String, ToString};

use crate::json;

/// Builds a JSON object field by field.
#[derive(Default)]
pub(crate) struct Object(String);

impl Object {
    pub fn raw(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&format!("{}:{}", json::quote(key), value));
    }

    pub fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.raw(key, &json::quote(value));
        }
    }

    /// Returns the object; empty without fields.
    pub fn end(mut self) -> String {
        if !self.0.is_empty() {
            self.0.push('}');
        }
        self.0
    }
}

/// The options of a step. Unset options have the host's defaults. Durations are texts such as `"1h30m"`.
#[derive(Clone, Debug, Default)]
pub struct StepOptions<'a> {
    /// Maximum number of attempts, including the first; 0 = unlimited. Default 3.
    pub attempts: Option<u32>,
    /// Before the second attempt. Default `"1s"`.
    pub delay: &'a str,
    /// `"fixed"`, `"linear"` or `"exponential"`, the default.
    pub backoff: &'a str,
    /// Factor of the exponential back-off. Default 2.
    pub factor: Option<f64>,
    /// Bounds one delay. Default `"5m"`.
    pub max_delay: &'a str,
    /// No attempt begins later than this after the call. Default: unlimited.
    pub max_elapsed: &'a str,
    /// The share of a delay that is randomly subtracted, 0 to 1. Default 0.
    pub jitter: Option<f64>,
    /// Of one attempt. Default `"10m"`.
    pub timeout: &'a str,
    /// Never repeats an attempt with an unknown outcome.
    pub at_most_once: bool,
    /// Name of the step or child that this one undoes, `"*"` if it has none. A restart that would keep only one of both is
    /// refused.
    pub undoes: &'a str,
}

impl StepOptions<'_> {
    pub(crate) fn json(&self) -> String {
        let mut o = Object::default();
        if let Some(n) = self.attempts {
            o.raw("attempts", &n.to_string());
        }
        o.text("delay", self.delay);
        o.text("backoff", self.backoff);
        if let Some(f) = self.factor {
            o.raw("factor", &f.to_string());
        }
        o.text("max_delay", self.max_delay);
        o.text("max_elapsed", self.max_elapsed);
        if let Some(f) = self.jitter {
            o.raw("jitter", &f.to_string());
        }
        o.text("timeout", self.timeout);
        if self.at_most_once {
            o.raw("at_most_once", "true");
        }
        o.text("undoes", self.undoes);
        o.end()
    }
}

/// The options of a child run.
#[derive(Clone, Debug, Default)]
pub struct ChildOptions<'a> {
    /// The child's run id. Default: the parent's, a dot, and the number of the call's entry.
    pub id: &'a str,
    /// A number, or `"latest"`. Default: the version that came with this module.
    pub version: &'a str,
    /// What happens to a live child when its parent ends: `"cancel"`, the default, `"terminate"` or `"abandon"`.
    pub on_end: &'a str,
    /// Of the whole run. Default: none.
    pub timeout: &'a str,
    /// An object of strings, as JSON.
    pub attributes: &'a str,
    /// JSON that people see with the run.
    pub memo: &'a str,
    /// As in [`StepOptions`].
    pub undoes: &'a str,
}

impl ChildOptions<'_> {
    pub(crate) fn json(&self) -> String {
        let mut o = Object::default();
        o.text("id", self.id);
        match self.version {
            "" => {}
            "latest" => o.raw("version", "\"latest\""),
            number => o.raw("version", number),
        }
        o.text("on_end", self.on_end);
        o.text("timeout", self.timeout);
        for (key, value) in [("attributes", self.attributes), ("memo", self.memo)] {
            if !value.is_empty() {
                o.raw(key, value);
            }
        }
        o.text("undoes", self.undoes);
        o.end()
    }
}

/// The answer to a delivery to a hook.
#[derive(Clone, Debug)]
pub struct HookReply<'a> {
    /// An HTTP status from 200 to 299.
    pub status: u16,
    pub content_type: &'a str,
    pub body: &'a str,
}

impl HookReply<'_> {
    pub(crate) fn json(&self) -> String {
        let mut o = Object::default();
        o.raw("status", &self.status.to_string());
        o.text("content_type", self.content_type);
        o.text("body", self.body);
        o.end()
    }
}
