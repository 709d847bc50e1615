//! Requests in all their forms, objects and arrays, most of them right: what the types make of them, and how they write it again. The
//! arrays of one and of two items that some methods take are read as nearcore's chain/jsonrpc/src/api reads them.

use crate::rng::Rng;
use borsh::BorshDeserialize;
use near_crypto::PublicKey;
use near_jsonrpc_primitives::types as t;
use near_primitives::serialize::{from_base64, to_base64};
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::{AccountId, BlockId, BlockReference, EpochReference};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A request as its type writes it, or the text of its refusal.
type Read = Result<Value, String>;

struct Method {
    name: &'static str,
    read: fn(Value) -> Read,
    forms: &'static [&'static str],
}

fn parse<T: DeserializeOwned>(v: Value) -> Result<T, String> {
    serde_json::from_value(v).map_err(|e| format!("Failed parsing args: {e}"))
}

fn write<T: Serialize>(v: T) -> Read {
    Ok(serde_json::to_value(v).expect("json"))
}

fn plain<T: DeserializeOwned + Serialize>(v: Value) -> Read {
    write(parse::<T>(v)?)
}

/// The item of an array of one.
fn single(v: &mut Value) -> Option<Value> {
    v.as_array_mut().filter(|a| a.len() == 1).map(|a| a[0].take())
}

fn pair(v: &mut Value) -> Option<(Value, Value)> {
    v.as_array_mut().filter(|a| a.len() == 2).map(|a| (a[0].take(), a[1].take()))
}

fn block(mut v: Value) -> Read {
    match single(&mut v) {
        Some(id) => write(BlockReference::BlockId(parse(id)?)),
        None => plain::<BlockReference>(v),
    }
}

fn chunk(mut v: Value) -> Read {
    use t::chunks::ChunkReference as C;
    match single(&mut v) {
        Some(x) if x.is_array() => {
            let (block_id, shard_id) = parse(x)?;
            write(C::BlockShardId { block_id, shard_id })
        }
        Some(x) => write(C::ChunkHash { chunk_id: parse(x)? }),
        None => plain::<C>(v),
    }
}

fn validators(mut v: Value) -> Read {
    match single(&mut v) {
        Some(x) => write(parse::<Option<BlockId>>(x)?.map_or(EpochReference::Latest, EpochReference::BlockId)),
        None => plain::<EpochReference>(v),
    }
}

fn signed(text: Value) -> Result<SignedTransaction, String> {
    let text: String = parse(text)?;
    let bytes = from_base64(&text).map_err(|e| format!("Failed to decode transaction: {e}"))?;
    SignedTransaction::try_from_slice(&bytes).map_err(|e| format!("Failed to decode transaction: {e}"))
}

fn send(mut v: Value) -> Read {
    use t::transactions::RpcSendTransactionRequest as R;
    if let Some(x) = single(&mut v) {
        return write(R { signed_transaction: signed(x)?, wait_until: Default::default() });
    }
    if let Some((x, y)) = pair(&mut v) {
        let _: (String, String) = (parse(x)?, parse(y)?);
        return Err("Unable to parse send request: too many params passed".to_string());
    }
    plain::<R>(v)
}

fn tx(mut v: Value) -> Read {
    use t::transactions::{RpcTransactionStatusRequest as R, TransactionInfo};
    if let Some(x) = single(&mut v) {
        return write(R { transaction_info: signed(x)?.into(), wait_until: Default::default() });
    }
    if let Some((x, y)) = pair(&mut v) {
        let transaction_info = TransactionInfo::TransactionId { tx_hash: parse(x)?, sender_account_id: parse(y)? };
        return write(R { transaction_info, wait_until: Default::default() });
    }
    plain::<R>(v)
}

fn next_block(mut v: Value) -> Read {
    use t::light_client::RpcLightClientNextBlockRequest as R;
    match single(&mut v) {
        Some(x) => write(R { last_block_hash: parse(x)? }),
        None => plain::<R>(v),
    }
}

fn view_state(v: Value) -> Read {
    use t::view_state::RpcViewStateRequest as R;
    let r: R = parse(v)?;
    page(r.prefix.as_slice(), r.after_key.as_ref().map(|k| k.as_slice()), r.limit.is_some(), r.include_proof)?;
    write(r)
}

