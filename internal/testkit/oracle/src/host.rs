//! Random sequences of host calls: every host function that is not math, with the arguments that they are made for and with
//! every border, the results collected and returned.

use crate::inputs::{Rng, bytes, chance, universal};
use crate::out::Out;
use crate::random::{Maker, Vector, command};
use crate::vm::{Job, signer_key};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use rand::{Rng as _, SeedableRng};
use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection, MemorySection, MemoryType,
    Module, TypeSection, ValType,
};

/// A host function: its name, its arguments by their meaning, its result, how often it is called.
type HostFn = (&'static str, &'static str, Option<ValType>, u32);

/// The functions of protocol 85.
///
/// Meanings that take two numbers, length and pointer (init: a promise and one of its actions): account, method, args, key, value, pk (public key), gpk (a gas key's,
/// always good), names, hash (32 bytes), payload, text, wide (UTF-16), code, list (length counts numbers of 8 bytes, and the pointer comes first).
/// One number: amount (pointer to 16 bytes), out16 (pointer for 16), reg (written), seen (read), ptr, gas, weight, nonce, nonces, promise,
/// i (index of a result), ops (i32), msg (i32 pointer to a string with its length before it), i32.
const FUNCTIONS: &[HostFn] = &[
    ("read_register", "seen ptr", None, 4),
    ("register_len", "seen", Some(ValType::I64), 3),
    ("write_register", "reg value", None, 6),
    ("current_account_id", "reg", None, 2),
    ("chain_id", "reg", None, 2),
    ("signer_account_id", "reg", None, 2),
    ("signer_account_pk", "reg", None, 2),
    ("predecessor_account_id", "reg", None, 2),
    ("refund_to_account_id", "reg", None, 2),
    ("current_contract_code", "reg", Some(ValType::I64), 2),
    ("input", "reg", None, 2),
    ("random_seed", "reg", None, 2),
    ("block_index", "", Some(ValType::I64), 1),
    ("block_timestamp", "", Some(ValType::I64), 1),
    ("epoch_height", "", Some(ValType::I64), 1),
    ("storage_usage", "", Some(ValType::I64), 3),
    ("account_balance", "out16", None, 3),
    ("account_locked_balance", "out16", None, 1),
    ("attached_deposit", "out16", None, 1),
    ("prepaid_gas", "", Some(ValType::I64), 1),
    ("used_gas", "", Some(ValType::I64), 4),
    ("value_return", "value", None, 2),
    ("log_utf8", "text", None, 5),
    ("log_utf16", "wide", None, 5),
    ("panic", "", None, 0),
    ("panic_utf8", "text", None, 0),
    ("abort", "msg msg i32 i32", None, 0),
    ("promise_create", "account method args amount gas", Some(ValType::I64), 3),
    ("promise_then", "promise account method args amount gas", Some(ValType::I64), 4),
    ("promise_and", "list", Some(ValType::I64), 4),
    ("promise_batch_create", "account", Some(ValType::I64), 10),
    ("promise_batch_then", "promise account", Some(ValType::I64), 6),
    ("promise_set_refund_to", "promise account", None, 3),
    ("promise_batch_action_state_init", "promise hash amount", Some(ValType::I64), 3),
    ("promise_batch_action_state_init_by_account_id", "promise account amount", Some(ValType::I64), 3),
    ("set_state_init_data_entry", "init key value", None, 4),
    ("promise_batch_action_create_account", "promise", None, 3),
    ("promise_batch_action_deploy_contract", "promise code", None, 3),
    ("promise_batch_action_deploy_global_contract", "promise code", None, 2),
    ("promise_batch_action_deploy_global_contract_by_account_id", "promise code", None, 2),
    ("promise_batch_action_use_global_contract", "promise hash", None, 3),
    ("promise_batch_action_use_global_contract_by_account_id", "promise account", None, 3),
    ("promise_batch_action_function_call", "promise method args amount gas", None, 4),
    ("promise_batch_action_function_call_weight", "promise method args amount gas weight", None, 5),
    ("promise_batch_action_transfer", "promise amount", None, 4),
    ("promise_batch_action_stake", "promise amount pk", None, 3),
    ("promise_batch_action_add_key_with_full_access", "promise pk nonce", None, 3),
    ("promise_batch_action_add_key_with_function_call", "promise pk nonce amount account names", None, 4),
    ("promise_batch_action_delete_key", "promise pk", None, 3),
    ("promise_batch_action_delete_account", "promise account", None, 3),
    ("promise_batch_action_transfer_to_gas_key", "promise gpk amount", None, 3),
    ("promise_batch_action_add_gas_key_with_full_access", "promise gpk nonces", None, 3),
    ("promise_batch_action_add_gas_key_with_function_call", "promise gpk nonces amount account names", None, 3),
    ("promise_yield_create", "method args gas weight reg", Some(ValType::I64), 4),
    ("promise_yield_create_with_id", "method args amount gas weight hash", Some(ValType::I64), 5),
    ("promise_yield_resume", "seen32 payload", Some(ValType::I32), 4),
    ("promise_yield_resume_with_yield_id", "hash payload", Some(ValType::I32), 4),
    ("promise_results_count", "", Some(ValType::I64), 2),
    ("promise_result", "i reg", Some(ValType::I64), 5),
    ("promise_return", "promise", None, 1),
    ("storage_write", "key value reg", Some(ValType::I64), 12),
    ("storage_read", "key reg", Some(ValType::I64), 10),
    ("storage_remove", "key reg", Some(ValType::I64), 6),
    ("storage_has_key", "key", Some(ValType::I64), 5),
    ("storage_iter_prefix", "key", Some(ValType::I64), 0),
    ("storage_iter_range", "key value", Some(ValType::I64), 0),
    ("storage_iter_next", "seen reg reg", Some(ValType::I64), 0),
    ("gas", "ops", None, 2),
    ("validator_stake", "account out16", None, 3),
    ("validator_total_stake", "out16", None, 2),
    ("sha256", "value reg", None, 3),
    ("keccak256", "value reg", None, 1),
    ("keccak512", "value reg", None, 1),
    ("ripemd160", "value reg", None, 1),
];

