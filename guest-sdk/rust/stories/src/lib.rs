//! The story workflows of docs/reference/conformance.md in Rust.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use wfhost_workflow as wf;
use wf::{Bytes, ChildOptions, Failure, HookReply, Output, Raw, StepOptions, Updates};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// JSON of a value.
fn raw(v: impl Output) -> Raw {
    Raw(String::from_utf8(v.encode()).unwrap())
}

/// The value as JSON, or the code of the error.
fn or_code<T: Output>(r: Result<T, wf::Error>) -> Raw {
    match r {
        Ok(v) => raw(v),
        Err(e) => raw(e.code.name()),
    }
}

fn code<T>(r: Result<T, wf::Error>) -> Raw {
    raw(r.map_or_else(|e| e.code.name(), |_| "OK"))
}

async fn sleeps(_: ()) -> wf::Result<Vec<i64>> {
    let began = wf::now();
    let mut took = Vec::new();
    wf::sleep("duration", ms(4000)).await?;
    took.push(wf::now() - began);
    wf::sleep("nothing", ms(0)).await?;
    took.push(wf::now() - began);
    wf::sleep_until("instant", began + 10_000).await?;
    took.push(wf::now() - began);
    wf::sleep_text("text", "1h30m").await?;
    took.push(wf::now() - began);
    wf::sleep_until("past", began).await?;
    took.push(wf::now() - began);
    Ok(took)
}

async fn steps(name: String) -> wf::Result<Vec<Raw>> {
    let greeting: String = wf::step("greet", "greet", name).await?;
    let (a, b) = wf::join!(wf::step::<i64>("a", "double", 21), wf::step::<i64>("b", "double", 4));
    Ok(vec![raw(greeting), raw(a?), raw(b?)])
}

/// Changed by a body, which the workflow must not see.
static CHANGED: AtomicI64 = AtomicI64::new(0);

async fn bodies(name: String) -> wf::Result<Vec<Raw>> {
    let one = wf::body("one", || {
        CHANGED.fetch_add(1, Ordering::Relaxed);
        Ok(format!("body of {}", name))
    })
    .await?;
    let plain = |name: &'static str| wf::body(name, move || Ok(name.to_string()));
    let (a, b) = wf::join!(plain("a"), plain("b"));
    let inside = wf::body("inside", || {
        let refused = wf::sleep("nap", ms(1000)).error();
        Ok(refused.map_or("OK", |e| e.code.name()).to_string())
    })
    .await?;
    Ok(vec![raw(one), raw(a?), raw(b?), raw(inside), raw(CHANGED.load(Ordering::Relaxed))])
}

fn attempted() -> String {
    format!("ok after {}", wf::step_info().attempt)
}

async fn retries(_: ()) -> wf::Result<Vec<String>> {
    let flaky = wf::step_with("flaky", "flaky", (), &StepOptions { attempts: Some(3), delay: "100ms", ..Default::default() }).await?;
    let body = wf::body_with("body", &StepOptions { attempts: Some(2), ..Default::default() }, || {
        if wf::step_info().attempt == 1 {
            return Err("not yet".into());
        }
        Ok(attempted())
    })
    .await?;
    let later = wf::body("later", || {
        if wf::step_info().attempt == 1 {
            return Err(Failure::new("busy").retry_after(ms(5000)));
        }
        Ok(attempted())
    })
    .await?;
    Ok(vec![flaky, body, later])
}

fn failure<T>(r: Result<T, wf::Error>) -> Raw {
    match r {
        Ok(_) => raw("OK"),
        Err(e) => Raw(format!(
            r#"{{"code":"{}","kind":"{}","attempts":{},"message":{}}}"#,
            e.code.name(),
            e.kind(),
            e.attempts(),
            raw(e.message()).0
        )),
    }
}

async fn failures(_: ()) -> wf::Result<Vec<Raw>> {
    let o = StepOptions { attempts: Some(2), delay: "10ms", ..Default::default() };
    let never = wf::step_with::<()>("never", "never", (), &o).await;
    let fatal = wf::body::<()>("fatal", || Err(Failure::new("out of stock").fatal())).await;
    Ok(vec![failure(never), failure(fatal)])
}

