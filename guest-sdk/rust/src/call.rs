use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use crate::options::{ChildOptions, HookReply, StepOptions};
use crate::run::{outcome_of, the_loop};
use crate::{json, sys, Code, Error, Input, Output, Result};

/// A pointer and a length for the host.
pub(crate) trait Bits {
    fn bits(&self) -> (*const u8, u32);
}

impl Bits for str {
    fn bits(&self) -> (*const u8, u32) {
        (self.as_ptr(), self.len() as u32)
    }
}

impl Bits for [u8] {
    fn bits(&self) -> (*const u8, u32) {
        (self.as_ptr(), self.len() as u32)
    }
}

/// Calls a function that writes into a buffer twice: for the length, and for the data.
pub(crate) fn bytes_of(f: impl Fn(*mut u8, u32) -> i64) -> Vec<u8> {
    let n = f(core::ptr::null_mut(), 0).max(0) as usize;
    let mut b = alloc::vec![0; n];
    if n > 0 {
        f(b.as_mut_ptr(), n as u32);
    }
    b
}

fn text_of(f: impl Fn(*mut u8, u32) -> i64) -> String {
    String::from_utf8_lossy(&bytes_of(f)).into_owned()
}

pub(crate) fn last() -> String {
    text_of(|p, n| unsafe { sys::last(p, n) })
}

pub(crate) fn input_bytes() -> Vec<u8> {
    bytes_of(|p, n| unsafe { sys::input(p, n) })
}

/// The answer of `info`, as JSON: section 3 of abi/ABI.md has its fields.
pub fn info_json() -> String {
    text_of(|p, n| unsafe { sys::info(p, n) })
}

/// Data of the run. [`info_json`] has more.
#[derive(Clone, Debug)]
pub struct Info {
    pub run_id: String,
    pub workflow: String,
    pub iteration: i64,
    /// The journal has become long: a good time for [`continue_as_new`].
    pub suggest_continue: bool,
}

pub fn info() -> Info {
    let s = info_json();
    Info {
        run_id: json::text_field(&s, "run_id"),
        workflow: json::text_field(&s, "workflow"),
        iteration: json::number_field(&s, "iteration"),
        suggest_continue: json::field(&s, "suggest_continue") == Some("true"),
    }
}

/// The step of a body or step function.
#[derive(Clone, Debug)]
pub struct StepInfo {
    pub name: String,
    pub handler: String,
    /// From 1.
    pub attempt: i64,
    /// Maximum number; 0 = unlimited.
    pub attempts: i64,
    /// The same at every attempt: pass it to the service that the step changes.
    pub idempotency_key: String,
}

pub fn step_info() -> StepInfo {
    let all = info_json();
    let s = json::field(&all, "step").unwrap_or("{}");
    StepInfo {
        name: json::text_field(s, "name"),
        handler: json::text_field(s, "handler"),
        attempt: json::number_field(s, "attempt"),
        attempts: json::number_field(s, "attempts"),
        idempotency_key: json::text_field(s, "idempotency_key"),
    }
}

/// The run's clock, in milliseconds since 1970. It moves only while the workflow waits.
pub fn now() -> i64 {
    unsafe { sys::now() }
}

/// Fills an array with random bytes, the same on each replay.
pub fn random<const N: usize>() -> [u8; N] {
    let mut b = [0; N];
    unsafe { sys::random(b.as_mut_ptr(), N as u32) };
    b
}

pub(crate) type Outcome = core::result::Result<Vec<u8>, Error>;

/// The state of a started call.
pub(crate) struct State {
    pub handle: i64,
    pub outcome: RefCell<Option<Outcome>>,
    pub waker: RefCell<Option<Waker>>, // of the last poll
}

/// A started call: a sleep, a step, a wait for a signal, a child. It resolves with its outcome. Dropping it before
/// that withdraws it.
#[must_use = "a call that is dropped is withdrawn"]
pub struct Call<T> {
    state: Rc<State>,
    detached: bool,
    decode: fn(&[u8]) -> core::result::Result<T, String>,
    of: PhantomData<T>,
}

impl<T> Unpin for Call<T> {}

impl<T> Call<T> {
    fn new(answer: i64, decode: fn(&[u8]) -> core::result::Result<T, String>) -> Call<T> {
        let refused = (answer < 0).then(|| outcome_of(answer));
        let state = Rc::new(State { handle: answer, outcome: RefCell::new(refused), waker: RefCell::default() });
        if answer >= 0 {
            the_loop().open.borrow_mut().insert(answer, state.clone());
            the_loop().turns.set(0);
        }
        Call { state, detached: false, decode, of: PhantomData }
    }

