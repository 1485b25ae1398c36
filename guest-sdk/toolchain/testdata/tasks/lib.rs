//! Workflows whose futures go on beside each other.
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use wfhost_workflow as wf;

const HOUR: Duration = Duration::from_secs(3600);

fn hours_since(began: i64) -> i64 {
    (wf::now() - began) / 3_600_000
}

/// Spawns a task when it has waited for another one.
async fn turns(_: ()) -> wf::Result<i64> {
    let began = wf::now();
    wf::spawn(async { wf::sleep("a", HOUR).await }).await?;
    wf::spawn(async { wf::sleep("b", HOUR).await }).await?;
    Ok(hours_since(began))
}

/// Waits for a task that waits for one that it has spawned.
async fn nested(_: ()) -> wf::Result<i64> {
    let outer = wf::spawn(async {
        let inner = wf::spawn(async { wf::sleep("inner", HOUR).await.map(|_| 20) });
        inner.await.map(|n| n + 1)
    });
    Ok(outer.await? * 2)
}

/// Does both while a sleep of a month is open, whose end is no reason for anything to go on.
async fn beside(_: ()) -> wf::Result<i64> {
    let began = wf::now();
    let month = wf::sleep("month", 720 * HOUR);
    turns(()).await?;
    nested(()).await?;
    drop(month);
    Ok(hours_since(began))
}

/// Spawns what is done without a wait.
async fn ready(_: ()) -> wf::Result<i64> {
    let (one, two) = (wf::spawn(async { 1 }), wf::spawn(async { wf::spawn(async { 2 }).await }));
    Ok(two.await + one.await)
}

/// Waits for a flag, and has nobody wake it.
struct Raised(Rc<Cell<bool>>);

impl Future for Raised {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.get() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Spawns a task when another one, which goes on for longer, has set a flag.
async fn raised(_: ()) -> wf::Result<i64> {
    let (began, raised) = (wf::now(), Rc::new(Cell::new(false)));
    let seen = Raised(raised.clone());
    drop(wf::spawn(async move {
        raised.set(true);
        wf::sleep("day", 24 * HOUR).await
    }));
    seen.await;
    wf::spawn(async { wf::sleep("hour", HOUR).await }).await?;
    Ok(hours_since(began))
}

/// Waits for a flag which a task sets that nobody awaits.
async fn flag(_: ()) -> wf::Result<i64> {
    let (began, raised) = (wf::now(), Rc::new(Cell::new(false)));
    let (seen, set) = (Raised(raised.clone()), raised);
    let waits = wf::spawn(async move {
        seen.await;
        wf::sleep("after it", HOUR).await
    });
    drop(wf::spawn(async move {
        let slept = wf::sleep("before it", HOUR).await;
        set.set(true);
        slept
    }));
    waits.await?;
    Ok(hours_since(began))
}

/// Polls a future only when that has woken it, as the lists of futures of other crates do.
struct Listed<F> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
}

struct Woken {
    by: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.by.store(true, Ordering::Relaxed);
        if let Some(w) = self.outer.lock().unwrap().take() {
            w.wake();
        }
    }
}

