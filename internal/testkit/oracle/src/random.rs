//! Random modules with what nearcore makes of them: valid ones, ones that were valid, ones at the limits.

use crate::arith::{self, Flavour};
use crate::inputs::{chance, flip, Rng};
use crate::out::Out;
use crate::vm::{Job, Run, Vm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::{Rng as _, SeedableRng};
use serde::Serialize;

/// A job, and its runs.
#[derive(Serialize)]
pub struct Vector {
    #[serde(flatten)]
    pub job: Job,
    /// Bytes of the module that nearcore compiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    prepared: Option<usize>,
    /// Or why there is none: a PrepareError.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfit: Option<String>,
    runs: Vec<Run>,
}

impl Vector {
    pub fn of(job: Job) -> Vector {
        Vector { job, prepared: None, unfit: None, runs: vec![] }
    }
}

pub struct Maker {
    pub vm: Vm,
    pub rng: Rng,
    out: Out,
    since: usize,
}

impl Maker {
    pub fn new(out: Out, rng: Rng) -> Maker {
        Maker { vm: Vm::new(), rng, out, since: 0 }
    }

    /// Runs the job, then again with some gas less than it burnt, and writes all that.
    pub fn vector(&mut self, mut v: Vector, cuts: usize) -> Result<(), String> {
        self.since += 1;
        if self.since % 100 == 0 {
            self.vm.forget();
        }
        let code = v.job.code()?;
        match self.vm.prepared(&code, v.job.protocol) {
            Ok(n) => v.prepared = Some(n),
            Err(e) => v.unfit = Some(e),
        }
        v.runs = match self.vm.run(&v.job) {
            Ok(runs) => runs,
            Err(e) => {
                // The runner gave up: no outcome is defined, so this is no vector.
                eprintln!("{}: {e}", v.job.name);
                return Ok(());
            }
        };
        let burnt = v.runs[0].burnt;
        if v.prepared.is_some() && burnt > 0 {
            let mut gas: Vec<u64> = (0..cuts).map(|_| self.rng.gen_range(1..=burnt)).collect();
            if cuts > 0 {
                gas[0] = match self.rng.gen_range(0..4) {
                    0 => burnt,
                    1 => burnt - 1,
                    2 => v.runs[0].used,
                    _ => gas[0],
                };
            }
            match self.vm.again(&v.job, &gas) {
                Ok(runs) => v.runs.extend(runs),
                Err(e) => eprintln!("{}, less gas: {e}", v.job.name),
            }
        }
        v.job.gas.clear();
        if v.job.keep {
            // The module stands in the first vector of its session.
            v.job.wasm.clear();
            v.job.file.clear();
        }
        self.out.line(&v)
    }

    pub fn close(self) -> Result<(), String> {
        self.out.close()
    }
}

const GAS: u64 = 2_000_000_000_000;

/// wasm-smith with what nearcore validates.
fn smith(rng: &mut Rng, host: bool) -> Result<Vec<u8>, String> {
    let exports = wat::parse_str("(module (func (export \"main\")))").unwrap();
    let config = wasm_smith::Config {
        available_imports: host.then(imports),
        exports: Some(exports),
        bulk_memory_enabled: true,
        reference_types_enabled: chance(rng, 20), // with externref, which is not valid
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        multi_value_enabled: false,
        relaxed_simd_enabled: false,
        saturating_float_to_int_enabled: true,
        sign_extension_ops_enabled: true,
        simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        custom_page_sizes_enabled: false,
        extended_const_enabled: false,
        wide_arithmetic_enabled: false,
        shared_everything_threads_enabled: false,
        max_imports: if host { 20 } else { 0 },
        max_memories: 1,
        max_tables: 1,
        max_table_elements: 1000,
        max_funcs: 10,
        max_instructions: 150,
        max_data_segments: 6,
        max_element_segments: 6,
        min_memories: 1,
        ..wasm_smith::Config::default()
    };
    let seed: Vec<u8> = (0..rng.gen_range(200..4000)).map(|_| rng.gen()).collect();
    let module = wasm_smith::Module::new(config, &mut arbitrary::Unstructured::new(&seed)).map_err(|e| e.to_string())?;
    Ok(module.to_bytes())
}

/// Host functions that do something with any argument.
fn imports() -> Vec<u8> {
    wat::parse_str(
        r#"(module
        (import "env" "gas" (func (param i32)))
        (import "env" "used_gas" (func (result i64)))
        (import "env" "block_index" (func (result i64)))
        (import "env" "register_len" (func (param i64) (result i64)))
        (import "env" "current_account_id" (func (param i64)))
        (import "env" "sha256" (func (param i64 i64 i64)))
        (import "env" "value_return" (func (param i64 i64)))
        (import "env" "storage_write" (func (param i64 i64 i64 i64 i64) (result i64)))
        (import "env" "account_balance" (func (param i64)))
        (import "env" "promise_results_count" (func (result i64)))
        (import "env" "panic" (func)))"#,
    )
    .unwrap()
}

