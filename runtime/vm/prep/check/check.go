package check

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Run validates and measures a module. While the module is valid, Run passes every body, in order,
// to the function each. The Module then has the contents of all sections before the code section.
// The error is an *Error.
func Run(code []byte, w *parameters.Wasm, each func(*Module, *Body)) (*Module, error) {
	m := newModule(code, w.Limits)
	m.costs = costsOf(w)
	m.each, m.take = each, m.count
	if err := m.run(); err != nil {
		return nil, err
	}
	if m.late != nil {
		return nil, m.late
	}
	m.Size = m.nearSize()
	if m.tooLarge(m.Size) {
		return nil, &Error{Kind: primitives.PrepareInstrumentedCodeTooLarge, Reason: "instrumented code too large"}
	}
	m.LoadFails = m.loadFails()
	m.Locals = LocalsLimit(len(code), &w.Limits) - m.localsLeft
	return &m.Module, nil
}

// Validate checks that a module is valid with the wasm features that contracts may use. Validate
// does not check nearcore's limits.
func Validate(code []byte) error {
	if err := newModule(code, unlimited()).run(); err != nil {
		return err
	}
	return nil
}

func (m *module) tooLarge(size int) bool { return uint64(size) > m.limits.MaxInstrumentedCodeSize }
