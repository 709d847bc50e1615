//! Values of protocol 88 and what nearcore's own types make of their bytes: state inits, accounts, actions, errors, headers,
//! endorsements, account ids, self-signed first transactions.

use crate::rng::Rng;
use crate::said;
use borsh::{BorshDeserialize, BorshSerialize};
use near_crypto::{ED25519PublicKey, KeyType, PublicKey, PublicKeyHandle, SecretKey, Signature};
use near_primitives::account::id::AccountType;
use near_primitives::account::{AccessKey, Account, AccountContract};
use near_primitives::action::delegate::{DelegateAction, NonDelegateAction, SignedDelegateAction};
use near_primitives::action::{
    Action, AddKeyAction, DeployContractAction, DeterministicStateInitAction, GlobalContractIdentifier, TransferAction,
    UniversalStateInitAction, UseGlobalContractAction,
};
use near_primitives::block_header::{
    BlockHeader, BlockHeaderInnerLite, BlockHeaderInnerLiteV2, BlockHeaderInnerRestV7, BlockHeaderInnerRestV8, BlockHeaderV7,
    BlockHeaderV8,
};
use near_primitives::deterministic_account_id::{DeterministicAccountStateInit, DeterministicAccountStateInitV1};
use near_primitives::errors::TxExecutionError;
use near_primitives::hash::CryptoHash;
use near_primitives::stateless_validation::chunk_endorsement::ChunkEndorsement;
use near_primitives::stateless_validation::chunk_endorsements_bitmap::ChunkEndorsementsBitmap;
use near_primitives::transaction::{NonceMode, Transaction, TransactionNonce, TransactionV0, TransactionV1};
use near_primitives::types::{AccountId, Balance, EpochId, ShardId, SpiceChunkEndorsementStats};
use near_primitives::universal_state_init::{
    DecodeMode, RawStateInit, StateInitError, UniversalStateInit, UniversalStateInitV1, state_init_counts, state_init_send_counts,
};
use near_primitives::utils::derive_universal_account_id;
use near_primitives::views::{AccountView, ActionView, BlockHeaderView};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub fn all(rng: &mut Rng) -> Vec<Value> {
    let mut out = vec![json!({"made_with": "troupe-answers values", "made_by": "near-primitives 0.38.0, near-account-id 3.0.0"})];
    for _ in 0..1200 {
        out.push(state_init(rng));
    }
    for _ in 0..400 {
        out.push(account(rng));
    }
    for _ in 0..500 {
        out.push(account_json(rng));
    }
    for i in 0..600 {
        out.push(action(rng, i));
    }
    for _ in 0..6 {
        errors(rng, &mut out);
    }
    for i in 0..80 {
        out.push(header(rng, i % 2 == 0));
    }
    for _ in 0..60 {
        out.push(endorsement(rng));
    }
    for _ in 0..600 {
        out.push(id(rng));
    }
    for _ in 0..300 {
        out.push(first_transaction(rng));
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn borsh_hex<T: BorshSerialize>(v: &T) -> String {
    hex(&borsh::to_vec(v).expect("borsh"))
}

/// Few different bytes, which compress well.
fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    let b = [0, 1, b'a', b'b', 0xff][rng.below(5)];
    let mut v = vec![b; rng.below(most + 1)];
    if let Some(last) = v.last_mut() {
        *last = rng.next() as u8;
    }
    v
}

pub fn number(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => 0,
        1 => u64::MAX - rng.below(3) as u64,
        2 => rng.below(1000) as u64,
        _ => rng.next() >> rng.below(64),
    }
}

fn tokens(rng: &mut Rng) -> Balance {
    Balance::from_yoctonear(((number(rng) as u128) << (rng.below(64))) + rng.below(2) as u128)
}

pub fn hash(rng: &mut Rng) -> CryptoHash {
    CryptoHash([[0, 0x22, 0xab][rng.below(3)]; 32])
}

pub fn name(rng: &mut Rng) -> AccountId {
    let all = ["aa", "alice.near", "0u", "0s1234567890123456789012345678901234567890", "0u000g40r40m30e209185gr38e1w8124gk2gahc5rr34d1p70x3rfg"];
    rng.pick(&all).parse().expect("account id")
}

pub fn code(rng: &mut Rng) -> GlobalContractIdentifier {
    match rng.below(2) {
        0 => GlobalContractIdentifier::CodeHash(hash(rng)),
        _ => GlobalContractIdentifier::AccountId(name(rng)),
    }
}

