//! Small modules with each of their bytes changed to each value: what nearcore's preparation says of every one.

use crate::arith::{self, Flavour};
use crate::inputs::Rng;
use crate::out::Out;
use crate::vm::Vm;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::SeedableRng;
use serde::Serialize;

/// A module, or a place in the last one with the 256 verdicts: sizes of what nearcore compiles, or names of PrepareErrors;
/// a verdict that follows its equal is left out, and counted.
#[derive(Serialize)]
#[serde(untagged)]
enum Line {
    Module { wasm: String },
    Place { at: usize, verdicts: Vec<(String, usize)> },
}

/// Everything that a contract may hold, once.
const ALL: &str = r#"(module
  (type (func))
  (type (func (param i32 i64 f32 f64) (result f64)))
  (type (func (param i64 i64) (result i64)))
  (import "env" "register_len" (func (param i64) (result i64)))
  (import "env" "panic" (func))
  (table 4 9 funcref)
  (memory 1 3)
  (global i32 (i32.const -5))
  (global (mut i64) (i64.const 0x123456789))
  (global f32 (f32.const 1.5))
  (global (mut f64) (f64.const -0.25))
  (global funcref (ref.func 3))
  (global (mut funcref) (ref.null func))
  (export "main" (func 3)) (export "g" (global 0)) (export "m" (memory 0)) (export "t" (table 0))
  (start 5)
  (elem (i32.const 0) func 2 3)
  (elem func 4)
  (elem declare func 5)
  (elem (table 0) (i32.const 1) funcref (ref.func 2) (ref.null func))
  (elem funcref (ref.func 3))
  (elem declare funcref (ref.null func))
  (func (type 1)
    local.get 3 local.get 2 f64.promote_f32 f64.add local.get 0 f64.convert_i32_u f64.mul
    block (result f64) f64.const 3 local.get 0 br_if 0 drop f64.const 1 end
    f64.copysign)
  (func (local i32 i32 f64) (local funcref)
    block loop block local.get 0 br_table 0 1 2 1 end local.get 0 i32.const 1 i32.add local.tee 0 i32.const 3 i32.lt_u br_if 0 end end
    local.get 0 if (result i64) i64.const -9 else global.get 1 end global.set 1
    i32.const 0 i32.load offset=4 align=2 i64.extend_i32_s i64.const 7 i64.store8 offset=1 (i32.wrap_i64)
    i32.const 8 i64.const 2 i64.store offset=300
    i32.const 1 call_indirect (type 0)
    f64.const 1e300 i32.trunc_sat_f64_u drop
    i32.const 1 i32.const 2 local.get 1 select local.set 1
    ref.null func ref.func 2 local.get 1 select (result funcref) local.set 3
    local.get 3 ref.is_null drop
    i32.const 0 table.get 0 i32.const 1 table.grow 0 drop table.size 0 drop
    i32.const 1 local.get 3 table.set 0
    i32.const 0 local.get 3 i32.const 1 table.fill 0
    i32.const 0 i32.const 1 i32.const 1 table.copy 0 0
    i32.const 0 i32.const 0 i32.const 1 table.init 0 1 elem.drop 1
    i32.const 0 i32.const 1 i32.const 9 memory.copy i32.const 0 i32.const 255 i32.const 3 memory.fill
    i32.const 0 i32.const 0 i32.const 2 memory.init 1 data.drop 1
    i32.const 1 memory.grow drop memory.size drop
    local.get 0 i32.extend8_s drop
    i64.const 1 call 0 drop
    nop return)
  (func (type 2) local.get 0 local.get 1 i64.div_s unreachable)
  (func)
  (data (i32.const 16) "hello")
  (data "passive"))"#;

pub fn write(dir: &str) -> Result<(), String> {
    let vm = Vm::new();
    let mut out = Out::create(dir, "edges.jsonl.gz", "edges DIR")?;
    let all = ALL.replace("i64.const 7 i64.store8 offset=1 (i32.wrap_i64)", "drop i32.const 3 i64.const 7 i64.store8 offset=1");
    let mut modules = vec![wat::parse_str(all).map_err(|e| e.to_string())?];
    // Locals in many groups, a custom section in the middle, and computing.
    let rng = &mut Rng::seed_from_u64(11);
    while modules.len() < 3 {
        let code = arith::module(rng, Flavour::Start);
        if (300..600).contains(&code.len()) {
            modules.push(code);
        }
    }
    for module in modules {
        vm.prepared(&module, 0).map_err(|e| format!("a base does not pass: {e}"))?;
        out.line(&Line::Module { wasm: B64.encode(&module) })?;
        for at in 0..module.len() {
            let mut changed = module.clone();
            let mut verdicts: Vec<(String, usize)> = vec![];
            for value in 0..=255 {
                changed[at] = value;
                let verdict = vm.prepared(&changed, 0).map_or_else(|e| e, |n| n.to_string());
                match verdicts.last_mut() {
                    Some(last) if last.0 == verdict => last.1 += 1,
                    _ => verdicts.push((verdict, 1)),
                }
            }
            out.line(&Line::Place { at, verdicts })?;
        }
    }
    out.close()
}