/// A module with something changed: bits, bytes, sections.
fn mutant(rng: &mut Rng, mut code: Vec<u8>) -> Vec<u8> {
    match rng.gen_range(0..10) {
        0 => code.truncate(rng.gen_range(0..code.len())),
        1 => {
            let s = sections(&code);
            let i = rng.gen_range(0..s.len());
            code.drain(s[i].clone());
        }
        2 => {
            // two sections change places
            let s = sections(&code);
            if s.len() > 1 {
                let i = rng.gen_range(0..s.len() - 1);
                let first = code[s[i].clone()].to_vec();
                code.splice(s[i + 1].end..s[i + 1].end, first);
                code.drain(s[i].clone());
            }
        }
        3 => {
            let s = sections(&code);
            let i = rng.gen_range(0..s.len());
            let again = code[s[i].clone()].to_vec();
            code.splice(s[i].end..s[i].end, again);
        }
        4 => {
            // a custom section somewhere: good, or with a bad name
            let s = sections(&code);
            let at = s[rng.gen_range(0..s.len())].end;
            let custom: &[u8] = [&b"\x00\x05\x04name"[..], b"\x00\x02\x01\xff", b"\x00\x00", b"\x00\x02\x09a", b"\x0d\x01\x00", b"\x20\x00"]
                [rng.gen_range(0..6)];
            code.splice(at..at, custom.iter().copied());
        }
        5 => {
            let at = rng.gen_range(8..code.len());
            code.insert(at, rng.gen());
        }
        6 => {
            let at = rng.gen_range(8..code.len());
            code.remove(at);
        }
        _ => {
            for _ in 0..rng.gen_range(1..4) {
                let at = rng.gen_range(8.min(code.len() - 1)..code.len());
                flip(rng, &mut code[at..]);
            }
        }
    }
    code
}

fn sections(code: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut all = vec![];
    let mut at = 8;
    while at < code.len() {
        let start = at;
        at += 1;
        let (mut n, mut shift) = (0usize, 0);
        while at < code.len() {
            n |= usize::from(code[at] & 0x7f) << shift;
            shift += 7;
            at += 1;
            if code[at - 1] < 0x80 {
                break;
            }
        }
        at += n;
        all.push(start..at.min(code.len()));
    }
    all
}

