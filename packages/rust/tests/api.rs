//! Every part of the API on a node. FT_WASM names the NEP-141 contract of the repository.
use std::time::Duration;

use serde_json::{json, Value};
use troupe_sandbox::{
    Account, Action, Chain, ClockOptions, Error, KeyPair, ProductionMode, ProductionOptions,
    Sandbox, StartOptions, WaitUntil, WorldOptions, Worlds, NEAR, TGAS,
};

static WORLDS: Worlds<Token> = Worlds::new(|chain| Box::pin(token(chain)));

struct Token {
    alice: Account,
}

fn wasm() -> Vec<u8> {
    let path = std::env::var("FT_WASM").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../internal/testkit/contracts/c/ft.wasm").into()
    });
    std::fs::read(&path).unwrap_or_else(|e| panic!("FT_WASM: {path}: {e}"))
}

/// Deploys a token of which alice.near has nothing yet.
async fn token(chain: Chain) -> troupe_sandbox::Result<Token> {
    let token = chain.create_account("token.near").code(wasm()).await?;
    let metadata = json!({"spec": "ft-1.0.0", "name": "T", "symbol": "T", "icon": null,
        "reference": null, "reference_hash": null, "decimals": 6});
    chain
        .call_function(&token, "token.near", "new")
        .args(json!({"owner_id": "token.near", "total_supply": "10", "metadata": metadata}))
        .await?;
    let alice = chain.create_account("alice.near").balance(50 * NEAR).await?;
    chain
        .call_function(&alice, "token.near", "storage_deposit")
        .deposit(NEAR / 800)
        .gas(30 * TGAS)
        .await?;
    chain.deal("token.near", "alice.near", 1234).await?;
    Ok(Token { alice })
}

async fn balance(chain: &Chain) -> u128 {
    let text: String = chain
        .view("token.near", "ft_balance_of", json!({"account_id": "alice.near"}))
        .await
        .unwrap();
    text.parse().unwrap()
}

#[tokio::test]
async fn accounts_and_keys() {
    let sandbox = Sandbox::start_with(StartOptions::new().accounts(1)).await.unwrap();
    let dev0 = &sandbox.accounts()[0];
    sandbox.transfer(dev0, "test.near", NEAR / 2).await.unwrap();
    sandbox.transfer(sandbox.root(), "dev0.near", NEAR).await.unwrap();
    let bob = sandbox.create_account("bob.near").await.unwrap();
    assert_eq!(sandbox.account("bob.near").await.unwrap().amount, 100 * NEAR);
    let outcome = sandbox.transfer(&bob, "dev0.near", 3).await.unwrap();
    assert!(outcome.gas_burnt() > 0 && outcome.tokens_burnt() > 0);
    assert!(outcome.receipts.iter().all(|r| r.failure.is_none()));
    let key = KeyPair::from_seed("given");
    let given = sandbox.create_account("given.near").key(key.clone()).await.unwrap();
    assert_eq!(given.public_key(), key.public_key());

    // it replaces an account
    sandbox.set_code("bob.near", Some(&wasm())).await.unwrap();
    sandbox.set_storage("bob.near", "key", Some(b"value")).await.unwrap();
    let again = sandbox.create_account("bob.near").balance(5).await.unwrap();
    let view = sandbox.account("bob.near").await.unwrap();
    assert_eq!((view.amount, view.storage_usage, view.code_hash), (5, 182, "1".repeat(32)));
    let keys: Value = sandbox
        .rpc(
            "EXPERIMENTAL_view_access_key_list",
            json!({"finality": "optimistic", "account_id": "bob.near"}),
        )
        .await
        .unwrap();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert_eq!(keys["keys"][0]["public_key"], again.public_key());
}

/// near-api reads access keys so, and the README says how many blocks that takes.
#[tokio::test]
async fn keys_are_final_after_two_blocks() {
    let sandbox = Sandbox::start().await.unwrap();
    let alice = sandbox.create_account("alice.near").await.unwrap();
    let query = json!({"request_type": "view_access_key", "finality": "final",
        "account_id": alice.id(), "public_key": alice.public_key()});
    let before: Value = sandbox.rpc("query", &query).await.unwrap();
    assert!(before["error"].as_str().unwrap().contains("does not exist"), "{before}");
    sandbox.mine(2).await.unwrap();
    let key: Value = sandbox.rpc("query", &query).await.unwrap();
    assert_eq!(key["permission"], "FullAccess", "{key}");
}