impl<F: Future> Future for Listed<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.woken.outer.lock().unwrap() = Some(cx.waker().clone());
        if !self.woken.by.swap(false, Ordering::Relaxed) {
            return Poll::Pending;
        }
        let waker = Waker::from(self.woken.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

fn listed<F: Future>(f: F) -> Listed<F> {
    Listed { future: Box::pin(f), woken: Arc::new(Woken { by: AtomicBool::new(true), outer: Mutex::new(None) }) }
}

async fn woken(_: ()) -> wf::Result<i64> {
    let began = wf::now();
    let task = wf::spawn(listed(async { wf::sleep("in a task", HOUR).await }));
    listed(wf::sleep("call", HOUR)).await?;
    listed(task).await?;
    listed(wf::spawn(async { wf::sleep("another", HOUR).await })).await?;
    Ok(hours_since(began))
}

/// Gives up a turn, and wakes itself.
struct Yield(bool);

impl Future for Yield {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn yields(_: ()) -> wf::Result<i64> {
    Yield(false).await;
    wf::spawn(Yield(false)).await;
    Ok(1)
}

/// Gives up its turn until a flag is set, which takes the end of a call, twice.
async fn spins(_: ()) -> wf::Result<i64> {
    let began = wf::now();
    for n in 0..2 {
        let raised = Rc::new(Cell::new(false));
        let set = raised.clone();
        drop(wf::spawn(async move {
            let slept = wf::sleep(&format!("nap {}", n), HOUR).await;
            set.set(true);
            slept
        }));
        while !raised.get() {
            Yield(false).await;
        }
    }
    Ok(hours_since(began))
}

async fn turn_over(n: i64) {
    for _ in 0..n {
        Yield(false).await;
    }
}

/// Gives up many turns while a sleep of a month is open, and does something now and then: it gets on before that ends.
async fn busy(_: ()) -> wf::Result<i64> {
    const TURNS: i64 = 6000;
    let began = wf::now();
    let month = wf::sleep("month", 720 * HOUR);
    turn_over(TURNS).await;
    wf::spawn(turn_over(TURNS)).await;
    turn_over(TURNS).await;
    drop(wf::sleep("dropped", HOUR));
    turn_over(TURNS).await;
    let hour = wf::sleep("hour", HOUR);
    turn_over(TURNS).await;
    hour.await?;
    turn_over(TURNS).await;
    drop(month);
    turn_over(4 * TURNS).await; // nothing is open that it could wait for
    Ok(hours_since(began))
}

/// Waits for all of a list, of which the last is done first.
async fn all(_: ()) -> wf::Result<String> {
    let began = wf::now();
    let tasks = (1..4).map(|n| {
        wf::spawn(async move {
            let slept = wf::sleep(&format!("nap {}", n), (4 - n) * HOUR).await;
            slept.map(|_| n)
        })
    });
    let mut text = String::new();
    for r in wf::join_all(tasks.collect()).await {
        text.push_str(&r?.to_string());
    }
    for r in wf::join_all((0..3).map(|n| wf::sleep(&format!("call {}", n), HOUR)).collect()).await {
        r?;
    }
    let none: Vec<()> = wf::join_all(Vec::<wf::Call<()>>::new()).await.into_iter().map(|_| ()).collect();
    Ok(format!("{} after {} h, {}", text, hours_since(began), none.len()))
}

/// Is cancelled while a step is performed.
async fn told(_: ()) -> wf::Result<()> {
    wf::cooperative_cancel();
    let before = wf::is_cancelled();
    let (work, nap) = (wf::step::<String>("work", "host/work", ()), wf::sleep("nap", HOUR));
    let (done, napped) = (work.await?, nap.await);
    let undone = wf::step::<String>("undo", "host/undo", ()).await?;
    let code = napped.err().map_or("", |e| e.code.name());
    wf::emit("seen", format!("{} {} {} {} {}", before, done, code, undone, wf::is_cancelled()))?;
    Err("cancelled".into())
}

/// Leaves a wait, which takes the first signal if it is detached, and leaves it if it is dropped.
async fn leaves(detached: bool) -> wf::Result<String> {
    let left = wf::signal::<String>("word");
    if detached {
        left.detach();
    } else {
        drop(left);
    }
    wf::sleep("hour", HOUR).await?;
    Ok(wf::signal::<String>("word").await?)
}

/// Makes a failure of the error of a request, and changes it in one way.
async fn changes(input: wf::Raw) -> wf::Result<()> {
    let (url, how) = (input.text("url"), input.text("how"));
    let failed: Result<(), wf::Error> = wf::body("request", || {
        let error = match wf::http::Request::new("GET", &url).send() {
            Ok(_) => return Ok(()),
            Err(e) => e,
        };
        let mut f = wf::Failure::from(error);
        match how.as_str() {
            "fatal" => f = f.fatal(),
            "later" => f = f.retry_after(HOUR),
            "kind" | "both" => f = f.kind("Unreachable"),
            "message" => f.message = "nobody \"listens\"".into(),
            "again" => f.retryable = true,
            _ => {}
        }
        Err(f)
    })
    .await;
    match failed {
        Err(e) if how == "outside" || how == "both" => Err(wf::Failure::from(e).kind("Outside")),
        failed => Ok(failed?),
    }
}

wf::module! {
    workflows: {
        "turns" => turns, "nested" => nested, "beside" => beside, "ready" => ready, "flag" => flag, "raised" => raised, "woken" => woken,
        "yields" => yields, "spins" => spins, "busy" => busy, "all" => all, "told" => told, "leaves" => leaves { signals: ["word"] }, "changes" => changes,
    }
}
