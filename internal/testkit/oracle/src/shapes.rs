//! Modules of odd shape: recursion with every kind of frame, memory and tables at their ends, exports with names that mean
//! something else.

use crate::inputs::{Rng, chance};
use crate::out::Out;
use crate::random::{Maker, Vector};
use crate::vm::Job;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::{Rng as _, SeedableRng};

const TYPES: [&str; 4] = ["i32", "i64", "f32", "f64"];

/// Functions that call each other until there is no stack, with operands held over each call.
fn recursion(rng: &mut Rng) -> String {
    let n = rng.gen_range(1..4);
    let params: Vec<Vec<&str>> = (0..n).map(|_| (0..rng.gen_range(0..6)).map(|_| TYPES[rng.gen_range(0..4)]).collect()).collect();
    let mut s = String::from("(module (memory 1)");
    for (i, p) in params.iter().enumerate() {
        s += &format!("(type $t{i} (func (param {})))", p.join(" "));
    }
    s += &format!("(table {n} funcref) (elem (i32.const 0) func {})", (0..n).map(|i| format!("$f{i} ")).collect::<String>());
    s += "(global $depth (mut i32) (i32.const 0))";
    for i in 0..n {
        let next = rng.gen_range(0..n);
        let locals: String = (0..rng.gen_range(0..30)).map(|_| format!("{} ", TYPES[rng.gen_range(0..4)])).collect();
        s += &format!("(func $f{i} (type $t{i}) (local {locals}) (global.set $depth (i32.add (global.get $depth) (i32.const 1)))");
        let most = if chance(rng, 20) { 300 } else { 6 };
        let held: Vec<&str> = (0..rng.gen_range(0..most)).map(|_| TYPES[rng.gen_range(0..4)]).collect();
        for t in &held {
            s += &format!(" {t}.const 1");
        }
        if chance(rng, 30) {
            s += " block i32.const 0 br_if 0";
            s += &call(rng, &params, next);
            s += " end";
        } else {
            s += &call(rng, &params, next);
        }
        s += &" drop".repeat(held.len());
        s += ")";
    }
    s += &format!("(func (export \"main\") {}))", call(rng, &params, 0));
    s
}

fn call(rng: &mut Rng, params: &[Vec<&str>], f: usize) -> String {
    let mut s = String::new();
    for t in &params[f] {
        s += &format!(" {t}.const 0");
    }
    if chance(rng, 40) { s + &format!(" i32.const {f} call_indirect (type $t{f})") } else { s + &format!(" call $f{f}") }
}

/// Accesses around the ends of memory and table, the first failing one ending it; then what was read is returned.
fn ends(rng: &mut Rng) -> String {
    let (min, max) = *[(0u32, 0u32), (1, 1), (1, 2), (1024, 2048), (2048, 2048), (3, 5000)].get(rng.gen_range(0..6)).unwrap();
    let mut s = format!(
        "(module (import \"env\" \"value_return\" (func $return (param i64 i64))) (memory {min} {max}) (table {} 10000 funcref) (data $d \"passive data\") (elem $e func $x $x) (func $x) (func (export \"main\") ",
        rng.gen_range(0..4)
    );
    // What nearcore gives every contract, whatever it declares.
    let end = 1024u64 * 65_536;
    let mut pages = 1024u64;
    for _ in 0..rng.gen_range(2..9) {
        let around = |rng: &mut Rng, at: u64| (at as i64 + rng.gen_range(-9..3)) as u32 as i32;
        let top = pages * 65_536;
        match rng.gen_range(0..9) {
            0 => {
                let n = [0, 1, 1023, 1024, 1025, 65_535, u32::MAX][rng.gen_range(0..7)];
                s += &format!("(drop (memory.grow (i32.const {})))", n as i32);
                if u64::from(n) + pages <= 2048 {
                    pages += u64::from(n);
                }
            }
            1 => s += &format!("(drop (i64.load (i32.const {})))", around(rng, top - 2)),
            2 => s += &format!("(i32.store16 offset={} (i32.const {}) (i32.const 7))", rng.gen_range(0..5), around(rng, top - 4)),
            3 => {
                let n = [0, 1, 8, 1000][rng.gen_range(0..4)];
                s += &format!("(memory.fill (i32.const {}) (i32.const 9) (i32.const {n}))", around(rng, top - n as u64));
            }
            4 => {
                let n = [0, 1, 100_000][rng.gen_range(0..3)];
                s += &format!("(memory.copy (i32.const {}) (i32.const {}) (i32.const {n}))", around(rng, top - n as u64), rng.gen_range(0..1000));
            }
            5 => s += &format!("(memory.init $d (i32.const {}) (i32.const {}) (i32.const {}))", around(rng, end.min(top) - 6), rng.gen_range(0..4), rng.gen_range(0..9)),
            6 => {
                let n = [0u32, 1, 9_990, 9_999, 10_000, 10_001, u32::MAX][rng.gen_range(0..7)];
                s += &format!("(drop (table.grow (ref.func $x) (i32.const {})))", n as i32);
            }
            7 => s += &format!("(table.init $e (i32.const {}) (i32.const {}) (i32.const {}))", rng.gen_range(0..4), rng.gen_range(0..2), rng.gen_range(0..3)),
            _ => s += &format!("(table.copy (i32.const {}) (i32.const 0) (i32.const {})) (drop (table.get (i32.const {})))", rng.gen_range(0..4), rng.gen_range(0..3), rng.gen_range(0..5)),
        }
    }
    s + "(i64.store (i32.const 0) (i64.extend_i32_u (memory.size))) (i64.store (i32.const 8) (i64.extend_i32_u (table.size))) (call $return (i64.const 40) (i64.const 0))))"
}

