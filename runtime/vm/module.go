package vm

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// module is a compiled contract in the cache: the results of package prep, and the machine code. A
// module depends only on the code and on the rules by which package prep handled the code.
type module struct {
	compilation *primitives.CompilationError // error for a rule that the code breaks; nil: none
	loadFails   bool
	hasStart    bool
	locals      uint64          // total number of locals of all functions
	methods     map[string]bool // names of exported functions; true: no parameters and no results
	imports     []int           // indices into logic.Functions of the imported host functions, in order of import
	strange     string          // neard's link error for imports that no protocol version has; empty: none
	// foreign lists the imports that cause the error in strange, within the bounds of a LinkError.
	// The field Since of these imports is not set.
	foreign action.LinkError
	code    *engine.Module // machine code; nil if the contract breaks a rule or has unknown imports
}

// allowed returns whether the code of m, which has size bytes, is also valid by the rules of w. w
// may differ from the rules of m only in MinContractSizePerLocal.
func (m *module) allowed(size int, w *parameters.Wasm) bool {
	return m.compilation == nil && m.locals <= prep.LocalsLimit(size, &w.Limits)
}

// Close frees the machine code.
func (m *module) Close() {
	if m.code != nil {
		m.code.Close()
	}
}

// unlinked returns neard's error text if the module imports a function that w does not have; empty
// if w has all imported functions. As in neard, missing names are reported before wrong types.
func (m *module) unlinked(w *parameters.Wasm) string {
	for _, i := range m.imports {
		if !logic.Functions[i].In(w) {
			return unknownImport
		}
	}
	return m.strange
}

const unknownImport = "unknown or invalid import"

// linkError returns the imports of the module that w does not have; nil if there are none. Imports
// that another version has come first.
func (m *module) linkError(w *parameters.Wasm) *action.LinkError {
	var e action.LinkError
	for _, i := range m.imports {
		if f := &logic.Functions[i]; !f.In(w) {
			addMissing(&e, primitives.MissingImport{Module: importModule, Name: f.Name, Since: f.From})
		}
	}
	for _, missing := range m.foreign.Missing {
		addMissing(&e, missing)
	}
	if e.More += m.foreign.More; len(e.Missing) == 0 {
		return nil
	}
	return &e
}

// importModule is the only module from which a contract can import.
const importModule = "env"

// addMissing adds an import to e, unless e contains it. Beyond MaxMissingImports, addMissing only
// counts the import.
func addMissing(e *action.LinkError, missing primitives.MissingImport) {
	missing.Name = primitives.ImportName(missing.Name)
	switch {
	case slices.Contains(e.Missing, missing):
	case len(e.Missing) == action.MaxMissingImports:
		e.More++
	default:
		e.Missing = append(e.Missing, missing)
	}
}

// infoVersion must change when the encoding of info or the form of the machine code changes.
const infoVersion = 7

// info is stored with the machine code. The fields have the meaning that they have in module.
type info struct {
	compilation         *primitives.CompilationError
	loadFails, hasStart bool
	locals              uint64
	methods             map[string]bool
	imports             []string // names of the imports that logic.Functions has
	strange             string
	foreign             action.LinkError
}

// read returns the info of a prepared module.
func read(m *prep.Module) info {
	i := info{loadFails: m.LoadFails, hasStart: m.HasStart, locals: m.Locals, methods: m.Methods}
	for _, want := range m.Imports {
		n, ok := logic.Index(want.Name)
		if !ok {
			i.strange = unknownImport
			addMissing(&i.foreign, primitives.MissingImport{Module: importModule, Name: want.Name})
			continue
		}
		i.imports = append(i.imports, want.Name)
		f := &logic.Functions[n]
		if sameTypes(f.Params, want.Params) && sameTypes(f.Results, want.Results) {
			continue
		}
		types := fmt.Sprintf("types incompatible: expected type `%s`, found type `%s`",
			signature(want.Params, want.Results), signature(f.Params, f.Results))
		if i.strange == "" {
			i.strange = types
		}
		addMissing(&i.foreign, primitives.MissingImport{Module: importModule, Name: want.Name, Types: types})
	}
	return i
}

// signature returns a function type as wasmtime prints it.
func signature[T ~byte](params, results []T) string {
	b := []byte("(func")
	for _, part := range []struct {
		name  string
		types []T
	}{{"param", params}, {"result", results}} {
		if len(part.types) == 0 {
			continue
		}
		b = append(append(b, " ("...), part.name...)
		for _, t := range part.types {
			b = append(append(b, ' '), typeNames[byte(t)]...)
		}
		b = append(b, ')')
	}
	return string(append(b, ')'))
}