    /// The handle of the call, for functions of [`sys`].
    pub fn handle(&self) -> i64 {
        self.state.handle
    }

    /// The error of a call that was refused or has failed.
    pub fn error(&self) -> Option<Error> {
        self.state.outcome.borrow().as_ref().and_then(|o| o.as_ref().err().cloned())
    }

    /// Lets the call continue after this value is dropped.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// The run id of a child.
    pub fn child_id(&self) -> String {
        let h = self.state.handle;
        text_of(|p, n| unsafe { sys::child_id(h, p, n) })
    }
}

impl<T> Future for Call<T> {
    type Output = core::result::Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &*self.state.outcome.borrow() {
            None => {
                self.state.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
            Some(Err(e)) => Poll::Ready(Err(e.clone())),
            Some(Ok(b)) => Poll::Ready((self.decode)(b).map_err(|e| Error::new(Code::InvalidArgument, &e))),
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if self.detached || self.state.outcome.borrow().is_some() {
            return;
        }
        if the_loop().open.borrow_mut().remove(&self.state.handle).is_some() {
            unsafe { sys::cancel(self.state.handle) };
        }
    }
}

/// Durations are whole milliseconds, rounded up.
pub(crate) fn millis(d: Duration) -> i64 {
    i64::try_from((d.as_nanos() + 999_999) / 1_000_000).unwrap_or(i64::MAX)
}

/// Sleeps durably. The name is unique in the run: operators see it, and wake the run by it.
pub fn sleep(name: &str, d: Duration) -> Call<()> {
    sleep_ms(name, millis(d))
}

/// Sleeps for milliseconds; a negative number is refused.
pub fn sleep_ms(name: &str, ms: i64) -> Call<()> {
    let (p, n) = name.bits();
    Call::new(unsafe { sys::sleep_start(p, n, ms) }, <()>::decode)
}

/// Sleeps for a duration in text (`"1h30m"`, `"7d"`, `"PT5M"`), or until an instant of RFC 3339.
pub fn sleep_text(name: &str, text: &str) -> Call<()> {
    let ((p, n), (t, m)) = (name.bits(), text.bits());
    Call::new(unsafe { sys::sleep_text_start(p, n, t, m) }, <()>::decode)
}

/// Sleeps until an instant, in milliseconds since 1970. A past instant returns at once.
pub fn sleep_until(name: &str, unix_ms: i64) -> Call<()> {
    let (p, n) = name.bits();
    Call::new(unsafe { sys::sleep_until_start(p, n, unix_ms) }, <()>::decode)
}

/// Runs a step by a handler: a step function of this module by its name, or a handler of the host by `host/` and its name.
pub fn step<T: Input>(name: &str, handler: &str, input: impl Output) -> Call<T> {
    step_with(name, handler, input, &StepOptions::default())
}

/// [`step`] with options.
pub fn step_with<T: Input>(name: &str, handler: &str, input: impl Output, o: &StepOptions<'_>) -> Call<T> {
    let (b, opts) = (input.encode(), o.json());
    let ((p, n), (h, hn), (i, il), (o, ol)) = (name.bits(), handler.bits(), b.as_slice().bits(), opts.as_str().bits());
    Call::new(unsafe { sys::step_start(p, n, h, hn, i, il, o, ol) }, T::decode)
}

/// Runs a function as a step, at least once, on a copy of the workflow: it may read everything, its changes are lost, and only
/// its result returns.
pub fn body<T: Input + Output>(name: &str, f: impl FnOnce() -> Result<T>) -> Call<T> {
    body_with(name, &StepOptions::default(), f)
}

/// [`body`] with options.
pub fn body_with<T: Input + Output>(name: &str, o: &StepOptions<'_>, f: impl FnOnce() -> Result<T>) -> Call<T> {
    let opts = o.json();
    let ((p, n), (o, ol)) = (name.bits(), opts.as_str().bits());
    let h = unsafe { sys::step_begin(p, n, o, ol) };
    if h == 0 {
        let (failed, b) = match f() {
            Ok(v) => (0, v.encode()),
            Err(e) => (1, e.json().into_bytes()),
        };
        let (p, n) = b.as_slice().bits();
        unsafe { sys::step_end(failed, p, n) };
    }
    Call::new(h, T::decode)
}

/// Waits for the next signal of a name. Signals are queued until they are received, first in, first out.
pub fn signal<T: Input>(name: &str) -> Call<T> {
    let (p, n) = name.bits();
    Call::new(unsafe { sys::signal_start(p, n, -1) }, T::decode)
}

/// [`signal`] with a time-out, after which it resolves with [`Code::Timeout`].
pub fn signal_timeout<T: Input>(name: &str, d: Duration) -> Call<T> {
    let (p, n) = name.bits();
    Call::new(unsafe { sys::signal_start(p, n, millis(d)) }, T::decode)
}

/// Sends a signal to another run, and waits until it is durable there.
pub fn send(run: &str, signal: &str, payload: impl Output) -> Call<()> {
    let b = payload.encode();
    let ((p, n), (r, rn), (i, il)) = (signal.bits(), run.bits(), b.as_slice().bits());
    Call::new(unsafe { sys::signal_send(p, n, r, rn, p, n, i, il) }, <()>::decode)
}

/// Opens a hook, and resolves with its token; if it is empty, the host makes one that cannot be guessed. Deliveries to the token are
/// signals of the hook's name.
pub fn hook(name: &str, token: &str, reply: Option<&HookReply<'_>>) -> Call<String> {
    let opts = reply.map(HookReply::json).unwrap_or_default();
    let ((p, n), (t, tn), (o, ol)) = (name.bits(), token.bits(), opts.as_str().bits());
    Call::new(unsafe { sys::hook_start(p, n, t, tn, o, ol) }, |b| Ok(String::from_utf8_lossy(b).into_owned()))
}

/// Starts a run of a workflow, and resolves with its result.
pub fn child<T: Input>(name: &str, workflow: &str, input: impl Output) -> Call<T> {
    child_with(name, workflow, input, &ChildOptions::default())
}

/// [`child`] with options.
pub fn child_with<T: Input>(name: &str, workflow: &str, input: impl Output, o: &ChildOptions<'_>) -> Call<T> {
    let (b, opts) = (input.encode(), o.json());
    let ((p, n), (w, wn), (i, il), (o, ol)) = (name.bits(), workflow.bits(), b.as_slice().bits(), opts.as_str().bits());
    Call::new(unsafe { sys::child_start(p, n, w, wn, i, il, o, ol) }, T::decode)
}

fn at_once(n: i64) -> core::result::Result<i64, Error> {
    if n < 0 {
        return Err(Error { code: Code::of(n), json: last() });
    }
    Ok(n)
}

/// Appends to the run's output, exactly once, and returns the index.
pub fn emit(topic: &str, v: impl Output) -> core::result::Result<i64, Error> {
    let b = v.encode();
    let ((p, n), (i, il)) = (topic.bits(), b.as_slice().bits());
    at_once(unsafe { sys::emit(p, n, i, il) })
}

/// Sets an attribute of the run, by which it is found in listings.
pub fn set_attribute(key: &str, value: &str) -> core::result::Result<(), Error> {
    let ((p, n), (v, m)) = (key.bits(), value.bits());
    at_once(unsafe { sys::set_attribute(p, n, v, m) }).map(|_| ())
}

/// Marks a change of the code: returns 0 in a run that passed here before the marker existed, else the recorded value, which is
/// `newest` the first time. A repeated marker has the same answer within an iteration of the run, whatever `newest` is. Its id is in a
/// namespace of its own: a step may have the same name. A refused marker returns 0, and the log says why.
pub fn version(id: &str, newest: i64) -> i64 {
    let (p, n) = id.bits();
    let answer = unsafe { sys::version(p, n, newest) };
    if answer < 0 {
        log(Level::Error, &alloc::format!("version marker refused: {}", last()));
    }
    answer.max(0)
}

/// The level of a log line.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    Debug = 0,
    Info = 1,
    Warn = 2,
    Error = 3,
}

/// Stores a log line, once.
pub fn log(level: Level, line: &str) {
    let (p, n) = line.bits();
    unsafe { sys::log(level as i32, p, n) };
}

/// Lets the workflow handle a cancel: its open calls are withdrawn and resolve with [`Code::Cancelled`], and later calls work.
/// A step in progress at that moment is not withdrawn: it resolves with its own outcome, and
/// [`is_cancelled`](crate::is_cancelled) reports the cancel. The run is cancelled if the workflow then fails, and completed if it does not.
pub fn cooperative_cancel() {
    unsafe { sys::cancel_policy(1) };
}

/// Ends this iteration of the run and begins the next one, with an empty journal.
pub fn continue_as_new(input: impl Output) -> ! {
    let b = input.encode();
    let (p, n) = b.as_slice().bits();
    unsafe { sys::continue_as_new(p, n, core::ptr::null(), 0) };
    unreachable!("continue_as_new does not return")
}