/// Module, method.
const NAMES: &[(&str, &str)] = &[
    (r#"(module (func (export "\00main")))"#, "main"),
    (r#"(module (func (export "\00main")))"#, "\0main"),
    (r#"(module (func (export "")))"#, ""),
    (r#"(module (func (export " ")))"#, " "),
    (r#"(module (func (export "main\00")))"#, "main"),
    (r#"(module (func (export "main\00")))"#, "main\0"),
    (r#"(module (func (export "remaining_gas")))"#, "remaining_gas"),
    (r#"(module (func (export "remaining_stack")))"#, "remaining_stack"),
    (r#"(module (func (export "start")) (func $s) (start $s))"#, "start"),
    (r#"(module (func $s (export "start")) (start $s))"#, "start"),
    (r#"(module (func (export "\e2\82\ac")))"#, "\u{20ac}"),
    (r#"(module (func $f) (start $f))"#, "start"),
    (r#"(module (memory (export "main") 1))"#, "main"),
    (r#"(module (table (export "main") 1 funcref))"#, "main"),
    (r#"(module (import "env" "block_index" (func (result i64))) (export "main" (func 0)))"#, "main"),
    (r#"(module (import "env" "panic" (func)) (export "main" (func 0)) (export "other" (func 0)))"#, "other"),
    (r#"(module (import "env" "input" (func (param i64))) (export "main" (func 0)))"#, "main"),
    (r#"(module (func (export "main") (result i32) unreachable))"#, "main"),
    (r#"(module (func $f (export "a") (export "b")) (start $f))"#, "b"),
    (r#"(module (func (export "main")) (func (export "main")))"#, "main"),
    (r#"(module)"#, "main"),
    (r#"(module (memory 1) (data (i32.const 0) "x"))"#, "main"),
    (r#"(module (import "env" "panic" (func $p)) (start $p) (func (export "main")))"#, "nothing"),
    (r#"(module (func $s unreachable) (start $s) (func (export "main")))"#, "nothing"),
    (r#"(module (func $s unreachable) (start $s) (memory 1) (data (i32.const -1) "x") (func (export "main")))"#, "main"),
    (r#"(module (table 1 funcref) (elem (i32.const 1) func $m) (memory 1) (data (i32.const -1) "x") (func $m (export "main")))"#, "main"),
];

pub fn write(dir: &str, round: u64) -> Result<(), String> {
    let out = Out::create(dir, "shapes.jsonl.gz", &crate::random::command("shapes", round))?;
    let mut m = Maker::new(out, Rng::seed_from_u64(12 + 1000 * round));
    let mut all: Vec<(String, Vec<u8>, &str)> = vec![];
    for (i, (text, method)) in NAMES.iter().enumerate() {
        // Names that are exported twice do not make a module, but bytes of one.
        let code = wat::parse_str(text).map_err(|e| format!("{text}: {e}"))?;
        all.push((format!("name {i}"), code, method));
    }
    for i in 0..250 {
        let rng = &mut m.rng;
        let (name, text) = if i % 2 == 0 { (format!("recursion {i}"), recursion(rng)) } else { (format!("ends {i}"), ends(rng)) };
        all.push((name, wat::parse_str(&text).map_err(|e| format!("{text}: {e}"))?, "main"));
    }
    for (name, code, method) in all {
        let job = Job { name, wasm: B64.encode(code), method: method.into(), gas: vec![20_000_000_000_000], ..Job::default() };
        m.vector(Vector::of(job), 1)?;
    }
    m.close()
}
