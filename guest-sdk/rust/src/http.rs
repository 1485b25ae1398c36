//! Requests, in bodies and step functions. The version needs a grant for each host.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::call::{bytes_of, last, Bits};
use crate::options::Object;
use crate::{json, sys, Code, Error, Failure, Result};

/// A request. `{{secret:NAME}}` in the value of a header is replaced when it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Default: the step's time-out.
    pub timeout: Option<Duration>,
    pub redirect: Redirect,
}

/// How to treat redirects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirect {
    /// Follow up to 20, none with a secret.
    #[default]
    Follow,
    /// Return the redirect itself.
    Manual,
    /// Fail the request.
    Error,
}

impl Request {
    pub fn new(method: &str, url: &str) -> Request {
        Request { method: method.into(), url: url.into(), headers: Vec::new(), body: Vec::new(), timeout: None, redirect: Redirect::Follow }
    }

    pub fn redirect(mut self, redirect: Redirect) -> Request {
        self.redirect = redirect;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Sends the request. An error comes from the network or the grants; any answer of a server is a response.
    pub fn send(&self) -> core::result::Result<Response, Error> {
        let (mut head, mut headers) = (Object::default(), String::from("{"));
        head.text("method", &self.method);
        head.text("url", &self.url);
        for (i, (name, value)) in self.headers.iter().enumerate() {
            headers.push_str(if i > 0 { "," } else { "" });
            headers.push_str(&format!("{}:[{}]", json::quote(name), json::quote(value)));
        }
        headers.push('}');
        head.raw("headers", &headers);
        if let Some(d) = self.timeout {
            head.raw("timeout_ms", &format!("{}", d.as_millis()));
        }
        match self.redirect {
            Redirect::Follow => {}
            Redirect::Manual => head.text("redirect", "manual"),
            Redirect::Error => head.text("redirect", "error"),
        }
        let head = head.end();
        let mut all = Vec::from((head.len() as u32).to_le_bytes());
        all.extend(head.as_bytes());
        all.extend(&self.body);
        let (p, n) = all.as_slice().bits();
        let got = unsafe { sys::fetch(p, n, core::ptr::null_mut(), 0) };
        if got < 0 {
            let (code, json) = (Code::of(got), last());
            return Err(match code {
                Code::StepFailed => Error { code, json }, // the network
                _ => Error { code, json: json::set(&json, "retryable", "false") }, // permanent
            });
        }
        let b = bytes_of(|p, n| unsafe { sys::last(p, n) });
        let cut = |from: usize, to: usize| b.get(from..to).unwrap_or_default();
        let n = cut(0, 4).iter().rev().fold(0, |n, b| n << 8 | *b as usize);
        let head = String::from_utf8_lossy(cut(4, 4 + n)).into_owned();
        let headers = json::field(&head, "headers").unwrap_or("{}").into();
        let url = json::field(&head, "url").and_then(json::text);
        let redirected = url.is_some();
        let url = url.unwrap_or_else(|| self.url.clone());
        Ok(Response { status: json::number_field(&head, "status") as u16, url, redirected, headers, body: cut(4 + n, b.len()).to_vec() })
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// The source of the answer: the request's URL, or where redirects led.
    pub url: String,
    /// Whether redirects were followed.
    pub redirected: bool,
    headers: String, // JSON: names and lists of values
    pub body: Vec<u8>,
}

impl Response {
    /// The first value of a header, by its canonical name.
    pub fn header(&self, name: &str) -> Option<String> {
        let values = json::elements(json::field(&self.headers, name)?);
        values.first().and_then(|v| json::text(v))
    }

    /// The response if its status is below 400, and a failure otherwise: 408, 425, 429 and from 500 are retryable, after
    /// the seconds of the header Retry-After; other statuses are not.
    pub fn checked(self) -> Result<Response> {
        if self.status < 400 {
            return Ok(self);
        }
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let f = Failure::new(&format!("the server has answered {}: {}", self.status, text.chars().take(200).collect::<String>()));
        match self.status {
            408 | 425 | 429 | 500.. => Err(match self.header("Retry-After").and_then(|s| seconds(&s)) {
                Some(s) => f.retry_after(Duration::from_secs(s)),
                None => f,
            }),
            _ => Err(f.fatal()),
        }
    }
}

/// The maximum Retry-After in seconds: a year.
const MAX_RETRY_AFTER_SECONDS: u64 = 365 * 24 * 3600;

/// Reads a Retry-After in seconds. A date is ignored.
fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().map_or(MAX_RETRY_AFTER_SECONDS, |s: u64| s.min(MAX_RETRY_AFTER_SECONDS)))
}
