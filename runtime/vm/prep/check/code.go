package check

import "github.com/troupe-chain/troupe/primitives"

// codeSection reads the bodies. As in wasmparser, the checks of the bodies come before the check
// that the section is within the module.
func (m *module) codeSection(r *reader, n int, last *int) *Error {
	at := r.offset()
	count := r.u32()
	n -= r.offset() - at
	if r.bad != "" || n < 0 {
		return invalid(at, "malformed code section")
	}
	if uint64(count) > m.funcsLeft {
		return &Error{Kind: primitives.PrepareTooManyFunctions, Offset: at, Reason: "too many functions"}
	}
	if err := m.order(sectionCode, last, at); err != nil {
		return err
	}
	if int(count) != m.defined {
		return invalid(at, "function and code sections differ")
	}
	m.hasCode = true
	s := r.sub(n)
	if r.bad != "" {
		return r.err()
	}
	b := &body{m: m, metered: m.take != nil}
	imported := len(m.Funcs) - m.defined
	for m.Bodies < int(count) {
		size := s.u32()
		b.r = s.sub(int(size))
		if s.bad != "" {
			return s.err()
		}
		if err := m.body(b, m.Types[m.Funcs[imported+m.Bodies]]); err != nil {
			return err
		}
		m.Bodies++
	}
	if !s.eof() {
		return invalid(s.offset(), "code section longer than its bodies")
	}
	return nil
}

// body validates one function body and measures that body.
func (m *module) body(b *body, t FuncType) *Error {
	at := b.r.offset()
	if uint64(len(b.r.buf)) > m.limits.MaxFunctionBodySize {
		return &Error{Kind: primitives.PrepareFunctionBodyTooLarge, Offset: at, Reason: "function body too large"}
	}
	b.begin(t)
	locals, enabled := b.readLocals()
	switch {
	case locals > m.localsLeft:
		return &Error{Kind: primitives.PrepareTooManyLocals, Offset: at, Reason: "too many locals"}
	case b.r.bad != "":
		return b.r.err()
	case !enabled:
		return invalid(at, "locals that are too many or of a type that is not enabled")
	}
	m.localsLeft -= locals
	b.first = uint32(b.r.pos)
	if b.instructions(); b.r.bad != "" {
		return b.r.err()
	}
	if b.a.lost {
		return invalid(at, "the analysis lost the stack")
	}
	if b.metered && m.late == nil {
		if err := m.take(b); err != nil {
			err.Offset = at
			m.late = err
		}
	}
	return nil
}

// begin prepares the state for a body.
func (b *body) begin(t FuncType) {
	b.typ = t
	b.ops = b.ops[:0]
	b.accesses, b.floats = 0, 0
	b.frames = append(b.frames[:0], frame{op: opBlock, typ: t.Result})
	b.a.reset()
	b.grown, b.blocks, b.returns = 0, 0, 0
}