/// Those that later protocols have besides, the older first. Two numbers: usi (a universal state init), mlsig, mlkey (a
/// signature and a key of ML-DSA-65).
const LATER: &[(u64, HostFn)] = &[
    (87, ("sha3_256", "value reg", None, 4)),
    (87, ("sha3_384", "value reg", None, 4)),
    (87, ("sha3_512", "value reg", None, 4)),
    (87, ("ml_dsa_verify", "mlsig value mlkey", Some(ValType::I64), 2)),
    (88, ("universal_state_init_to_account_id", "usi reg", Some(ValType::I64), 10)),
    (88, ("promise_batch_action_universal_state_init", "promise usi amount", None, 8)),
];

/// All functions of a protocol. A function has the same index in each that has it.
fn functions(protocol: u64) -> Vec<HostFn> {
    FUNCTIONS.iter().copied().chain(LATER.iter().filter(|f| f.0 <= protocol).map(|f| f.1)).collect()
}

fn types(meaning: &str) -> Vec<ValType> {
    match meaning {
        "ops" | "msg" | "i32" => vec![ValType::I32],
        "account" | "method" | "args" | "key" | "value" | "pk" | "gpk" | "names" | "hash" | "payload" | "text" | "wide" | "code"
        | "list" | "seen32" | "init" | "usi" | "mlsig" | "mlkey" => vec![ValType::I64; 2],
        _ => vec![ValType::I64],
    }
}

/// Where results are collected, where registers are read to, and the end of memory that the contract is given (1024 pages).
const OUT: u64 = 0x10_0000;
const SCRATCH: u64 = 0x20_0000;
const END: u64 = 1024 * 65_536;
const ANY_REGISTER: u64 = u64::MAX;