/// Imports of functions that 87 and 88 bring: with their types, with the type that one of them had in a release candidate, or
/// with others.
fn odd_later(rng: &mut Rng) -> String {
    const LATER: [(&str, usize, &str); 6] = [
        ("sha3_256", 3, ""),
        ("sha3_384", 3, ""),
        ("sha3_512", 3, ""),
        ("ml_dsa_verify", 6, "(result i64)"),
        ("universal_state_init_to_account_id", 3, "(result i64)"),
        ("promise_batch_action_universal_state_init", 4, ""),
    ];
    let mut s = String::from("(module ");
    for _ in 0..rng.gen_range(1..5) {
        let (name, mut params, mut result) = LATER[rng.gen_range(0..6)];
        if chance(rng, 15) {
            result = ["", "(result i64)", "(result i32)"][rng.gen_range(0..3)];
        }
        if chance(rng, 5) {
            params = rng.gen_range(0..8);
        }
        let name = if chance(rng, 4) { "sha3_224" } else { name };
        s += &format!("(import \"env\" {name:?} (func (param{}) {result}))", " i64".repeat(params));
    }
    s + "(func (export \"main\")))"
}

/// Imports as no contract should have them.
fn odd(rng: &mut Rng) -> String {
    const TYPES: [&str; 4] = ["i32", "i64", "f32", "f64"];
    let mut s = String::from("(module ");
    for _ in 0..rng.gen_range(1..4) {
        let name = ["gas", "panic", "input", "value_return", "log_utf8", "abort", "storage_read", "sha256", "sha3_256", "ml_dsa_verify",
            "sandbox_debug_log", "sleep_nanos", "burn_gas", "nothing", "", "finite_wasm_gas", "memory", "promise_yield_resume"]
            [rng.gen_range(0..18)];
        let module = ["env", "env", "env", "env", "env", "env", "internal", "", "wasi_snapshot_preview1"][rng.gen_range(0..9)];
        let what = match rng.gen_range(0..14) {
            0 => "(global i32)".into(),
            1 => "(global (mut i64))".into(),
            2 => "(table 1 funcref)".into(),
            3 => "(memory 1)".into(),
            4 => "(memory 3000)".into(),
            5 => "(memory 0 0)".into(),
            _ => {
                let good = chance(rng, 60);
                match (good, name) {
                    (true, "gas") => "(func (param i32))".to_string(),
                    (true, "panic") => "(func)".into(),
                    (true, "input") => "(func (param i64))".into(),
                    (true, "value_return" | "log_utf8") => "(func (param i64 i64))".into(),
                    (true, "abort") => "(func (param i32 i32 i32 i32))".into(),
                    (true, "sha256" | "sha3_256") => "(func (param i64 i64 i64))".into(),
                    (true, "storage_read") => "(func (param i64 i64 i64) (result i64))".into(),
                    _ => {
                        let params: String = (0..rng.gen_range(0..5)).map(|_| format!(" {}", TYPES[rng.gen_range(0..4)])).collect();
                        let result = if chance(rng, 40) { format!("(result {})", TYPES[rng.gen_range(0..4)]) } else { String::new() };
                        format!("(func (param{params}) {result})")
                    }
                }
            }
        };
        s += &format!("(import {module:?} {name:?} {what})");
    }
    let main = match rng.gen_range(0..12) {
        0 => "(func (export \"main\") (param i32))",
        1 => "(func (export \"main\") (result i64) i64.const 1)",
        2 => "(func (export \"Main\"))",
        3 => "(global (export \"main\") i32 (i32.const 1))",
        4 => "(func (export \"main\")) (memory (export \"memory\") 1)",
        5 => "(func (export \"main\")) (func (export \"remaining_gas\")) (func $s) (start $s)",
        6 => "(func (export \"main\")) (func (export \"start\"))",
        7 => "(func (export \"main\")) (table 1 funcref) (elem (i32.const 1) func 0)",
        8 => "(func (export \"main\")) (data (i32.const 67108860) \"12345\") (memory 1)",
        9 => "(func (export \"main\")) (data (i32.const -1) \"\") (memory 1)",
        _ => "(func (export \"main\"))",
    };
    s + main + ")"
}

/// The command as it stands in the header.
pub fn command(name: &str, round: u64) -> String {
    if round == 0 { format!("{name} DIR") } else { format!("{name} DIR {round}") }
}

