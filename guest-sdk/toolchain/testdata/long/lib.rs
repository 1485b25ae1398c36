//! A workflow that fails, and answers updates, by more than a host takes.
use wf::{Failure, StepOptions, Updates};
use wfhost_workflow as wf;

fn huge() -> Failure {
    Failure::new(&("x".to_string() + &"é".repeat(1 << 20))).kind("Huge").fatal()
}

async fn long(_: ()) -> wf::Result<()> {
    let twice = StepOptions { attempts: Some(2), ..Default::default() };
    let failed: Result<(), wf::Error> = wf::body_with("body", &twice, || Err(huge())).await;
    let e = failed.err().unwrap();
    let kind = wf::json::text_field(&e.json, "type");
    wf::emit("seen", format!("{} {} {} {}", e.code.name(), e.attempts(), kind, e.message().len()))?;
    let mut words = Updates::new("word", |_: String| Ok(()));
    loop {
        let update = words.next().await?;
        match update.input.as_str() {
            "fail" => update.reply::<String>(Err(huge())),
            "answer" => update.reply(Ok("x".repeat(2 << 20))),
            _ => {
                update.reply(Ok("fine".to_string()));
                return Err(huge());
            }
        }
    }
}

wf::module! { workflows: { "long" => long { updates: ["word"] } } }
