use std::env;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::OnceCell;

use crate::{Chain, Result, Sandbox, StartOptions, World};

/// The variable with the URL of a sandbox that runs already.
const URL: &str = "TROUPE_SANDBOX_URL";

/// The future that a setup returns: `Box::pin(async move { ... })`.
pub type SetupFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Worlds for tests: one sandbox for all tests of a program, started at the first use, and a world
/// for each test. Make it a `static`; tests may run in parallel.
///
/// The setup runs once, on a world of its own, before the first test: it deploys contracts and
/// makes accounts. The world of each test continues what it leaves, and each test gets a reference
/// to what it returns. If it fails, the test that needed it fails, and the next test tries again.
///
/// The node ends with the test program. If the environment variable `TROUPE_SANDBOX_URL` has the
/// URL of a sandbox, it is used instead of a new one: for runners with a process per test.
///
/// ```
/// use troupe_sandbox::{Account, Result, Worlds};
///
/// static WORLDS: Worlds<Account> =
///     Worlds::new(|chain| Box::pin(async move { chain.create_account("alice.near").await }));
///
/// # #[cfg(test)]
/// #[tokio::test]
/// async fn alice_pays() -> Result<()> {
///     let (world, alice) = WORLDS.world().await?;
///     world.transfer(alice, "test.near", 5).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Worlds<T = ()> {
    setup: fn(Chain) -> SetupFuture<T>,
    options: StartOptions,
    base: OnceCell<Base<T>>,
}

#[derive(Debug)]
struct Base<T> {
    world: World,
    sandbox: Sandbox,
    value: T,
}

impl<T: Send + Sync> Worlds<T> {
    /// Makes worlds that continue what a setup leaves. Nothing is started yet.
    pub const fn new(setup: fn(Chain) -> SetupFuture<T>) -> Self {
        Self::with_options(StartOptions::new(), setup)
    }

    /// Makes worlds on a sandbox with options. In a `static`, [`StartOptions::new`] is the only
    /// one that compiles; use a `LazyLock` for others.
    pub const fn with_options(options: StartOptions, setup: fn(Chain) -> SetupFuture<T>) -> Self {
        Self { setup, options, base: OnceCell::const_new() }
    }

    async fn base(&self) -> Result<&Base<T>> {
        self.base
            .get_or_try_init(|| async {
                let sandbox = match env::var(URL).ok().filter(|u| !u.is_empty()) {
                    Some(url) => Sandbox::connect(&url, self.options.account_count()).await?,
                    None => Sandbox::start_with(self.options.clone()).await?,
                };
                let world = sandbox.new_world().await?;
                let value = (self.setup)((*world).clone()).await?;
                Ok(Base { world, sandbox, value })
            })
            .await
    }

    /// Makes a world for a test, and returns what the setup returned. The world ends when it is
    /// dropped, also by a panic.
    pub async fn world(&self) -> Result<(World, &T)> {
        let base = self.base().await?;
        Ok((base.world.new_world().await?, &base.value))
    }

    /// Returns the sandbox, for its accounts.
    pub async fn sandbox(&self) -> Result<&Sandbox> {
        Ok(&self.base().await?.sandbox)
    }
}