pub fn write(dir: &str, round: u64) -> Result<(), String> {
    let families: &[(&str, u64, usize)] =
        &[("arith", 1, 1500), ("smith", 2, 900), ("mutant", 3, 1000), ("odd", 5, 300), ("limits", 6, 0)];
    for (family, seed, n) in families {
        let rng = Rng::seed_from_u64(*seed + 1000 * round);
        if round > 0 && *family == "limits" {
            continue; // there is nothing random in it
        }
        let mut m = Maker::new(Out::create(dir, &format!("{family}.jsonl.gz"), &command("random", round))?, rng);
        if *family == "limits" {
            for (name, code) in crate::limits::all() {
                let job = Job { name, wasm: B64.encode(code), gas: vec![300_000_000_000_000], ..Job::default() };
                m.vector(Vector::of(job), 0)?;
            }
            m.close()?;
            continue;
        }
        for i in 0..*n {
            let rng = &mut m.rng;
            let code = match *family {
                "arith" => arith::module(rng, [Flavour::Plain, Flavour::Plain, Flavour::Promise, Flavour::Plain, Flavour::Start][i % 5]),
                "smith" => smith(rng, i % 3 == 0)?,
                "mutant" => {
                    let code = match i % 3 {
                        0 => smith(rng, i % 2 == 0)?,
                        _ => arith::module(rng, Flavour::Plain),
                    };
                    let mut changed = mutant(rng, code.clone());
                    if i % 2 == 0 {
                        // Most changes spoil a module; of these, more should not.
                        for _ in 0..40 {
                            if m.vm.prepared(&changed, 0).is_ok() {
                                break;
                            }
                            changed = mutant(rng, code.clone());
                        }
                    }
                    changed
                }
                _ => match wat::parse_str(odd(rng)) {
                    Ok(code) => code,
                    Err(_) => continue,
                },
            };
            let method = if *family == "mutant" && i % 50 == 0 { ["", "none", "Main", "memory"][i / 50 % 4] } else { "main" };
            let job = Job { name: format!("{family} {i}"), wasm: B64.encode(&code), method: method.into(), gas: vec![GAS], ..Job::default() };
            m.vector(Vector::of(job), if *family == "odd" { 1 } else { 2 })?;
        }
        m.close()?;
    }
    for protocol in [87, 88] {
        later(dir, protocol, round)?;
    }
    Ok(())
}

/// Modules by the rules of a later protocol: at its limits, random ones, and ones that import what it has.
fn later(dir: &str, protocol: u64, round: u64) -> Result<(), String> {
    let command = command("random", round);
    let maker = |name: &str, seed: u64| -> Result<Maker, String> {
        let out = Out::at(dir, &format!("{name}{protocol}.jsonl.gz"), &command, protocol)?;
        Ok(Maker::new(out, Rng::seed_from_u64(seed + protocol + 1000 * round)))
    };
    let job = |name: String, code: Vec<u8>, gas: u64| Job { name, protocol, wasm: B64.encode(code), gas: vec![gas], ..Job::default() };
    let mut m = maker("limits", 300)?;
    let mut modules = if protocol == 87 && round == 0 { crate::limits::all() } else { vec![] };
    modules.extend(crate::limits::locals(&mut m.rng, 150, round == 0));
    for (name, code) in modules {
        m.vector(Vector::of(job(name, code, 300_000_000_000_000)), 0)?;
    }
    m.close()?;
    let mut m = maker("random", 400)?;
    for i in 0..240 {
        let code = match i % 4 {
            0 => arith::module(&mut m.rng, Flavour::Plain),
            1 => smith(&mut m.rng, true)?,
            2 => {
                let code = smith(&mut m.rng, false)?;
                mutant(&mut m.rng, code)
            }
            _ => wat::parse_str(odd_later(&mut m.rng)).map_err(|e| e.to_string())?,
        };
        m.vector(Vector::of(job(format!("random {i}"), code, GAS)), 1)?;
    }
    m.close()
}
