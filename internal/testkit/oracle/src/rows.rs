//! The figures that nearcore's own tests state for small modules (runtime/near-vm-runner/src/tests), as vectors: the runner has
//! to give them before they are written. Identifiers count: their names are part of the module that is paid for.

use crate::inputs::Rng;
use crate::out::Out;
use crate::random::{Maker, Vector};
use crate::vm::{Job, Vm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::SeedableRng;

const G: u64 = 1_000_000_000;
const T: u64 = 1000 * G;
const ALL: u64 = 100 * T;

fn one(body: &str) -> String {
    format!("(module (func (export \"main\") {body}))")
}

/// File and line there, module, method, prepaid gas, gas burnt.
fn rows() -> Vec<(&'static str, String, &'static str, u64, u64)> {
    let m = |s: &str| format!("(module {s})");
    let loops = m("(func $start (loop (br 0))) (func (export \"main\")) (start $start)");
    let stack = m("(func $f1 (export \"f1\") (local i32) (call $f1)) (func $f2 (export \"f2\") (local i32 i32 i32 i32) (call $f2))");
    let quotient = one("i32.const 1 i32.const 1 i32.div_s return");
    let panic = "(import \"env\" \"panic\" (func $panic))";
    let prepaid = "(import \"env\" \"prepaid_gas\" (func $prepaid_gas (result i64)))";
    let many: String = (0..100).map(|i| format!("(import \"env\" \"wtf{i}\" (func))")).collect();
    let clash = |name: &str| m(&format!("(func (export \"{name}\")) (func (export \"main\"))"));
    let nine = {
        let mut imports = String::new();
        let mut calls = String::new();
        for (i, (name, n, result)) in [
            ("account_locked_balance", 1, false),
            ("alt_bn128_g1_multiexp", 3, false),
            ("alt_bn128_g1_sum", 3, false),
            ("alt_bn128_pairing_check", 2, true),
            ("keccak256", 3, false),
            ("keccak512", 3, false),
            ("bls12381_pairing_check", 2, true),
            ("write_register", 3, false),
            ("storage_has_key", 2, true),
        ]
        .into_iter()
        .enumerate()
        {
            imports += &format!("(import \"env\" {name:?} (func (param{}) {}))", " i64".repeat(n), if result { "(result i64)" } else { "" });
            calls += &format!("{} call {i} {}", "i64.const 0 ".repeat(n), if result { "drop " } else { "" });
        }
        m(&format!("{imports} (func (export \"main\") {calls})"))
    };
    let grow = |n: u32| m(&format!("(memory 1 128) (func (export \"main\") (drop (memory.grow (i32.const {n}))))"));
    let table = |n: u32| m(&format!("(table 1 128 funcref) (func (export \"main\") (drop (table.grow (ref.null func) (i32.const {n}))))"));
    let mut all = vec![
        ("runtime_errors.rs:101", loops.clone(), "main", 10 * G, 10 * G),
        ("runtime_errors.rs:112", loops, "no-such-method", ALL, 0),
        ("runtime_errors.rs:133", one(""), "main", ALL, 79_064_041),
        ("runtime_errors.rs:167", m("(memory 1 2) (memory 3 4)"), "main", ALL, 0),
        ("runtime_errors.rs:186", one(""), "no-such-method", ALL, 0),
        ("runtime_errors.rs:204", one(""), "", ALL, 0),
        ("runtime_errors.rs:212", one("unreachable"), "main", ALL, 80_976_092),
        ("runtime_errors.rs:224", m("(func $f (export \"main\") (unreachable)) (start $f)"), "main", ALL, 98_404_812),
        ("runtime_errors.rs:243", one("i32.const 1 i32.const 0 i32.div_s return"), "main", ALL, 88_068_079),
        (
            "runtime_errors.rs:290",
            m("(type $ty (func)) (table 1 funcref) (func (export \"main\") i32.const 0 call_indirect (type $ty) return)"),
            "main", ALL, 109_031_223,
        ),
        (
            "runtime_errors.rs:315",
            m("(type $ty (func (result i32))) (func $f) (table 1 funcref) (elem (i32.const 0) $f) (func (export \"main\") i32.const 0 call_indirect (type $ty) return)"),
            "main", ALL, 134_085_008,
        ),
        ("runtime_errors.rs:343", m("(func (export \"main\") (param i32))"), "main", ALL, 0),
        ("runtime_errors.rs:361", m("(global (export \"main\") i32 (i32.const 123))"), "main", ALL, 0),
        ("runtime_errors.rs:379", m(&format!("{panic} (func (export \"main\") (call $panic))")), "main", ALL, 381_690_938),
        ("runtime_errors.rs:398", m(&format!("{panic} (start $panic) (export \"main\" (func $panic))")), "main", ALL, 364_482_479),
        ("runtime_errors.rs:415", m(&format!("{panic} (global $g i32 (i32.const 0)) (export \"main\" (func $panic))")), "main", ALL, 376_464_724),
        ("runtime_errors.rs:432", m(&format!("{panic} (export \"main\" (func $panic))")), "main", ALL, 361_214_594),
        ("runtime_errors.rs:448", m("(func $f (export \"main\") (call $f))"), "main", ALL, 30_418_898_602),
        ("runtime_errors.rs:461 f1", stack.clone(), "f1", ALL, 31_825_672_528),
        ("runtime_errors.rs:461 f2", stack, "f2", ALL, 29_757_263_944),
        ("runtime_errors.rs:508", m("(memory 17 32) (func (export \"main\") (loop (memory.grow (i32.const 1)) drop br 0))"), "main", 10 * G, 10 * G),
        ("runtime_errors.rs:532", grow(1), "main", 10 * G, 120_932_041),
        ("runtime_errors.rs:551", grow(10), "main", 10 * G, 128_336_845),
        ("runtime_errors.rs:570", table(1), "main", 10 * G, 126_111_977),
        ("runtime_errors.rs:589", table(10), "main", 10 * G, 133_516_781),
        ("runtime_errors.rs:633", m("(import \"no-such-module\" \"no-such-global\" (global i32)) (func (export \"main\"))"), "main", ALL, 0),
        ("runtime_errors.rs:651", m("(import \"no-such-module\" \"no-such-fn\" (func $f)) (export \"main\" (func $f))"), "main", ALL, 0),
        ("runtime_errors.rs:669", m("(import \"env\" \"no-such-global\" (global i32)) (func (export \"main\"))"), "main", ALL, 0),
        ("runtime_errors.rs:688", m("(import \"env\" \"no-such-fn\" (func $f)) (export \"main\" (func $f))"), "main", ALL, 97_535_778),
        ("runtime_errors.rs:696", m("(func $f (export \"main\") nop) (start $f)"), "main", 0, 0),
        ("runtime_errors.rs:713", m(&format!("{many} (export \"main\" (func 0))")), "main", ALL, 1_362_207_273),
        ("runtime_errors.rs:742", m(&format!("{prepaid} (func (export \"main\") (drop (call $prepaid_gas)))")), "main", ALL, 401_031_709),
        ("runtime_errors.rs:753", m(&format!("{prepaid} (func (export \"main\") (drop (call $prepaid_gas)))")), "main", 100, 100),
        (
            "runtime_errors.rs:761",
            m(&format!("{prepaid} (type $prepaid_gas_t (func (result i64))) (table 1 funcref) (elem (i32.const 0) $prepaid_gas) (func (export \"main\") (call_indirect (type $prepaid_gas_t) (i32.const 0)) drop)")),
            "main", ALL, 441_069_085,
        ),
        ("runtime_errors.rs:788", m("(memory 1) (func (export \"main\") i32.const 1 i64.load32_u offset=4294967295 align=1 drop)"), "main", ALL, 97_048_978),
        (
            "runtime_errors.rs:818",
            one("(i32.div_u (i32.const 0) (f32.gt (f32.copysign (f32.const 1.0) (f32.sqrt (f32.const -1.0))) (f32.const 0))) drop"),
            "main", ALL, 110_433_335,
        ),
        ("runtime_errors.rs:845", one(""), "non_empty_non_existing", 1, 1),
        ("runtime_errors.rs:859", m("(import \"env\" \"gas\" (func $gas (param i32))) (func (export \"main\") (call $gas (i32.const 0xffff_ffff)))"), "main", ALL, ALL),
        ("runtime_errors.rs:918", quotient.clone(), "main", ALL, 88_890_835),
        ("runtime_errors.rs:936", quotient.clone(), "main", 79_017_763, 79_017_763),
        ("runtime_errors.rs:968", quotient, "main", 79_017_763 + 884_037, 79_901_800),
        ("runtime_errors.rs:993", m("(export \"main\" (func 0))"), "main", ALL, 0),
        ("runtime_errors.rs:1090", m(&format!("(func (export \"main\") {})", "nop ".repeat(2611))), "main", ALL, 5_073_607_792),
        ("regression_tests.rs:6", m("(type (func)) (func (type 0) memory.size drop) (memory 1 1024) (export \"foo\" (func 0))"), "foo", ALL, 90_513_208),
        ("regression_tests.rs:30", m("(type (func)) (func (type 0) loop (result i64) loop br 0 end i64.const 0 end drop) (export \"foo\" (func 0))"), "foo", ALL, ALL),
        ("compile_errors.rs:125", one("call 4294967295"), "abort_with_zero", ALL, 0),
        (
            "compile_errors.rs:278",
            m("(import \"env\" \"ripemd160\" (func $ripemd160 (param i64 i64 i64))) (func (export \"main\") (call $ripemd160 (i64.const 0) (i64.const 0) (i64.const 0)))"),
            "main", ALL, 7_226_376_631,
        ),
        (
            "compile_errors.rs:296",
            m("(import \"env\" \"sandbox_debug_log\" (func $sandbox_debug_log (param i64 i64))) (func (export \"main\") (call $sandbox_debug_log (i64.const 0) (i64.const 1)))"),
            "main", ALL, 145_464_758,
        ),
        (
            "compile_errors.rs:321",
            m("(func $extend8_s (param $x i32) (result i32) (i32.extend8_s (local.get $x))) (func (export \"main\"))"),
            "main", ALL, 123_725_136,
        ),
        ("wasm_validation.rs:154", m("(func (export \"memory\"))"), "memory", ALL, 81_242_631),
        ("wasm_validation.rs:172", clash("memory"), "main", ALL, 93_224_876),
        ("wasm_validation.rs:190", m("(global (export \"remaining_gas\") (mut i64) i64.const 0) (func (export \"main\"))"), "main", ALL, 105_207_121),
        ("wasm_validation.rs:208", clash("start"), "main", ALL, 92_135_581),
        ("wasm_validation.rs:226", m("(func (export \"start\") call 1) (func (export \"main\")) (start 1)"), "main", ALL, 104_164_104),
        ("wasm_validation.rs:245", m("(memory (export \"memory\") 0 0) (func (export \"main\"))"), "main", ALL, 95_403_466),
        ("wasm_validation.rs:262", m("(memory (export \"foo\") 42 42) (func (export \"main\"))"), "main", ALL, 92_135_581),
        ("wasm_validation.rs:320", nine, "main", ALL, 12_637_863_260_998),
    ];
    for op in ["i32.trunc_f64_s", "i32.trunc_f64_u", "i64.trunc_f64_s", "i64.trunc_f64_u"] {
        all.push(("runtime_errors.rs:266", one(&format!("f64.const 0x1p+1023 {op} return")), "main", ALL, 92_691_798));
    }
    all
}

/// Modules that grow by a loop: (name, module, old load rule, burnt).
fn large() -> Vec<(&'static str, Vec<u8>, bool, u64)> {
    let locals = |functions: usize, n: usize| {
        // main is one of them; names and types as nearcore's LargeContract: all of one type, only the first exported
        crate::limits::plain(functions, n)
    };
    vec![
        ("runtime_errors.rs:27, 86", crate::limits::globals(100_000), false, 544_727_607_058),
        ("runtime_errors.rs:27, 85", crate::limits::globals(100_000), true, 0),
        ("compile_errors.rs:146", locals(10_000, 0), false, 65_437_853_336),
        ("compile_errors.rs:246", locals(64, 15_625), false, 13_419_362_816),
    ]
}

pub fn write(dir: &str) -> Result<(), String> {
    let mut bad = 0;
    let mut vm = Vm::new();
    let mut m = Maker::new(Out::create(dir, "rows.jsonl.gz", "rows DIR")?, Rng::seed_from_u64(7));
    let small = rows().into_iter().map(|(name, wat, method, gas, burnt)| {
        let code = wat::parse_str(&wat).map_err(|e| format!("{name}: {e}"))?;
        let job = Job { name: name.into(), wasm: B64.encode(code), method: method.into(), gas: vec![gas], ..Job::default() };
        Ok((job, burnt))
    });
    let large = large().into_iter().map(|(name, code, old_load_rule, burnt)| {
        Ok::<_, String>((Job { name: name.into(), wasm: B64.encode(code), old_load_rule, gas: vec![ALL], ..Job::default() }, burnt))
    });
    for row in small.chain(large) {
        let (job, burnt) = row?;
        let got = vm.run(&job)?[0].burnt;
        if got != burnt {
            eprintln!("{}: burnt {got}, nearcore's test says {burnt}", job.name);
            bad += 1;
        }
        m.vector(Vector::of(job), 0)?;
    }
    m.close()?;
    if bad > 0 {
        return Err(format!("{bad} rows are not as nearcore's tests have them"));
    }
    Ok(())
}