// typeNames are the names of types by their codes in wasm.
var typeNames = map[byte]string{0x7f: "i32", 0x7e: "i64", 0x7d: "f32", 0x7c: "f64", 0x70: "funcref"}

func sameTypes(a []logic.ValType, b []prep.ValType) bool {
	return slices.EqualFunc(a, b, func(a logic.ValType, b prep.ValType) bool { return byte(a) == byte(b) })
}

func (i *info) appendBorsh(b []byte) []byte {
	if e := i.compilation; e != nil {
		b = append(b, 1, byte(e.Tag), byte(e.Prepare))
		b = borsh.AppendString(b, e.Message)
	} else {
		b = append(b, 0)
	}
	b = borsh.AppendBool(b, i.loadFails)
	b = borsh.AppendBool(b, i.hasStart)
	b = borsh.AppendUint64(b, i.locals)
	b = borsh.AppendString(b, i.strange)
	names := make([]string, 0, len(i.methods))
	for name := range i.methods {
		names = append(names, name)
	}
	slices.Sort(names)
	b = borsh.AppendUint32(b, uint32(len(names)))
	for _, name := range names {
		b = borsh.AppendBool(borsh.AppendString(b, name), i.methods[name])
	}
	b = borsh.AppendUint32(b, uint32(len(i.imports)))
	for _, name := range i.imports {
		b = borsh.AppendString(b, name)
	}
	b = borsh.AppendUint32(b, uint32(len(i.foreign.Missing)))
	for _, missing := range i.foreign.Missing {
		b = borsh.AppendString(borsh.AppendString(b, missing.Name), missing.Types)
	}
	return borsh.AppendUint32(b, uint32(i.foreign.More))
}

// decodeInfo makes a module from an encoded info, without machine code.
func decodeInfo(b []byte) (*module, error) {
	m := &module{}
	err := borsh.Unmarshal(b, (*moduleInfo)(m))
	return m, err
}

// moduleInfo is the decoder of an encoded info.
type moduleInfo module

func (m *moduleInfo) DecodeBorsh(r *borsh.Reader) {
	if r.Bool() {
		m.compilation = &primitives.CompilationError{
			Tag: primitives.CompilationTag(r.Byte()), Prepare: primitives.PrepareError(r.Byte()), Message: r.String(),
		}
	}
	m.loadFails, m.hasStart, m.locals, m.strange = r.Bool(), r.Bool(), r.Uint64(), r.String()
	n := int(r.Uint32())
	m.methods = make(map[string]bool, min(n, 1024))
	for ; n > 0 && r.Err() == nil; n-- {
		name := r.String()
		m.methods[name] = r.Bool()
	}
	for n = int(r.Uint32()); n > 0 && r.Err() == nil; n-- {
		name := r.String()
		i, ok := logic.Index(name)
		if !ok && r.Err() == nil {
			r.Fail(fmt.Errorf("%w: import %q", borsh.ErrInvalid, name))
		}
		m.imports = append(m.imports, i)
	}
	for n = int(r.Uint32()); n > 0 && r.Err() == nil; n-- {
		name := r.String()
		m.foreign.Missing = append(m.foreign.Missing, primitives.MissingImport{Module: importModule, Name: name, Types: r.String()})
	}
	m.foreign.More = int(r.Uint32())
}

// loader makes modules from artifacts, for the cache.
type loader struct{ e *engine.Engine }

// loadError means that the compiler produced machine code that cannot be loaded. The node is at
// fault, not the contract.
type loadError struct{ err error }

func (e *loadError) Error() string { return "load: " + e.err.Error() }
func (e *loadError) Unwrap() error { return e.err }

func (l loader) Load(a cache.Artifact) (*module, error) {
	m, err := decodeInfo(a.Info)
	if err != nil || a.Code == nil {
		return m, err
	}
	return m.with(l.e.Load(a.Code))
}

func (l loader) LoadFile(b []byte, path string) (*module, error) {
	m, err := decodeInfo(b)
	if err != nil {
		return nil, err
	}
	return m.with(l.e.LoadFile(path))
}

// with sets the module's machine code, or returns a loadError if err is not nil.
func (m *module) with(code *engine.Module, err error) (*module, error) {
	if err != nil {
		return nil, &loadError{err}
	}
	m.code = code
	return m, nil
}
