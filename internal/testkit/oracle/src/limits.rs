//! Modules at both sides of every limit of preparation, compilation and loading.

use crate::inputs::Rng;
use rand::Rng as _;
use wasm_encoder::{
    CodeSection, ConstExpr, DataCountSection, DataSection, ElementSection, Elements, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, ImportSection, MemorySection, MemoryType, Module, RefType, StartSection, TableSection,
    TableType, TypeSection, ValType,
};

/// A module in numbers. Type 0 is () -> (), and function 0 of those defined is main: empty unless `main` says otherwise.
struct Spec {
    types: u32,
    params: Vec<usize>,
    imports: u32,
    functions: Vec<(u32, Vec<(u32, ValType)>, Vec<u8>)>,
    main: Vec<u8>,
    main_locals: Vec<(u32, ValType)>,
    tables: Vec<(u64, Option<u64>)>,
    memory: Option<(u64, Option<u64>)>,
    globals: u32,
    function_globals: bool,
    export: String,
    exported: u32,
    active: u32,
    declared: u32,
    start: bool,
    data: u32,
    elements: u32,
}

fn spec() -> Spec {
    Spec {
        types: 1,
        params: vec![],
        imports: 0,
        functions: vec![],
        main: vec![],
        main_locals: vec![],
        tables: vec![],
        memory: None,
        globals: 0,
        function_globals: false,
        export: String::new(),
        exported: 0,
        active: 0,
        declared: 0,
        start: false,
        data: 0,
        elements: 0,
    }
}

impl Spec {
    fn build(self) -> Vec<u8> {
        let mut module = Module::new();
        let mut types = TypeSection::new();
        for _ in 0..self.types {
            types.ty().function([], []);
        }
        for n in &self.params {
            types.ty().function(vec![ValType::I32; *n], []);
        }
        let import_type = self.types + self.params.len() as u32;
        if self.imports > 0 {
            types.ty().function([], [ValType::I64]);
        }
        module.section(&types);
        if self.imports > 0 {
            let mut imports = ImportSection::new();
            for _ in 0..self.imports {
                imports.import("env", "block_index", EntityType::Function(import_type));
            }
            module.section(&imports);
        }
        let mut functions = FunctionSection::new();
        functions.function(0);
        for f in &self.functions {
            functions.function(f.0);
        }
        module.section(&functions);
        if !self.tables.is_empty() {
            let mut tables = TableSection::new();
            for (minimum, maximum) in &self.tables {
                tables.table(TableType { element_type: RefType::FUNCREF, minimum: *minimum, maximum: *maximum, table64: false, shared: false });
            }
            module.section(&tables);
        }
        if let Some((minimum, maximum)) = self.memory {
            let mut memories = MemorySection::new();
            memories.memory(MemoryType { minimum, maximum, memory64: false, shared: false, page_size_log2: None });
            module.section(&memories);
        }
        if self.globals > 0 {
            let mut globals = GlobalSection::new();
            for i in 0..self.globals {
                if self.function_globals {
                    let t = GlobalType { val_type: ValType::Ref(RefType::FUNCREF), mutable: false, shared: false };
                    globals.global(t, &ConstExpr::ref_func(self.imports + i));
                } else {
                    let t = GlobalType { val_type: ValType::I32, mutable: false, shared: false };
                    globals.global(t, &ConstExpr::i32_const(0));
                }
            }
            module.section(&globals);
        }
        let mut exports = ExportSection::new();
        exports.export("main", ExportKind::Func, self.imports);
        if !self.export.is_empty() {
            exports.export(&self.export, ExportKind::Func, self.imports);
        }
        for i in 0..self.exported {
            exports.export(&format!("f{i}"), ExportKind::Func, self.imports + 1 + i);
        }
        module.section(&exports);
        if self.start {
            module.section(&StartSection { function_index: self.imports });
        }
        if self.active + self.declared + self.elements > 0 {
            let mut elements = ElementSection::new();
            let range = |n: u32| (self.imports..self.imports + n).collect::<Vec<_>>();
            if self.active > 0 {
                elements.active(None, &ConstExpr::i32_const(0), Elements::Functions(range(self.active).into()));
            }
            if self.declared > 0 {
                elements.declared(Elements::Functions(range(self.declared).into()));
            }
            for _ in 0..self.elements {
                elements.passive(Elements::Functions(range(0).into()));
            }
            module.section(&elements);
        }
        if self.data > 0 {
            module.section(&DataCountSection { count: self.data });
        }
        let mut code = CodeSection::new();
        for (locals, body) in std::iter::once((&self.main_locals, &self.main)).chain(self.functions.iter().map(|f| (&f.1, &f.2))) {
            let mut f = Function::new(locals.clone());
            f.raw(body.iter().copied());
            f.raw([0x0b]);
            code.function(&f);
        }
        module.section(&code);
        if self.data > 0 {
            let mut data = DataSection::new();
            for _ in 0..self.data {
                data.passive([]);
            }
            module.section(&data);
        }
        module.finish()
    }
}