/// The object that stands for the oldest form of a query, a path and data in base58.
fn from_path(path: &str, data: &str) -> Result<Value, String> {
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    let Some(id) = parts.get(1) else { return Err("Not enough query parameters provided".to_string()) };
    let id: AccountId = id.parse().map_err(|e| format!("{e}"))?;
    let bytes = || -> Result<String, String> {
        let mut room = vec![0; data.len().min((10 * 1024usize).saturating_sub(path.len()))];
        match bs58::decode(data).into(room.as_mut_slice()) {
            Ok(n) => Ok(to_base64(&room[..n])),
            Err(bs58::decode::Error::BufferTooSmall) => Err("Query data size is too large".to_string()),
            Err(e) => Err(e.to_string()),
        }
    };
    let mut members = match (parts[0], parts.get(2)) {
        ("account", _) => json!({"request_type": "view_account"}),
        ("access_key", None) => json!({"request_type": "view_access_key_list"}),
        ("access_key", Some(key)) => {
            let key: PublicKey = key.parse().map_err(|_| "Invalid public key")?;
            json!({"request_type": "view_access_key", "public_key": key})
        }
        ("code", _) => json!({"request_type": "view_code"}),
        ("contract", _) => json!({"request_type": "view_state", "prefix_base64": bytes()?}),
        ("call", Some(method)) => json!({"request_type": "call_function", "method_name": method, "args_base64": bytes()?}),
        ("call", None) => return Err("Method name is missing".to_string()),
        (other, _) => return Err(format!("Unknown path {other}")),
    };
    members["account_id"] = json!(id);
    members["finality"] = json!("optimistic");
    Ok(members)
}

fn query(mut v: Value) -> Read {
    use near_primitives::views::QueryRequest as Q;
    use t::query::RpcQueryRequest as R;
    let r: R = match pair(&mut v) {
        Some((path, data)) => parse(from_path(&parse::<String>(path)?, &parse::<String>(data)?)?)?,
        None => parse(v)?,
    };
    if let Q::ViewState { prefix, after_key, limit, include_proof, .. } = &r.request {
        page(prefix.as_slice(), after_key.as_ref().map(|k| k.as_slice()), limit.is_some(), *include_proof)?;
    }
    write(r)
}

/// What api/mod.rs refuses of a page of state.
fn page(prefix: &[u8], after: Option<&[u8]>, limit: bool, proof: bool) -> Result<(), String> {
    if proof && (after.is_some() || limit) {
        return Err("include_proof is not supported with paginated view_state (after_key_base64 / limit)".to_string());
    }
    if after.is_some_and(|k| !k.starts_with(prefix)) {
        return Err("after_key_base64 must start with prefix_base64".to_string());
    }
    Ok(())
}