#[tokio::test]
async fn transactions_of_many_actions() {
    let (world, token) = WORLDS.world().await.unwrap();
    let key = KeyPair::from_seed("sub.alice.near");
    world
        .transact(
            &token.alice,
            "sub.alice.near",
            &[
                Action::CreateAccount,
                Action::Transfer(5 * NEAR),
                Action::AddKey(key.public_key().into()),
                Action::DeployContract(wasm()),
                Action::call("no_such_method", json!({})).unwrap(),
            ],
        )
        .await
        .unwrap_err(); // all of it is undone
    assert!(world.account("sub.alice.near").await.is_err());
    let create = [
        Action::CreateAccount,
        Action::Transfer(5 * NEAR),
        Action::AddKey(key.public_key().into()),
        Action::DeployContract(wasm()),
    ];
    world.transact(&token.alice, "sub.alice.near", &create).await.unwrap();
    let sub = Account::new("sub.alice.near", key.clone());
    let second = KeyPair::random();
    let swap =
        [Action::AddKey(second.public_key().into()), Action::DeleteKey(key.public_key().into())];
    world.transact(&sub, "sub.alice.near", &swap).await.unwrap();
    let err = world.transfer(&sub, "alice.near", 1).await.unwrap_err();
    assert_eq!(err.cause(), Some("UNKNOWN_ACCESS_KEY"));
    let sub = Account::new("sub.alice.near", second);
    world
        .transact(&sub, "sub.alice.near", &[Action::DeleteAccount("alice.near".into())])
        .await
        .unwrap();
    assert_eq!(world.account("sub.alice.near").await.unwrap_err().cause(), Some("UNKNOWN_ACCOUNT"));
}

#[tokio::test]
async fn fifty_transactions_of_one_key_at_once() {
    let (world, token) = WORLDS.world().await.unwrap();
    let world = std::sync::Arc::new(world);
    let sending: Vec<_> = (0..50)
        .map(|_| {
            let (world, alice) = (world.clone(), token.alice.clone());
            tokio::spawn(async move { world.transfer(&alice, "test.near", 1).await })
        })
        .collect();
    let mut hashes = std::collections::BTreeSet::new();
    for sent in sending {
        hashes.insert(sent.await.unwrap().unwrap().hash);
    }
    assert_eq!(hashes.len(), 50);
}

#[tokio::test]
async fn patches() {
    let (world, _) = WORLDS.world().await.unwrap();
    world.set_balance("alice.near", 77 * NEAR).await.unwrap();
    assert_eq!(world.account("alice.near").await.unwrap().amount, 77 * NEAR);
    let key = KeyPair::from_seed("second");
    world.set_key("alice.near", key.public_key()).await.unwrap();
    let second = Account::new("alice.near", key.clone());
    world.transfer(&second, "test.near", 1).await.unwrap();
    world.remove_key("alice.near", key.public_key()).await.unwrap();
    let err = world.transfer(&second, "test.near", 1).await.unwrap_err();
    assert_eq!(err.cause(), Some("UNKNOWN_ACCESS_KEY"));

    let state = || async {
        let params = json!({"request_type": "view_state", "finality": "optimistic",
            "account_id": "alice.near", "prefix_base64": ""});
        world.rpc::<Value>("query", params).await.unwrap()["values"].take()
    };
    world.set_storage("alice.near", "key", Some(b"value")).await.unwrap();
    assert_eq!(state().await, json!([{"key": "a2V5", "value": "dmFsdWU="}]));
    let data = json!({"Data": {"account_id": "alice.near", "data_key": "a2V5", "value": null}});
    world.patch_state(&[data]).await.unwrap();
    assert_eq!(state().await, json!([]));
    world.set_storage("alice.near", [0, 255], Some(b"v")).await.unwrap();
    world.set_storage("alice.near", [0, 255], None).await.unwrap();
    assert_eq!(state().await, json!([]));
    let data = json!({"Data": {"account_id": "nobody.near", "data_key": "a2V5", "value": ""}});
    let err = world.patch_state(&[data]).await.unwrap_err();
    assert!(
        err.cause() == Some("CANNOT_PATCH") && err.to_string().contains("nobody.near"),
        "{err}"
    );

    let dump = world.dump_state(&["alice.near"]).await.unwrap();
    world.set_balance("alice.near", 1).await.unwrap();
    world.load_state(&dump).await.unwrap();
    assert!(world.account("alice.near").await.unwrap().amount > NEAR);
    assert!(world.dump_state(&[]).await.unwrap().len() > dump.len());
    world.set_code("token.near", None).await.unwrap();
    assert_eq!(world.account("token.near").await.unwrap().code_hash, "1".repeat(32));
}

