//! Vectors of the math host functions: good, bad and odd inputs, through the host functions themselves.

use crate::inputs::{self, Rng};
use crate::out::Out;
use crate::random::{self, Vector};
use crate::vm::{Job, Vm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::{Rng as _, SeedableRng};
use serde::Serialize;

/// How a function takes its input and gives its result.
enum Shape {
    /// (len, ptr, register), no result
    Hash,
    /// (len, ptr, register) -> i64
    Register,
    /// (len, ptr) -> i64
    Check,
    /// three slices -> i64
    Verify,
    /// two slices, two numbers, register -> i64
    Recover,
}

const FUNCTIONS: &[(&str, Shape)] = &[
    ("sha256", Shape::Hash),
    ("keccak256", Shape::Hash),
    ("keccak512", Shape::Hash),
    ("ripemd160", Shape::Hash),
    ("alt_bn128_g1_multiexp", Shape::Hash),
    ("alt_bn128_g1_sum", Shape::Hash),
    ("alt_bn128_pairing_check", Shape::Check),
    ("bls12381_p1_sum", Shape::Register),
    ("bls12381_p2_sum", Shape::Register),
    ("bls12381_g1_multiexp", Shape::Register),
    ("bls12381_g2_multiexp", Shape::Register),
    ("bls12381_map_fp_to_g1", Shape::Register),
    ("bls12381_map_fp2_to_g2", Shape::Register),
    ("bls12381_p1_decompress", Shape::Register),
    ("bls12381_p2_decompress", Shape::Register),
    ("bls12381_pairing_check", Shape::Check),
    ("ed25519_verify", Shape::Verify),
    ("p256_verify", Shape::Verify),
    ("ecrecover", Shape::Recover),
];

/// Those that protocols 87 and 88 bring.
const LATER: &[(&str, Shape)] = &[
    ("sha3_256", Shape::Hash),
    ("sha3_384", Shape::Hash),
    ("sha3_512", Shape::Hash),
    ("ml_dsa_verify", Shape::Verify),
    ("universal_state_init_to_account_id", Shape::Register),
];

/// A case: the slices in the order in which the function reads its arguments, and ecrecover's numbers.
#[derive(Default, Serialize)]
pub struct Case {
    #[serde(rename = "f")]
    function: String,
    /// base64, since hex is longer
    #[serde(rename = "in")]
    input: Vec<String>,
    #[serde(skip_serializing_if = "zero")]
    v: u64,
    #[serde(skip_serializing_if = "zero")]
    m: u64,
    /// What kind of input it is meant to be.
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    err: Option<String>,
    burnt: u64,
}

fn zero(n: &u64) -> bool {
    *n == 0
}

/// The module has a method for each function. Its input is v, m (u64), three lengths (u32), and the slices; its result is
/// the function's number (8 bytes) and the register that it wrote, if it did.
fn module(functions: &[(&str, Shape)]) -> String {
    let mut s = String::from(
        r#"(module
  (import "env" "input" (func $input (param i64)))
  (import "env" "read_register" (func $read (param i64 i64)))
  (import "env" "register_len" (func $len (param i64) (result i64)))
  (import "env" "value_return" (func $return (param i64 i64)))
"#,
    );
    for (name, shape) in functions {
        let (params, result) = match shape {
            Shape::Hash => (3, ""),
            Shape::Register => (3, "(result i64)"),
            Shape::Check => (2, "(result i64)"),
            Shape::Verify => (6, "(result i64)"),
            Shape::Recover => (7, "(result i64)"),
        };
        s += &format!("  (import \"env\" \"{name}\" (func ${name} (param{}) {result}))\n", " i64".repeat(params));
    }
    s += r#"  (memory 1024)
  (func $n (param i32) (result i64) (i64.load32_u (local.get 0)))
  (func $done (param i64)
    (i64.store (i32.const 0x3000000) (local.get 0))
    (if (i64.eq (call $len (i64.const 1)) (i64.const -1))
      (then (call $return (i64.const 8) (i64.const 0x3000000)))
      (else
        (call $read (i64.const 1) (i64.const 0x3000008))
        (call $return (i64.add (i64.const 8) (call $len (i64.const 1))) (i64.const 0x3000000)))))
"#;
    let first = "(call $n (i32.const 16)) (i64.const 28)";
    let second = "(call $n (i32.const 20)) (i64.add (i64.const 28) (call $n (i32.const 16)))";
    let third = "(call $n (i32.const 24)) (i64.add (i64.add (i64.const 28) (call $n (i32.const 16))) (call $n (i32.const 20)))";
    for (name, shape) in functions {
        let call = match shape {
            Shape::Hash => format!("(call ${name} {first} (i64.const 1)) (i64.const 0)"),
            Shape::Register => format!("(call ${name} {first} (i64.const 1))"),
            Shape::Check => format!("(call ${name} {first})"),
            Shape::Verify => format!("(call ${name} {first} {second} {third})"),
            Shape::Recover => format!(
                "(call ${name} {first} {second} (i64.load (i32.const 0)) (i64.load (i32.const 8)) (i64.const 1))"
            ),
        };
        s += &format!(
            "  (func (export \"{name}\") (call $input (i64.const 0)) (call $read (i64.const 0) (i64.const 0))\n    {call} (call $done))\n"
        );
    }
    s + ")"
}

struct Maker {
    vm: Vm,
    protocol: u64,
    wasm: String,
    out: Out,
    /// Some of the calls as calls, for what they burn.
    calls: random::Maker,
    count: usize,
}

impl Maker {
    fn add(&mut self, function: &str, kind: &str, input: &[&[u8]], v: u64, m: u64) -> Result<(), String> {
        let mut args = v.to_le_bytes().to_vec();
        args.extend(m.to_le_bytes());
        for i in 0..3 {
            args.extend((input.get(i).map_or(0, |b| b.len()) as u32).to_le_bytes());
        }
        for b in input {
            args.extend(*b);
        }
        let job = Job { protocol: self.protocol, wasm: self.wasm.clone(), method: function.into(), args: B64.encode(args), gas: vec![1_000_000_000_000_000], ..Job::default() };
        let run = self.vm.run(&job)?.remove(0);
        if self.count % 17 == 0 {
            let first = self.count == 0; // the module stands in the first
            let call = Job { name: format!("{function}, {kind}"), keep: !first, ..job.clone() };
            self.calls.vector(Vector::of(call), 2)?;
        }
        self.count += 1;
        let mut case = Case {
            function: function.into(),
            input: input.iter().map(|b| B64.encode(b)).collect(),
            v,
            m,
            kind: kind.into(),
            burnt: run.burnt,
            ..Case::default()
        };
        match (run.value, run.err) {
            (Some(value), None) => {
                let value = B64.decode(value).unwrap();
                case.code = Some(u64::from_le_bytes(value[..8].try_into().unwrap()));
                if value.len() > 8 {
                    case.out = Some(B64.encode(&value[8..]));
                }
            }
            (_, Some(e)) => {
                let text = e["ExecutionError"].as_str().ok_or(format!("{function} {kind}: {e}"))?.to_string();
                case.err = Some(text);
            }
            _ => return Err(format!("{function} {kind}: no value")),
        }
        self.out.line(&case)
    }

    fn one(&mut self, function: &str, (kind, input): (String, Vec<u8>)) -> Result<(), String> {
        self.add(function, &kind, &[&input], 0, 0)
    }
}

pub fn write(dir: &str) -> Result<(), String> {
    let wasm = B64.encode(wat::parse_str(module(FUNCTIONS)).map_err(|e| e.to_string())?);
    let out = Out::create(dir, "math.jsonl.gz", "math DIR")?;
    let calls = random::Maker::new(Out::create(dir, "mathcalls.jsonl.gz", "math DIR")?, Rng::seed_from_u64(9));
    let mut m = Maker { vm: Vm::new(), protocol: 0, wasm, out, calls, count: 0 };
    let rng = &mut Rng::seed_from_u64(20_26);
    for f in ["sha256", "keccak256", "keccak512", "ripemd160"] {
        for n in (0..150).chain([191, 192, 193, 199, 200, 201, 247, 248, 255, 256, 257, 271, 272, 273, 1000, 1023, 4096]) {
            let b: Vec<u8> = (0..n).map(|_| rng.gen()).collect();
            m.one(f, (format!("{n} bytes"), b))?;
        }
    }
    for _ in 0..200 {
        m.one("alt_bn128_g1_multiexp", inputs::bn::multiexp(rng))?;
        m.one("alt_bn128_g1_sum", inputs::bn::sum(rng))?;
        m.one("alt_bn128_pairing_check", inputs::bn::pairing(rng))?;
    }
    for _ in 0..250 {
        m.one("bls12381_p1_sum", inputs::bls::sum1(rng))?;
        m.one("bls12381_p2_sum", inputs::bls::sum2(rng))?;
        m.one("bls12381_g1_multiexp", inputs::bls::multiexp1(rng))?;
        m.one("bls12381_g2_multiexp", inputs::bls::multiexp2(rng))?;
        m.one("bls12381_map_fp_to_g1", inputs::bls::map1(rng))?;
        m.one("bls12381_map_fp2_to_g2", inputs::bls::map2(rng))?;
        m.one("bls12381_p1_decompress", inputs::bls::compressed1(rng))?;
        m.one("bls12381_p2_decompress", inputs::bls::compressed2(rng))?;
        m.one("bls12381_pairing_check", inputs::bls::pairing(rng))?;
    }
    for i in 0..600 {
        let (kind, s) = inputs::sig::ed25519(rng, i);
        m.add("ed25519_verify", &kind, &[&s[0], &s[1], &s[2]], 0, 0)?;
        let (kind, s) = inputs::sig::p256(rng, i);
        m.add("p256_verify", &kind, &[&s[0], &s[1], &s[2]], 0, 0)?;
        let (kind, s, v, flag) = inputs::sig::recover(rng, i);
        m.add("ecrecover", &kind, &[&s[0], &s[1]], v, flag)?;
    }
    m.calls.close()?;
    m.out.close()?;
    later(dir)
}

/// The functions of 87 and 88, at 88.
fn later(dir: &str) -> Result<(), String> {
    const PROTOCOL: u64 = 88;
    let wasm = B64.encode(wat::parse_str(module(LATER)).map_err(|e| e.to_string())?);
    let out = Out::at(dir, "math88.jsonl.gz", "math DIR", PROTOCOL)?;
    let calls = random::Maker::new(Out::at(dir, "mathcalls88.jsonl.gz", "math DIR", PROTOCOL)?, Rng::seed_from_u64(88));
    let mut m = Maker { vm: Vm::new(), protocol: PROTOCOL, wasm, out, calls, count: 0 };
    let rng = &mut Rng::seed_from_u64(88);
    for f in ["sha3_256", "sha3_384", "sha3_512"] {
        // Both sides of each rate, 136, 104 and 72 bytes.
        for n in (0..150).chain([199, 200, 207, 208, 209, 215, 216, 217, 271, 272, 273, 287, 288, 289, 407, 408, 409, 1000, 4096]) {
            let b: Vec<u8> = (0..n).map(|_| rng.gen()).collect();
            m.one(f, (format!("{n} bytes"), b))?;
        }
    }
    for (kind, s) in inputs::sig::ml_dsa(rng) {
        m.add("ml_dsa_verify", &kind, &[&s[0], &s[1], &s[2]], 0, 0)?;
    }
    for _ in 0..300 {
        m.one("universal_state_init_to_account_id", inputs::universal(rng))?;
    }
    m.calls.close()?;
    m.out.close()
}
