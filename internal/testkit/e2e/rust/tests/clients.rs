//! near-sandbox and near-workspaces, unmodified, with this node in the place of the binary that they download: NEAR_SANDBOX_BIN_PATH names it.
use base64::{engine::general_purpose::STANDARD, Engine};
use near_workspaces::types::{Gas, KeyType, NearToken, SecretKey};
use near_workspaces::{AccessKey, Account, AccountDetailsPatch, AccountId};
use serde_json::{json, Value};

fn wasm(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../contracts/c/{name}.wasm", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn metadata() -> Value {
    json!({"spec": "ft-1.0.0", "name": "Troupe", "symbol": "TRP", "icon": null, "reference": null, "reference_hash": null, "decimals": 6})
}

/// ask is a bare JSON-RPC request, for what the crates do not ask.
async fn ask(url: &str, method: &str, params: Value) -> anyhow::Result<Value> {
    let addr = url.trim_start_matches("http://").trim_end_matches('/').to_string();
    let body = json!({"jsonrpc": "2.0", "id": "0", "method": method, "params": params}).to_string();
    let text = tokio::task::spawn_blocking(move || -> anyhow::Result<String> {
        use std::io::{Read, Write};
        let mut c = std::net::TcpStream::connect(&addr)?;
        write!(c, "POST / HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())?;
        let mut out = String::new();
        c.read_to_string(&mut out)?;
        Ok(out)
    })
    .await??;
    let at = text.find("\r\n\r\n").ok_or_else(|| anyhow::anyhow!("no body"))? + 4;
    Ok(serde_json::from_str::<Value>(&text[at..])?["result"].take())
}

async fn view(url: &str, request: &str, account: &str) -> anyhow::Result<Value> {
    ask(url, "query", json!({"request_type": request, "finality": "optimistic", "account_id": account, "prefix_base64": ""})).await
}

// What the examples of near-sandbox do: accounts of the genesis and by patches, code, data, keys, an account of another chain, heights.
#[tokio::test]
async fn near_sandbox_alone() -> anyhow::Result<()> {
    use near_sandbox::{GenesisAccount, Sandbox, SandboxConfig};
    let s = Sandbox::start_sandbox_with_config(SandboxConfig {
        additional_accounts: vec![GenesisAccount::default_with_name("extra.near".parse()?)],
        additional_genesis: Some(json!({"epoch_length": 250})),
        ..Default::default()
    })
    .await?;
    let url = s.rpc_addr.clone();
    assert!(view(&url, "view_account", "extra.near").await?["amount"].is_string());

    s.create_account("alice.sandbox".parse()?).initial_balance(NearToken::from_near(7)).send().await?;
    assert_eq!(view(&url, "view_account", "alice.sandbox").await?["amount"], NearToken::from_near(7).as_yoctonear().to_string());
    assert_eq!(view(&url, "view_access_key_list", "alice.sandbox").await?["keys"].as_array().unwrap().len(), 1);

    s.create_account("bob.sandbox".parse()?).send().await?;
    s.patch_state("bob.sandbox".parse()?)
        .code(STANDARD.encode(wasm("ft")))
        .storage(STANDARD.encode("key"), STANDARD.encode("value"))
        .with_default_access_key()
        .send()
        .await?;
    assert_eq!(view(&url, "view_state", "bob.sandbox").await?["values"][0]["value"], STANDARD.encode("value"));
    assert_eq!(view(&url, "view_code", "bob.sandbox").await?["code_base64"], STANDARD.encode(wasm("ft")));

    let other = Sandbox::start_sandbox().await?;
    other.import_account(&s.rpc_addr, "bob.sandbox".parse()?).with_storage().with_access_keys().send().await?;
    assert_eq!(view(&other.rpc_addr, "view_state", "bob.sandbox").await?["values"][0]["key"], STANDARD.encode("key"));

    for delta in [1, 1000, 10_000] {
        let height = || async { anyhow::Ok(ask(&url, "status", json!([])).await?["sync_info"]["latest_block_height"].as_u64().unwrap()) };
        let before = height().await?;
        s.fast_forward(delta).await?;
        assert!(height().await? >= before + delta, "{before} and {delta}");
    }
    Ok(())
}

#[tokio::test]
async fn accounts_and_contracts() -> anyhow::Result<()> {
    let worker = near_workspaces::sandbox().await?;
    let owner = worker.dev_create_account().await?;
    let alice = owner.create_subaccount("alice").initial_balance(NearToken::from_near(10)).transact().await?.into_result()?;
    let token = worker.dev_deploy(&wasm("ft")).await?;
    token
        .call("new")
        .args_json(json!({"owner_id": owner.id(), "total_supply": "100", "metadata": metadata()}))
        .transact()
        .await?
        .into_result()?;
    let deposit = NearToken::from_yoctonear(1_250_000_000_000_000_000_000);
    alice.call(token.id(), "storage_deposit").args_json(json!({})).deposit(deposit).transact().await?.into_result()?;
    let sent = owner
        .call(token.id(), "ft_transfer")
        .args_json(json!({"receiver_id": alice.id(), "amount": "40"}))
        .deposit(NearToken::from_yoctonear(1))
        .gas(Gas::from_tgas(50))
        .transact()
        .await?
        .into_result()?;
    assert!(!sent.logs().is_empty());
    let balance: String = token.view("ft_balance_of").args_json(json!({"account_id": alice.id()})).await?.json()?;
    assert_eq!(balance, "40");
    let failed = alice
        .call(token.id(), "ft_transfer")
        .args_json(json!({"receiver_id": "nobody.near", "amount": "1"}))
        .deposit(NearToken::from_yoctonear(1))
        .transact()
        .await?;
    assert!(failed.is_failure());
    alice.transfer_near(owner.id(), NearToken::from_near(1)).await?.into_result()?;
    assert!(!worker.view_state(token.id()).await?.is_empty());
    let block = worker.view_block().await?;
    worker.view_chunk().block_hash_and_shard(*block.hash(), 0).await?;
    assert!(worker.gas_price().await?.as_yoctonear() > 0);
    alice.delete_account(owner.id()).await?.into_result()?;
    Ok(())
}

#[tokio::test]
async fn patches() -> anyhow::Result<()> {
    let worker = near_workspaces::sandbox().await?;
    let bob: AccountId = "bob.near".parse()?;
    let key = SecretKey::from_seed(KeyType::ED25519, "bob");
    worker
        .patch(&bob)
        .account(AccountDetailsPatch::default().balance(NearToken::from_near(55)))
        .access_key(key.public_key(), AccessKey::full_access())
        .code(&wasm("ft"))
        .state(b"key", b"value")
        .transact()
        .await?;
    assert_eq!(worker.view_account(&bob).await?.balance, NearToken::from_near(55));
    assert_eq!(worker.view_state(&bob).await?.get(b"key".as_slice()), Some(&b"value".to_vec()));
    assert_eq!(worker.view_code(&bob).await?, wasm("ft"));
    worker.patch_state(&bob, b"key", b"other").await?;
    assert_eq!(worker.view_state(&bob).await?.get(b"key".as_slice()), Some(&b"other".to_vec()));
    let bob = Account::from_secret_key(bob, key, &worker);
    bob.call(bob.id(), "new")
        .args_json(json!({"owner_id": bob.id(), "total_supply": "3", "metadata": metadata()}))
        .transact()
        .await?
        .into_result()?;
    let supply: String = bob.view(bob.id(), "ft_total_supply").await?.json()?;
    assert_eq!(supply, "3");

    // A contract of another sandbox.
    let second = near_workspaces::sandbox().await?;
    second.import_contract(bob.id(), &worker).initial_balance(NearToken::from_near(9)).with_data().transact().await?;
    let supply: String = second.view(bob.id(), "ft_total_supply").await?.json()?;
    assert_eq!(supply, "3");
    Ok(())
}

#[tokio::test]
async fn fast_forward() -> anyhow::Result<()> {
    let worker = near_workspaces::sandbox().await?;
    let before = worker.view_block().await?;
    worker.fast_forward(10_000).await?;
    let after = worker.view_block().await?;
    assert!(after.height() >= before.height() + 9_990, "{} {}", before.height(), after.height());
    assert!(after.timestamp() > before.timestamp());
    assert_ne!(after.epoch_id(), before.epoch_id());
    let account = worker.dev_create_account().await?; // the chain goes on behind it
    assert!(account.view_account().await?.balance > NearToken::from_near(1));
    Ok(())
}
