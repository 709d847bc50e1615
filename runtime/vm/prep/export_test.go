package prep

import "github.com/troupe-chain/troupe/runtime/config"

// PrepareAs is Prepare with references as the engine has them, or with all locals in memory.
func PrepareAs(code []byte, w *config.Wasm, plain, always bool) (*Module, error) {
	e := newEmitter(w)
	e.plain, e.always = plain, always
	return e.prepare(code, w)
}
