//! A mail campaign, an approval by link, and an order, in Rust: the same as examples/drip, approval and orders.

use std::time::Duration;

use wfhost_workflow as wf;
use wf::{http::Request, json, Code, Failure, HookReply, Raw, StepOptions};

const DAY: Duration = Duration::from_secs(86_400);

/// A step that sends a mail. A real one hands the idempotency key to its mail service.
async fn mail(name: &str, text: &str) -> wf::Result<()> {
    wf::body(name, || {
        wf::log(wf::Level::Info, text);
        Ok(wf::step_info().idempotency_key)
    })
    .await?;
    Ok(())
}

/// Sends four mails over six days; the result is their number.
async fn drip(input: Raw) -> wf::Result<u32> {
    let email = input.text("email");
    let mails = [("welcome", 3), ("tips", 2), ("success stories", 1), ("offer", 0)];
    let mut sent = 0;
    for (name, days) in mails {
        mail(&format!("mail {}", name), &format!("{} to {}", name, email)).await?;
        sent += 1;
        if days > 0 {
            wf::sleep(&format!("after {}", name), days * DAY).await?;
        }
    }
    Ok(sent)
}

/// Sends a link, reminds after three days, and gives up after seven.
async fn approval(input: Raw) -> wf::Result<String> {
    let reply = HookReply { status: 200, content_type: "text/plain", body: "Thank you.\n" };
    let token = wf::hook("decision", "", Some(&reply)).await?;
    let number = input.text("Number");
    mail("ask", &format!("please approve {} by /v1/hooks/{}", number, token)).await?;
    for days in [3, 4] {
        match wf::signal_timeout::<Raw>("decision", days * DAY).await {
            Ok(d) if d.is_true("Approved") => return Ok(format!("approved by {}", d.text("By"))),
            Ok(d) => return Err(format!("refused by {}", d.text("By")).into()),
            Err(e) if e.code != Code::Timeout => return Err(e.into()),
            Err(_) => mail(&format!("remind after {}", days), &format!("still waiting for {}", number)).await?,
        }
    }
    Err("nobody decided within seven days".into())
}

/// A step that sends JSON with its idempotency key; its result is the id in the answer.
async fn post(name: &str, url: String, body: String) -> wf::Result<String> {
    let retry = StepOptions { attempts: Some(6), timeout: "10s", ..Default::default() };
    let id = wf::body_with(name, &retry, || {
        let answer = Request::new("POST", &url)
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer {{secret:SHOP}}")
            .header("Idempotency-Key", &wf::step_info().idempotency_key)
            .body(body)
            .send()?
            .checked()?;
        Ok(json::text_field(&String::from_utf8_lossy(&answer.body), "ID"))
    })
    .await?;
    Ok(id)
}

/// Charges, then ships; if no courier takes it, the charge is given back.
async fn order(input: Raw) -> wf::Result<Raw> {
    let service = input.text("Service");
    let charge = post("charge", format!("{}/charges", service), format!(r#"{{"cents":{}}}"#, input.number("Cents"))).await?;
    let item = json::quote(&input.text("Item"));
    match post("ship", format!("{}/parcels", service), format!(r#"{{"item":{}}}"#, item)).await {
        Ok(parcel) => Ok(Raw(format!(r#"{{"Charge":{},"Parcel":{}}}"#, json::quote(&charge), json::quote(&parcel)))),
        Err(why) => {
            let refund = post("refund", format!("{}/refunds", service), format!(r#"{{"charge":{}}}"#, json::quote(&charge))).await;
            refund.map_err(|e| Failure::new(&format!("{}; the refund failed, too: {}", why, e)))?;
            Err(why)
        }
    }
}

wf::module! {
    workflows: { "drip" => drip, "approval" => approval { signals: ["decision"] }, "orders" => order },
}
