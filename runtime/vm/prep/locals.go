package prep

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// The code generator emits an instruction for each declared local. 206 bytes of wasm can declare a
// million locals, which made an artifact of 8 MB. So if a function declares many more locals than
// it uses, the emitter declares only the used locals.

// spareLocals is the number of locals that a function may declare in addition to two per
// instruction that names a local. With more, only the used ones are declared.
const spareLocals = 8

// namedLocals returns the groups of locals to declare after the parameters, and the total number of
// parameters and locals.
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
