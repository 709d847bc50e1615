package check

// elementItem reads an element segment.
func (m *module) elementItem(r *reader) {
	flags := r.u32()
	if flags > 7 {
		r.fail("invalid flags of an element segment")
		return
	}
	size := 1
	if flags&1 == 0 { // an active segment
		t := uint32(0)
		if flags&2 != 0 {
			t = r.u32()
			size += lebLen(uint64(t))
		}
		if uint64(t) >= uint64(len(m.Tables)) {
			r.fail("unknown table")
		}
		size += m.constant(r, I32)
	}
	exprs := flags&4 != 0
	if flags&3 != 0 {
		if exprs {
			r.refType()
		} else if r.u8() != kindFunc {
			r.fail("elements that are not functions")
		}
		size++
	}
	n := r.u32()
	size += lebLen(uint64(n))
	for ; n > 0 && r.bad == ""; n-- {
		if exprs {
			size += m.constant(r, FuncRef)
			continue
		}
		i := r.u32()
		m.declare(r, i)
		size += lebLen(uint64(i) + addedFuncs)
	}
	m.Segments++
	m.size.elements += size
}

// dataItem reads a data segment.
func (m *module) dataItem(r *reader) {
	flags := r.u32()
	switch flags {
	case 0, 2:
		i := uint32(0)
		if flags == 2 {
			i = r.u32()
		}
		if uint64(i) >= uint64(m.memories) {
			r.fail("unknown memory")
		}
		m.constant(r, I32)
	case 1:
	default:
		r.fail("invalid flags of a data segment")
	}
	r.bytes(int(r.u32()))
}
