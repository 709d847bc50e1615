package vm

import (
	"encoding/binary"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// random returns the random modules in the testdata of package prep. Most are invalid.
func random(t testing.TB) (modules [][]byte) {
	t.Helper()
	for data := testutil.Read(t, "prep/check/testdata/random.bin.gz"); len(data) > 0; {
		n := binary.LittleEndian.Uint32(data)
		modules = append(modules, data[4:4+n])
		data = data[4+n:]
	}
	return modules
}

// agree checks that wasmtime accepts each module that package prep accepts, and each module that prep
// writes. Otherwise an error would depend on the library.
func agree(t *testing.T, e *wasmtime.Engine, code []byte) (prepared []byte) {
	t.Helper()
	valid := check.Validate(code) == nil
	if err := wasmtime.ModuleValidate(e, code); valid && err != nil {
		t.Errorf("valid for prep, not for wasmtime: %v\n%x", err, code)
	}
	rules := &parameters.MustGet(parameters.June(86)).Wasm
	for _, p := range []func() (*prep.Module, error){
		func() (*prep.Module, error) { return prep.PrepareTraced(code, rules) },
		func() (*prep.Module, error) { return prep.Prepare(code, rules) },
	} {
		m, err := p()
		if err != nil || m.CompileFails {
			return nil
		}
		if err := wasmtime.ModuleValidate(e, m.Code); err != nil {
			t.Errorf("prepared, but not valid for wasmtime: %v\n%x", err, code)
		}
		prepared = m.Code
	}
	return prepared
}

func TestPreparedModulesCompile(t *testing.T) {
	v := newVM(t)
	e := wasmtime.NewEngine()
	compiled := 0
	for i, code := range random(t) {
		prepared := agree(t, e, code)
		if prepared == nil || i%4 != 0 { // compiling takes long
			continue
		}
		if _, err := v.engine.Compile(prepared); err != nil {
			t.Errorf("module %d: %v", i, err)
		}
		compiled++
	}
	if compiled < 50 {
		t.Errorf("only %d modules compiled", compiled)
	}
}

// FuzzAgree calls agree with arbitrary bytes.
func FuzzAgree(f *testing.F) {
	for _, code := range random(f) {
		f.Add(code)
	}
	for _, text := range gasCallers {
		f.Add(wat(f, text))
	}
	e := wasmtime.NewEngine()
	f.Fuzz(func(t *testing.T, code []byte) { agree(t, e, code) })
}
