//! A contract that keeps deposits of NEAR until a day.

use near_sdk::store::LookupMap;
use near_sdk::{
    env, near, require, AccountId, BorshStorageKey, NearToken, PanicOnDefault, Promise,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(BorshStorageKey)]
#[near]
enum Key {
    Deposits,
}

#[near(event_json(standard = "locker"))]
pub enum Event {
    #[event_version("1.0.0")]
    Deposited { account_id: AccountId, amount: NearToken },
}

#[near(contract_state)]
#[derive(PanicOnDefault)]
pub struct Locker {
    opens_ms: u64,
    deposits: LookupMap<AccountId, NearToken>,
}

#[near]
impl Locker {
    #[init]
    pub fn new(days: u64) -> Self {
        let opens_ms = env::block_timestamp_ms() + days * DAY_MS;
        Self { opens_ms, deposits: LookupMap::new(Key::Deposits) }
    }

    /// Adds the attached deposit to the caller's, and returns the sum.
    #[payable]
    pub fn deposit(&mut self) -> NearToken {
        let (account_id, amount) = (env::predecessor_account_id(), env::attached_deposit());
        require!(!amount.is_zero(), "attach a deposit");
        let sum = self.deposit_of(account_id.clone()).saturating_add(amount);
        self.deposits.insert(account_id.clone(), sum);
        Event::Deposited { account_id, amount }.emit();
        sum
    }

    /// Pays the caller's deposit back once the locker is open.
    pub fn withdraw(&mut self) -> Promise {
        require!(env::block_timestamp_ms() >= self.opens_ms, "the locker is closed");
        let account_id = env::predecessor_account_id();
        let Some(amount) = self.deposits.remove(&account_id) else {
            env::panic_str("no deposit");
        };
        Promise::new(account_id).transfer(amount)
    }

    pub fn deposit_of(&self, account_id: AccountId) -> NearToken {
        self.deposits.get(&account_id).copied().unwrap_or_default()
    }
}
