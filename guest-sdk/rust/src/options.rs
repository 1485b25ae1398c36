use alloc::format;
use alloc::string::{String, ToString};

use crate::json;

/// Writes an object of JSON field by field.
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

    /// The object; nothing at all if it has no field.
    pub fn end(mut self) -> String {
        if !self.0.is_empty() {
            self.0.push('}');
        }
        self.0
    }
}

/// How a step is attempted. What is not set is the host's default. Durations are texts such as `"1h30m"`.
#[derive(Clone, Debug, Default)]
pub struct StepOptions<'a> {
    /// All tries, the first included; 0 = no limit. Default 3.
    pub attempts: Option<u32>,
    /// Before the second attempt. Default `"1s"`.
    pub delay: &'a str,
    /// `"fixed"`, `"linear"` or `"exponential"`, the default.
    pub backoff: &'a str,
    /// Of the exponential back-off. Default 2.
    pub factor: Option<f64>,
    /// Bounds one delay. Default `"5m"`.
    pub max_delay: &'a str,
    /// No attempt begins later than this after the call. Default: no bound.
    pub max_elapsed: &'a str,
    /// The share of a delay that chance may take away, 0 to 1. Default 0.
    pub jitter: Option<f64>,
    /// Of one attempt. Default `"10m"`.
    pub timeout: &'a str,
    /// Never repeats an attempt whose outcome nobody knows.
    pub at_most_once: bool,
    /// Name of the step or child that this one undoes, `"*"` if it has none: the run is not restarted from a place where that
    /// would be taken as done.
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

/// How a child run is started.
#[derive(Clone, Debug, Default)]
pub struct ChildOptions<'a> {
    /// The child's run id. Default: the parent's, a point, and the number of the call's entry.
    pub id: &'a str,
    /// A number, or `"latest"`. Default: the version that came with this module.
    pub version: &'a str,
    /// What happens to a child that lives when its parent ends: `"cancel"`, the default, `"terminate"` or `"abandon"`.
    pub on_end: &'a str,
    /// Of the whole run. Default: none.
    pub timeout: &'a str,
    /// An object of strings, as JSON.
    pub attributes: &'a str,
    /// What people see with the run, as JSON.
    pub memo: &'a str,
    /// As of a step.
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

/// What whoever delivers to a hook is answered.
#[derive(Clone, Debug)]
pub struct HookReply<'a> {
    /// A status of HTTP from 200 to 299.
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
