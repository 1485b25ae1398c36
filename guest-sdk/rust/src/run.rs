//! The executor: one run in one instance, on one thread.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell, UnsafeCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::call::{bytes_of, input_bytes, last, Bits, Outcome, State};
use crate::{json, sys, Code, Error, Failure, Input, Output, Result};

type Answer = Box<dyn Fn(&[u8]) -> Result<Vec<u8>>>;

/// How many consecutive polls without progress are allowed while a call is open; then the workflow waits. A future may wake itself
/// until a task has changed some state, which may need the outcome of a call. Futures that pass values to each other take fewer
/// polls. A run may compute a hundred times as much between two waits.
const MAX_TURNS: u32 = 10_000;

/// The state of the instance's run.
#[derive(Default)]
pub(crate) struct Loop {
    pub open: RefCell<BTreeMap<i64, Rc<State>>>, // by handle, in the order of the calls
    tasks: RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>,
    queries: RefCell<BTreeMap<String, Rc<Answer>>>,
    pub validators: RefCell<BTreeMap<String, Rc<Answer>>>,
    cancelled: Cell<bool>,
    again: Cell<bool>, // a task was spawned or has ended, or a future was woken: poll again before the workflow waits
    pub turns: Cell<u32>, // polls since the last wait, start of a call, spawn, or end of a task
}

struct Single(UnsafeCell<Option<Loop>>);

// A module has one thread.
unsafe impl Sync for Single {}

static LOOP: Single = Single(UnsafeCell::new(None));

pub(crate) fn the_loop() -> &'static Loop {
    // The first call creates it. It is never replaced, and changed only through its cells.
    unsafe { (*LOOP.0.get()).get_or_insert_with(Loop::default) }
}

/// Reports whether a cancel of the run was requested, under the cooperative policy.
pub fn is_cancelled() -> bool {
    the_loop().cancelled.get()
}

pub(crate) fn answer<I: Input, O: Output, F: Fn(I) -> Result<O> + 'static>(f: F) -> Rc<Answer> {
    Rc::new(Box::new(move |b| f(I::decode(b).map_err(Failure::from)?).map(|o| o.encode())))
}

/// Offers a query. The function is called on a copy of the workflow, where it waits or has ended; its changes are lost. The
/// workflow shares its state with it by `Rc` and `Cell` or `RefCell`.
pub fn on_query<I: Input, O: Output>(name: &str, f: impl Fn(I) -> Result<O> + 'static) {
    the_loop().queries.borrow_mut().insert(name.into(), answer(f));
}

impl Loop {
    fn resolve(&self, s: &State, outcome: Outcome) {
        self.open.borrow_mut().remove(&s.handle);
        s.outcome.replace(Some(outcome));
        if let Some(w) = s.waker.take() {
            w.wake();
        }
    }

    /// Withdraws the open calls of the workflow, when a cancel of its run was requested.
    fn cancel_open(&self) {
        self.cancelled.set(true);
        let all: Vec<Rc<State>> = self.open.borrow().values().cloned().collect();
        for s in all {
            if unsafe { sys::cancel(s.handle) } == 0 {
                self.resolve(&s, Err(Error::new(Code::Cancelled, "the run was asked to cancel")));
            }
        }
    }

    /// Answers the query of this activation.
    fn answer(&self) -> ! {
        let name = json::text_field(&crate::call::info_json(), "query");
        let (what, known, of) = match name.strip_prefix("host/update/") {
            Some(update) => ("handler of update", &self.validators, update),
            None => ("query", &self.queries, name.as_str()),
        };
        let found = known.borrow().get(of).cloned();
        let out = match found {
            Some(f) => f(&input_bytes()),
            None => Err(Failure::new(&alloc::format!("the workflow has no {} {}", what, of))),
        };
        let (failed, b) = match out {
            Ok(b) => (0, b),
            Err(f) => (1, f.json().into_bytes()),
        };
        let (p, n) = b.as_slice().bits();
        unsafe { sys::query_reply(failed, p, n) };
        unreachable!()
    }