fn handle(rng: &mut Rng) -> PublicKeyHandle {
    let (tag, len) = [(0u8, 32), (1, 64), (3, 32)][rng.below(3)];
    let mut raw = vec![rng.below(3) as u8; 1 + len];
    raw[0] = tag;
    raw[len] = rng.below(4) as u8;
    PublicKeyHandle::try_from_slice(&raw).expect("handle")
}

fn entries(rng: &mut Rng, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..rng.below(most + 1)).map(|_| (bytes(rng, 3), bytes(rng, 5))).collect()
}

/// The bytes of a state init whose entries and keys are in any order, and may repeat.
fn raw_state_init(rng: &mut Rng) -> RawStateInit {
    let code = match rng.below(3) {
        0 => Some(code(rng)),
        _ => None,
    };
    let (mut data, mut keys) = (entries(rng, 5), (0..rng.below(5)).map(|_| handle(rng)).collect::<Vec<_>>());
    if rng.below(3) > 0 {
        data = data.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        keys = keys.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    }
    let mut raw = borsh::to_vec(&(0u8, code, data, keys)).expect("borsh");
    match rng.below(8) {
        0 => raw.truncate(rng.below(raw.len() + 1)),
        1 => raw.push(0),
        2 => {
            let at = rng.below(raw.len());
            raw[at] = [0, 1, 2, 3, 4, 0xff, rng.next() as u8][rng.below(7)];
        }
        3 if rng.below(4) == 0 => raw = bytes(rng, 80),
        _ => {}
    }
    RawStateInit(raw)
}

fn state_init(rng: &mut Rng) -> Value {
    let raw = raw_state_init(rng);
    let status = UniversalStateInit::from_raw_strict(&raw).map_or_else(StateInitError::exit_status, |_| 0);
    let read = UniversalStateInit::from_raw_lenient(&raw).ok();
    let pq = action_of(raw.clone(), Balance::ZERO).post_quantum_signatures_required();
    let counts = |c: near_primitives::universal_state_init::UniversalStateInitCounts| json!([c.num_bytes, c.num_entries, c.num_keys]);
    json!({
        "type": "state_init", "raw": hex(&raw.0), "status": status, "id": derive_universal_account_id(&raw),
        "lenient": read.as_ref().map(|s| hex(&s.to_raw().0)),
        "json": read.as_ref().map(|s| serde_json::to_string(s).expect("json")),
        "counts": counts(state_init_counts(&raw)),
        "send": counts(state_init_send_counts(&raw, DecodeMode::Strict)),
        "send_lenient": counts(state_init_send_counts(&raw, DecodeMode::Lenient)), "post_quantum": pq,
    })
}

fn any_account(rng: &mut Rng) -> Account {
    let (amount, usage) = (tokens(rng), number(rng));
    match rng.below(3) {
        0 => Account::new_uninitialized(amount, usage, number(rng)),
        _ => {
            let contract = match rng.below(4) {
                0 => AccountContract::None,
                1 => AccountContract::Local(CryptoHash([0x22; 32])), // JSON has no form of zeros
                2 => AccountContract::Global(hash(rng)),
                _ => AccountContract::GlobalByAccount(name(rng)),
            };
            let mut a = Account::new(amount, tokens(rng), contract, usage);
            if rng.below(3) == 0 {
                // an account stays V2 without a global contract
                a.set_contract(AccountContract::Global(hash(rng))).expect("initialized");
                a.set_contract(if rng.below(2) == 0 { AccountContract::None } else { AccountContract::Local(CryptoHash([0x22; 32])) }).expect("initialized");
            }
            a
        }
    }
}

fn account(rng: &mut Rng) -> Value {
    let a = any_account(rng);
    json!({
        "type": "account", "borsh": borsh_hex(&a), "json": serde_json::to_string(&a).expect("json"),
        "view": serde_json::to_value(AccountView::from(&a)).expect("json"),
    })
}

