package prep

// If all offsets of the data segments are constant, the engine stores the initial memory as an
// image in the artifact, including zeros between segments: 57 bytes of wasm can become 16 MB. An
// image makes instances faster, so it is kept if it is not much larger than the section. Otherwise
// one offset is written as a sum, which prevents the image.
const (
	imageOf   = 16 // allowed bytes of an image per byte of the section
	imageLess = 64 << 10
)

// data returns the data section's content, changed if an image must be prevented.
func (e *emitter) data() []byte {
	low, high, first := e.extent()
	if first == 0 || high-low <= uint64(imageOf*len(e.m.Data))+imageLess {
		return e.m.Data
	}
	out := append([]byte{}, e.m.Data[:first]...)
	out = append(out, opI32Const, 0, opI32Add)
	return append(out, e.m.Data[first:]...)
}

// extent returns the range of memory that active segments cover, and the end of the constant offset
// of the first one in the section; zeros if there is none.
func (e *emitter) extent() (low, high uint64, first int) {
	c := code{b: e.m.Data}
	if e.m.Datas == 0 {
		return 0, 0, 0
	}
	c.u32() // number of segments
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