struct Script<'a> {
    rng: &'a mut Rng,
    protocol: u64,
    functions: Vec<HostFn>,
    data: Vec<u8>,
    code: Vec<u8>,
    /// Promises that there should be, and the indices of their actions.
    promises: u64,
    /// Percentage of arguments that are odd.
    odd: u32,
    results: u64,
    /// Keys written, so that they are read again; ids of yields.
    keys: Vec<(u64, u64)>,
    hashes: Vec<(u64, u64)>,
    /// State inits, by promise and action; actions of each promise; registers that data ids went to; promise results.
    inits: Vec<(u64, u64)>,
    actions: Vec<u64>,
    yields: Vec<u64>,
    inputs: u64,
    /// What the arguments of this call were.
    promise: u64,
    register: u64,
}

fn sleb(b: &mut Vec<u8>, mut n: i64) {
    loop {
        let byte = (n & 0x7f) as u8;
        n >>= 7;
        let done = n == 0 && byte & 0x40 == 0 || n == -1 && byte & 0x40 != 0;
        b.push(if done { byte } else { byte | 0x80 });
        if done {
            return;
        }
    }
}

impl Script<'_> {
    fn put(&mut self, b: &[u8]) -> (u64, u64) {
        let at = self.data.len() as u64;
        self.data.extend(b);
        (b.len() as u64, at)
    }

    /// An odd length and pointer.
    fn border(&mut self) -> (u64, u64) {
        match self.rng.gen_range(0..11) {
            0 => (ANY_REGISTER, self.rng.gen_range(0..8)),
            1 => (ANY_REGISTER, u64::MAX),
            2 => (0, END),
            3 => (1, END),
            4 => (1, END - 1),
            5 => (2, END - 1),
            6 => (u64::MAX - 1, 0),
            7 => (1, u64::MAX),
            8 => (1 << self.rng.gen_range(16..40), 0),
            9 => (0, u64::MAX),
            _ => (self.rng.gen_range(0..70_000), self.rng.gen_range(0..2 * END)),
        }
    }

    fn account(&mut self) -> (u64, u64) {
        const GOOD: &[&str] = &[
            "bob.near", "alice.near", "carol.near", "val.near", "a.alice.near", "aa", "near", "system",
            "0x0123456789abcdef0123456789abcdef01234567", "0s0123456789abcdef0123456789abcdef01234567",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ];
        const BAD: &[&str] = &[
            "a", "", "Bob.near", "bob..near", ".near", "near.", "a_-b", "-ab", "ab-", "ab@", "bob near",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0X0123456789abcdef0123456789abcdef01234567",
            "0u0123456789abcdef0123456789abcdef01234567", "\u{e9}a",
        ];
        if chance(self.rng, self.odd) {
            if chance(self.rng, 20) {
                return self.put(&[0xff, 0xfe, 0x61]);
            }
            let bad = BAD[self.rng.gen_range(0..BAD.len())];
            return self.put(bad.as_bytes());
        }
        if self.protocol > 0 && chance(self.rng, 15) {
            // Universal: the id of ten zero bytes, another, and two that only look like it.
            const UNIVERSAL: &[&str] = &[
                "0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g", "0ux8te7g99f9kqzdtp9h4qnwt9aczpgayymmtbdc50w199rcw3at1g",
                "0ux8te7g99f9kqzdtp9h4qnwt9aczpgayymmtbdc50w199rcw3at1h", "0uu8te7g99f9kqzdtp9h4qnwt9aczpgayymmtbdc50w199rcw3at1g",
            ];
            let id = UNIVERSAL[self.rng.gen_range(0..UNIVERSAL.len())];
            return self.put(id.as_bytes());
        }
        let good = GOOD[self.rng.gen_range(0..GOOD.len())];
        self.put(good.as_bytes())
    }

    /// Bytes as an argument: in memory, or now and then in a register, which a call before writes.
    fn give(&mut self, b: &[u8]) -> Vec<u64> {
        let (n, at) = self.put(b);
        if !chance(self.rng, 20) {
            return vec![n, at];
        }
        let r = self.rng.gen_range(0..3);
        for v in [r, n, at] {
            self.code.push(0x42);
            sleb(&mut self.code, v as i64);
        }
        self.code.push(0x10);
        leb(&mut self.code, position("write_register"));
        vec![ANY_REGISTER, r]
    }

    fn key_bytes(&mut self, good: bool) -> Vec<u8> {
        let mut b = match self.rng.gen_range(0..4) {
            0 => {
                // a point of secp256k1 is not asked for: any 64 bytes do
                let mut b = vec![1];
                b.extend(bytes(self.rng, 64));
                b
            }
            1 => signer_key(),
            _ => {
                let mut b = vec![0];
                b.extend(bytes(self.rng, 32));
                b
            }
        };
        if self.protocol > 0 && chance(self.rng, 15) {
            b = vec![0; 1953];
            b[0] = 2;
        }
        if !good && chance(self.rng, self.odd) {
            match self.rng.gen_range(0..4) {
                0 => b[0] = self.rng.gen_range(2..5),
                1 => b.push(0),
                2 => b.truncate(self.rng.gen_range(0..33)),
                _ => b[0] = 255,
            }
        }
        b
    }

    /// The numbers of one meaning.
    fn arguments(&mut self, meaning: &str) -> Vec<u64> {
        let two = |(n, at): (u64, u64)| vec![n, at];
        let odd = chance(self.rng, self.odd);
        let some = |s: &mut Script, most: usize| {
            let n = s.rng.gen_range(0..=most);
            let b = bytes(s.rng, n);
            s.put(&b)
        };
        match meaning {
            "gpk" if self.protocol > 0 => {
                let b = self.key_bytes(false);
                self.give(&b)
            }
            "gpk" => {
                let b = self.key_bytes(true);
                two(self.put(&b))
            }
            "account" | "method" | "args" | "key" | "value" | "pk" | "names" | "hash" | "payload" | "text" | "wide" | "code" | "seen32" | "usi"
                if odd && chance(self.rng, 40) =>
            {
                two(self.border())
            }
            "account" => two(self.account()),
            "usi" => {
                let b = universal(self.rng).1;
                self.give(&b)
            }
            "mlsig" => vec![if odd { [0, 3308, 3310][self.rng.gen_range(0..3)] } else { 3309 }, SCRATCH],
            "mlkey" => vec![if odd { [0, 1951, 1953][self.rng.gen_range(0..3)] } else { 1952 }, SCRATCH],
            "method" => {
                let names: [&[u8]; 6] = [b"m", b"method", b"a_longer_name", b"", b"\xff\xff", &[b'x'; 300]];
                let n = if odd { names.len() } else { 3 };
                let name = names[self.rng.gen_range(0..n)].to_vec();
                two(self.put(&name))
            }
            "names" => {
                let names: [&[u8]; 8] = [b"", b"a", b"a,b", b"get,set,more", b"a,,b", b",", b"a,", b"\xff,a"];
                let n = if odd { names.len() } else { 4 };
                let name = names[self.rng.gen_range(0..n)].to_vec();
                two(self.put(&name))
            }
            "args" | "value" => {
                let most = if chance(self.rng, 10) { 5000 } else { 60 };
                if most == 5000 {
                    return vec![self.rng.gen_range(3900..5000), SCRATCH + self.rng.gen_range(0..100)];
                }
                two(some(self, most))
            }
            "code" => {
                if chance(self.rng, 20) {
                    return vec![self.rng.gen_range(0..30_000), SCRATCH];
                }
                if odd {
                    return vec![4_194_304 + self.rng.gen_range(0..2), SCRATCH];
                }
                two(some(self, 300))
            }
            "key" => {
                if !self.keys.is_empty() && chance(self.rng, 70) {
                    let k = self.keys[self.rng.gen_range(0..self.keys.len())];
                    return two(k);
                }
                if odd {
                    return vec![2048 + self.rng.gen_range(0..2), SCRATCH];
                }
                let k = some(self, 40);
                self.keys.push(k);
                two(k)
            }
            "pk" => {
                let b = self.key_bytes(false);
                two(self.put(&b))
            }
            "hash" => {
                if odd {
                    let n = [0, 31, 33, 64][self.rng.gen_range(0..4)];
                    let b = bytes(self.rng, n);
                    return two(self.put(&b));
                }
                if !self.hashes.is_empty() && chance(self.rng, 60) {
                    return two(self.hashes[self.rng.gen_range(0..self.hashes.len())]);
                }
                let b = bytes(self.rng, 32);
                let h = self.put(&b);
                self.hashes.push(h);
                two(h)
            }
            // A register, where promise_yield_create may have left a data id.
            "seen32" => {
                if self.yields.is_empty() || odd {
                    return vec![ANY_REGISTER, 0];
                }
                vec![ANY_REGISTER, self.yields[self.rng.gen_range(0..self.yields.len())]]
            }
            "payload" => two(some(self, if odd { 1100 } else { 100 })),
            "text" => {
                if chance(self.rng, 15) {
                    let at = self.put("until the end \u{20ac}\0".as_bytes()).1;
                    return vec![u64::MAX, at];
                }
                let text: &[u8] = match self.rng.gen_range(0..if odd { 7 } else { 4 }) {
                    0 => b"",
                    1 => b"a log",
                    2 => "\u{20ac}\u{1f600}".as_bytes(),
                    3 => b"quite a bit more than a few words, and a NUL \0 in it",
                    4 => b"\xc3\x28",
                    5 => b"\xed\xa0\x80",
                    _ => b"\xf4\x90\x80\x80",
                };
                let text = text.to_vec();
                two(self.put(&text))
            }
            "wide" => {
                let mut b: Vec<u8> = "wide \u{20ac}\u{1f600} text".encode_utf16().flat_map(u16::to_le_bytes).collect();
                if odd {
                    match self.rng.gen_range(0..3) {
                        0 => b.push(0),
                        1 => b.extend([0x00, 0xd8]),
                        _ => b.splice(0..0, [0x00, 0xdc]).for_each(drop),
                    }
                }
                let n = b.len() as u64;
                b.extend([0, 0]);
                let at = self.put(&b).1;
                if chance(self.rng, 30) {
                    return vec![u64::MAX, at];
                }
                vec![n, at]
            }
            "list" => {
                let n = self.rng.gen_range(0..5u64);
                let mut b = vec![];
                for _ in 0..n {
                    b.extend(self.promise().to_le_bytes());
                }
                let at = self.put(&b).1;
                vec![at, if odd { [1 << 61, u64::MAX, 1 << 32, 130][self.rng.gen_range(0..4)] } else { n }]
            }
            "amount" => {
                if odd && chance(self.rng, 30) {
                    return vec![[END - 15, END, u64::MAX, u64::MAX - 15][self.rng.gen_range(0..4)]];
                }
                let amount: u128 = match self.rng.gen_range(0..if odd { 8 } else { 5 }) {
                    0 | 1 => 0,
                    2 | 3 => 1,
                    4 => self.rng.gen_range(0..10u128.pow(23)),
                    5 => 10u128.pow(25),
                    6 => 11 * 10u128.pow(24),
                    _ => u128::MAX,
                };
                vec![self.put(&amount.to_le_bytes()).1]
            }
            "out16" | "ptr" => vec![if odd { [END - 16, END - 15, END, u64::MAX][self.rng.gen_range(0..4)] } else { SCRATCH + 64 * self.results }],
            "reg" => {
                self.register = match self.rng.gen_range(0..30) {
                    0 => u64::MAX,
                    1 if odd => u64::MAX - 1,
                    2 => self.rng.gen_range(0..200),
                    _ => self.rng.gen_range(0..3),
                };
                vec![self.register]
            }
            "seen" => vec![if odd { self.rng.gen_range(0..10) } else { self.rng.gen_range(0..3) }],
            "gas" => vec![match self.rng.gen_range(0..if odd { 6 } else { 4 }) {
                0 => 0,
                1 => self.rng.gen_range(0..1_000_000),
                2 | 3 => self.rng.gen_range(0..10_000_000_000_000),
                4 => u64::MAX,
                _ => 1_000_000_000_000_000,
            }],
            "weight" => vec![[0, 1, 2, 1000, u64::MAX][self.rng.gen_range(0..5)]],
            "nonce" => vec![self.rng.gen_range(0..1 << 40)],
            "nonces" => vec![if odd { [65_535, 65_536, u64::MAX][self.rng.gen_range(0..3)] } else { self.rng.gen_range(0..12) }],
            "promise" => {
                self.promise = self.promise();
                vec![self.promise]
            }
            "init" => {
                if odd || self.inits.is_empty() {
                    return vec![self.promise(), self.rng.gen_range(0..3)];
                }
                let (p, a) = self.inits[self.rng.gen_range(0..self.inits.len())];
                vec![p, a]
            }
            "i" => vec![if odd { self.rng.gen_range(0..6) } else { self.rng.gen_range(0..self.inputs.max(1)) }],
            "ops" => vec![match self.rng.gen_range(0..20) {
                0 => u32::MAX.into(),
                _ => self.rng.gen_range(0..100_000),
            }],
            "i32" => vec![self.rng.gen::<u32>().into()],
            "msg" => {
                let b: Vec<u8> = "message".encode_utf16().flat_map(u16::to_le_bytes).collect();
                self.put(&(b.len() as u32).to_le_bytes());
                let at = self.put(&b).1;
                vec![if odd { [0, 3, END, u32::MAX.into()][self.rng.gen_range(0..4)] } else { at }]
            }
            _ => unreachable!("{meaning}"),
        }
    }

    fn promise(&mut self) -> u64 {
        if self.promises == 0 || chance(self.rng, self.odd) {
            return [self.promises, 0, u64::MAX, self.promises + 1][self.rng.gen_range(0..4)];
        }
        let fits: Vec<u64> = (0..self.promises).filter(|i| self.actions[*i as usize] != u64::MAX).collect();
        if fits.is_empty() || chance(self.rng, self.odd) {
            return self.rng.gen_range(0..self.promises);
        }
        if chance(self.rng, 50) {
            return fits[fits.len() - 1];
        }
        fits[self.rng.gen_range(0..fits.len())]
    }

    fn call(&mut self, f: usize) {
        let (name, meanings, result, _) = self.functions[f];
        let needs = |what: &str| meanings.split_whitespace().any(|m| m == what);
        if !chance(self.rng, self.odd) {
            // What the call stands on comes first.
            if needs("promise") && self.actions.is_empty() {
                self.call(position("promise_batch_create") as usize);
            }
            if needs("init") && self.inits.is_empty() {
                self.call(position("promise_batch_action_state_init") as usize);
            }
            if needs("seen32") && self.yields.is_empty() {
                self.call(position("promise_yield_create") as usize);
            }
            if needs("i") && self.inputs == 0 {
                return;
            }
        }
        if result.is_some() {
            // where the result goes
            self.code.push(0x41);
            sleb(&mut self.code, (OUT + 8 * self.results) as i64);
        }
        for m in meanings.split_whitespace() {
            for (v, t) in self.arguments(m).into_iter().zip(types(m)) {
                if t == ValType::I32 {
                    self.code.push(0x41);
                    sleb(&mut self.code, (v as u32 as i32).into());
                } else {
                    self.code.push(0x42);
                    sleb(&mut self.code, v as i64);
                }
            }
        }
        self.code.push(0x10);
        leb(&mut self.code, f as u64);
        match result {
            Some(ValType::I32) => self.code.extend([0xac, 0x37, 0, 0]),
            Some(_) => self.code.extend([0x37, 0, 0]),
            None => {}
        }
        self.results += 1;
        if matches!(
            name,
            "promise_create" | "promise_then" | "promise_and" | "promise_batch_create" | "promise_batch_then" | "promise_yield_create"
        ) {
            self.promises += 1;
            self.actions.push(u64::from(matches!(name, "promise_create" | "promise_then" | "promise_yield_create")));
            if name == "promise_and" {
                *self.actions.last_mut().unwrap() = u64::MAX; // takes none
            }
        }
        if name == "promise_yield_create" && self.register < 200 {
            self.yields.push(self.register);
        }
        if name.starts_with("promise_batch_action") {
            if let Some(n) = self.actions.get_mut(self.promise as usize) {
                if name.contains("state_init") && !name.contains("universal") {
                    self.inits.push((self.promise, *n));
                }
                *n = n.saturating_add(1);
            }
        }
    }

    /// Copies registers 0 to 2, where they are set, behind the results.
    fn registers(&mut self) {
        let (len, read) = (position("register_len"), position("read_register"));
        for r in 0..3u8 {
            self.code.extend([0x42, r, 0x10]);
            leb(&mut self.code, len);
            self.code.extend([0x42, 0x80, 0x08, 0x54]); // i64.const 1024, lt_u
            self.code.extend([0x04, 0x40, 0x42, r, 0x42]);
            sleb(&mut self.code, (OUT + 2048 + 1024 * u64::from(r)) as i64);
            self.code.push(0x10);
            leb(&mut self.code, read);
            self.code.push(0x0b);
        }
    }

    fn give_back(&mut self) {
        self.code.push(0x42);
        sleb(&mut self.code, 2048 + 3 * 1024);
        self.code.push(0x42);
        sleb(&mut self.code, OUT as i64);
        self.code.push(0x10);
        leb(&mut self.code, position("value_return"));
    }
}

