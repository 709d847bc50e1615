use std::time::Duration;

use serde_json::json;
use troupe_sandbox::{build_contract, Account, Chain, Result, Worlds, NEAR};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

// Each test gets a world: a chain that continues what setup left, and ends with the test.
static WORLDS: Worlds<Account> = Worlds::new(|chain| Box::pin(setup(chain)));

async fn setup(chain: Chain) -> Result<Account> {
    let wasm = build_contract(env!("CARGO_MANIFEST_DIR"))?;
    let locker = chain.create_account("locker.near").code(wasm).await?;
    chain.call_function(&locker, "locker.near", "new").args(json!({ "days": 30 })).await?;
    chain.create_account("alice.near").balance(10 * NEAR).await
}

/// Returns what the locker has of alice.near.
async fn deposited(world: &Chain) -> Result<u128> {
    let args = json!({ "account_id": "alice.near" });
    let yocto: String = world.view("locker.near", "deposit_of", args).await?;
    Ok(yocto.parse().unwrap())
}

#[tokio::test]
async fn a_deposit_is_kept_and_logged() -> Result<()> {
    let (world, alice) = WORLDS.world().await?;
    let outcome = world.call_function(alice, "locker.near", "deposit").deposit(2 * NEAR).await?;
    assert_eq!(deposited(&world).await?, 2 * NEAR);
    assert!(outcome.logs().any(|l| l.contains(r#""event":"deposited""#)), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn another_test_does_not_see_that() -> Result<()> {
    let (world, _) = WORLDS.world().await?;
    assert_eq!(deposited(&world).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_closed_locker_pays_nothing() -> Result<()> {
    let (world, alice) = WORLDS.world().await?;
    world.call_function(alice, "locker.near", "deposit").deposit(2 * NEAR).await?;
    world.advance_time(29 * DAY).await?;
    let err = world.call_function(alice, "locker.near", "withdraw").await.unwrap_err();
    assert!(err.to_string().contains("the locker is closed"), "{err}");
    assert_eq!(deposited(&world).await?, 2 * NEAR);
    Ok(())
}

#[tokio::test]
async fn an_open_locker_pays_the_deposit_back() -> Result<()> {
    let (world, alice) = WORLDS.world().await?;
    world.call_function(alice, "locker.near", "deposit").deposit(2 * NEAR).await?;
    world.advance_time(30 * DAY).await?;
    let before = world.account("alice.near").await?.amount;
    world.call_function(alice, "locker.near", "withdraw").await?;
    let received = world.account("alice.near").await?.amount - before;
    assert!(received > 2 * NEAR - NEAR / 100, "{received}"); // less the gas of the call
    assert_eq!(deposited(&world).await?, 0);
    Ok(())
}
