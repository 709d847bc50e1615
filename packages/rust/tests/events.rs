//! Subscriptions.
#![cfg(feature = "events")]
use serde_json::json;
use troupe_sandbox::{Error, Finality, Sandbox, StartOptions, Topic};

#[tokio::test]
async fn subscriptions() {
    let sandbox = Sandbox::start_with(StartOptions::new().accounts(1)).await.unwrap();
    let dev0 = &sandbox.accounts()[0];
    let world = sandbox.new_world().await.unwrap();
    let topic = Topic::blocks().finality(Finality::Optimistic);
    let mut blocks = world.subscribe(topic.clone()).await.unwrap();
    let mut transactions = world.subscribe(Topic::transactions("dev0.near")).await.unwrap();
    let head = world.mine(2).await.unwrap();
    let mut heights = Vec::new();
    let mut cursor = blocks.cursor().clone();
    while heights.last() != Some(&head.height) {
        let message = blocks.next().await.unwrap().expect("a block");
        heights.push(message.body["block"]["header"]["height"].as_u64().unwrap());
        if heights.len() == 1 {
            cursor = message.cursor;
        }
    }
    assert_eq!(heights, [head.height - 1, head.height]);
    let mut again = world.subscribe(topic.after(cursor)).await.unwrap();
    let message = again.next().await.unwrap().unwrap();
    assert_eq!(message.body["block"]["header"]["height"], head.height);

    let sent = world.transfer(dev0, "test.near", 1).await.unwrap();
    let mut reached = Vec::new();
    while !reached.contains(&json!("EXECUTED_OPTIMISTIC")) {
        let message = transactions.next().await.unwrap().unwrap();
        assert_eq!(message.body["transaction"]["tx_hash"], sent.hash);
        reached.push(message.body["transaction"]["final_execution_status"].clone());
    }
    world.mine(3).await.unwrap();
    let mut done = world.subscribe(Topic::transaction_hashes(&[&sent.hash])).await.unwrap();
    let mut last = None;
    while let Some(message) = done.next().await.unwrap() {
        last = Some(message.body["transaction"]["final_execution_status"].clone());
    }
    assert_eq!(last, Some(json!("FINAL")));

    let refused = world.subscribe(Topic::blocks().standard("x").from_height(1 << 60)).await;
    assert!(matches!(refused, Err(Error::Rpc(_))), "{refused:?}");
    let url = world.ws_url();
    world.end().await.unwrap();
    let end = loop {
        match blocks.next().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(&end, Err(Error::SubscriptionClosed { url: u, .. }) if *u == url), "{end:?}");
}

#[tokio::test]
async fn no_node() {
    let sandbox = Sandbox::start().await.unwrap();
    let chain = (*sandbox).clone();
    sandbox.stop().await;
    let err = chain.subscribe(Topic::messages()).await.unwrap_err();
    assert!(matches!(err, Error::SubscriptionClosed { .. }), "{err}");
}