fn position(name: &str) -> u64 {
    functions(u64::MAX).iter().position(|f| f.0 == name).unwrap() as u64
}

fn leb(b: &mut Vec<u8>, mut n: u64) {
    loop {
        let byte = (n & 0x7f) as u8;
        n >>= 7;
        b.push(if n == 0 { byte } else { byte | 0x80 });
        if n == 0 {
            return;
        }
    }
}

/// Not allowed in views.
fn prohibited(name: &str) -> bool {
    ["promise", "signer", "predecessor", "refund_to", "used_gas", "prepaid_gas", "storage_write", "storage_remove", "set_state_init"]
        .iter()
        .any(|p| name.contains(p))
}

/// The functions whose names contain one of these go together in a script.
const THEMES: &[&[&str]] = &[
    &["storage", "register", "account_balance"],
    &["promise", "used_gas", "account_balance"],
    &["promise_batch", "set_state_init", "promise_set"],
    &["yield", "register", "storage_usage"],
    &["log", "register", "value_return", "gas"],
    &[""],
];

/// Themes of later protocols.
const LATER_THEMES: &[&[&str]] = &[
    &["universal", "promise_batch", "used_gas", "account_balance"],
    &["sha3", "ml_dsa", "universal", "register", "value_return"],
    &["gas_key", "promise_batch_create", "add_key", "register"],
];

