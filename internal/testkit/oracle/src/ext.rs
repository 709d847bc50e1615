//! The world of one call: an empty trie, and promises with the ids that a node gives them.

use near_primitives::action::{
    Action, AddKeyAction, CreateAccountAction, DeleteAccountAction, DeleteKeyAction, DeployContractAction,
    DeployGlobalContractAction, DeterministicStateInitAction, FunctionCallAction, StakeAction, TransferAction,
    TransferToGasKeyAction, UniversalStateInitAction, UseGlobalContractAction,
};
use near_primitives::deterministic_account_id::{DeterministicAccountStateInit, DeterministicAccountStateInitV1};
use near_primitives::universal_state_init::{UniversalStateInit, state_init_send_counts};
use near_primitives_core::account::{AccessKey, AccessKeyPermission, FunctionCallPermission, GasKeyInfo};
use near_primitives_core::hash::{CryptoHash, YieldId};
use near_primitives_core::types::{AccountId, Balance, Gas, GasWeight, Nonce, NonceIndex};
use near_crypto::PublicKey;
use near_primitives_core::universal_state_init::{DecodeMode, RawStateInit, StateInitError, UniversalStateInitCounts};
use near_vm_runner::logic::mocks::mock_external::MockedValuePtr;
use near_vm_runner::logic::types::{ActionIndex, GlobalContractDeployMode, GlobalContractIdentifier, ReceiptIndex};
use near_vm_runner::logic::{External, HostError, StorageAccessTracker, VMLogicError, ValuePtr};
use sha2::Digest;
use std::collections::{BTreeMap, HashMap, HashSet};

type Result<T> = std::result::Result<T, VMLogicError>;

/// A receipt in the making.
pub struct Made {
    receiver: AccountId,
    refund_to: Option<AccountId>,
    outputs: Vec<(CryptoHash, AccountId)>,
    inputs: Vec<CryptoHash>,
    actions: Vec<Action>,
    yielded: bool,
}

/// What calls leave to the next of their session: as changes that are not in the trie yet, so that no access pays for a node.
#[derive(Clone, Default)]
pub struct World {
    storage: HashMap<Vec<u8>, Vec<u8>>,
    waiting: HashSet<CryptoHash>,
    ids: HashMap<YieldId, CryptoHash>,
}

/// Ext is what a call sees of its chain. The trie is empty.
#[derive(Default)]
pub struct Ext {
    pub world: World,
    pub stakes: BTreeMap<AccountId, u128>,
    pub post_quantum_keys: bool,
    chain_id: String,
    action_hash: [u8; 32],
    height: u64,
    data_count: u64,
    made: Vec<Made>,
    resumes: Vec<(CryptoHash, Vec<u8>)>,
}

impl Ext {
    pub fn new(world: World, action_hash: [u8; 32], height: u64) -> Ext {
        Ext { world, chain_id: "test".into(), action_hash, height, ..Ext::default() }
    }

    /// The hash of all promises, as borsh of (receiver, Option refund_to, [(data id, receiver)], [input id], [action],
    /// yield) and of the resumes (data id, data). None if there are none.
    pub fn promises(&self) -> Option<String> {
        if self.made.is_empty() && self.resumes.is_empty() {
            return None;
        }
        let mut b = vec![];
        for m in &self.made {
            borsh::to_writer(&mut b, &(&m.receiver, &m.refund_to, &m.outputs, &m.inputs, &m.actions, m.yielded)).unwrap();
        }
        for r in &self.resumes {
            borsh::to_writer(&mut b, r).unwrap();
        }
        Some(hex::encode(sha2::Sha256::digest(&b)))
    }

    fn at(&mut self, i: ReceiptIndex) -> &mut Made {
        &mut self.made[i as usize]
    }

    fn add(&mut self, i: ReceiptIndex, a: impl Into<Action>) -> usize {
        let m = self.at(i);
        m.actions.push(a.into());
        m.actions.len() - 1
    }

    fn add_key(&mut self, i: ReceiptIndex, public_key: PublicKey, nonce: Nonce, permission: AccessKeyPermission) {
        self.add(i, Action::AddKey(Box::new(AddKeyAction { public_key, access_key: AccessKey { nonce, permission } })));
    }
}

fn permission(allowance: Option<Balance>, receiver: AccountId, names: Vec<Vec<u8>>) -> Result<FunctionCallPermission> {
    let mut method_names = vec![];
    for n in names {
        method_names.push(String::from_utf8(n).map_err(|_| HostError::InvalidMethodName)?);
    }
    Ok(FunctionCallPermission { allowance, receiver_id: receiver.to_string(), method_names })
}