async fn refusals(_: ()) -> wf::Result<Vec<Raw>> {
    Ok(vec![
        code(wf::sleep_ms("negative", -1).await),
        code(wf::sleep_text("bare", "5").await),
        code(wf::sleep_text("date", "2026-13-01").await),
        code(wf::step::<()>("nobody", "nobody", ()).await),
        code(wf::step::<()>("denied", "host/vault", ()).await),
        code(wf::sleep("", ms(0)).await),
    ])
}

async fn names(_: ()) -> wf::Result<Vec<Raw>> {
    Ok(vec![code(wf::sleep("x", ms(0)).await), code(wf::sleep("x", ms(0)).await)])
}

async fn failing(_: ()) -> wf::Result<()> {
    wf::sleep("nap", ms(1000)).await?;
    Err("nothing in stock".into())
}

async fn signals(_: ()) -> wf::Result<Vec<Raw>> {
    let first = wf::signal_timeout::<Raw>("go", ms(3000)).await;
    let second = wf::signal::<Raw>("go").await;
    let none = wf::signal_timeout::<Raw>("none", ms(100)).await;
    Ok(vec![or_code(first), or_code(second), or_code(none)])
}

async fn race(_: ()) -> wf::Result<Vec<Raw>> {
    let mut seen = wf::select! {
        v = wf::signal::<String>("stop") => vec![raw("stop"), or_code(v)],
        _ = wf::sleep("limit", ms(5000)) => vec![raw("limit")],
    };
    wf::sleep("after", ms(1000)).await?;
    seen.push(or_code(wf::signal_timeout::<String>("stop", ms(10_000)).await));
    Ok(seen)
}

async fn parallel(_: ()) -> wf::Result<Vec<String>> {
    let named = |name: &'static str, d| {
        let nap = wf::sleep(name, d);
        Box::pin(async move { nap.await.map(|_| name.to_string()) })
    };
    let mut naps = vec![named("c", ms(3000)), named("a", ms(1000)), named("b", ms(2000))];
    let mut woke = Vec::new();
    while let Some(name) = wf::next_of(&mut naps).await {
        woke.push(name?);
    }
    Ok(woke)
}

async fn cancels(how: String) -> wf::Result<String> {
    if how != "final" {
        wf::cooperative_cancel();
    }
    let code = match wf::sleep("long", ms(3_600_000)).await {
        Ok(()) => return Ok("slept".into()),
        Err(e) => e.code.name(),
    };
    wf::step::<String>("clean up", "greet", "cleaner").await?;
    if how == "ignore" {
        return Ok(format!("{}, but done", code));
    }
    Err("cancelled".into())
}

async fn parent(_: ()) -> wf::Result<Vec<Raw>> {
    let first: i64 = wf::child("first", "child", 20).await?;
    let second = wf::child_with::<i64>("second", "child", 40, &ChildOptions { id: "parent-second", ..Default::default() });
    let id = second.child_id();
    let n = second.await?;
    let third = wf::child::<i64>("third", "child", -1).await;
    let kind = third.as_ref().err().map(|e| e.kind()).unwrap_or_default();
    Ok(vec![raw(first), raw(id), raw(n), code(third), raw(kind)])
}

async fn child(n: i64) -> wf::Result<i64> {
    if n < 0 {
        return Err("negative".into());
    }
    wf::sleep("nap", ms(1000)).await?;
    Ok(n + 1)
}

async fn counter(n: i64) -> wf::Result<i64> {
    let n = n + wf::signal::<i64>("add").await?;
    if n < 10 {
        wf::continue_as_new(n);
    }
    Ok(n)
}