const TX_FORMS: &[&str] = &["[$TX]", "[$HASH,$ID]", r#"{"tx_hash":$HASH,"sender_account_id":$ID}"#, r#"{"tx_hash":$HASH,"sender_account_id":$ID,"wait_until":$LEVEL}"#,
    r#"{"signed_tx_base64":$TX}"#, r#"{"signed_tx_base64":$TX,"wait_until":$LEVEL}"#, r#"{"signed_tx_base64":$TX,"tx_hash":$HASH,"sender_account_id":$ID}"#, "[$HASH,$ID,$LEVEL]", "[]"];
const SEND_FORMS: &[&str] = &["[$TX]", "[$TX,$LEVEL]", r#"{"signed_tx_base64":$TX}"#, r#"{"signed_tx_base64":$TX,"wait_until":$LEVEL}"#, "[$TX,$LEVEL,5]", "[]", "$TEXT"];
const CHUNK_FORMS: &[&str] = &["[$HASH]", "[[$BLOCK,$U64]]", r#"{"chunk_id":$HASH}"#, r#"{"block_id":$BLOCK,"shard_id":$U64}"#, r#"{"chunk_id":$HASH,"block_id":$BLOCK,"shard_id":$U64}"#,
    "[$BLOCK,$U64]", "[[$BLOCK]]", "[[$BLOCK,$U64,1]]", "[[]]"];

const METHODS: &[Method] = &[
    Method { name: "block", read: block, forms: &["[$BLOCK]", r#"{$REF}"#, "[$BLOCK,1]", "[]", "$BLOCK", r#"{$REF,"x":1}"#] },
    Method { name: "chunk", read: chunk, forms: CHUNK_FORMS },
    Method { name: "EXPERIMENTAL_congestion_level", read: chunk, forms: CHUNK_FORMS },
    Method { name: "gas_price", read: plain::<t::gas_price::RpcGasPriceRequest>, forms: &["[$BLOCK]", "[null]", r#"{"block_id":$BLOCK}"#, "{}", "[]", "[$BLOCK,1]", r#"{"block_id":null}"#] },
    Method { name: "EXPERIMENTAL_validators_ordered", read: plain::<t::validator::RpcValidatorsOrderedRequest>, forms: &["[$BLOCK]", "[null]", r#"{"block_id":$BLOCK}"#, "{}", "[]"] },
    Method { name: "validators", read: validators, forms: &["[$BLOCK]", "[null]", r#"{"block_id":$BLOCK}"#, r#"{"epoch_id":$HASH}"#, r#"{"latest":null}"#, r#""latest""#, "[]", "[null,1]"] },
    Method {
        name: "query", read: query,
        forms: &[
            r#"{$REF,"request_type":"view_account","account_id":$ID}"#, r#"{$REF,"request_type":"view_code","account_id":$ID}"#,
            r#"{$REF,"request_type":"view_state","account_id":$ID,"prefix_base64":$BASE64}"#,
            r#"{$REF,"request_type":"view_state","account_id":$ID,"prefix_base64":$BASE64,"include_proof":$BOOL}"#,
            r#"{$REF,"request_type":"view_state","account_id":$ID,"prefix_base64":$BASE64,"after_key_base64":$BASE64,"limit":$LIMIT}"#,
            r#"{$REF,"request_type":"view_state","account_id":$ID,"prefix_base64":"","after_key_base64":$BASE64,"limit":null}"#,
            r#"{$REF,"request_type":"view_state","account_id":$ID,"prefix_base64":"","limit":$LIMIT,"include_proof":$BOOL}"#,
            r#"{$REF,"request_type":"view_access_key","account_id":$ID,"public_key":$KEY}"#, r#"{$REF,"request_type":"view_access_key_list","account_id":$ID}"#,
            r#"{$REF,"request_type":"view_access_key_list","account_id":$ID,"after_key":$HANDLE}"#,
            r#"{$REF,"request_type":"view_access_key_list","account_id":$ID,"limit":$LIMIT}"#,
            r#"{$REF,"request_type":"view_access_key_list","account_id":$ID,"after_key":$HANDLE,"limit":$LIMIT}"#,
            r#"{$REF,"request_type":"view_access_key_list","account_id":$ID,"after_key":null,"limit":null}"#,
            r#"{$REF,"request_type":"view_gas_key_nonces","account_id":$ID,"public_key":$KEY}"#,
            r#"{$REF,"request_type":"call_function","account_id":$ID,"method_name":$TEXT,"args_base64":$BASE64}"#,
            r#"{$REF,"request_type":"view_global_contract_code","code_hash":$HASH}"#, r#"{$REF,"request_type":"view_global_contract_code_by_account_id","account_id":$ID}"#,
            r#"["account/$NAME",""]"#, r#"["access_key/$NAME",""]"#, r#"["access_key/$NAME/$BARE",$BASE58]"#, r#"["code/$NAME",$BASE58]"#, r#"["code/$NAME/x",""]"#,
            r#"["contract/$NAME",$BASE58]"#, r#"["contract/$NAME/x/y",$BASE58]"#, r#"["call/$NAME/m",$BASE58]"#, r#"["call/$NAME/a/b",$BASE58]"#, r#"["call/$NAME",$BASE58]"#,
            r#"["other/$NAME",$BASE58]"#, r#"["$NAME",""]"#, r#"["account/$NAME"]"#, r#"["account/$NAME","",""]"#, "[$TEXT,$TEXT]",
            r#"{$REF,"request_type":$U64,"account_id":$ID}"#, r#"{"request_type":"view_account","account_id":$ID}"#,
        ],
    },
    Method { name: "EXPERIMENTAL_view_account", read: plain::<t::view_account::RpcViewAccountRequest>, forms: &[r#"{$REF,"account_id":$ID}"#, "[$BLOCK,$ID]"] },
    Method { name: "EXPERIMENTAL_view_code", read: plain::<t::view_code::RpcViewCodeRequest>, forms: &[r#"{$REF,"account_id":$ID}"#] },
    Method {
        name: "EXPERIMENTAL_view_state", read: view_state,
        forms: &[
            r#"{$REF,"account_id":$ID,"prefix_base64":$BASE64}"#, r#"{$REF,"account_id":$ID,"prefix_base64":$BASE64,"include_proof":$BOOL}"#,
            r#"{$REF,"account_id":$ID,"prefix_base64":$BASE64,"after_key_base64":$BASE64,"limit":$LIMIT}"#, r#"{$REF,"account_id":$ID,"prefix_base64":"","limit":$LIMIT,"include_proof":$BOOL}"#,
            r#"{$REF,"account_id":$ID,"prefix_base64":$BASE64,"after_key_base64":null,"limit":null}"#,
        ],
    },
    Method { name: "EXPERIMENTAL_view_access_key", read: plain::<t::view_access_key::RpcViewAccessKeyRequest>, forms: &[r#"{$REF,"account_id":$ID,"public_key":$KEY}"#] },
    Method {
        name: "EXPERIMENTAL_view_access_key_list", read: plain::<t::view_access_key_list::RpcViewAccessKeyListRequest>,
        forms: &[
            r#"{$REF,"account_id":$ID}"#, r#"{$REF,"account_id":$ID,"after_key":$HANDLE}"#, r#"{$REF,"account_id":$ID,"limit":$LIMIT}"#,
            r#"{$REF,"account_id":$ID,"after_key":$HANDLE,"limit":$LIMIT}"#, r#"{$REF,"account_id":$ID,"after_key":null,"limit":null}"#, r#"{"account_id":$ID,"limit":$LIMIT}"#,
        ],
    },
    Method { name: "EXPERIMENTAL_view_gas_key_nonces", read: plain::<t::view_gas_key_nonces::RpcViewGasKeyNoncesRequest>, forms: &[r#"{$REF,"account_id":$ID,"public_key":$KEY}"#] },
    Method { name: "EXPERIMENTAL_call_function", read: plain::<t::call_function::RpcCallFunctionRequest>, forms: &[r#"{$REF,"account_id":$ID,"method_name":$TEXT,"args_base64":$BASE64}"#] },
    Method {
        name: "changes", read: plain::<t::changes::RpcStateChangesInBlockByTypeRequest>,
        forms: &[
            r#"{$REF,"changes_type":"account_changes","account_ids":[$ID,$ID]}"#, r#"{$REF,"changes_type":"single_access_key_changes","keys":[{"account_id":$ID,"public_key":$KEY}]}"#,
            r#"{$REF,"changes_type":"single_access_key_changes","keys":[[$ID,$KEY]]}"#, r#"{$REF,"changes_type":"all_access_key_changes","account_ids":[$ID]}"#,
            r#"{$REF,"changes_type":"contract_code_changes","account_ids":[]}"#, r#"{$REF,"changes_type":"data_changes","account_ids":[$ID],"key_prefix_base64":$BASE64}"#,
        ],
    },
    Method { name: "block_effects", read: plain::<t::changes::RpcStateChangesInBlockRequest>, forms: &[r#"{$REF}"#, r#"{$REF,"x":1}"#, "[$BLOCK]", "{}"] },
    Method { name: "EXPERIMENTAL_changes_in_block", read: plain::<t::changes::RpcStateChangesInBlockRequest>, forms: &[r#"{$REF}"#] },
    Method {
        name: "EXPERIMENTAL_indexer_block", read: plain::<t::indexer::RpcIndexerBlockRequest>,
        forms: &[
            r#"{"block_hash":$HASH}"#, "[$HASH]", r#"{"block_hash":$HASH,"extra":1}"#, r#"{"block_hash":$HASH,"a":1}"#, r#"{"block_hash":$HASH,"finality":"final"}"#, r#"{$REF}"#, "{}", "[]", "[$HASH,1]", "null",
            "$HASH", r#"{"a":1,"b":2}"#, r#"{"z":1,"y":2}"#,
        ],
    },
    Method { name: "tx", read: tx, forms: TX_FORMS },
    Method { name: "tx_status", read: tx, forms: TX_FORMS },
    Method { name: "EXPERIMENTAL_tx_status", read: tx, forms: TX_FORMS },
    Method { name: "send_tx", read: send, forms: SEND_FORMS },
    Method { name: "broadcast_tx_commit", read: send, forms: SEND_FORMS },
    Method { name: "broadcast_tx_async", read: send, forms: SEND_FORMS },
    Method { name: "EXPERIMENTAL_receipt", read: plain::<t::receipts::ReceiptReference>, forms: &["[$HASH]", r#"{"receipt_id":$HASH}"#, "[]", "[$HASH,1]"] },
    Method {
        name: "EXPERIMENTAL_receipt_to_tx", read: plain::<t::receipts::RpcReceiptToTxRequest>,
        forms: &[r#"{"receipt_id":$HASH}"#, r#"{"receipt_id":$HASH,"block_height":$U64}"#, r#"{"receipt_id":$HASH,"block_height":$U64,"shard_id":$U64,"window":$U64}"#, r#"{"receipt_id":$HASH,"window":null}"#, "[$HASH]"],
    },
    Method {
        name: "light_client_proof", read: plain::<t::light_client::RpcLightClientExecutionProofRequest>,
        forms: &[
            r#"{"type":"transaction","transaction_hash":$HASH,"sender_id":$ID,"light_client_head":$HASH}"#, r#"{"type":"receipt","receipt_id":$HASH,"receiver_id":$ID,"light_client_head":$HASH}"#,
            r#"{"type":$U64,"receipt_id":$HASH,"receiver_id":$ID,"transaction_hash":$HASH,"sender_id":$ID,"light_client_head":$HASH}"#,
        ],
    },
    Method { name: "EXPERIMENTAL_light_client_block_proof", read: plain::<t::light_client::RpcLightClientBlockProofRequest>, forms: &["[$HASH,$HASH]", r#"{"block_hash":$HASH,"light_client_head":$HASH}"#, "[$HASH]"] },
    Method { name: "next_light_client_block", read: next_block, forms: &["[$HASH]", r#"{"last_block_hash":$HASH}"#, "[$HASH,$HASH]", "[]", "{}"] },
    Method { name: "maintenance_windows", read: plain::<t::maintenance::RpcMaintenanceWindowsRequest>, forms: &["[$ID]", r#"{"account_id":$ID}"#, "[$ID,$ID]", "[]"] },
    Method { name: "EXPERIMENTAL_protocol_config", read: plain::<BlockReference>, forms: &[r#"{$REF}"#, "[$BLOCK]", r#"{$REF,"x":1}"#] },
    Method { name: "EXPERIMENTAL_split_storage_info", read: plain::<t::split_storage::RpcSplitStorageInfoRequest>, forms: &["{}", "[]", "null", "[1]", r#"{"x":$U64}"#, "$U64"] },
    Method { name: "sandbox_fast_forward", read: plain::<t::sandbox::RpcSandboxFastForwardRequest>, forms: &["[$U64]", r#"{"delta_height":$U64}"#, "[]", "[1,2]"] },
];

const UNIVERSAL: &str = r#""0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g""#;
const IDS: &[&str] = &[
    r#""a.near""#, UNIVERSAL, r#""0s1234567890123456789012345678901234567890""#, r#""0xb794f5ea0ba39494ce839613fffba74279579268""#,
    r#""98793cd91a3f870fb126f66285808c7e094afcfc4eda8a970f6648cdf0dbd6de""#, r#""0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865h""#, r#""system""#, r#""bo""#,
];
const BAD_IDS: &[&str] = &[r#""a""#, r#""0U1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g""#, "7", "null", r#""a..near""#, r#""ä.near""#];
const HASHES: &[&str] = &[r#""11111111111111111111111111111111""#, r#""CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3x""#];
const BAD_HASHES: &[&str] = &[r#""1""#, r#""CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3xCV""#, "5", "null", "[]"];
const KEYS: &[&str] = &[
    r#""ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#, r#""AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#, r#""ED25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#,
    r#""secp256k1:2ErVhDcjCfmEHm3ysQ9TGjGGYKQZaZ9TX6TYPPuEAAVoYZc9xT8a9Wjev7EF5wVbXkrCPdq1ayhDmCCiWgwdvvy2""#,
];
const BAD_KEYS: &[&str] = &[r#""ed25519:1""#, r#""rsa:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#, "1", "null", r#""ml-dsa-65-hash:11111111111111111111111111111111""#, r#""ml-dsa-65:11""#];
const HANDLES: &[&str] = &[
    r#""ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#, r#""ml-dsa-65-hash:11111111111111111111111111111111""#, r#""ml-dsa-65-hash:CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3x""#,
    r#""AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr""#,
];
const BAD_HANDLES: &[&str] = &[r#""ml-dsa-65-hash:1""#, r#""ml-dsa-65:11111111111111111111111111111111""#, r#""x:11111111111111111111111111111111""#, "1", "{}", r#""ml-dsa-65-hash:""#, r#""""#];

/// A value for a place in a form. Four of five are right.
fn value(rng: &mut Rng, place: &str, tx: &[String]) -> String {
    let (good, bad): (&[&str], &[&str]) = match place {
        "$BLOCK" => (&["7", r#""CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3x""#, "0", "18446744073709551615"], &["-1", r#""7""#, "1.5", "null", "[7]", r#""final""#]),
        "$HASH" => (HASHES, BAD_HASHES),
        "$ID" => (IDS, BAD_IDS),
        "$KEY" => (KEYS, BAD_KEYS),
        "$HANDLE" => (HANDLES, BAD_HANDLES),
        "$BASE64" => (&[r#""""#, r#""aw==""#, r#""awE=""#, r#""a2s""#], &[r#""!""#, "5", "null", r#""a""#]),
        "$TEXT" => (&[r#""m""#, r#""""#, r#""ä \"q\"""#], &["5", "null"]),
        "$LIMIT" => (&["1", "100", "4294967295"], &["0", "-1", "4294967296", r#""1""#, "1.5", "null"]),
        "$U64" => (&["0", "1", "5", "18446744073709551615"], &["-1", "18446744073709551616", r#""1""#, "1.5", "null"]),
        "$BOOL" => (&["true", "false"], &["1", "null"]),
        "$LEVEL" => {
            (&[r#""NONE""#, r#""INCLUDED""#, r#""EXECUTED_OPTIMISTIC""#, r#""INCLUDED_FINAL""#, r#""EXECUTED""#, r#""FINAL""#], &[r#""final""#, "null", "3", r#"{"FINAL":null}"#])
        }
        "$REF" => (
            &[
                r#""block_id":7"#, r#""block_id":"CV6xPKxXw9M3jLyTRmtKVSmkRMGRqkr9x4b9q8XB3Y3x""#, r#""finality":"optimistic""#, r#""finality":"near-final""#, r#""finality":"final""#,
                r#""sync_checkpoint":"genesis""#, r#""sync_checkpoint":"earliest_available""#,
            ],
            &[r#""block_id":null"#, r#""finality":"none""#, r#""sync_checkpoint":7"#, r#""finality":2"#, r#""latest":1"#],
        ),
        "$BASE58" => (&[r#""""#, r#""11""#, r#""5Kg""#, r#""StV1DL6CwTryKyV""#], &[r#""0""#, r#""l""#, r#""ä""#, "5", "null"]),
        "$NAME" | "$BARE" => {
            let list = if place == "$NAME" { (IDS, BAD_IDS) } else { (KEYS, BAD_KEYS) };
            let list = if rng.below(5) > 0 { list.0 } else { list.1 };
            return rng.pick(list).trim_matches('"').to_string();
        }
        "$TX" => {
            if rng.below(5) > 0 {
                return format!("\"{}\"", tx[rng.below(tx.len())]);
            }
            (&[r#""AAAA""#, r#""%%""#], &["5", "null", r#""""#])
        }
        _ => panic!("no place {place}"),
    };
    let list = if rng.below(5) > 0 { good } else { bad };
    rng.pick(list).to_string()
}

const ROUNDS: usize = 28;

pub fn all(rng: &mut Rng) -> Vec<Value> {
    // the short ones of transactions.txt
    let tx: Vec<String> = include_str!("../transactions.txt").lines().filter(|l| l.len() < 500).map(str::to_string).collect();
    let mut out = vec![];
    for m in METHODS {
        for form in m.forms {
            for _ in 0..if form.contains('$') { ROUNDS } else { 1 } {
                let text = fill(rng, form, &tx);
                let value: Value = serde_json::from_str(&text).expect("json");
                let read = (m.read)(value);
                let again = read.as_ref().ok().map(Value::to_string);
                out.push(json!({"method": m.name, "params": text, "again": again, "error": read.err()}));
            }
        }
    }
    out
}

/// A form with values in its places.
fn fill(rng: &mut Rng, form: &str, tx: &[String]) -> String {
    let mut out = String::new();
    let mut rest = form;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let end = rest[at + 1..].find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit()).map_or(rest.len(), |n| at + 1 + n);
        out.push_str(&value(rng, &rest[at..end], tx));
        rest = &rest[end..];
    }
    out + rest
}
