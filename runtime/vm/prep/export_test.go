package prep

import "github.com/troupe-chain/troupe/runtime/parameters"

// PrepareAs is Prepare with references as the engine has them, or with what bodies have beside
// their own locals in globals.
func PrepareAs(code []byte, w *parameters.Wasm, plain, crowded bool) (*Module, error) {
	e := newEmitter(w)
	if e.plain = plain; crowded {
		e.most = 0
	}
	return e.prepare(code, w)
}

// PrepareInline is Prepare with so many truncations in the code.
func PrepareInline(code []byte, w *parameters.Wasm, inline int) (*Module, error) {
	e := newEmitter(w)
	e.inline = inline
	return e.prepare(code, w)
}