/// JSON of accounts with members that do not fit each other.
fn account_json(rng: &mut Rng) -> Value {
    let a = any_account(rng);
    let mut members: BTreeMap<&str, Value> = BTreeMap::new();
    let whole = serde_json::to_value(&a).expect("json");
    for k in ["amount", "locked", "code_hash", "storage_usage", "version", "state", "bootstrap_nonce", "global_contract_hash", "global_contract_account_id"] {
        if let Some(v) = whole.get(k) {
            members.insert(k, v.clone());
        }
    }
    for _ in 0..rng.below(4) {
        let (k, v) = match rng.below(9) {
            0 => ("state", json!(["initialized", "uninitialized", "Uninitialized", ""][rng.below(4)])),
            1 => ("bootstrap_nonce", [json!(0), json!(7_000_000), json!(null), json!(-1), json!("1")][rng.below(5)].clone()),
            2 => ("version", json!(["V1", "V2", "V3"][rng.below(3)])),
            3 => ("locked", json!(["0", "1"][rng.below(2)])),
            4 => ("code_hash", json!(hash(rng))),
            5 => ("global_contract_hash", if rng.below(2) == 0 { json!(null) } else { json!(hash(rng)) }),
            6 => ("global_contract_account_id", if rng.below(2) == 0 { json!(null) } else { json!(name(rng)) }),
            7 => ("storage_usage", json!(number(rng))),
            _ => ("other", json!(1)),
        };
        if rng.below(4) == 0 {
            members.remove(k);
        } else {
            members.insert(k, v);
        }
    }
    let text = serde_json::to_string(&members).expect("json");
    let read = serde_json::from_str::<Account>(&text);
    json!({"type": "account_json", "json": text, "borsh": read.as_ref().ok().map(borsh_hex), "error": said(&read)})
}

fn action_of(state_init: RawStateInit, deposit: Balance) -> Action {
    Action::UniversalStateInit(Box::new(UniversalStateInitAction { state_init, deposit }))
}

pub fn key(rng: &mut Rng) -> PublicKey {
    PublicKey::ED25519(ED25519PublicKey([rng.below(3) as u8; 32]))
}

fn plain_action(rng: &mut Rng) -> Action {
    match rng.below(8) {
        0 => Action::Transfer(TransferAction { deposit: tokens(rng) }),
        1 => Action::AddKey(Box::new(AddKeyAction { public_key: key(rng), access_key: AccessKey::full_access() })),
        2 => Action::DeployContract(DeployContractAction { code: bytes(rng, 5) }),
        3 => Action::UseGlobalContract(Box::new(UseGlobalContractAction { contract_identifier: code(rng) })),
        4 => Action::DeterministicStateInit(Box::new(DeterministicStateInitAction {
            state_init: DeterministicAccountStateInit::V1(DeterministicAccountStateInitV1 {
                code: code(rng),
                data: entries(rng, 3).into_iter().collect(),
            }),
            deposit: tokens(rng),
        })),
        _ => action_of(raw_state_init(rng), tokens(rng)),
    }
}

fn action(rng: &mut Rng, i: usize) -> Value {
    let a = if i % 4 > 0 {
        plain_action(rng)
    } else {
        Action::Delegate(Box::new(SignedDelegateAction {
            delegate_action: DelegateAction {
                sender_id: name(rng),
                receiver_id: name(rng),
                actions: (0..rng.below(4)).map(|_| NonDelegateAction::try_from(plain_action(rng)).expect("no delegate")).collect(),
                nonce: number(rng),
                max_block_height: number(rng),
                public_key: key(rng),
            },
            signature: Signature::empty(KeyType::ED25519),
        }))
    };
    let counts = a.state_init_counts();
    let view = ActionView::from(a.clone());
    json!({
        "type": "action", "borsh": borsh_hex(&a), "json": serde_json::to_string(&a).expect("json"),
        "view": serde_json::to_value(&view).expect("json"), "view_borsh": borsh_hex(&view),
        "deposit": a.get_deposit_balance(), "counts": [counts.entries, counts.keys], "post_quantum": a.post_quantum_signatures_required(),
    })
}

/// Every variant of the errors: bytes of up to four fields of usual types are tried behind each tag.
fn errors(rng: &mut Rng, out: &mut Vec<Value>) {
    for (raw, e) in variants(rng) {
        out.push(json!({"type": "error", "borsh": hex(&raw), "json": serde_json::to_value(&e).expect("json")}));
    }
}

pub fn tx_errors(rng: &mut Rng) -> Vec<TxExecutionError> {
    variants(rng).into_iter().map(|(_, e)| e).collect()
}