async fn queries(_: ()) -> wf::Result<String> {
    let at = Rc::new(Cell::new("start"));
    let seen = at.clone();
    wf::on_query("status", move |how: String| {
        if how == "refuse" {
            return Err(Failure::new("refused"));
        }
        Ok(Raw(format!(r#"{{"at":"{}"}}"#, seen.get())))
    });
    at.set("nap");
    wf::sleep("nap", ms(10_000)).await?;
    at.set("end");
    Ok("done".into())
}

async fn updates(_: ()) -> wf::Result<i64> {
    let mut adds = Updates::new("add", |n: i64| if n > 0 { Ok(()) } else { Err("only more can be added".into()) });
    let mut total = 0;
    while total < 10 {
        let update = adds.next().await?;
        total += update.input;
        update.reply(Ok(total));
    }
    Ok(total)
}

async fn output(_: ()) -> wf::Result<Vec<i64>> {
    let first = wf::emit("progress", "started")?;
    wf::set_attribute("customer", "ada")?;
    let version = wf::version("change", 2);
    wf::sleep("nap", ms(1000)).await?;
    let second = wf::emit("progress", Raw(r#"{"percent":100}"#.into()))?;
    Ok(vec![first, version, second])
}

async fn markers(newest: i64) -> wf::Result<Vec<i64>> {
    let mut got: Vec<i64> = (0..3).map(|_| wf::version("tax", newest)).collect();
    wf::sleep("tax", ms(1000)).await?;
    got.push(wf::version("tax", newest + 1));
    got.push(wf::version("nap", 1));
    wf::sleep("nap", ms(1000)).await?;
    got.push(wf::version("nap", 5));
    wf::emit("tax", got.clone())?;
    if newest < 3 {
        wf::continue_as_new(newest + 1);
    }
    Ok(got)
}

async fn hooks(_: ()) -> wf::Result<Vec<Raw>> {
    let reply = HookReply { status: 200, content_type: "text/plain", body: "thanks" };
    let token = wf::hook("paid", "token-of-the-story", Some(&reply)).await?;
    let taken = wf::hook("paid", "token-of-the-story", None).await;
    let by = wf::signal::<String>("paid").await?;
    Ok(vec![raw(token), code(taken), raw(by)])
}

async fn sender(_: ()) -> wf::Result<Vec<Raw>> {
    let nobody = wf::send("nobody-is-there", "go", "hello").await;
    let listener = wf::child_with::<String>("listener", "listener", (), &ChildOptions { id: "sender-listener", ..Default::default() });
    wf::sleep("nap", ms(1000)).await?;
    let sent = wf::send("sender-listener", "go", "hello").await;
    let heard = listener.await?;
    Ok(vec![code(nobody), code(sent), raw(heard)])
}

async fn listener(_: ()) -> wf::Result<String> {
    Ok(wf::signal("go").await?)
}

async fn long(n: i64) -> wf::Result<i64> {
    let mut sum = 0;
    for i in 0..n {
        sum = wf::body(&format!("body {}", i), || Ok(sum + i)).await?;
        if i % 10 == 9 {
            wf::sleep(&format!("sleep {}", i), ms(60_000)).await?;
        }
    }
    Ok(sum)
}

async fn bytes(input: Bytes) -> wf::Result<Bytes> {
    Ok(wf::body("twice", || Ok(Bytes([&input.0[..], &input.0[..]].concat()))).await?)
}

async fn chance(_: ()) -> wf::Result<Vec<bool>> {
    let before = wf::random::<8>();
    wf::sleep("nap", ms(1000)).await?;
    let after = wf::random::<8>();
    Ok(vec![before != after, wf::info().run_id == "chance"])
}

fn greet(name: String) -> wf::Result<String> {
    Ok(format!("hello {}", name))
}

fn double(n: i64) -> wf::Result<i64> {
    Ok(2 * n)
}

fn flaky(_: ()) -> wf::Result<String> {
    match wf::step_info().attempt {
        n if n < 3 => Err(format!("attempt {}", n).into()),
        _ => Ok(attempted()),
    }
}

fn never(_: ()) -> wf::Result<()> {
    Err(format!("attempt {}", wf::step_info().attempt).into())
}

wf::module! {
    workflows: {
        "sleeps" => sleeps, "steps" => steps, "bodies" => bodies, "retries" => retries, "failures" => failures,
        "refusals" => refusals, "names" => names, "failing" => failing, "signals" => signals { signals: ["go", "none"] },
        "race" => race { signals: ["stop"] }, "parallel" => parallel, "cancels" => cancels, "parent" => parent, "child" => child,
        "counter" => counter { signals: ["add"] }, "queries" => queries { queries: ["status"] },
        "updates" => updates { updates: ["add"] }, "output" => output, "markers" => markers, "hooks" => hooks { signals: ["paid"] },
        "sender" => sender, "listener" => listener { signals: ["go"] }, "long" => long, "bytes" => bytes, "chance" => chance,
    },
    steps: { "greet" => greet, "double" => double, "flaky" => flaky, "never" => never },
}
