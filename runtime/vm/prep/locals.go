package prep

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// The code generator makes an instruction for each local that a function declares, and a million of
// them are declared in 206 bytes: that was an artifact of 8 MB. So a function that declares many
// more than it names is written with those that it names.

// spareLocals is how many a function may declare beyond two for each instruction that names one.
const spareLocals = 8

// namedLocals returns the body's locals as they are to be declared, behind the parameters, and how
// many there are with those.
func (e *emitter) namedLocals() (groups []check.Group, locals int) {
	b, params := e.b, uint32(len(e.b.Type.Params))
	e.used = nil
	if uint64(b.Locals) <= uint64(params)+2*b.Accesses+spareLocals {
		return b.Groups, b.Locals
	}
	e.used = map[uint32]uint32{}
	var in instr
	for c := e.in; c.pos < len(b.Code); {
		switch c.next(&in); in.op {
		case opLocalGet, opLocalSet, opLocalTee:
			e.used[in.a] = in.a
		}
	}
	next := params
	for _, l := range slices.Sorted(maps.Keys(e.used)) {
		if l < params {
			continue
		}
		e.used[l] = next
		next++
		if t, n := b.Local(l), len(groups); n > 0 && groups[n-1].Type == t {
			groups[n-1].N++
		} else {
			groups = append(groups, check.Group{N: 1, Type: t})
		}
	}
	return groups, int(next)
}