#[tokio::test]
async fn contracts_and_their_failures() {
    let (world, token) = WORLDS.world().await.unwrap();
    assert_eq!(balance(&world).await, 1234);
    let send = |receiver: &str, amount: &str| {
        world
            .call_function(&token.alice, "token.near", "ft_transfer")
            .args(json!({"receiver_id": receiver, "amount": amount}))
            .deposit(1)
    };
    let outcome = send("token.near", "4").await.unwrap();
    assert_eq!(outcome.json::<Option<u8>>().unwrap(), None);
    assert!(outcome.logs().any(|l| l.contains("ft_transfer")), "{outcome:?}");
    let debug = format!("{outcome:?}");
    assert!(debug.contains("value: \"") && !debug.contains("receipts_outcome"), "{debug}");
    assert_eq!(balance(&world).await, 1230);

    let err = send("missing.near", "1").await.unwrap_err();
    let failed = err.transaction().expect("a failed transaction");
    assert!(failed.failure["ActionError"].is_object(), "{}", failed.failure);
    let hash = &failed.outcome.hash;
    let subject = format!("transaction {hash} of alice.near to token.near (ft_transfer) failed: ");
    assert!(err.to_string().starts_with(&(subject + &failed.reason())), "{err}");
    assert!(failed.outcome.gas_burnt() > 0);
    assert_eq!(format!("{err:?}"), err.to_string());
    let err = world.call_function(&token.alice, "token.near", "no_such_method").await.unwrap_err();
    assert!(err.transaction().unwrap().reason().contains("MethodNotFound"), "{err}");

    let err = world.view::<Value>("token.near", "no_such_method", json!({})).await.unwrap_err();
    assert!(
        err.cause() == Some("CONTRACT_EXECUTION_ERROR")
            && err.to_string().contains(" token.near no_such_method: ")
            && err.to_string().contains("MethodNotFound"),
        "{err}"
    );
    let err = world
        .view::<u8>("token.near", "ft_balance_of", json!({"account_id": "alice.near"}))
        .await
        .unwrap_err();
    let wanted = "token.near ft_balance_of: the contract returned \"\\\"1230\\\"\": ";
    assert!(matches!(&err, Error::BadReply(m) if m.starts_with(wanted)), "{err}");
    let raw = world
        .view_bytes("token.near", "ft_balance_of", br#"{"account_id":"alice.near"}"#)
        .await
        .unwrap();
    assert_eq!(raw, b"\"1230\"");
    let err = world.call_function(&token.alice, "token.near", "x").args(NotJson).await.unwrap_err();
    assert!(matches!(err, Error::Input(_)), "{err}");
}

struct NotJson;
impl serde::Serialize for NotJson {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not JSON"))
    }
}