fn variants(rng: &mut Rng) -> Vec<(Vec<u8>, TxExecutionError)> {
    let pieces: Vec<Vec<u8>> = vec![
        vec![],
        borsh::to_vec(&(rng.next() as u16)).expect("borsh"),
        borsh::to_vec(&(rng.next() as u32)).expect("borsh"),
        borsh::to_vec(&number(rng)).expect("borsh"),
        borsh::to_vec(&tokens(rng)).expect("borsh"),
        borsh::to_vec(&name(rng)).expect("borsh"),
        borsh::to_vec(&key(rng)).expect("borsh"),
        borsh::to_vec(&Some(key(rng))).expect("borsh"),
        vec![0],
        borsh::to_vec(&code(rng)).expect("borsh"),
    ];
    // ActionError without and with an index, FunctionCallError::HostError and CompilationError::PrepareError in one,
    // ReceiptValidationError::ActionsValidation in one, InvalidTxError, and its ActionsValidation and InvalidAccessKeyError.
    let mut heads = vec![vec![0, 0], vec![0, 1, 3, 0, 0, 0, 0, 0, 0, 0], vec![0, 0, 12, 5], vec![0, 0, 12, 0, 1], vec![0, 0, 13, 6], vec![1], vec![1, 12], vec![1, 0]];
    // FunctionCallError, its CompilationError, MethodResolveError and WasmTrap, ReceiptValidationError, InvalidAccessKeyError of a
    // delegate, StorageError, and its MissingTrieValue.
    heads.extend([vec![0, 0, 12], vec![0, 0, 12, 0], vec![0, 0, 12, 2], vec![0, 0, 12, 3], vec![0, 0, 13], vec![0, 0, 19], vec![1, 15], vec![1, 15, 1]]);
    let mut out = vec![];
    for head in heads {
        for tag in 0..=40u8 {
            if head == [1] && tag == 16 {
                continue; // a float
            }
            'tag: for n in 0..pieces.len().pow(4) {
                let mut raw = head.clone();
                raw.push(tag);
                let mut left = n;
                while left > 0 {
                    raw.extend(&pieces[left % pieces.len()]);
                    left /= pieces.len();
                }
                if let Ok(e) = TxExecutionError::try_from_slice(&raw) {
                    out.push((raw, e));
                    break 'tag;
                }
            }
        }
    }
    out
}

fn header(rng: &mut Rng, spice: bool) -> Value {
    let bits = ChunkEndorsementsBitmap::from_bytes((0..rng.below(3)).map(|_| bytes(rng, 2)).collect());
    let stats: Vec<_> = (0..rng.below(3)).map(|_| SpiceChunkEndorsementStats { produced: rng.next() as u32, expected: rng.next() as u32 }).collect();
    let split = if rng.below(2) == 0 { None } else { Some((ShardId::new(number(rng)), name(rng))) };
    let prev_hash = hash(rng);
    let signature = Signature::empty(KeyType::ED25519);
    let h = if spice {
        let mut h = BlockHeaderV8 {
            prev_hash,
            inner_lite: BlockHeaderInnerLiteV2 {
                height: number(rng),
                timestamp: number(rng),
                chunk_execution_root: CryptoHash([7; 32]),
                next_bp_hash: hash(rng),
                ..Default::default()
            },
            inner_rest: BlockHeaderInnerRestV8 {
                chunk_mask: vec![true, false],
                block_ordinal: 7,
                total_supply: tokens(rng),
                approvals: vec![None, Some(Box::new(signature.clone()))],
                chunk_endorsements: bits,
                shard_split: split,
                prev_last_certified_block_epoch_id: EpochId(hash(rng)),
                spice_chunk_endorsement_stats: stats,
                ..Default::default()
            },
            signature,
            ..Default::default()
        };
        h.init();
        BlockHeader::BlockHeaderV8(h)
    } else {
        let mut h = BlockHeaderV7 {
            prev_hash,
            inner_lite: BlockHeaderInnerLite { height: number(rng), timestamp: number(rng), next_bp_hash: hash(rng), ..Default::default() },
            inner_rest: BlockHeaderInnerRestV7 {
                chunk_mask: vec![true, false],
                block_ordinal: 7,
                total_supply: tokens(rng),
                approvals: vec![None, Some(Box::new(signature.clone()))],
                chunk_endorsements: bits,
                shard_split: split,
                prev_last_certified_block_epoch_id: EpochId(hash(rng)),
                spice_chunk_endorsement_stats: stats,
                ..Default::default()
            },
            signature,
            ..Default::default()
        };
        h.init();
        BlockHeader::BlockHeaderV7(h)
    };
    let view = serde_json::to_value(BlockHeaderView::from(&h)).expect("json");
    json!({"type": "header", "borsh": borsh_hex(&h), "hash": h.hash(), "view": view})
}

fn endorsement(rng: &mut Rng) -> Value {
    let secret: SecretKey = SecretKey::from_seed(KeyType::ED25519, rng.pick(&["test", "other"]));
    let chunk = hash(rng);
    let signed = ["ChunkEndorsement", "ChunkEndorsement", "", "Other"][rng.below(4)];
    let sent = ["ChunkEndorsement", "ChunkEndorsement", signed, "Other", ""][rng.below(5)];
    let metadata = borsh::to_vec(&(name(rng), number(rng), hash(rng), number(rng))).expect("borsh");
    let inner = |d: &str| borsh::to_vec(&(chunk, d)).expect("borsh");
    let mut raw = vec![1];
    raw.extend(inner(sent));
    raw.extend(borsh::to_vec(&secret.sign(&inner(signed))).expect("borsh"));
    raw.extend(&metadata);
    raw.extend(borsh::to_vec(&secret.sign(if rng.below(6) == 0 { b"else" } else { &metadata })).expect("borsh"));
    let e = ChunkEndorsement::try_from_slice(&raw).expect("endorsement");
    let key = secret.public_key();
    json!({"type": "endorsement", "borsh": hex(&raw), "key": key, "valid": e.verify(&key)})
}

