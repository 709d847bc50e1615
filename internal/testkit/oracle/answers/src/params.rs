//! Parameters of methods, right and wrong, by name: the members in any order, too many of them, too few, of any kind.

use crate::rng::Rng;
use crate::said;
use near_jsonrpc_primitives::types as t;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const HASH: &[&str] = &[
    r#""11111111111111111111111111111111""#, r#""CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3x""#, r#""0OIl""#, r#""zz""#, "5", "null", "{}", r#""""#,
    r#""CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3xCV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3x""#,
];
const ACCOUNT: &[&str] = &[r#""a.near""#, r#""bob.near""#, r#""a""#, r#""A.near""#, "5", "null", "[]", r#""a..b""#, "{\"a\":1}"];
const KEY: &[&str] = &[
    r#""ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#, r#""AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#, r#""ed25519:zz""#, r#""rsa:11""#, "7", "null",
    r#""ed25519:0""#, "{}",
];
const BASE64: &[&str] = &[
    r#""""#, r#""aw""#, r#""aws""#, r#""aw==""#, r#""aw=""#, r#""AAA""#, r#""YWI=""#, r#""az""#, r#""a""#, r#""aw===""#, r#""=""#, r#""!!!!""#, "5", "1.5", "{}", "[]", "null", "true", "-7",
    r#""YWJj\nYWJj""#, r#""aw==aw==""#,
];
const TEXT: &[&str] = &[r#""m""#, r#""""#, "5", "null", "{}", "[1]", "false"];
const U32: &[&str] = &["1", "5", "0", "-1", "4294967296", r#""3""#, "1.5", "null", "{}", "4294967295"];
const U64: &[&str] = &["1", "0", "18446744073709551615", "-1", "18446744073709551616", r#""3""#, "1.5", "null", "{}", "[]", "true"];
const BOOL: &[&str] = &["true", "false", "1", r#""true""#, "null", "{}"];
const BLOCK_ID: &[&str] = &["7", r#""11111111111111111111111111111111""#, r#""x""#, "-1", "1.5", "null", "{}", "[]", r#"{"a":1,"b":2}"#];
const FINALITY: &[&str] = &[
    r#""final""#, r#""optimistic""#, r#""near-final""#, r#""none""#, "0", "1", "7", "-1", "1.5", "null", "true", "[]", r#"["final"]"#, "{}", r#"{"final":null}"#, r#"{"final":5}"#, r#"{"x":null}"#,
    r#"{"x":1,"y":2}"#, r#"{"final":null,"y":2}"#, r#"{"final":{}}"#, r#"{"final":[]}"#, r#"{"optimistic":"a"}"#,
];
const CHECKPOINT: &[&str] = &[r#""genesis""#, r#""earliest_available""#, r#""Genesis""#, "0", "5", "null", "{}", r#"{"genesis":null}"#, r#"{"genesis":1}"#, r#"{"x":null}"#, r#"{"x":1,"y":2}"#, "[]"];
const LEVEL: &[&str] = &[
    r#""NONE""#, r#""INCLUDED""#, r#""EXECUTED_OPTIMISTIC""#, r#""INCLUDED_FINAL""#, r#""EXECUTED""#, r#""FINAL""#, r#""final""#, "0", "9", "null", "{}", r#"{"FINAL":null}"#, r#"{"FINAL":1}"#,
    r#"{"x":1}"#, r#"{"FINAL":null,"NONE":null}"#, "true",
];
const ACCOUNTS: &[&str] = &[r#"["a.near"]"#, "[]", r#"["a.near","b.near"]"#, "[5]", r#"["A"]"#, r#""a.near""#, "{}", "null", "5", r#"[null]"#];
const KEYS: &[&str] = &[
    r#"[{"account_id":"a.near","public_key":"ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr"}]"#, r#"[{"account_id":5,"public_key":7}]"#, r#"[{"public_key":7,"account_id":5}]"#, "[{}]", "[[]]",
    r#"[["a.near"]]"#, r#"[["a.near","ed25519:zz"]]"#, "[5]", "{}", r#"[["a.near","ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr",1]]"#, r#"[{"account_id":"a.near"}]"#, "[]", "null",
];
const TX: &[&str] = &[r#""""#, r#""AAAA""#, r#""aw""#, r#""aw===""#, r#""a""#, "5", "null", "{}", r#""AAAAAAAAAAAA""#, r#""!""#];
const CODE_HASH: &[&str] = HASH;

const REFERENCE: &[(&str, &[&str])] = &[("block_id", BLOCK_ID), ("finality", FINALITY), ("sync_checkpoint", CHECKPOINT)];
const ANY: &[&str] = &["null", "true", "5", "-5", "1.5", r#""x""#, r#""finality""#, r#""latest""#, "[]", "[1,2,3]", "{}", r#"{"nope":1}"#, r#"[[]]"#, "1e400", r#""a\"b'c""#];

const TAG: &[&str] = &["0", "1", "2", "3", "4", "5", "6", "7", "9", "100", "-1", "1.5", "null", "true", "[]", "{}", r#"{"view_account":null}"#, r#""""#, r#"[0]"#];

struct Method {
    name: &'static str,
    members: &'static [(&'static str, &'static [&'static str])],
    reference: bool, // one of REFERENCE is among them
    read: fn(Value) -> Value,
    variants: &'static [(&'static str, &'static str)], // a member that says which, and its values
}

fn read<T: DeserializeOwned>(v: Value) -> Value {
    said(&serde_json::from_value::<T>(v))
}

const REQUEST: &[(&str, &str)] = &[
    ("request_type", "view_account"), ("request_type", "view_code"), ("request_type", "view_state"), ("request_type", "view_access_key"), ("request_type", "view_gas_key_nonces"),
    ("request_type", "call_function"), ("request_type", "view_global_contract_code"), ("request_type", "view_global_contract_code_by_account_id"), ("request_type", "view_nothing"),
];
const CHANGES: &[(&str, &str)] = &[
    ("changes_type", "account_changes"), ("changes_type", "single_access_key_changes"), ("changes_type", "all_access_key_changes"), ("changes_type", "contract_code_changes"),
    ("changes_type", "data_changes"), ("changes_type", "x"),
];
const PROOF: &[(&str, &str)] = &[("type", "transaction"), ("type", "receipt"), ("type", "x")];

/// Of queries, a member of Troupe's own is left out: include_proof of accounts and keys. forms.rs has lists of keys.
const METHODS: &[Method] = &[
    Method { name: "block", members: &[], reference: true, read: read::<near_primitives::types::BlockReference>, variants: &[] },
    Method { name: "EXPERIMENTAL_protocol_config", members: &[], reference: true, read: read::<near_primitives::types::BlockReference>, variants: &[] },
    Method { name: "chunk", members: &[("block_id", BLOCK_ID), ("shard_id", U64), ("chunk_id", HASH)], reference: false, read: read::<t::chunks::ChunkReference>, variants: &[] },
    Method { name: "gas_price", members: &[("block_id", BLOCK_ID)], reference: false, read: read::<t::gas_price::RpcGasPriceRequest>, variants: &[] },
    Method { name: "validators", members: &[("epoch_id", HASH), ("block_id", BLOCK_ID), ("latest", &["null", "5", "{}", "[]", "\"x\""])], reference: false, read: read::<near_primitives::types::EpochReference>, variants: &[] },
    Method { name: "EXPERIMENTAL_validators_ordered", members: &[("block_id", BLOCK_ID)], reference: false, read: read::<t::validator::RpcValidatorsOrderedRequest>, variants: &[] },
    Method {
        name: "query",
        members: &[("account_id", ACCOUNT), ("public_key", KEY), ("prefix_base64", BASE64), ("after_key_base64", BASE64), ("method_name", TEXT), ("args_base64", BASE64), ("code_hash", CODE_HASH)],
        reference: true, read: read::<t::query::RpcQueryRequest>, variants: REQUEST,
    },
    Method {
        name: "query",
        members: &[("account_id", ACCOUNT), ("prefix_base64", BASE64), ("after_key_base64", BASE64), ("limit", U32), ("include_proof", BOOL)],
        reference: true, read: read::<t::query::RpcQueryRequest>, variants: &[("request_type", "view_state")],
    },
    Method { name: "EXPERIMENTAL_view_account", members: &[("account_id", ACCOUNT)], reference: true, read: read::<t::view_account::RpcViewAccountRequest>, variants: &[] },
    Method { name: "EXPERIMENTAL_view_code", members: &[("account_id", ACCOUNT)], reference: true, read: read::<t::view_code::RpcViewCodeRequest>, variants: &[] },
    Method {
        name: "EXPERIMENTAL_view_state",
        members: &[("account_id", ACCOUNT), ("prefix_base64", BASE64), ("after_key_base64", BASE64), ("limit", U32), ("include_proof", BOOL)],
        reference: true, read: read::<t::view_state::RpcViewStateRequest>, variants: &[],
    },
    Method { name: "EXPERIMENTAL_view_access_key", members: &[("account_id", ACCOUNT), ("public_key", KEY)], reference: true, read: read::<t::view_access_key::RpcViewAccessKeyRequest>, variants: &[] },
    Method {
        name: "EXPERIMENTAL_view_gas_key_nonces", members: &[("account_id", ACCOUNT), ("public_key", KEY)], reference: true, read: read::<t::view_gas_key_nonces::RpcViewGasKeyNoncesRequest>, variants: &[],
    },
    Method {
        name: "EXPERIMENTAL_call_function",
        members: &[("account_id", ACCOUNT), ("method_name", TEXT), ("args_base64", BASE64)],
        reference: true, read: read::<t::call_function::RpcCallFunctionRequest>, variants: &[],
    },
    Method {
        name: "changes", members: &[("account_ids", ACCOUNTS), ("keys", KEYS), ("key_prefix_base64", BASE64)], reference: true, read: read::<t::changes::RpcStateChangesInBlockByTypeRequest>, variants: CHANGES,
    },
    Method { name: "EXPERIMENTAL_changes_in_block", members: &[], reference: true, read: read::<t::changes::RpcStateChangesInBlockRequest>, variants: &[] },
    Method { name: "tx", members: &[("signed_tx_base64", TX), ("tx_hash", HASH), ("sender_account_id", ACCOUNT), ("wait_until", LEVEL)], reference: false, read: read::<t::transactions::RpcTransactionStatusRequest>, variants: &[] },
    Method { name: "send_tx", members: &[("signed_tx_base64", TX), ("wait_until", LEVEL)], reference: false, read: read::<t::transactions::RpcSendTransactionRequest>, variants: &[] },
    Method { name: "EXPERIMENTAL_receipt", members: &[("receipt_id", HASH)], reference: false, read: read::<t::receipts::ReceiptReference>, variants: &[] },
    Method {
        name: "EXPERIMENTAL_receipt_to_tx",
        members: &[("receipt_id", HASH), ("block_height", U64), ("shard_id", U64), ("window", U64)],
        reference: false, read: read::<t::receipts::RpcReceiptToTxRequest>, variants: &[],
    },
    Method {
        name: "light_client_proof",
        members: &[("transaction_hash", HASH), ("sender_id", ACCOUNT), ("receipt_id", HASH), ("receiver_id", ACCOUNT), ("light_client_head", HASH)],
        reference: false, read: read::<t::light_client::RpcLightClientExecutionProofRequest>, variants: PROOF,
    },
    Method {
        name: "EXPERIMENTAL_light_client_block_proof", members: &[("block_hash", HASH), ("light_client_head", HASH)], reference: false, read: read::<t::light_client::RpcLightClientBlockProofRequest>, variants: &[],
    },
    Method { name: "next_light_client_block", members: &[("last_block_hash", HASH)], reference: false, read: read::<t::light_client::RpcLightClientNextBlockRequest>, variants: &[] },
    Method { name: "maintenance_windows", members: &[("account_id", ACCOUNT)], reference: false, read: read::<t::maintenance::RpcMaintenanceWindowsRequest>, variants: &[] },
    Method { name: "sandbox_patch_state", members: &[("records", RECORDS)], reference: false, read: read::<t::sandbox::RpcSandboxPatchStateRequest>, variants: &[] },
    Method { name: "sandbox_fast_forward", members: &[("delta_height", U64)], reference: false, read: read::<t::sandbox::RpcSandboxFastForwardRequest>, variants: &[] },
];
const RECORDS: &[&str] = &["[]", "5", "null", "{}", "[5]", r#"[{"Nope":{}}]"#, "[null]", r#"["Data"]"#];

const ROUNDS: usize = 220;

pub fn all(rng: &mut Rng) -> Vec<Value> {
    let mut out = vec![];
    let mut line = |m: &Method, text: String| {
        let value: Value = match serde_json::from_str(&text) {
            Ok(v) => v,
            Err(_) => return,
        };
        // What the methods take by position they read before they come to these types.
        if let Value::Array(a) = &value {
            if a.len() < 3 {
                return;
            }
        }
        let error = (m.read)(value);
        out.push(json!({"method": m.name, "params": text, "error": error}));
    };
    for m in METHODS {
        for any in ANY {
            line(m, any.to_string());
        }
        for _ in 0..ROUNDS * (1 + m.members.len() / 3) {
            let text = object(rng, m);
            line(m, text);
        }
    }
    out
}

/// One object of parameters: most members are good.
fn object(rng: &mut Rng, m: &Method) -> String {
    let mut members: Vec<(String, String)> = vec![];
    for (name, values) in m.members {
        if rng.below(12) > 0 {
            members.push((name.to_string(), value(rng, values)));
        }
    }
    if m.reference {
        // Of two references Troupe refuses what nearcore takes the first of: but for a reference alone there is one.
        let several = if m.members.is_empty() && m.name != "EXPERIMENTAL_changes_in_block" && rng.below(4) == 0 { 2 } else { (rng.below(10) > 0) as usize };
        for _ in 0..several {
            let (name, values) = REFERENCE[rng.below(REFERENCE.len())];
            if !members.iter().any(|(n, _)| n == name) {
                members.push((name.to_string(), value(rng, values)));
            }
        }
    }
    if !m.variants.is_empty() && rng.below(20) > 0 {
        let (name, v) = m.variants[rng.below(m.variants.len())];
        let v = if rng.below(10) == 0 { rng.pick(TAG).to_string() } else { format!("\"{v}\"") };
        members.push((name.to_string(), v));
    }
    if rng.below(10) == 0 {
        members.push((rng.pick(&["x", "_", "aaa", "zzz"]).to_string(), rng.pick(ANY).to_string()));
    }
    rng.shuffle(&mut members);
    let list: Vec<String> = members.iter().map(|(n, v)| format!("\"{n}\":{v}")).collect();
    format!("{{{}}}", list.join(","))
}

/// Good values stand first.
fn value(rng: &mut Rng, values: &[&str]) -> String {
    if rng.below(2) == 0 { values[rng.below(values.len().min(2))].to_string() } else { rng.pick(values).to_string() }
}