#[tokio::test]
async fn trace_simulate_profile_and_replay() {
    let (world, token) = WORLDS.world().await.unwrap();
    let call = Action::FunctionCall {
        method: "ft_transfer".into(),
        args: br#"{"receiver_id":"token.near","amount":"4"}"#.into(),
        gas: 50 * TGAS,
        deposit: 1,
    };
    let signed = world.sign(&token.alice, "token.near", &[call]).await.unwrap();
    let simulated = world.simulate(&signed).await.unwrap();
    assert_eq!(simulated.status["simulation"]["complete"], true);
    let traced = world.trace_signed(&signed, false).await.unwrap();
    assert!(traced.simulated && traced.complete);
    assert_eq!(balance(&world).await, 1234);

    let (sent, profile) = world.profile_of(world.send(&signed, WaitUntil::Final)).await.unwrap();
    let hash = sent.unwrap().hash;
    assert_eq!(hash, signed.hash());
    assert_eq!(profile.transactions, 1);
    assert!(
        profile.functions.iter().any(|f| f.account_id == "token.near" && f.gas > 0),
        "{profile:?}"
    );
    let tags: Vec<Value> = world.rpc("sandbox_tags", ()).await.unwrap();
    assert!(tags.is_empty(), "{tags:?}");
    let trace = world.trace(&hash, true).await.unwrap();
    assert!(!trace.simulated && trace.profile.is_object() && trace.gas_burnt > 0);
    let calls: Vec<_> = trace.outcomes.iter().flat_map(|o| &o.calls).collect();
    assert!(calls.iter().any(|c| c.method_name == "ft_transfer"
        && c.host_calls.iter().any(|h| h.name == "storage_write" && h.gas > 0)));

    let dump = world.dump_transaction(&hash).await.unwrap();
    let dump = serde_json::from_str(&serde_json::to_string(&dump).unwrap()).unwrap();
    let other = world.new_world().await.unwrap();
    let replay = other.replay(&dump, true).await.unwrap();
    assert!(replay.same && replay.tx_hash.len() > 40, "{replay:?}");

    assert!(world.tag("mine").await.unwrap().open);
    world.transfer(&token.alice, "test.near", 1).await.unwrap();
    world.end_tag().await.unwrap();
    world.transfer(&token.alice, "test.near", 1).await.unwrap();
    assert_eq!(world.profile("mine").await.unwrap().transactions, 1);
}

#[tokio::test]
async fn impersonation() {
    let (world, _) = WORLDS.world().await.unwrap();
    let alice = Account::impersonated("alice.near");
    let err = world.transfer(&alice, "test.near", 1).await.unwrap_err();
    assert!(
        err.cause() == Some("INVALID_TRANSACTION") && err.to_string().contains("InvalidSignature"),
        "{err}"
    );
    world.impersonate(&["alice.near"]).await.unwrap();
    world.transfer(&alice, "test.near", 1).await.unwrap();
    world.impersonate(&[]).await.unwrap();
    assert!(world.transfer(&alice, "test.near", 1).await.is_err());
    world.impersonate_all().await.unwrap();
    world.transfer(&Account::impersonated("test.near"), "alice.near", 1).await.unwrap();
    world.set_balance("keyless.near", NEAR).await.unwrap();
    let err =
        world.transfer(&Account::impersonated("keyless.near"), "alice.near", 1).await.unwrap_err();
    assert!(matches!(&err, Error::Input(m) if m.contains("set_key")), "{err}");
}

#[tokio::test]
async fn blocks_snapshots_and_time() {
    let (world, _) = WORLDS.world().await.unwrap();
    let ready = world.snapshot_as("ready").await.unwrap();
    assert_eq!(ready.id, "ready");
    let unnamed = world.snapshot().await.unwrap();
    assert_eq!(world.mine(3).await.unwrap().height, ready.height + 3);
    world.set_balance("alice.near", 5).await.unwrap();
    assert_eq!(world.revert(&unnamed).await.unwrap().height, ready.height);
    assert_ne!(world.account("alice.near").await.unwrap().amount, 5);
    world.revert("ready").await.unwrap();
    let ids: Vec<String> = world.snapshots().await.unwrap().into_iter().map(|s| s.id).collect();
    assert!(ids.contains(&"ready".into()), "{ids:?}");
    world.drop_snapshot("ready").await.unwrap();
    let err = world.revert("ready").await.unwrap_err();
    assert!(err.cause() == Some("SANDBOX_REFUSED") && err.to_string().contains("ready"), "{err}");

    let day = Duration::from_secs(24 * 60 * 60);
    let before = world.clock().await.unwrap().now;
    let after = world.advance_time(day).await.unwrap().now;
    assert!(u128::from(after - before) >= day.as_nanos());
    let at = after + 1_000_000_000;
    let clock = world.set_clock(ClockOptions::new().now(at).frozen(true)).await.unwrap();
    assert!(clock.frozen && clock.now == at, "{clock:?}");
    let second = Duration::from_secs(1);
    let clock = world.set_clock(ClockOptions::new().frozen(false).interval(second)).await.unwrap();
    assert!(!clock.frozen && u128::from(clock.interval) == second.as_nanos(), "{clock:?}");
    let clock = world.set_clock(ClockOptions::new().next(at + 60_000_000_000)).await.unwrap();
    assert_eq!(clock.next, at + 60_000_000_000);

    world.fast_forward(1000).await.unwrap();
    let head = world.mine(1).await.unwrap();
    assert!(head.height > ready.height + 1000);
    assert!(world.next_epoch().await.unwrap().height > head.height);
    let manual = ProductionOptions::new().mode(ProductionMode::Manual);
    assert_eq!(world.set_production(manual).await.unwrap().mode, ProductionMode::Manual);
    let (_, token) = WORLDS.world().await.unwrap();
    let signed = world.sign(&token.alice, "test.near", &[Action::Transfer(1)]).await.unwrap();
    let sent = world.send(&signed, WaitUntil::None).await.unwrap();
    assert_eq!(sent.receipts.len(), 0);
    let block = world.mine_until(signed.hash()).await.unwrap();
    let reorganised = world.reorg(1).await.unwrap();
    assert!(reorganised.hash != block.hash);
}

