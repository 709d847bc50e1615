//! Replies of a node, read and written again. Each line of the input is a reply as Troupe's tests write it: the method (with GET before
//! it for a path that is got), the request, and the text of the result or of the error.

use crate::methods::{METHODS, Method};
use near_jsonrpc_primitives::errors::{RpcError, RpcErrorKind};
use serde_json::{Value, json};

#[derive(serde::Deserialize, serde::Serialize)]
struct Reply {
    method: String,
    request: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// One line for each reply: what the types write.
pub fn all() -> Vec<Value> {
    let (mut out, mut differ) = (vec![], 0);
    for line in std::io::stdin().lines() {
        let mut r: Reply = serde_json::from_str(&line.expect("line")).expect("reply");
        let (read, written) = match (&r.result, &r.error) {
            (Some(text), None) => (text, (method(&r.method).again)(text, r.method.starts_with("GET "))),
            (None, Some(text)) => (text, error(&r.method, text)),
            _ => panic!("a reply to {} with result and error, or neither", r.method),
        };
        match written {
            Ok(text) => {
                if text != *read {
                    differ += 1;
                    eprintln!("{} {}: {}", r.method, r.request, difference(read, &text));
                }
                *(if r.error.is_none() { &mut r.result } else { &mut r.error }) = Some(text);
            }
            Err(e) => {
                differ += 1;
                eprintln!("{} {}: {e}: {read:.400}", r.method, r.request);
            }
        }
        out.push(serde_json::to_value(r).expect("json"));
    }
    eprintln!("{} replies, of which {differ} are not as the types write them", out.len());
    out
}

fn method(name: &str) -> &'static Method {
    METHODS.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("no method {name}"))
}

/// The error, whose cause is read and written as the method's own type. Two causes have a member that is not written and cannot be read
/// without.
fn error(name: &str, text: &str) -> Result<String, String> {
    let mut e: RpcError = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Some(RpcErrorKind::HandlerError(cause)) = &mut e.error_struct {
        if cause["info"] != json!({}) {
            let again = (method(name).cause)(&cause.to_string(), false)?;
            **cause = serde_json::from_str(&again).map_err(|e| e.to_string())?;
        }
    }
    serde_json::to_string(&e).map_err(|e| e.to_string())
}

/// Where two texts begin to differ.
fn difference(read: &str, written: &str) -> String {
    let at = read.bytes().zip(written.bytes()).take_while(|(x, y)| x == y).count();
    let near = |s: &str| String::from_utf8_lossy(&s.as_bytes()[at.saturating_sub(60)..s.len().min(at + 60)]).into_owned();
    format!("at byte {at}: read {}, written {}", near(read), near(written))
}