    /// Waits for the next outcome.
    fn wait(&self) -> core::result::Result<(), Failure> {
        if self.open.borrow().is_empty() {
            return Err(Failure::new("deadlock: the workflow waits for nothing that could happen"));
        }
        match unsafe { sys::await_(core::ptr::null(), 0) } {
            -17 => self.answer(),
            -8 => self.cancel_open(),
            h if h < 0 => return Err(Error { code: Code::of(h), json: last() }.into()),
            h => {
                let state = self.open.borrow().get(&h).cloned();
                if let Some(s) = state {
                    let n = unsafe { sys::result(h, core::ptr::null_mut(), 0) };
                    self.resolve(&s, outcome_of(n));
                }
            }
        }
        Ok(())
    }

    /// Notes progress, so that everything is polled again.
    fn moved(&self) {
        self.again.set(true);
        self.turns.set(0);
    }

    /// Reports whether to poll again before the workflow waits.
    fn goes_on(&self) -> bool {
        let turns = self.turns.get();
        let on = self.again.get() && (turns < MAX_TURNS || self.open.borrow().is_empty());
        self.turns.set(if on { turns.saturating_add(1) } else { 0 });
        on
    }

    /// Polls each task once, including tasks that they spawn, and reports whether there were any.
    fn poll_tasks(&self, cx: &mut Context<'_>) -> bool {
        let (mut i, mut any) = (0, false);
        loop {
            let mut task = match self.tasks.borrow_mut().get_mut(i) {
                Some(t) => core::mem::replace(t, Box::pin(core::future::pending())), // it may spawn tasks
                None => return any,
            };
            any = true;
            if task.as_mut().poll(cx).is_ready() {
                drop(self.tasks.borrow_mut().remove(i));
                self.moved(); // its waiter may have been polled before
            } else {
                self.tasks.borrow_mut()[i] = task;
                i += 1;
            }
        }
    }
}

pub(crate) fn outcome_of(n: i64) -> Outcome {
    match n {
        0 => Ok(Vec::new()),
        n if n < 0 => Err(Error { code: Code::of(n), json: last() }),
        _ => Ok(bytes_of(|p, n| unsafe { sys::last(p, n) })),
    }
}

/// A future that runs concurrently with the workflow. Dropping the `Task` leaves the future running.
pub struct Task<T>(Rc<Slot<T>>);

/// Holds the output of a task.
struct Slot<T> {
    output: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>, // of the last poll of the task
}

impl<T> Future for Task<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(v) = self.0.output.borrow_mut().take() {
            return Poll::Ready(v);
        }
        self.0.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

/// Runs a future concurrently with the workflow, from the workflow's next wait on. The end of the workflow drops unfinished futures.
pub fn spawn<T: 'static>(f: impl Future<Output = T> + 'static) -> Task<T> {
    let slot = Rc::new(Slot { output: RefCell::new(None), waker: RefCell::new(None) });
    let out = slot.clone();
    let l = the_loop();
    l.tasks.borrow_mut().push(Box::pin(async move {
        let v = f.await;
        out.output.replace(Some(v));
        if let Some(w) = out.waker.take() {
            w.wake();
        }
    }));
    l.moved();
    Task(slot)
}

/// Makes the waker of all futures. It need not know its future: the workflow and all tasks are polled again.
fn waker() -> Waker {
    const TABLE: RawWakerVTable =
        RawWakerVTable::new(|p| RawWaker::new(p, &TABLE), |_| the_loop().again.set(true), |_| the_loop().again.set(true), |_| {});
    // The table's functions do nothing with the pointer.
    unsafe { Waker::from_raw(RawWaker::new(core::ptr::null(), &TABLE)) }
}