/// Ids near those that a kind begins with.
fn id(rng: &mut Rng) -> Value {
    const SYMBOLS: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
    const ODD: &[u8] = b"ilouA-_. \x7f";
    let (prefix, len) = [("0u", 52), ("0u", 52), ("0u", 51), ("0u", 53), ("0s", 40), ("0x", 40), ("", 64), ("0v", 52)][rng.below(8)];
    let symbols = if len == 40 || len == 64 { &SYMBOLS[..16] } else { SYMBOLS };
    let repeated = symbols[rng.below(symbols.len())];
    let mut text: Vec<u8> = prefix.bytes().chain(std::iter::repeat_n(repeated, len)).collect();
    for _ in 0..rng.below(4) {
        let at = rng.below(text.len());
        text[at] = symbols[rng.below(symbols.len())];
    }
    if rng.below(2) == 0 {
        *text.last_mut().expect("long") = b"0g"[rng.below(2)];
    }
    if rng.below(4) == 0 {
        let at = rng.below(text.len());
        text[at] = ODD[rng.below(ODD.len())];
    }
    let text = String::from_utf8(text).expect("ascii");
    let read = text.parse::<AccountId>();
    let kind = read.as_ref().ok().map(|id| match id.get_account_type() {
        AccountType::NamedAccount => 0,
        AccountType::NearImplicitAccount => 1,
        AccountType::EthImplicitAccount => 2,
        AccountType::NearDeterministicAccount => 3,
        AccountType::UniversalAccount => 4,
    });
    json!({"type": "id", "id": text, "kind": kind, "error": said(&read)})
}

/// Transactions that may be the first of a universal account, signed by one of its keys.
fn first_transaction(rng: &mut Rng) -> Value {
    let signer = SecretKey::from_seed([KeyType::ED25519, KeyType::SECP256K1, KeyType::MLDSA65][[0, 0, 0, 0, 0, 0, 1, 1, 1, 2][rng.below(10)]], "uaid").public_key();
    let mut keys: BTreeSet<PublicKeyHandle> = (0..rng.below(3)).map(|_| handle(rng)).collect();
    if rng.below(6) > 0 {
        keys.insert((&signer).into());
    }
    let init = UniversalStateInit::V1(UniversalStateInitV1 { code: None, data: entries(rng, 2).into_iter().collect(), access_keys: keys });
    let raw = if rng.below(8) == 0 { raw_state_init(rng) } else { init.to_raw() };
    let account = derive_universal_account_id(&raw);
    let mut actions = vec![];
    for _ in 0..rng.below(2) {
        actions.push(plain_action(rng));
    }
    let own = action_of(raw, tokens(rng));
    match rng.below(6) {
        0 => actions.push(Action::Delegate(Box::new(SignedDelegateAction {
            delegate_action: DelegateAction {
                sender_id: account.clone(),
                receiver_id: account.clone(),
                actions: vec![NonDelegateAction::try_from(own).expect("no delegate")],
                nonce: 1,
                max_block_height: 1000,
                public_key: signer.clone(),
            },
            signature: Signature::empty(KeyType::ED25519),
        }))),
        _ => actions.push(own),
    }
    if rng.below(3) == 0 {
        actions.push(plain_action(rng));
    }
    let signer_id = if rng.below(6) == 0 { name(rng) } else { account.clone() };
    let receiver_id = if rng.below(6) == 0 { name(rng) } else { account };
    let tx = if rng.below(2) == 0 {
        Transaction::V0(TransactionV0 { signer_id, public_key: signer, nonce: 1, receiver_id, block_hash: hash(rng), actions })
    } else {
        let nonce = if rng.below(3) == 0 { TransactionNonce::from_nonce_and_index(1, 0) } else { TransactionNonce::from_nonce(1) };
        Transaction::V1(TransactionV1 { signer_id, public_key: signer, nonce, receiver_id, block_hash: hash(rng), actions, nonce_mode: NonceMode::Monotonic })
    };
    json!({"type": "first_transaction", "borsh": borsh_hex(&tx), "first": tx.is_state_init_bootstrap()})
}
