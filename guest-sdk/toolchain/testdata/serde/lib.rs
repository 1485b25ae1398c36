//! A workflow whose payloads are types that serde reads and writes.
use serde::{Deserialize, Serialize};
use wfhost_workflow as wf;

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u32,
    #[serde(default)]
    gift: bool,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    order: Order,
    paid: Option<u32>,
}

wf::serde_payload!(Order, Receipt);

async fn buy(order: Order) -> wf::Result<Receipt> {
    // The result of the body is a payload, too.
    let paid: Receipt = wf::body("pay", || Ok(Receipt { paid: Some(order.cents), order: Order { item: order.item.clone(), ..order } })).await?;
    Ok(paid)
}

wf::module! { workflows: { "buy" => buy } }
