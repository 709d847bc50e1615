//! Random modules that compute: numbers of all four types through locals, globals, memory, tables and calls, ending in
//! value_return of all of it. Valid by construction; what they compute may trap.

use crate::inputs::{chance, Rng};
use rand::Rng as _;
use wasm_encoder::{
    CodeSection, ConstExpr, DataCountSection, DataSection, ElementSection, Elements, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, ImportSection, MemoryType, Module, RefType, TableSection, TableType, TypeSection,
    ValType,
};

const TYPES: [ValType; 4] = [ValType::I32, ValType::I64, ValType::F32, ValType::F64];
const I32: usize = 0;
const I64: usize = 1;

/// Numeric instructions of one byte: first, last, operands, result; types by their index in TYPES.
const NUMERIC: &[(u8, u8, &[usize], usize)] = &[
    (0x45, 0x45, &[0], 0),
    (0x46, 0x4f, &[0, 0], 0),
    (0x50, 0x50, &[1], 0),
    (0x51, 0x5a, &[1, 1], 0),
    (0x5b, 0x60, &[2, 2], 0),
    (0x61, 0x66, &[3, 3], 0),
    (0x67, 0x69, &[0], 0),
    (0x6a, 0x78, &[0, 0], 0),
    (0x79, 0x7b, &[1], 1),
    (0x7c, 0x8a, &[1, 1], 1),
    (0x8b, 0x91, &[2], 2),
    (0x92, 0x98, &[2, 2], 2),
    (0x99, 0x9f, &[3], 3),
    (0xa0, 0xa6, &[3, 3], 3),
    (0xa7, 0xa7, &[1], 0),
    (0xa8, 0xa9, &[2], 0),
    (0xaa, 0xab, &[3], 0),
    (0xac, 0xad, &[0], 1),
    (0xae, 0xaf, &[2], 1),
    (0xb0, 0xb1, &[3], 1),
    (0xb2, 0xb3, &[0], 2),
    (0xb4, 0xb5, &[1], 2),
    (0xb6, 0xb6, &[3], 2),
    (0xb7, 0xb8, &[0], 3),
    (0xb9, 0xba, &[1], 3),
    (0xbb, 0xbb, &[2], 3),
    (0xbc, 0xbc, &[2], 0),
    (0xbd, 0xbd, &[3], 1),
    (0xbe, 0xbe, &[0], 2),
    (0xbf, 0xbf, &[1], 3),
    (0xc0, 0xc1, &[0], 0),
    (0xc2, 0xc4, &[1], 1),
];

/// Loads and stores: opcode, type, log2 of the width.
const LOADS: &[(u8, usize, u8)] = &[
    (0x28, 0, 2), (0x29, 1, 3), (0x2a, 2, 2), (0x2b, 3, 3), (0x2c, 0, 0), (0x2d, 0, 0), (0x2e, 0, 1), (0x2f, 0, 1), (0x30, 1, 0),
    (0x31, 1, 0), (0x32, 1, 1), (0x33, 1, 1), (0x34, 1, 2), (0x35, 1, 2),
];
const STORES: &[(u8, usize, u8)] = &[
    (0x36, 0, 2), (0x37, 1, 3), (0x38, 2, 2), (0x39, 3, 3), (0x3a, 0, 0), (0x3b, 0, 1), (0x3c, 1, 0), (0x3d, 1, 1), (0x3e, 1, 2),
];

/// May trap on some operand: division, remainder, trunc.
fn traps(op: u8) -> bool {
    matches!(op, 0x6d..=0x70 | 0x7f..=0x82 | 0xa8..=0xab | 0xae..=0xb1)
}

struct Signature {
    params: Vec<usize>,
    result: Option<usize>,
}

struct Shape {
    signatures: Vec<Signature>,
    /// Signature of each defined function but the last, main; calls go to lower indices only.
    functions: Vec<usize>,
    globals: Vec<usize>,
    imports: u32,
    table: u32,
    passive: Vec<u32>,
}

