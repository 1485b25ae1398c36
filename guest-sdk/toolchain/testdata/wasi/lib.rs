//! A workflow for WASI, which asks std for what has no answer on wasm32-unknown-unknown: the clock, and a map with its own order.
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wfhost_workflow as wf;

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

async fn nap(name: String) -> wf::Result<String> {
    let map: HashMap<u32, u32> = (0..8).map(|i| (i, i)).collect();
    let order: Vec<String> = map.keys().map(|k| k.to_string()).collect();
    let began = seconds();
    wf::sleep("hour", Duration::from_secs(3600)).await?;
    // A replay comes here with the order that the map had before the sleep.
    let recorded: String = wf::body("order", || Ok(order.join(""))).await?;
    wf::sleep("another hour", Duration::from_secs(3600)).await?;
    println!("printed to the log");
    Ok(format!("hello {}, {} s later, {} {}", name, seconds() - began, recorded.len(), recorded == order.join("")))
}

wf::module! { workflows: { "nap" => nap } }