fn module(rng: &mut Rng, protocol: u64, view: bool, inputs: u64) -> Vec<u8> {
    let all = functions(protocol);
    let odd = [0, 0, 1, 2, 8][rng.gen_range(0..5)];
    let mut s = Script { rng, protocol, functions: all.clone(), data: vec![0; 64], code: vec![], promises: 0, odd, results: 0, keys: vec![], hashes: vec![], inits: vec![], actions: vec![], yields: vec![], inputs, promise: 0, register: 0 };
    if chance(s.rng, 90) {
        // Three registers that hold something.
        for r in 0..3u64 {
            let n = s.rng.gen_range(0..50);
            let b = bytes(s.rng, n);
            let (n, at) = s.put(&b);
            for v in [r, n, at] {
                s.code.push(0x42);
                sleb(&mut s.code, v as i64);
            }
            s.code.push(0x10);
            leb(&mut s.code, position("write_register"));
        }
    }
    let theme = if protocol > 0 && chance(s.rng, 70) {
        LATER_THEMES[s.rng.gen_range(0..LATER_THEMES.len())]
    } else {
        THEMES[s.rng.gen_range(0..THEMES.len())]
    };
    let fits: Vec<usize> =
        (0..all.len()).filter(|f| theme.iter().any(|t| all[*f].0.contains(t)) && !(view && prohibited(all[*f].0))).collect();
    let sum: u32 = fits.iter().map(|f| all[*f].3).sum();
    let n = s.rng.gen_range(1..30);
    for _ in 0..n {
        if sum == 0 || chance(s.rng, 1) {
            let f = s.rng.gen_range(0..all.len()); // anything, also what only fails
            s.call(f);
            continue;
        }
        let mut at = s.rng.gen_range(0..sum);
        for f in &fits {
            if at < all[*f].3 {
                s.call(*f);
                break;
            }
            at -= all[*f].3;
        }
    }
    s.registers();
    if chance(s.rng, 85) {
        s.give_back();
    }
    if chance(s.rng, 8) {
        // Gas that promises hold, and then none left: a loop without end.
        s.code.extend([0x03, 0x40, 0x0c, 0, 0x0b]);
    }
    s.code.push(0x0b);
    let (code, data) = (s.code, s.data);
    assert!(data.len() < OUT as usize);

    let (mut types_, mut imports) = (TypeSection::new(), ImportSection::new());
    for (i, (name, meanings, result, _)) in all.iter().enumerate() {
        types_.ty().function(meanings.split_whitespace().flat_map(types).collect::<Vec<_>>(), *result);
        imports.import("env", name, EntityType::Function(i as u32));
    }
    types_.ty().function([], []);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None });
    let mut functions = FunctionSection::new();
    functions.function(all.len() as u32);
    let mut exports = ExportSection::new();
    exports.export("main", ExportKind::Func, all.len() as u32);
    let mut f = Function::new([]);
    f.raw(code);
    let mut bodies = CodeSection::new();
    bodies.function(&f);
    let mut segments = DataSection::new();
    segments.active(0, &ConstExpr::i32_const(0), data);
    let mut module = Module::new();
    module.section(&types_).section(&imports).section(&functions).section(&memories).section(&exports).section(&bodies).section(&segments);
    module.finish()
}

