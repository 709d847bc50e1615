package prep

// Resetting an instance takes a tenth of the time of making a new one (see
// runtime/vm/engine/instance_reuse.go). A call can change memory, globals and tables, and drop
// segments. Tables and dropped segments cannot be read from outside the instance. So modules that
// change tables or drop segments get a new instance for each call.
const (
	mostAgainGlobals = 8 // maximum number of the contract's mutable globals
	// maximum number of memory bytes from the first to the last byte that data segments set
	mostAgainData = 256 << 10
)

// changesTable returns whether an instruction may change a table or drop a segment.
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

// again returns the value of GlobalAgain and the indices of the contract's own mutable globals. ok
// is false if instances cannot be reset.
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
