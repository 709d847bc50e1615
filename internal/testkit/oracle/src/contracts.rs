//! Sessions with the test contracts of internal/testkit/contracts/c: calls one after the other on one storage.

use crate::inputs::Rng;
use crate::out::Out;
use crate::random::{Maker, Vector};
use crate::vm::Job;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::SeedableRng;

/// Method, arguments; before the method, after a '|': who calls, and the deposit ("alice.near 1|ft_mint"). A '?' first makes
/// it a view; a result of the promise before it stands in angle brackets at the end: "method<data>".
type Call = (&'static str, &'static str);

const FT: &[Call] = &[
    ("?ft_balance_of", r#"{"account_id":"bob.near"}"#),
    ("ft_total_supply", ""),
    ("new", r#"{"owner_id":"alice.near","total_supply":"1000000000000000000000000","metadata":{"spec":"ft-1.0.0","name":"A token","symbol":"TOK","decimals":18}}"#),
    ("new", r#"{"owner_id":"bob.near","total_supply":"1","metadata":{"spec":"ft-1.0.0","name":"A","symbol":"B","decimals":1}}"#),
    ("?ft_metadata", ""),
    ("?ft_balance_of", r#"{"account_id":"alice.near"}"#),
    ("?ft_transfer", r#"{"receiver_id":"bob.near","amount":"1"}"#),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"bob.near","amount":"5"}"#),
    ("bob.near 1250000000000000000000000|storage_deposit", ""),
    ("carol.near 1250000000000000000007|storage_deposit", r#"{"account_id":"carol.near","registration_only":true}"#),
    ("carol.near 1250000000000000000000|storage_deposit", ""),
    ("carol.near 1|storage_deposit", r#"{"account_id":"dave.near"}"#),
    ("?storage_balance_of", r#"{"account_id":"bob.near"}"#),
    ("?storage_balance_of", r#"{"account_id":"nobody.near"}"#),
    ("?storage_balance_bounds", ""),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"bob.near","amount":"500000000000000000","memo":"with a \"memo\" \u20ac"}"#),
    ("alice.near 0|ft_transfer", r#"{"receiver_id":"bob.near","amount":"5"}"#),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"bob.near","amount":"5000000000000000000000000000"}"#),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"alice.near","amount":"5"}"#),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"bob.near","amount":"0"}"#),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"bob.near","amount":5}"#),
    ("alice.near 1|ft_transfer", r#"{"receiver_id":"bob.near""#),
    ("alice.near 1|ft_transfer", "not json"),
    ("bob.near 1|ft_transfer_call", r#"{"receiver_id":"carol.near","amount":"100000","msg":"take 30"}"#),
    ("alice.near 0|ft_resolve_transfer<\"30\">", r#"{"sender_id":"bob.near","receiver_id":"carol.near","amount":"100000"}"#),
    ("alice.near 0|ft_resolve_transfer", r#"{"sender_id":"bob.near","receiver_id":"carol.near","amount":"100000"}"#),
    ("alice.near 0|ft_resolve_transfer<nonsense>", r#"{"sender_id":"bob.near","receiver_id":"carol.near","amount":"100"}"#),
    ("bob.near 0|ft_resolve_transfer<\"30\">", r#"{"sender_id":"bob.near","receiver_id":"carol.near","amount":"100000"}"#),
    ("alice.near 1|ft_mint", r#"{"account_id":"bob.near","amount":"42"}"#),
    ("bob.near 1|ft_mint", r#"{"account_id":"bob.near","amount":"42"}"#),
    ("bob.near 1|storage_withdraw", ""),
    ("bob.near 1|storage_withdraw", r#"{"amount":"1"}"#),
    ("bob.near 1|storage_unregister", ""),
    ("bob.near 1|storage_unregister", r#"{"force":true}"#),
    ("bob.near 1|storage_unregister", ""),
    ("?ft_total_supply", ""),
    ("?version", ""),
    ("alice.near 0|upgrade", "\0asm\u{1}\0\0\0"),
    ("carol.near 0|upgrade", "x"),
    ("alice.near 0|migrate", ""),
];

const FT2: &[Call] = &[
    ("new", r#"{"owner_id":"alice.near","total_supply":"77","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}"#),
    ("alice.near 0|migrate", ""),
    ("alice.near 0|migrate", ""),
    ("?version", ""),
    ("?ft_owner", ""),
];

const BURNER: &[Call] = &[
    ("spin", ""),
    ("burn", r#"{"tgas":2}"#),
    ("fib", r#"{"n":15}"#),
    ("?fib", r#"{"n":12}"#),
    ("hash", r#"{"n":40}"#),
    ("grow", r#"{"n":3}"#),
    ("grow", r#"{"n":1023}"#),
    ("grow", r#"{"n":1024}"#),
    ("grow", r#"{"n":65536}"#),
    ("logs", r#"{"n":100}"#),
    ("logs", r#"{"n":101}"#),
    ("promises", r#"{"n":30}"#),
    ("promises", r#"{"n":1024}"#),
    ("?promises", r#"{"n":1}"#),
];

const HOG: &[Call] = &[
    ("fill", r#"{"from":0,"count":10,"size":100}"#),
    ("fill", r#"{"from":5,"count":10,"size":5000}"#),
    ("read", r#"{"from":0,"count":20}"#),
    ("?read", r#"{"from":0,"count":3}"#),
    ("fill", r#"{"from":0,"count":1,"size":4194304}"#),
    ("read", r#"{"from":0,"count":1}"#),
    ("fill", r#"{"from":0,"count":1,"size":4194305}"#),
    ("clear", r#"{"from":3,"count":30}"#),
    ("clear", r#"{"from":0,"count":3}"#),
    ("?usage", ""),
    ("?fill", r#"{"from":0,"count":1,"size":1}"#),
];

const YIELDER: &[Call] = &[
    ("ask", r#"{"prompt":"why?"}"#),
    ("answer", r#"{"number":0,"text":"because"}"#),
    ("answer", r#"{"number":9,"text":"because"}"#),
    ("ask_named", r#"{"name":"n","prompt":"why?"}"#),
    ("answer_named", r#"{"name":"n","text":"because"}"#),
    ("ask_and_answer", r#"{"prompt":"who?"}"#),
    ("alice.near 0|on_answer<me>", r#"{"prompt":"who?"}"#),
    ("alice.near 0|on_answer", r#"{"prompt":"who?"}"#),
    ("on_answer", r#"{"prompt":"who?"}"#),
];

const CALLER: &[Call] = &[
    ("pass", r#"{"to":"bob.near","method":"noop"}"#),
    ("fire", r#"{"to":"bob.near","method":"m","args":{"a":1},"amount":"5","tgas":3,"times":7}"#),
    ("ask", r#"{"to":"bob.near"}"#),
    ("ask_aside", r#"{"to":"bob.near","callback_tgas":20}"#),
    ("join", r#"{"all":["a.near","b.near","alice.near"],"method":"x"}"#),
    ("chain", r#"{"all":["a.near","b.near","c.near"],"method":"x","tgas":1}"#),
    ("share", r#"{"to":"alice.near","method":"noop"}"#),
    ("refund", r#"{"to":"bob.near","method":"noop","amount":"10","refund_to":"carol.near"}"#),
    ("pass", r#"{"to":"bob.near","tgas":1000}"#),
    ("pass", r#"{"to":"NOBODY"}"#),
    ("alice.near 0|report<\"yes\">", "{}"),
    ("alice.near 0|report", "{}"),
];

const PANICKER: &[Call] = &[
    ("panic", ""),
    ("panic_utf8", ""),
    ("panic_args", "\u{20ac} args"),
    ("panic_bad_utf8", ""),
    ("abort", ""),
    ("unreachable", ""),
    ("divide", ""),
    ("truncate", ""),
    ("out_of_bounds", ""),
    ("null_call", ""),
    ("wrong_type", ""),
    ("stack", ""),
    ("spin", ""),
    ("read_memory", ""),
    ("write_memory", ""),
    ("no_register", ""),
    ("long_register", ""),
    ("bad_account", ""),
    ("bad_promise", ""),
    ("joint_action", ""),
    ("bad_result", ""),
    ("no_method", ""),
    ("balance", ""),
    ("gas_overflow", ""),
    ("gas_exceeded", ""),
    ("bad_key", ""),
    ("long_key", ""),
    ("long_value", ""),
    ("long_return", ""),
    ("long_log", ""),
    ("many_logs", ""),
    ("many_promises", ""),
    ("bad_utf8", ""),
    ("bad_utf16", ""),
    ("deprecated", ""),
    ("large_contract", ""),
    ("bad_yield", ""),
    ("after_work", ""),
    ("?writes", ""),
    ("?signer", ""),
    ("?context", ""),
    ("takes_a_parameter", ""),
    ("nothing", ""),
    ("", ""),
    ("noop", ""),
];

pub fn write(dir: &str) -> Result<(), String> {
    let mut m = Maker::new(Out::create(dir, "contracts.jsonl.gz", "contracts DIR")?, Rng::seed_from_u64(8));
    for (contract, calls) in
        [("ft", FT), ("ft2", FT2), ("burner", BURNER), ("hog", HOG), ("yielder", YIELDER), ("caller", CALLER), ("panicker", PANICKER)]
    {
        let path = format!("internal/testkit/contracts/c/{contract}.wasm");
        let wasm = B64.encode(std::fs::read(&path).map_err(|e| format!("{path}: {e}"))?);
        for (i, (how, args)) in calls.iter().enumerate() {
            let mut job = Job {
                wasm: wasm.clone(),
                name: format!("{contract} {how} {args}"),
                args: B64.encode(args),
                gas: vec![300_000_000_000_000],
                keep: i > 0,
                deposit: "0".into(),
                ..Job::default()
            };
            let mut how = *how;
            if let Some(rest) = how.strip_prefix('?') {
                (job.view, how) = (true, rest);
            }
            if let Some((before, method)) = how.split_once('|') {
                let (who, deposit) = before.split_once(' ').ok_or("no deposit")?;
                (job.predecessor, job.deposit, how) = (who.into(), deposit.into(), method);
            }
            if let Some((method, data)) = how.split_once('<') {
                job.results = vec![Some(B64.encode(data.trim_end_matches('>')))];
                how = method;
            } else if how.contains("resolve") || how.starts_with("on_") || how == "report" {
                job.results = vec![None];
            }
            job.method = how.into();
            m.vector(Vector::of(job), 2)?;
        }
    }
    m.close()
}