#[tokio::test]
async fn worlds_end_when_dropped() {
    let sandbox = Sandbox::start().await.unwrap();
    let snapshot = sandbox.snapshot().await.unwrap();
    let a = sandbox.new_world_with(WorldOptions::new().snapshot(&snapshot)).await.unwrap();
    let b = a.new_world().await.unwrap();
    assert_eq!(b.info().parent.as_deref(), Some(a.id()));
    a.set_balance("a.near", 1).await.unwrap();
    assert!(b.account("a.near").await.is_err() && sandbox.account("a.near").await.is_err());
    assert_eq!(sandbox.worlds().await.unwrap().len(), 2);
    let chain = (*b).clone();
    drop(b);
    assert_eq!(sandbox.worlds().await.unwrap().len(), 1);
    let err = chain.mine(1).await.unwrap_err();
    assert!(
        matches!(&err, Error::WorldEnded { url, method } if url == chain.url() && method == "sandbox_mine"),
        "{err}"
    );
    let c = a.new_world().await.unwrap();
    a.end().await.unwrap();
    c.end().await.unwrap(); // it ended with its parent
    assert!(sandbox.worlds().await.unwrap().is_empty());
}

#[tokio::test]
async fn refusals_have_name_cause_and_info() {
    let (world, _) = WORLDS.world().await.unwrap();
    match world.account("missing.near").await.unwrap_err() {
        Error::Rpc(e) => {
            assert_eq!((e.name.as_str(), e.cause.as_str()), ("HANDLER_ERROR", "UNKNOWN_ACCOUNT"));
            assert_eq!(e.info["requested_account_id"], "missing.near");
            assert_eq!((e.method.as_str(), e.code), ("EXPERIMENTAL_view_account", -32000));
        }
        other => panic!("{other}"),
    }
    let err = world.rpc::<Value>("no_such_method", ()).await.unwrap_err();
    assert_eq!(err.cause(), Some("METHOD_NOT_FOUND"));
    let err = world.rpc::<u8>("status", ()).await.unwrap_err();
    assert!(
        matches!(&err, Error::BadReply(m) if m.starts_with("status: the result of http")),
        "{err}"
    );
}

#[tokio::test]
async fn failed_setup_is_tried_again() {
    static TRIES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    static FAILING: Worlds = Worlds::new(|chain| {
        Box::pin(async move {
            match TRIES.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => chain.view("nobody.near", "x", json!({})).await,
                _ => Ok(()),
            }
        })
    });
    assert!(matches!(FAILING.world().await, Err(Error::Rpc(_))));
    let (world, ()) = FAILING.world().await.unwrap();
    world.mine(1).await.unwrap();
    assert_eq!(FAILING.sandbox().await.unwrap().root().id(), "test.near");
}

/// 50 tests with a runtime each, as `#[tokio::test]` makes them, and a world each.
#[test]
fn fifty_tests_with_a_world_each() {
    let test = |n: u128| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (world, token) = WORLDS.world().await.unwrap();
            world
                .call_function(&token.alice, "token.near", "ft_transfer")
                .args(json!({"receiver_id": "token.near", "amount": (n + 1).to_string()}))
                .deposit(1)
                .await
                .unwrap();
            assert_eq!(balance(&world).await, 1233 - n);
        });
    };
    std::thread::scope(|s| {
        for thread in 0..5 {
            s.spawn(move || (0..10).for_each(|n| test(thread * 10 + n)));
        }
    });
}
