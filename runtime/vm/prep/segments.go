package prep

// elementItem reads an element segment.
func (m *module) elementItem(r *reader) {
	flags := r.u32()
	if flags > 7 {
		r.fail("invalid flags of an element segment")
		return
	}
	size := 1
	if flags&1 == 0 { // active
		t := uint32(0)
		if flags&2 != 0 {
			t = r.u32()
			size += lebLen(uint64(t))
		}
		if uint64(t) >= uint64(len(m.tables)) {
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
		at := r.offset()
		i := r.u32()
		m.declare(r, i)
		m.redirect(at, r, i)
		size += lebLen(uint64(i) + addedFuncs)
	}
	m.segments++
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
		offset := r.peekConst()
		m.constant(r, I32)
		end := r.pos
		m.reach.add(offset, len(r.bytes(int(r.u32()))), end)
		return
	case 1:
	default:
		r.fail("invalid flags of a data segment")
	}
	r.bytes(int(r.u32()))
}

// reach is where active segments of data lie in the memory.
type reach struct {
	low, high uint64
	first     int // where the constant of the first of them has its end, in the section; 0: there are none
}

func (s *reach) add(offset uint32, n, end int) {
	low, high := uint64(offset), uint64(offset)+uint64(n)
	if s.first == 0 {
		*s = reach{low: low, high: high, first: end}
		return
	}
	s.low, s.high = min(s.low, low), max(s.high, high)
}

// peekConst is the constant of an i32.const that is to be read.
func (r *reader) peekConst() uint32 {
	if r.peek() != opI32Const {
		return 0
	}
	ahead := reader{buf: r.buf, pos: r.pos + 1}
	return uint32(ahead.signed(32))
}

// An engine that finds all offsets constant lays out what the segments make of the memory as an image, in the artifact, zeros
// between them included: 57 bytes of wasm made one of 16 MB. An image makes instances faster, so one that is not much larger
// than the section is welcome. To prevent it, one offset is written as a sum.
const (
	imageOf   = 16 // bytes of an image for a byte of the section
	imageLess = 64 << 10
)

// dataWith returns the data section's content: as it was, or without an image.
func (m *module) dataWith() []byte {
	if m.reach.first == 0 || m.reach.high-m.reach.low <= uint64(imageOf*len(m.data))+imageLess {
		return m.data
	}
	at := m.reach.first - 1 // the end of the constant
	out := append([]byte{}, m.data[:at]...)
	out = append(out, opI32Const, 0, opI32Add)
	return append(out, m.data[at:]...)
}