struct Body<'a> {
    rng: &'a mut Rng,
    shape: &'a Shape,
    code: Vec<u8>,
    locals: Vec<usize>,
    /// Kept out of random writes: the counters of loops.
    counters: Vec<u32>,
    /// Functions that may be called: indices of `functions` below this.
    below: usize,
    /// Labels in scope, outermost first: what a branch there takes. At statements all take nothing.
    labels: Vec<Option<usize>>,
    left: i32,
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

fn of(t: usize) -> u8 {
    [0x7f, 0x7e, 0x7d, 0x7c][t]
}

impl Body<'_> {
    fn index(&mut self, op: u8, i: u32) {
        self.code.push(op);
        leb(&mut self.code, i.into());
    }

    fn constant(&mut self, t: usize) {
        let small = self.rng.gen_range(-3..20i64);
        match t {
            I32 => {
                let v = match self.rng.gen_range(0..6) {
                    0 => i32::MIN,
                    1 => i32::MAX,
                    2 => self.rng.gen(),
                    _ => small as i32,
                };
                self.i32(v);
            }
            I64 => {
                let v = match self.rng.gen_range(0..6) {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    2 => self.rng.gen(),
                    _ => small,
                };
                self.code.push(0x42);
                sleb(&mut self.code, v);
            }
            2 => {
                let v = match self.rng.gen_range(0..12) {
                    0 => 0x7fc0_0000,
                    1 => 0xffc0_0000 | self.rng.gen_range(0..0x3f_ffff),
                    2 => 0x7f80_0001 | self.rng.gen_range(0..0x3f_ffff), // signalling
                    3 => 0x7f80_0000,
                    4 => 0xff80_0000,
                    5 => 0x8000_0000,
                    6 => self.rng.gen_range(1..100), // denormal
                    7 => self.rng.gen(),
                    8 => [0x4f00_0000, 0xcf00_0000, 0x4f80_0000, 0x5f00_0000, 0xdf00_0000, 0x5f80_0000][self.rng.gen_range(0..6)],
                    _ => (small as f32 * 0.75).to_bits(),
                };
                self.code.push(0x43);
                self.code.extend(v.to_le_bytes());
            }
            _ => {
                let v = match self.rng.gen_range(0..12) {
                    0 => 0x7ff8_0000_0000_0000,
                    1 => 0xfff8_0000_0000_0000 | self.rng.gen_range(0..0x7_ffff_ffff_ffff),
                    2 => 0x7ff0_0000_0000_0001 | self.rng.gen_range(0..0x7_ffff_ffff_ffff),
                    3 => 0x7ff0_0000_0000_0000,
                    4 => 0xfff0_0000_0000_0000,
                    5 => 0x8000_0000_0000_0000,
                    6 => self.rng.gen_range(1..100),
                    7 => self.rng.gen(),
                    8 => [2147483647.5f64, -2147483648.9, 4294967295.5, 9223372036854775808.0, -9223372036854775808.0, 18446744073709551616.0]
                        [self.rng.gen_range(0..6)]
                    .to_bits(),
                    _ => (small as f64 * 0.375).to_bits(),
                };
                self.code.push(0x44);
                self.code.extend(v.to_le_bytes());
            }
        }
    }

    fn i32(&mut self, v: i32) {
        self.code.push(0x41);
        sleb(&mut self.code, v.into());
    }

    /// An address: mostly in the first pages.
    fn address(&mut self, depth: u32) {
        if chance(self.rng, 3) {
            return self.expr(I32, depth);
        }
        if chance(self.rng, 60) {
            let v = self.rng.gen_range(0..4096);
            return self.i32(v);
        }
        self.expr(I32, depth);
        self.i32(0xfff);
        self.code.push(0x71); // i32.and
    }

    fn memarg(&mut self, log: u8) {
        let align = self.rng.gen_range(0..=log);
        self.code.push(align);
        let offset = if chance(self.rng, 2) { u64::from(u32::MAX) - self.rng.gen_range(0..10) } else { self.rng.gen_range(0..200) };
        leb(&mut self.code, offset);
    }

    /// Leaves a value of type t.
    fn expr(&mut self, t: usize, depth: u32) {
        self.left -= 1;
        if depth == 0 || self.left <= 0 {
            return self.leaf(t);
        }
        match self.rng.gen_range(0..20) {
            0..=2 => self.leaf(t),
            3 => {
                let of_type: Vec<_> = LOADS.iter().filter(|l| l.1 == t).collect();
                let (op, _, log) = *of_type[self.rng.gen_range(0..of_type.len())];
                self.address(depth - 1);
                self.code.push(op);
                self.memarg(log);
            }
            4 => {
                self.expr(t, depth - 1);
                self.expr(t, depth - 1);
                self.expr(I32, depth - 1);
                if chance(self.rng, 50) {
                    self.code.push(0x1b);
                } else {
                    self.code.extend([0x1c, 1, of(t)]);
                }
            }
            5 => {
                self.expr(I32, depth - 1);
                self.code.extend([0x04, of(t)]);
                self.labels.push(Some(t));
                self.expr(t, depth - 1);
                self.code.push(0x05);
                self.expr(t, depth - 1);
                self.code.push(0x0b);
                self.labels.pop();
            }
            6 => {
                self.code.extend([0x02, of(t)]);
                self.labels.push(Some(t));
                self.expr(t, depth - 1);
                if chance(self.rng, 60) {
                    self.expr(I32, depth - 1);
                    self.index(0x0d, 0); // br_if, the value stays
                }
                self.code.push(0x0b);
                self.labels.pop();
            }
            7 => {
                let l = self.local(t);
                match l {
                    Some(l) => {
                        self.expr(t, depth - 1);
                        self.index(0x22, l);
                    }
                    None => self.leaf(t),
                }
            }
            8 => {
                let fits: Vec<_> = (0..self.below).filter(|f| self.shape.signatures[self.shape.functions[*f]].result == Some(t)).collect();
                if fits.is_empty() {
                    return self.leaf(t);
                }
                let f = fits[self.rng.gen_range(0..fits.len())];
                self.call(f, depth - 1);
            }
            9 if t == I32 => match self.rng.gen_range(0..6) {
                0 => self.code.extend([0x3f, 0]),
                1 => {
                    let n = if chance(self.rng, 80) { self.rng.gen_range(0..3) } else { self.rng.gen_range(0..3000) };
                    self.i32(n);
                    self.code.extend([0x40, 0]);
                }
                2 => self.code.extend([0xfc, 16, 0]),
                3 => {
                    self.element(depth - 1);
                    let n = if chance(self.rng, 80) { self.rng.gen_range(0..4) } else { self.rng.gen_range(0..20_000) };
                    self.i32(n);
                    self.code.extend([0xfc, 15, 0]); // table.grow
                }
                _ => {
                    self.element(depth - 1);
                    self.code.push(0xd1); // ref.is_null
                }
            },
            10 => {
                // trunc_sat
                if t > I64 {
                    return self.leaf(t);
                }
                let from = self.rng.gen_range(0..2);
                self.expr(2 + from, depth - 1);
                let op = 4 * t + 2 * from + self.rng.gen_range(0..2);
                self.code.extend([0xfc, op as u8]);
            }
            _ => loop {
                let (first, last, operands, result) = NUMERIC[self.rng.gen_range(0..NUMERIC.len())];
                if result != t {
                    continue;
                }
                let op = self.rng.gen_range(first..=last);
                if traps(op) && !chance(self.rng, 25) {
                    continue;
                }
                for o in operands {
                    self.expr(*o, depth - 1);
                }
                if matches!(op, 0x6d..=0x70) && chance(self.rng, 85) {
                    self.code.extend([0x41, 1, 0x72]); // | 1: no zero
                }
                if matches!(op, 0x7f..=0x82) && chance(self.rng, 85) {
                    self.code.extend([0x42, 1, 0x84]);
                }
                self.code.push(op);
                return;
            },
        }
    }

    /// A funcref.
    fn element(&mut self, depth: u32) {
        match self.rng.gen_range(0..3) {
            0 => self.code.extend([0xd0, 0x70]),
            1 if !self.shape.functions.is_empty() => {
                let f = self.shape.imports + self.rng.gen_range(0..self.shape.functions.len()) as u32;
                self.index(0xd2, f);
            }
            _ => {
                self.slot(depth);
                self.code.extend([0x25, 0]);
            }
        }
    }

    /// An index of the table, seldom outside.
    fn slot(&mut self, depth: u32) {
        if chance(self.rng, 97) {
            let i = self.rng.gen_range(0..self.shape.table.max(1));
            self.i32(i as i32);
        } else {
            self.expr(I32, depth);
        }
    }

    fn local(&mut self, t: usize) -> Option<u32> {
        let fits: Vec<u32> =
            (0..self.locals.len() as u32).filter(|l| self.locals[*l as usize] == t && !self.counters.contains(l)).collect();
        (!fits.is_empty()).then(|| fits[self.rng.gen_range(0..fits.len())])
    }

    fn leaf(&mut self, t: usize) {
        if chance(self.rng, 60) {
            if let Some(l) = self.local(t) {
                return self.index(0x20, l);
            }
        }
        let fits: Vec<u32> = (0..self.shape.globals.len() as u32).filter(|g| self.shape.globals[*g as usize] == t).collect();
        if !fits.is_empty() && chance(self.rng, 30) {
            let g = fits[self.rng.gen_range(0..fits.len())];
            return self.index(0x23, g);
        }
        self.constant(t)
    }

    fn call(&mut self, f: usize, depth: u32) {
        let signature = self.shape.functions[f];
        for p in &self.shape.signatures[signature].params {
            self.expr(*p, depth);
        }
        if chance(self.rng, 60) {
            self.index(0x10, self.shape.imports + f as u32);
        } else {
            // The table starts with the functions in order; other slots are null or the wrong type. Calls through it may
            // go up as well, so recursion is possible, and ends by gas or stack.
            if chance(self.rng, 90) {
                self.i32(f as i32);
            } else {
                self.slot(0);
            }
            self.index(0x11, signature as u32);
            self.code.push(0);
        }
    }

    fn statement(&mut self, depth: u32) {
        self.left -= 1;
        if self.left <= 0 {
            return;
        }
        match self.rng.gen_range(0..26) {
            0..=7 => {
                let l = self.rng.gen_range(0..self.locals.len() as u32);
                if !self.counters.contains(&l) {
                    self.expr(self.locals[l as usize], 4);
                    self.index(0x21, l);
                }
            }
            8..=10 if !self.shape.globals.is_empty() => {
                let g = self.rng.gen_range(0..self.shape.globals.len());
                self.expr(self.shape.globals[g], 4);
                self.index(0x24, g as u32);
            }
            11..=13 => {
                let (op, t, log) = STORES[self.rng.gen_range(0..STORES.len())];
                self.address(2);
                self.expr(t, 4);
                self.code.push(op);
                self.memarg(log);
            }
            14 if depth > 0 => {
                self.expr(I32, 3);
                self.code.extend([0x04, 0x40]);
                self.labels.push(None);
                self.some(depth - 1);
                if chance(self.rng, 50) {
                    self.code.push(0x05);
                    self.some(depth - 1);
                }
                self.code.push(0x0b);
                self.labels.pop();
            }
            15 | 16 if depth > 0 => {
                // A loop of a known number of rounds.
                let counter = self.locals.len() as u32;
                self.locals.push(I32);
                self.counters.push(counter);
                self.i32(0);
                self.index(0x21, counter);
                self.code.extend([0x02, 0x40, 0x03, 0x40]);
                self.labels.extend([None, None]);
                self.some(depth - 1);
                self.index(0x20, counter);
                self.i32(1);
                self.code.push(0x6a);
                self.index(0x22, counter);
                let rounds = self.rng.gen_range(1..9);
                self.i32(rounds);
                self.code.push(0x49); // lt_u
                self.index(0x0d, 0);
                self.code.extend([0x0b, 0x0b]);
                self.labels.truncate(self.labels.len() - 2);
            }
            17 if depth > 0 => {
                // br_table out of some blocks
                let n = self.rng.gen_range(1..5u32);
                for _ in 0..n {
                    self.code.extend([0x02, 0x40]);
                    self.labels.push(None);
                }
                self.expr(I32, 3);
                self.index(0x0e, n - 1);
                for _ in 0..n {
                    let l = self.rng.gen_range(0..n);
                    leb(&mut self.code, l.into());
                }
                for _ in 0..n {
                    self.code.push(0x0b);
                    self.labels.pop();
                    self.some(0);
                }
            }
            18 if depth > 0 => {
                self.code.extend([0x02, 0x40]);
                self.labels.push(None);
                self.some(depth - 1);
                // Mostly out of this block; any other is possible, and a loop's goes back.
                let to = if chance(self.rng, 80) { 0 } else { self.rng.gen_range(0..self.labels.len() as u32) };
                if chance(self.rng, 50) {
                    self.expr(I32, 3);
                    self.index(0x0d, to);
                    self.some(0);
                } else {
                    self.index(0x0c, to);
                    // Dead code is analysed as well.
                    if chance(self.rng, 50) {
                        self.some(0);
                    }
                }
                self.code.push(0x0b);
                self.labels.pop();
            }
            19 => {
                // Bulk memory
                let n = if chance(self.rng, 95) { self.rng.gen_range(0..200) } else { self.rng.gen_range(0..100_000) };
                match self.rng.gen_range(0..4) {
                    0 => {
                        self.address(1);
                        self.address(1);
                        self.i32(n);
                        self.code.extend([0xfc, 10, 0, 0]);
                    }
                    1 => {
                        self.address(1);
                        self.expr(I32, 2);
                        self.i32(n);
                        self.code.extend([0xfc, 11, 0]);
                    }
                    2 if !self.shape.passive.is_empty() => {
                        let d = self.rng.gen_range(0..self.shape.passive.len());
                        self.address(1);
                        self.i32(0);
                        let most = self.shape.passive[d] + u32::from(chance(self.rng, 5));
                        let n = self.rng.gen_range(0..=most);
                        self.i32(n as i32);
                        self.code.extend([0xfc, 8, d as u8, 0]);
                    }
                    _ if !self.shape.passive.is_empty() && chance(self.rng, 10) => {
                        let d = self.rng.gen_range(0..self.shape.passive.len());
                        self.code.extend([0xfc, 9, d as u8]);
                    }
                    _ => self.code.push(0x01),
                }
            }
            20 => {
                // Bulk table
                match self.rng.gen_range(0..5) {
                    0 => {
                        self.slot(1);
                        self.element(1);
                        self.code.extend([0x26, 0]);
                    }
                    1 => {
                        let n = self.rng.gen_range(0..3);
                        self.slot(1);
                        self.element(1);
                        self.i32(n);
                        self.code.extend([0xfc, 17, 0]);
                    }
                    2 => {
                        let n = self.rng.gen_range(0..3);
                        self.slot(1);
                        self.slot(1);
                        self.i32(n);
                        self.code.extend([0xfc, 14, 0, 0]);
                    }
                    3 => {
                        // Segment 1 is passive, of one function.
                        self.slot(1);
                        self.i32(0);
                        let n = self.rng.gen_range(0..2);
                        self.i32(n);
                        self.code.extend([0xfc, 12, 1, 0]);
                    }
                    _ if chance(self.rng, 10) => self.code.extend([0xfc, 13, 1]),
                    _ => self.code.push(0x01),
                }
            }
            21 | 22 => {
                if self.below > 0 {
                    let f = self.rng.gen_range(0..self.below);
                    self.call(f, 2);
                    if self.shape.signatures[self.shape.functions[f]].result.is_some() {
                        self.code.push(0x1a);
                    }
                }
            }
            23 => {
                let t = self.rng.gen_range(0..4);
                self.expr(t, 4);
                self.code.push(0x1a);
            }
            24 if chance(self.rng, 4) => self.code.push(0x00),
            _ => self.code.push(0x01),
        }
    }

    fn some(&mut self, depth: u32) {
        for _ in 0..self.rng.gen_range(0..4) {
            self.statement(depth);
        }
    }
}