pub fn write(dir: &str, round: u64) -> Result<(), String> {
    let command = command("host", round);
    for (file, protocol, seed, n) in [("host.jsonl.gz", 0, 4, 1500), ("host87.jsonl.gz", 87, 87, 250), ("host88.jsonl.gz", 88, 88, 350)] {
        let mut m = Maker::new(Out::at(dir, file, &command, protocol)?, Rng::seed_from_u64(seed + 1000 * round));
        for i in 0..n {
            let view = i % 8 == 7;
            let inputs = if i % 3 == 0 { m.rng.gen_range(1..4) } else { 0 };
            let code = module(&mut m.rng, protocol, view, inputs);
            let mut job = Job { name: format!("host {i}"), wasm: B64.encode(&code), view, protocol, gas: vec![300_000_000_000_000], ..Job::default() };
            let rng = &mut m.rng;
            job.args = B64.encode(bytes(rng, i % 40));
            job.results = (0..inputs).map(|_| chance(rng, 70).then(|| B64.encode(bytes(rng, 20)))).collect();
            if i % 5 == 0 {
                job.outputs = ["bob.near", "alice.near", "zed.near"][..rng.gen_range(1..4)].iter().map(|s| s.to_string()).collect();
            }
            if i % 11 == 0 {
                // The one-yocto rule: nothing to spend.
                (job.balance, job.deposit) = ("0".into(), if i % 2 == 0 { "0".into() } else { "2".into() });
            }
            if i % 40 == 39 {
                job.max_gas_burnt = 30_000_000_000_000;
            }
            m.vector(Vector::of(job), 2)?;
        }
        m.close()?;
    }
    Ok(())
}
