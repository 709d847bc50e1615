//! JSON schemas of parameters, results and errors of each method, as the types of near-jsonrpc-primitives derive them, without
//! their descriptions.

use crate::methods::METHODS;
use near_jsonrpc_primitives::errors::RpcError;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// One line for each method, then one for each type that they name.
pub fn all() -> Vec<Value> {
    let mut g = SchemaSettings::openapi3().into_generator();
    let mut out = vec![];
    for m in METHODS {
        let (params, result, error) = ((m.params)(&mut g), (m.result)(&mut g), (m.error)(&mut g));
        out.push(json!({"method": m.name, "params": params, "result": result, "error": error}));
    }
    out.push(json!({"method": "", "error": g.subschema_for::<RpcError>()}));
    for (name, schema) in g.take_definitions(true) {
        out.push(json!({"type": name, "schema": schema}));
    }
    out.iter_mut().for_each(strip);
    out
}

/// Removes the sentences.
fn strip(v: &mut Value) {
    match v {
        Value::Object(m) => {
            if m.contains_key("type") || m.contains_key("oneOf") || m.contains_key("anyOf") || m.contains_key("allOf") || m.contains_key("$ref") || m.contains_key("enum") {
                for k in ["description", "title", "example", "deprecated"] {
                    if m.get(k).is_some_and(|x| !x.is_object()) {
                        m.remove(k);
                    }
                }
            }
            m.values_mut().for_each(strip);
        }
        Value::Array(a) => a.iter_mut().for_each(strip),
        _ => {}
    }
}
