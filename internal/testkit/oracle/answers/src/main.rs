//! What nearcore's own types say of what a client sent: the vectors of rpc and primitives/genesis. See ../README.md.

mod defaults;
mod draws;
mod errors;
mod forms;
mod messages;
mod methods;
mod params;
mod replies;
mod rng;
mod schemas;
mod tx;
mod values;

use flate2::{Compression, GzBuilder};
use rng::Rng;
use serde_json::json;
use std::io::Write;

const USAGE: &str = "usage: troupe-answers COMMAND DIR [N]
  base64   base64.jsonl.gz: random texts, read strictly and without regard to padding
  defaults defaults.jsonl.gz: defaults of config.json
  draws    draws.jsonl.gz: draws of chunk producers of which some are left out
  errors   errors.jsonl.gz: errors of the methods
  forms    forms.jsonl.gz: requests in all their forms
  messages messages.jsonl.gz: messages about chunks before EarlyKickout and from it on
  params   params.jsonl.gz: random parameters of the methods
  replies  replies.jsonl.gz: replies from stdin, read and written again
  schemas  schemas.jsonl.gz: JSON schemas of the methods
  tx       tx.jsonl.gz: signed transactions, spoiled
  values   values.jsonl.gz: values of protocol 88, in bytes and JSON";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(command), Some(dir)) = (args.first(), args.get(1)) else {
        eprintln!("{USAGE}");
        std::process::exit(1)
    };
    let n = args.get(2).and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut rng = Rng(n);
    let lines = match command.as_str() {
        "base64" => base64(&mut rng),
        "defaults" => defaults::all(),
        "draws" => draws::all(&mut rng),
        "errors" => errors::all(&mut rng),
        "forms" => forms::all(&mut rng),
        "messages" => messages::all(),
        "params" => params::all(&mut rng),
        "replies" => replies::all(),
        "schemas" => schemas::all(),
        "tx" => tx::all(&mut rng),
        "values" => values::all(&mut rng),
        _ => {
            eprintln!("{USAGE}");
            std::process::exit(1)
        }
    };
    let file = std::fs::File::create(format!("{dir}/{command}.jsonl.gz")).expect("create");
    let mut out = GzBuilder::new().mtime(0).write(file, Compression::best());
    for line in lines {
        writeln!(out, "{line}").expect("write");
    }
    out.finish().expect("write");
}

/// Texts near the ends of what fits, as the two ways of reading have them.
fn base64(rng: &mut Rng) -> Vec<serde_json::Value> {
    const GOOD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const ODD: &[u8] = b"=====  \n-_*\"\\\x7f%A";
    let mut out = vec![];
    for i in 0..4000 {
        let n = rng.below(if i % 8 == 0 { 40 } else { 14 });
        let mut text: Vec<u8> = (0..n).map(|_| GOOD[rng.below(GOOD.len())]).collect();
        for _ in 0..rng.below(3) {
            if !text.is_empty() {
                let at = if rng.below(2) == 0 { text.len() - 1 - rng.below(text.len().min(4)) } else { rng.below(text.len()) };
                text[at] = ODD[rng.below(ODD.len())];
            }
        }
        if rng.below(3) == 0 {
            text.extend(std::iter::repeat_n(b'=', rng.below(5)));
        }
        if rng.below(40) == 0 {
            text.extend("é".as_bytes());
        }
        let text = String::from_utf8(text).expect("ascii");
        let strict = near_primitives::serialize::from_base64(&text);
        let any = serde_json::from_value::<near_primitives::types::StoreKey>(json!(text));
        out.push(json!({"text": text, "strict": said(&strict), "any": said(&any)}));
    }
    out
}

/// The text of an error; null: there is none.
fn said<T, E: std::fmt::Display>(r: &Result<T, E>) -> serde_json::Value {
    match r {
        Ok(_) => serde_json::Value::Null,
        Err(e) => json!(e.to_string()),
    }
}
