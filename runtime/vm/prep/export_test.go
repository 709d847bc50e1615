package prep

import "github.com/troupe-chain/troupe/runtime/parameters"

// PrepareAs is Prepare with options for tests: native reference instructions of the engine, or added
// variables of functions in globals instead of locals.
func PrepareAs(code []byte, w *parameters.Wasm, plain, crowded bool) (*Module, error) {
	e := newEmitter(w)
	if e.plain = plain; crowded {
		e.most = 0
	}
	return e.prepare(code, w)
}

// PrepareInline is Prepare with a given maximum number of inlined float truncations.
func PrepareInline(code []byte, w *parameters.Wasm, inline int) (*Module, error) {
	e := newEmitter(w)
	e.inline = inline
	return e.prepare(code, w)
}