/// What else a module does.
#[derive(Clone, Copy, PartialEq)]
pub enum Flavour {
    Plain,
    /// Promises hold gas before the work starts.
    Promise,
    /// The work is done by the start function as well.
    Start,
}

const OUT: i32 = 65_536;

pub fn module(rng: &mut Rng, flavour: Flavour) -> Vec<u8> {
    let mut signatures = vec![];
    for _ in 0..rng.gen_range(1..5) {
        signatures.push(Signature {
            params: (0..rng.gen_range(0..4)).map(|_| rng.gen_range(0..4)).collect(),
            result: chance(rng, 80).then(|| rng.gen_range(0..4)),
        });
    }
    let functions: Vec<usize> = (0..rng.gen_range(0..5)).map(|_| rng.gen_range(0..signatures.len())).collect();
    let globals: Vec<usize> = (0..rng.gen_range(0..5)).map(|_| rng.gen_range(0..4)).collect();
    let mut imports = ImportSection::new();
    let mut types = TypeSection::new();
    for s in &signatures {
        types.ty().function(s.params.iter().map(|t| TYPES[*t]), s.result.map(|t| TYPES[t]));
    }
    let main_type = signatures.len() as u32;
    types.ty().function([], []);
    types.ty().function([ValType::I64, ValType::I64], []);
    types.ty().function([ValType::I64; 8], [ValType::I64]);
    imports.import("env", "value_return", EntityType::Function(main_type + 1));
    let mut count = 1;
    if flavour == Flavour::Promise {
        imports.import("env", "promise_create", EntityType::Function(main_type + 2));
        count += 1;
    }
    let memory = MemoryType { minimum: 3, maximum: chance(rng, 50).then_some(10), memory64: false, shared: false, page_size_log2: None };
    let table = functions.len() as u32 + rng.gen_range(1..4);
    let passive: Vec<u32> = (0..rng.gen_range(0..3)).map(|_| rng.gen_range(0..50)).collect();
    let shape = Shape { signatures, functions, globals, imports: count, table, passive };

    let mut function_section = FunctionSection::new();
    let mut code = CodeSection::new();
    for (i, f) in shape.functions.iter().enumerate() {
        function_section.function(*f as u32);
        code.function(&body(rng, &shape, i, &shape.signatures[*f], &[]));
    }
    function_section.function(main_type);
    let mut before = vec![];
    if flavour == Flavour::Promise {
        // promise_create("bob.near", "m", no args, no amount, gas): the strings are at 2000 and 2008.
        for v in [8i64, 2000, 1, 2008, 0, 0, 2016, 1_000_000_000 * rng.gen_range(1..400)] {
            before.push(0x42);
            sleb(&mut before, v);
        }
        before.extend([0x10, 1, 0x1a]);
    }
    let none = Signature { params: vec![], result: None };
    code.function(&body(rng, &shape, shape.functions.len(), &none, &before));
    let main = count + shape.functions.len() as u32;

    let mut module = Module::new();
    module.section(&types).section(&imports).section(&function_section);
    let mut tables = TableSection::new();
    tables.table(TableType {
        element_type: RefType::FUNCREF,
        minimum: u64::from(table),
        maximum: chance(rng, 30).then(|| u64::from(table) + 5),
        table64: false,
        shared: false,
    });
    module.section(&tables);
    let mut memories = wasm_encoder::MemorySection::new();
    memories.memory(memory);
    module.section(&memories);
    let mut global_section = GlobalSection::new();
    for t in &shape.globals {
        let init = match t {
            0 => ConstExpr::i32_const(rng.gen()),
            1 => ConstExpr::i64_const(rng.gen()),
            2 => ConstExpr::f32_const(f32::from_bits(rng.gen::<u32>() & 0x7f7f_ffff).into()),
            _ => ConstExpr::f64_const(f64::from_bits(rng.gen::<u64>() & 0x7fdf_ffff_ffff_ffff).into()),
        };
        global_section.global(GlobalType { val_type: TYPES[*t], mutable: true, shared: false }, &init);
    }
    module.section(&global_section);
    let mut exports = ExportSection::new();
    exports.export("main", ExportKind::Func, main);
    if chance(rng, 20) && !shape.functions.is_empty() {
        exports.export("other", ExportKind::Func, count);
    }
    module.section(&exports);
    if flavour == Flavour::Start {
        module.section(&wasm_encoder::StartSection { function_index: main });
    }
    let mut elements = ElementSection::new();
    let all: Vec<u32> = (count..count + shape.functions.len() as u32).collect();
    elements.active(None, &ConstExpr::i32_const(0), Elements::Functions(all.as_slice().into()));
    elements.passive(Elements::Functions((&[main][..]).into()));
    module.section(&elements);
    module.section(&DataCountSection { count: shape.passive.len() as u32 + 1 });
    module.section(&code);
    let mut data = DataSection::new();
    for n in &shape.passive {
        data.passive((0..*n).map(|_| rng.gen::<u8>()).collect::<Vec<_>>());
    }
    let mut text = b"bob.nearm".to_vec();
    text.extend([0; 40]);
    data.active(0, &ConstExpr::i32_const(2000), text);
    module.section(&data);
    module.finish()
}