/// Runs a workflow to its end, and returns the result of `workflow_run`.
pub fn run<I: Input, O: Output, F: Future<Output = Result<O>>>(workflow: impl FnOnce(I) -> F) -> i32 {
    log_panics();
    let input = match I::decode(&input_bytes()) {
        Ok(v) => v,
        Err(e) => return end(Err(Failure::new(&alloc::format!("input: {}", e)))),
    };
    let mut root = Box::pin(workflow(input));
    let waker = waker();
    let mut cx = Context::from_waker(&waker);
    let l = the_loop();
    loop {
        l.again.set(false);
        if let Poll::Ready(r) = root.as_mut().poll(&mut cx) {
            return end(r.map(|o| o.encode()));
        }
        if l.poll_tasks(&mut cx) {
            if let Poll::Ready(r) = root.as_mut().poll(&mut cx) { // it may read what a task has changed
                return end(r.map(|o| o.encode()));
            }
        }
        if l.goes_on() {
            continue;
        }
        if let Err(f) = l.wait() {
            return end(Err(f));
        }
    }
}

/// Returns the outcome of the workflow, or of a step function, to the host.
fn end(r: Result<Vec<u8>>) -> i32 {
    let n = match &r {
        Ok(b) => {
            let (p, n) = b.as_slice().bits();
            unsafe { sys::complete(p, n) }
        }
        Err(f) => fail(&f.json()),
    };
    if n == -17 {
        the_loop().answer(); // the run had ended before
    }
    if n < 0 {
        fail(&last());
        return 1;
    }
    r.is_err() as i32
}

fn fail(json: &str) -> i64 {
    let (p, n) = json.bits();
    unsafe { sys::fail(p, n) }
}

/// Returns the outcome of a step function to the host, and returns the result of `workflow_step`.
pub fn answer_step<O: Output>(r: Result<O>) -> i32 {
    end(r.map(|o| o.encode()))
}

/// Runs a step function.
pub fn run_step<I: Input, O: Output>(f: impl FnOnce(I) -> Result<O>) -> i32 {
    log_panics();
    match I::decode(&input_bytes()) {
        Ok(v) => answer_step(f(v)),
        Err(e) => end(Err(Failure::new(&alloc::format!("input: {}", e)).fatal())),
    }
}

/// Logs the message of a panic; the panic itself is a trap.
#[cfg(feature = "std")]
fn log_panics() {
    std::panic::set_hook(Box::new(|p| crate::log(crate::Level::Error, &std::string::ToString::to_string(p))));
}

#[cfg(not(feature = "std"))]
fn log_panics() {}

/// The description of a workflow.
#[derive(Default)]
pub struct Description<'a> {
    pub name: &'a str,
    pub signals: &'a [&'a str],
    pub queries: &'a [&'a str],
    pub updates: &'a [&'a str],
    pub input_schema: &'a str,
    pub output_schema: &'a str,
}

fn list(names: &[&str]) -> String {
    let all: Vec<String> = names.iter().map(|n| json::quote(n)).collect();
    alloc::format!("[{}]", all.join(","))
}

/// Returns the description of the module to the host.
pub fn describe(workflows: &[Description<'_>], steps: &[&str]) {
    let all: Vec<String> = workflows
        .iter()
        .map(|w| {
            let mut o = crate::options::Object::default();
            o.text("name", w.name);
            for (key, names) in [("signals", w.signals), ("queries", w.queries), ("updates", w.updates)] {
                if !names.is_empty() {
                    o.raw(key, &list(names));
                }
            }
            for (key, schema) in [("input_schema", w.input_schema), ("output_schema", w.output_schema)] {
                if !schema.is_empty() {
                    o.raw(key, schema);
                }
            }
            o.end()
        })
        .collect();
    let s = alloc::format!(r#"{{"workflows":[{}],"steps":{},"sdk":"rust/{}"}}"#, all.join(","), list(steps), env!("CARGO_PKG_VERSION"));
    let (p, n) = s.as_str().bits();
    unsafe { sys::complete(p, n) };
}
