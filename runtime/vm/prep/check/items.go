package check

import "github.com/troupe-chain/troupe/primitives"

// typeItem reads an item of the type section.
func (m *module) typeItem(r *reader) {
	b := r.u8()
	if b == 0x4f { // "sub final" without a supertype: a longer encoding of a plain type
		if r.u32() != 0 {
			r.fail("subtypes are not enabled")
		}
		b = r.u8()
	}
	if b != 0x60 {
		r.fail("not a function type")
		return
	}
	n := r.u32()
	if n > maxParams {
		r.fail("too many parameters")
	}
	t := FuncType{Result: none}
	if r.bad == "" && n > 0 {
		t.Params = make([]ValType, 0, min(int(n), len(r.buf)-r.pos))
	}
	for ; n > 0 && r.bad == ""; n-- {
		t.Params = append(t.Params, r.value())
	}
	switch r.u32() {
	case 0:
	case 1:
		t.Result = r.value()
	default:
		r.fail("multiple results are not enabled")
	}
	m.Types = append(m.Types, t)
	m.size.addType(t)
}

// pending is a valid import that checkImports has yet to check against nearcore's rules.
type pending struct {
	env  bool
	kind byte
}

// importItem reads an import.
func (m *module) importItem(r *reader) {
	from, name := r.name(), r.name()
	kind := r.u8()
	size := uint32(1)
	switch kind {
	case kindFunc:
		i := r.u32()
		if int(i) >= len(m.Types) {
			r.fail("unknown type")
			return
		}
		t := m.Types[i]
		size = m.typeSizeOf(i)
		m.Funcs = append(m.Funcs, i)
		imp := Import{Name: string(name), Params: t.Params}
		if t.Result != none {
			imp.Results = []ValType{t.Result}
		}
		m.Imports = append(m.Imports, imp)
		m.size.addImport(len(from), len(name), i)
	case kindTable:
		r.tableType()
	case kindMemory:
		r.memoryType()
		if m.memories++; m.memories > 1 {
			r.fail("multiple memories")
		}
	case kindGlobal:
		r.globalType()
	default:
		r.fail("invalid kind of import")
	}
	m.addTypeSize(r, size)
	m.pending = append(m.pending, pending{env: string(from) == "env", kind: kind})
}

// checkImports checks nearcore's rules for imports. The imports are valid.
func (m *module) checkImports(at int) *Error {
	bad := func(kind primitives.PrepareError, why string) *Error {
		return &Error{Kind: kind, Offset: at, Reason: why}
	}
	for _, p := range m.pending {
		switch {
		case !p.env:
			return bad(primitives.PrepareInstantiate, "import from another module than env")
		case p.kind == kindMemory:
			return bad(primitives.PrepareMemory, "imported memory")
		case p.kind != kindFunc:
			return bad(primitives.PrepareInstantiate, "import is not a function")
		case m.funcsLeft == 0:
			return bad(primitives.PrepareTooManyFunctions, "too many imports")
		}
		m.funcsLeft--
	}
	m.pending = nil
	return nil
}

// typeSizeOf returns the size that wasmparser counts for an imported or exported function of type
// typ.
func (m *module) typeSizeOf(typ uint32) uint32 {
	t := m.Types[typ]
	n := 2 + uint32(len(t.Params))
	if t.Result != none {
		n++
	}
	return n
}

// addTypeSize adds n to wasmparser's "effective type size" of all imports and exports. The sum is
// bounded by maxTypeSize.
func (m *module) addTypeSize(r *reader, n uint32) {
	if m.typeSize += n; m.typeSize >= maxTypeSize {
		r.fail("effective type size too large")
	}
}

// functionItem reads the type of a function that the module defines.
func (m *module) functionItem(r *reader) {
	i := r.u32()
	if int(i) >= len(m.Types) {
		r.fail("unknown type")
		return
	}
	m.Funcs = append(m.Funcs, i)
	m.size.addFunction(i)
}

// limits reads minimum and maximum of a table or memory.
func (r *reader) limits() (low, high uint32, bounded bool) {
	flags := r.u8()
	if flags > 1 { // shared, 64-bit and custom page sizes are not enabled
		r.fail("limits are not enabled")
		return
	}
	low = r.u32()
	if bounded = flags == 1; bounded {
		if high = r.u32(); low > high {
			r.fail("minimum over maximum")
		}
	}
	return
}

func (r *reader) tableType() Table {
	if r.peek() == 0x40 {
		r.fail("tables with an initial expression are not enabled")
	}
	r.refType()
	var t Table
	t.Min, t.Max, t.Bounded = r.limits()
	return t
}

func (m *module) tableItem(r *reader) { m.Tables = append(m.Tables, r.tableType()) }

func (r *reader) memoryType() {
	if low, high, bounded := r.limits(); low > maxPages || bounded && high > maxPages {
		r.fail("memory over 4 GiB")
	}
}

// memoryItem reads a memory. memoryItem only counts memories, because the instrumented module has
// nearcore's memory.
func (m *module) memoryItem(r *reader) {
	r.memoryType()
	if m.memories++; m.memories > 1 {
		r.fail("multiple memories")
	}
}

func (r *reader) globalType() Global {
	g := Global{Type: r.value()}
	switch r.u8() {
	case 0:
	case 1:
		g.Mutable = true
	default:
		r.fail("malformed mutability")
	}
	return g
}

// globalItem reads a global and keeps its initial value as a slice of the code.
func (m *module) globalItem(r *reader) {
	g := r.globalType()
	at := r.pos
	m.size.globals += 2 + m.constant(r, g.Type)
	g.Value = r.buf[at:r.pos]
	m.Globals = append(m.Globals, g)
}

// constant reads a constant expression of type want. constant returns the size of the expression in
// nearcore's instrumented module. Globals cannot be imported, so the expression is one constant and
// an end.
func (m *module) constant(r *reader, want ValType) (size int) {
	var is ValType
	switch r.u8() {
	case opI32Const:
		is, size = I32, 2+slebLen(r.signed(32))
	case opI64Const:
		is, size = I64, 2+slebLen(r.signed(64))
	case opF32Const:
		is, size = F32, 2+len(r.bytes(4))
	case opF64Const:
		is, size = F64, 2+len(r.bytes(8))
	case opRefNull:
		is, size = r.heapType(), 3
	case opRefFunc:
		i := r.u32()
		is, size = FuncRef, 2+lebLen(uint64(i)+addedFuncs)
		m.declare(r, i)
	default:
		r.fail("not a constant")
	}
	if r.u8() != opEnd || is != want {
		r.fail("not a constant of the type")
	}
	return size
}

// declare records that ref.func may name function i, because the function escapes from the module.
func (m *module) declare(r *reader, i uint32) {
	if int(i) >= len(m.Funcs) {
		r.fail("unknown function")
		return
	}
	if m.declared == nil {
		m.declared = make([]uint64, len(m.Funcs)/64+1)
	}
	m.declared[i/64] |= 1 << (i % 64)
}

func (m *module) isDeclared(i uint32) bool {
	return m.declared != nil && int(i) < len(m.Funcs) && m.declared[i/64]&(1<<(i%64)) != 0
}