/// A function; main (no result, no parameters) ends with value_return of its locals, the globals and some memory.
fn body(rng: &mut Rng, shape: &Shape, below: usize, signature: &Signature, before: &[u8]) -> Function {
    let main = below == shape.functions.len();
    let mut locals = signature.params.clone();
    for _ in 0..rng.gen_range(1..8) {
        locals.push(rng.gen_range(0..4));
    }
    let left = rng.gen_range(20..if main { 250 } else { 80 });
    let mut b = Body { rng, shape, code: before.to_vec(), locals, counters: vec![], below, labels: vec![], left };
    for _ in 0..b.rng.gen_range(3..if main { 30 } else { 10 }) {
        b.statement(3);
    }
    b.left = 30;
    if main {
        let mut at = OUT;
        let put = |b: &mut Body, get: u8, i: usize, t: usize, at: &mut i32| {
            b.i32(*at);
            b.index(get, i as u32);
            b.code.extend([0x36 + t as u8, 0, 0]);
            *at += 8;
        };
        for i in 0..b.locals.len() {
            let t = b.locals[i];
            put(&mut b, 0x20, i, t, &mut at);
        }
        for i in 0..shape.globals.len() {
            put(&mut b, 0x23, i, shape.globals[i], &mut at);
        }
        // The last kilobyte before OUT is not written at random often; the first is.
        b.i32(at);
        b.i32(0);
        b.i32(512);
        b.code.extend([0xfc, 10, 0, 0]);
        at += 512;
        b.code.push(0x42);
        sleb(&mut b.code, (at - OUT).into());
        b.code.push(0x42);
        sleb(&mut b.code, OUT.into());
        b.index(0x10, 0);
    } else if let Some(t) = signature.result {
        b.expr(t, 3);
    }
    b.code.push(0x0b);
    let own: Vec<(u32, ValType)> = b.locals[signature.params.len()..].iter().map(|t| (1, TYPES[*t])).collect();
    let mut f = Function::new(own);
    f.raw(b.code);
    f
}
