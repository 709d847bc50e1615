package prep

// An engine that finds all offsets constant lays out what the segments make of the memory as an
// image, in the artifact, zeros between them included: 57 bytes of wasm made one of 16 MB. An image
// makes instances faster, so one that is not much larger than the section is welcome. To prevent
// it, one offset is written as a sum.
const (
	imageOf   = 16 // bytes of an image for a byte of the section
	imageLess = 64 << 10
)

// data returns the data section's content: as it was, or without an image.
func (e *emitter) data() []byte {
	low, high, first := e.extent()
	if first == 0 || high-low <= uint64(imageOf*len(e.m.Data))+imageLess {
		return e.m.Data
	}
	out := append([]byte{}, e.m.Data[:first]...)
	out = append(out, opI32Const, 0, opI32Add)
	return append(out, e.m.Data[first:]...)
}

// extent is what active segments cover of the memory, and where the constant of the first of them
// ends in the section; zeros if there is none.
func (e *emitter) extent() (low, high uint64, first int) {
	c := code{b: e.m.Data}
	if e.m.Datas == 0 {
		return 0, 0, 0
	}
	c.u32() // how many there are
	for range e.m.Datas {
		flags := c.u32()
		if flags == 2 {
			c.u32() // memory
		}
		at := uint64(0)
		if flags != 1 {
			c.pos++ // i32.const
			at = uint64(uint32(c.signed()))
			c.pos++ // end
			if first == 0 {
				first, low = c.pos-1, at
			}
		}
		n := int(c.u32())
		c.pos += n
		if flags != 1 {
			low, high = min(low, at), max(high, at+uint64(n))
		}
	}
	return low, high, first
}