/// The code of many functions, each empty.
fn empty(n: u32) -> Vec<(u32, Vec<(u32, ValType)>, Vec<u8>)> {
    vec![(0, vec![], vec![]); n as usize]
}

fn times(n: usize, code: &[u8]) -> Vec<u8> {
    code.repeat(n)
}

pub fn all() -> Vec<(String, Vec<u8>)> {
    let mut out = vec![];
    let mut add = |name: String, s: Spec| out.push((name, s.build()));
    for n in [1023, 1024, 1025] {
        add(format!("{n} types"), Spec { types: n, ..spec() });
    }
    for n in [9_999, 10_000] {
        add(format!("{} functions", n + 1), Spec { functions: empty(n), ..spec() });
        add(format!("{} functions, 4000 imported", n + 1), Spec { functions: empty(n - 4000), imports: 4000, ..spec() });
        add(format!("{n} imports and main"), Spec { imports: n, ..spec() });
    }
    add("10,001 imports and main".into(), Spec { imports: 10_001, ..spec() });
    for n in [1, 2] {
        add(format!("{n} tables"), Spec { tables: vec![(1, None); n], ..spec() });
    }
    for n in [10_000, 10_001] {
        add(format!("table of {n}"), Spec { tables: vec![(n, None)], ..spec() });
        add(format!("table of 1 to {n}"), Spec { tables: vec![(1, Some(n))], ..spec() });
        // table.grow from 0 to n and once more: null, n, grow, drop, null, 1, grow, drop
        let mut main = vec![0xd0, 0x70, 0x41];
        main.extend([0x90 | (n & 1) as u8, 0xce, 0x00, 0xfc, 15, 0, 0x1a, 0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a]);
        add(format!("table grown to {n}"), Spec { tables: vec![(0, None)], main, ..spec() });
    }
    add("table of 4294967295".into(), Spec { tables: vec![(u32::MAX.into(), None)], ..spec() });
    add("table of 2 to 1".into(), Spec { tables: vec![(2, Some(1))], ..spec() });
    // A body is its locals (one byte for none) and its code with the end.
    for n in [196_607, 196_608, 196_609] {
        add(format!("body of {n}"), Spec { main: times(n - 2, &[0x01]), ..spec() });
    }
    for n in [64_000, 65_536] {
        add(format!("body of {n}, many charges"), Spec { main: times(n / 4, &[0x41, 0, 0x28, 0, 0, 0x1a])[..6 * (n / 6)].to_vec(), memory: Some((1, None)), ..spec() });
    }
    for more in [0, 1] {
        let mut functions = vec![(0, vec![(40_000, ValType::I64)], vec![]); 25];
        functions[0].1[0].0 += more;
        add(format!("{} locals", 1_000_000 + more), Spec { functions, ..spec() });
    }
    for n in [49_998, 49_999, 50_000, 50_001] {
        add(format!("{n} locals in main"), Spec { main_locals: vec![(n, ValType::I32)], ..spec() });
        add(format!("{} locals and 10 params"  , n - 10), Spec { params: vec![10], functions: vec![(1, vec![(n - 10, ValType::F64)], vec![])], ..spec() });
    }
    for n in [63, 64, 65, 1000, 1001] {
        add(format!("{n} params, unused"), Spec { params: vec![n], ..spec() });
        add(format!("{n} params"), Spec { params: vec![n], functions: vec![(1, vec![], vec![])], ..spec() });
    }
    for n in [16, 17] {
        // 781 functions of 64 params are 49,984.
        let mut functions = vec![(1, vec![], vec![]); 781];
        functions.push((2, vec![], vec![]));
        add(format!("{} params in all", 49_984 + n), Spec { params: vec![64, n], functions, ..spec() });
    }
    for n in [2047, 2048, 2049] {
        let main = [times(n, &[0x41, 0]), times(n, &[0x1a])].concat();
        add(format!("operand stack of {n} i32"), Spec { main, ..spec() });
        let main = [times(n / 2, &[0x42, 0]), times(n / 2, &[0x1a]), times(n % 2, &[0x01])].concat();
        add(format!("operand stack of {} i64", n / 2), Spec { main, ..spec() });
    }
    let main = [times(1025, &[0x42, 0]), times(1025, &[0x1a])].concat();
    add("operand stack of 1025 i64".into(), Spec { main, ..spec() });
    for n in [5000, 5001] {
        add(format!("{n} blocks"), Spec { main: times(n, &[0x02, 0x40, 0x0b]), ..spec() });
        add(format!("{n} loops"), Spec { main: times(n, &[0x03, 0x40, 0x0b]), ..spec() });
        add(format!("{n} ifs"), Spec { main: times(n, &[0x41, 0, 0x04, 0x40, 0x0b]), ..spec() });
        add(format!("{n} nested blocks"), Spec { main: [times(n, &[0x02, 0x40]), times(n, &[0x0b])].concat(), ..spec() });
        let functions = [vec![(0, vec![], times(5000, &[0x02, 0x40, 0x0b])); 9], vec![(0, vec![], times(n, &[0x02, 0x40, 0x0b]))]].concat();
        add(format!("{} blocks in all", 45_000 + n), Spec { functions, ..spec() });
    }
    let functions = [vec![(0, vec![], times(5000, &[0x02, 0x40, 0x0b])); 10], vec![(0, vec![], vec![0x02, 0x40, 0x0b])]].concat();
    add("50,001 blocks in all".into(), Spec { functions, ..spec() });
    add("60,000 nested blocks".into(), Spec { main: [times(60_000, &[0x02, 0x40]), times(60_000, &[0x0b])].concat(), ..spec() });
    for n in [99_999, 100_000, 100_001] {
        add(format!("export name of {n}"), Spec { export: "x".repeat(n), ..spec() });
    }
    for n in [131_071u32, 131_072, 131_073] {
        let mut main = vec![0x02, 0x40, 0x41, 0, 0x0e, 0x80 | (n & 0x7f) as u8, 0x80 | (n >> 7 & 0x7f) as u8, (n >> 14) as u8];
        main.extend(times(n as usize + 1, &[0]));
        main.push(0x0b);
        add(format!("br_table of {n}"), Spec { main, ..spec() });
    }
    for n in [99_999, 100_000, 100_001] {
        add(format!("{n} data segments"), Spec { data: n, memory: Some((1, None)), ..spec() });
        add(format!("{n} element segments"), Spec { elements: n, tables: vec![(1, None)], ..spec() });
    }
    for (min, max) in [(0, None), (0, Some(0)), (65_536, None), (65_537, None), (1, Some(65_537)), (2, Some(1)), (2049, None), (3000, Some(4000))] {
        let name = format!("memory {min} {}", max.map_or(String::new(), |m: u64| m.to_string()));
        add(name.trim().into(), Spec { memory: Some((min, max)), main: vec![0x3f, 0, 0x1a, 0x41, 1, 0x40, 0, 0x1a], ..spec() });
    }
    // The size of an instance: 16 a global, 64 an import, 32 a function that escapes, 16 a table; 1,048,112 is the most.
    for n in [65_505, 65_506] {
        add(format!("{n} globals"), Spec { globals: n, ..spec() });
        add(format!("{} globals and a table", n - 1), Spec { globals: n - 1, tables: vec![(1, None)], ..spec() });
        add(format!("{} globals and start", n), Spec { globals: n, start: true, ..spec() });
        add(format!("{} globals and 10 imports", n - 40), Spec { globals: n - 40, imports: 10, ..spec() });
        add(format!("{} globals and 100 exports", n - 200), Spec { globals: n - 200, functions: empty(100), exported: 100, ..spec() });
        add(format!("{} globals and 1000 declared", n - 1998), Spec { globals: n - 1998, functions: empty(1000), declared: 1000, ..spec() });
        add(
            format!("{} globals and 1000 elements", n - 1999),
            Spec { globals: n - 1999, functions: empty(1000), active: 1000, tables: vec![(1000, None)], ..spec() },
        );
        add(
            format!("{} globals, 8000 imports, 1000 elements", n - 1999 - 32_000),
            Spec { globals: n - 1999 - 32_000, imports: 8000, functions: empty(1000), active: 1000, tables: vec![(1000, None)], ..spec() },
        );
    }
    add("5000 globals of functions".into(), Spec { globals: 5000, function_globals: true, functions: empty(5000), ..spec() });
    // Over 16 MiB after instrumentation: 24 bytes and more for each load.
    for n in [6, 14, 24] {
        let body = times(32_000, &[0x41, 0, 0x28, 0, 0, 0x1a]);
        add(format!("{n} functions of 32,000 loads"), Spec { functions: vec![(0, vec![], body); n], memory: Some((1, None)), ..spec() });
    }
    out
}

