package prep

// An instance that is set back takes a tenth of the time of a new one. What a call can change is
// the memory, globals, tables, and whether segments are still there; the last two can't be looked
// at from outside, so modules that touch them have a new instance for each call.
const (
	mostAgainGlobals = 8         // that can change, of the contract's own
	mostAgainData    = 256 << 10 // bytes of memory from the first that data covers to the last
)

// changesTable tells whether an instruction may change a table or drop a segment.
func changesTable(in *instr) bool {
	switch in.op {
	case opTableSet:
		return true
	case opPrefix:
		switch in.a {
		case opTableInit, opTableCopy, opTableGrow, opTableFill, opDataDrop, opElemDrop:
			return true
		}
	}
	return false
}

// again is what GlobalAgain says of a module, and the numbers of its own globals that can change;
// not ok: instances can't be set back.
func (e *emitter) again() (extent uint64, globals []int, ok bool) {
	if e.once || e.trace || e.crowded || e.refs.inits || e.refs.dropGlobals() > 0 {
		return 0, nil, false
	}
	for i, g := range e.m.Globals {
		if !g.Mutable {
			continue
		}
		switch g.Type {
		case I32, I64, F32, F64:
			globals = append(globals, i)
		default:
			return 0, nil, false
		}
	}
	low, high, _ := e.extent()
	if len(globals) > mostAgainGlobals || high-low > mostAgainData {
		return 0, nil, false
	}
	return low | high<<32, globals, true
}