impl External for Ext {
    fn storage_set<'a>(&'a mut self, pay: &mut dyn StorageAccessTracker, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(old) = self.world.storage.get(key) {
            pay.deref_write_evicted_value_bytes(old.len() as u64)?;
        }
        Ok(self.world.storage.insert(key.to_vec(), value.to_vec()))
    }
    fn storage_get<'a>(&'a self, _: &mut dyn StorageAccessTracker, key: &[u8]) -> Result<Option<Box<dyn ValuePtr + 'a>>> {
        Ok(self.world.storage.get(key).map(|v| Box::new(MockedValuePtr::new(v)) as Box<dyn ValuePtr>))
    }
    fn storage_remove(&mut self, pay: &mut dyn StorageAccessTracker, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(old) = self.world.storage.get(key) {
            pay.deref_removed_value_bytes(old.len() as u64)?;
        }
        Ok(self.world.storage.remove(key))
    }
    fn storage_has_key(&mut self, _: &mut dyn StorageAccessTracker, key: &[u8]) -> Result<bool> {
        Ok(self.world.storage.contains_key(key))
    }
    fn generate_data_id(&mut self) -> CryptoHash {
        let mut b = self.action_hash.to_vec();
        b.extend(self.height.to_le_bytes());
        b.extend(self.data_count.to_le_bytes());
        self.data_count += 1;
        CryptoHash::hash_bytes(&b)
    }
    fn get_recorded_storage_size(&self) -> usize {
        0
    }
    fn storage_proof_size_before_receipt(&self) -> usize {
        0
    }
    fn post_quantum_keys_enabled(&self) -> bool {
        self.post_quantum_keys
    }
    fn check_state_init(&self, raw: &RawStateInit) -> std::result::Result<(), StateInitError> {
        UniversalStateInit::from_raw_strict(raw).map(|_| ())
    }
    fn state_init_send_counts(&self, raw: &RawStateInit, mode: DecodeMode) -> UniversalStateInitCounts {
        state_init_send_counts(raw, mode)
    }
    fn append_action_universal_state_init(&mut self, i: ReceiptIndex, state_init: RawStateInit, deposit: Balance) {
        self.add(i, Action::UniversalStateInit(Box::new(UniversalStateInitAction { state_init, deposit })));
    }
    fn validator_stake(&self, id: &AccountId) -> Result<Option<Balance>> {
        Ok(self.stakes.get(id).map(|s| Balance::from_yoctonear(*s)))
    }
    fn validator_total_stake(&self) -> Result<Balance> {
        Ok(Balance::from_yoctonear(self.stakes.values().sum()))
    }
    fn chain_id(&self) -> String {
        self.chain_id.clone()
    }
    fn create_action_receipt(&mut self, after: Vec<ReceiptIndex>, receiver: AccountId) -> Result<ReceiptIndex> {
        let inputs: Vec<_> = after.iter().map(|_| self.generate_data_id()).collect();
        for (id, i) in inputs.iter().zip(after) {
            self.at(i).outputs.push((*id, receiver.clone()));
        }
        self.made.push(Made { receiver, refund_to: None, outputs: vec![], inputs, actions: vec![], yielded: false });
        Ok(self.made.len() as u64 - 1)
    }
    fn create_promise_yield_receipt(&mut self, receiver: AccountId) -> Result<(ReceiptIndex, CryptoHash)> {
        let id = self.generate_data_id();
        self.world.waiting.insert(id);
        self.made.push(Made { receiver, refund_to: None, outputs: vec![], inputs: vec![id], actions: vec![], yielded: true });
        Ok((self.made.len() as u64 - 1, id))
    }
    fn create_promise_yield_receipt_with_id(&mut self, receiver: AccountId, id: YieldId) -> Result<Option<(ReceiptIndex, CryptoHash)>> {
        if self.world.ids.contains_key(&id) {
            return Ok(None);
        }
        let made = self.create_promise_yield_receipt(receiver)?;
        self.world.ids.insert(id, made.1);
        Ok(Some(made))
    }
    fn submit_promise_resume_data(&mut self, id: CryptoHash, data: Vec<u8>) -> Result<bool> {
        let known = self.world.waiting.contains(&id);
        if known {
            self.resumes.push((id, data));
        }
        Ok(known)
    }
    fn submit_promise_resume_data_with_yield_id(&mut self, id: YieldId, data: Vec<u8>) -> Result<bool> {
        match self.world.ids.get(&id) {
            Some(d) => self.submit_promise_resume_data(*d, data),
            None => Ok(false),
        }
    }
    fn append_action_create_account(&mut self, i: ReceiptIndex) {
        self.add(i, Action::CreateAccount(CreateAccountAction {}));
    }
    fn append_action_deploy_contract(&mut self, i: ReceiptIndex, code: Vec<u8>) {
        self.add(i, Action::DeployContract(DeployContractAction { code }));
    }
    fn append_action_deploy_global_contract(&mut self, i: ReceiptIndex, code: Vec<u8>, mode: GlobalContractDeployMode) {
        use near_primitives::action::GlobalContractDeployMode as Mode;
        let deploy_mode = match mode {
            GlobalContractDeployMode::CodeHash => Mode::CodeHash,
            GlobalContractDeployMode::AccountId => Mode::AccountId,
        };
        self.add(i, Action::DeployGlobalContract(DeployGlobalContractAction { code: code.into(), deploy_mode }));
    }
    fn append_action_use_global_contract(&mut self, i: ReceiptIndex, id: GlobalContractIdentifier) {
        use near_primitives::action::GlobalContractIdentifier as Id;
        let contract_identifier = match id {
            GlobalContractIdentifier::CodeHash(h) => Id::CodeHash(h),
            GlobalContractIdentifier::AccountId(a) => Id::AccountId(a),
        };
        self.add(i, Action::UseGlobalContract(Box::new(UseGlobalContractAction { contract_identifier })));
    }
    fn append_action_deterministic_state_init(&mut self, i: ReceiptIndex, id: GlobalContractIdentifier, deposit: Balance) -> ActionIndex {
        let state_init = DeterministicAccountStateInit::V1(DeterministicAccountStateInitV1 { code: id.into(), data: BTreeMap::new() });
        self.add(i, Action::DeterministicStateInit(Box::new(DeterministicStateInitAction { state_init, deposit }))) as u64
    }
    fn set_deterministic_state_init_data_entry(&mut self, i: ReceiptIndex, action_index: ActionIndex, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        match self.at(i).actions.get_mut(action_index as usize) {
            Some(Action::DeterministicStateInit(a)) => match a.state_init.data_mut().insert(key, value) {
                Some(_) => Err(HostError::DataEntryAlreadyExists.into()),
                None => Ok(()),
            },
            _ => Err(HostError::InvalidActionIndex { receipt_index: i, action_index }.into()),
        }
    }
    fn append_action_function_call_weight(&mut self, i: ReceiptIndex, method: Vec<u8>, args: Vec<u8>, deposit: Balance, gas: Gas, _: GasWeight) -> Result<()> {
        let method_name = String::from_utf8(method).map_err(|_| HostError::InvalidMethodName)?;
        self.add(i, Action::FunctionCall(Box::new(FunctionCallAction { method_name, args, gas, deposit })));
        Ok(())
    }
    fn append_action_transfer(&mut self, i: ReceiptIndex, deposit: Balance) {
        self.add(i, Action::Transfer(TransferAction { deposit }));
    }
    fn append_action_transfer_to_gas_key(&mut self, i: ReceiptIndex, public_key: PublicKey, deposit: Balance) {
        self.add(i, Action::TransferToGasKey(Box::new(TransferToGasKeyAction { public_key, deposit })));
    }
    fn append_action_add_gas_key_with_full_access(&mut self, i: ReceiptIndex, public_key: PublicKey, num_nonces: NonceIndex) {
        let info = GasKeyInfo { balance: Balance::ZERO, num_nonces };
        self.add_key(i, public_key, 0, AccessKeyPermission::GasKeyFullAccess(info));
    }
    fn append_action_add_gas_key_with_function_call(&mut self, i: ReceiptIndex, public_key: PublicKey, num_nonces: NonceIndex, allowance: Option<Balance>, receiver: AccountId, names: Vec<Vec<u8>>) -> Result<()> {
        let info = GasKeyInfo { balance: Balance::ZERO, num_nonces };
        let p = permission(allowance, receiver, names)?;
        self.add_key(i, public_key, 0, AccessKeyPermission::GasKeyFunctionCall(info, p));
        Ok(())
    }
    fn append_action_stake(&mut self, i: ReceiptIndex, stake: Balance, public_key: PublicKey) {
        self.add(i, Action::Stake(Box::new(StakeAction { stake, public_key })));
    }
    fn append_action_add_key_with_full_access(&mut self, i: ReceiptIndex, public_key: PublicKey, nonce: Nonce) {
        self.add_key(i, public_key, nonce, AccessKeyPermission::FullAccess);
    }
    fn append_action_add_key_with_function_call(&mut self, i: ReceiptIndex, public_key: PublicKey, nonce: Nonce, allowance: Option<Balance>, receiver: AccountId, names: Vec<Vec<u8>>) -> Result<()> {
        let p = permission(allowance, receiver, names)?;
        self.add_key(i, public_key, nonce, AccessKeyPermission::FunctionCall(p));
        Ok(())
    }
    fn append_action_delete_key(&mut self, i: ReceiptIndex, public_key: PublicKey) {
        self.add(i, Action::DeleteKey(Box::new(DeleteKeyAction { public_key })));
    }
    fn append_action_delete_account(&mut self, i: ReceiptIndex, beneficiary_id: AccountId) {
        self.add(i, Action::DeleteAccount(DeleteAccountAction { beneficiary_id }));
    }
    fn get_receipt_receiver(&self, i: ReceiptIndex) -> &AccountId {
        &self.made[i as usize].receiver
    }
    fn set_refund_to(&mut self, i: ReceiptIndex, refund_to: AccountId) {
        self.at(i).refund_to = Some(refund_to);
    }
}