/// The code with a custom section that makes it n bytes long, at the beginning or at the end.
fn padded(code: &[u8], n: usize, first: bool) -> Option<Vec<u8>> {
    let rest = n.checked_sub(code.len() + 7)?; // id, a length of 5 bytes, and that of the empty name
    let mut size = vec![0x80; 5];
    for (i, b) in size.iter_mut().enumerate() {
        *b |= ((rest + 1) >> (7 * i) & 0x7f) as u8;
    }
    size[4] &= 0x7f;
    let section = [&[0][..], &size, &[0], &vec![0x55; rest]].concat();
    Some(if first { [&code[..8], &section, &code[8..]].concat() } else { [code, &section].concat() })
}

/// Modules whose size and locals are about two to one, which is the limit from 87 on; large: also those at the absolute limit.
pub fn locals(rng: &mut Rng, n: usize, large: bool) -> Vec<(String, Vec<u8>)> {
    let mut out = vec![];
    let mut shapes: Vec<Vec<(u32, ValType)>> = vec![vec![(50, ValType::I32)], vec![(1000, ValType::I64)], vec![(49_998, ValType::F64)], vec![(40_000, ValType::I32); 5]];
    if large {
        shapes.extend([vec![(40_000, ValType::I64); 25], [&[(40_000, ValType::I64); 25][..], &[(1, ValType::I64)]].concat()]);
    }
    for shape in shapes {
        let locals: u32 = shape.iter().map(|l| l.0).sum();
        let functions = shape.iter().map(|l| (0, vec![*l], vec![])).collect();
        let code = Spec { functions, ..spec() }.build();
        for more in [-1, 0, 1] {
            let bytes = (2 * locals as i64 + more) as usize;
            out.extend(padded(&code, bytes, more == 0).map(|c| (format!("{locals} locals in {bytes} bytes"), c)));
        }
        if locals < 300_000 {
            out.push((format!("{locals} locals, no padding"), code));
        }
    }
    while out.len() < n {
        const TYPES: [ValType; 5] = [ValType::I32, ValType::I64, ValType::F32, ValType::F64, ValType::Ref(RefType::FUNCREF)];
        let mut functions = vec![];
        let mut locals = 0u32;
        for _ in 0..rng.gen_range(1..8) {
            let groups: Vec<_> =
                (0..rng.gen_range(0..4)).map(|_| (rng.gen_range(0..60), TYPES[rng.gen_range(0..5)])).inspect(|g: &(u32, _)| locals += g.0).collect();
            functions.push((rng.gen_range(0..2), groups, vec![]));
        }
        let code = Spec { params: vec![3], functions, ..spec() }.build();
        let bytes = (2 * locals as i64 + rng.gen_range(-3i64..4)).max(0) as usize;
        let first = rng.gen();
        let code = padded(&code, bytes, first).unwrap_or(code);
        out.push((format!("{locals} locals in {} bytes", code.len()), code));
    }
    out
}

/// n functions () -> () with m locals of i64 each; the first is main.
pub fn plain(n: usize, m: usize) -> Vec<u8> {
    let locals = vec![(m as u32, ValType::I64)];
    let functions = vec![(0, locals.clone(), vec![]); n - 1];
    Spec { functions, main_locals: locals, ..spec() }.build()
}

/// An empty main beside n globals.
pub fn globals(n: u32) -> Vec<u8> {
    Spec { globals: n, ..spec() }.build()
}
