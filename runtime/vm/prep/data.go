package prep

// If all offsets of the data segments are constant, the engine stores the initial memory as an
// image in the artifact. The image includes the zeros between segments, so 57 bytes of wasm can
// become 16 MB. An image makes instances faster, so the rewritten module allows an image that is
// not much larger than the data section. Otherwise one offset is written as a sum, which prevents
// the image.
const (
	imageOf   = 16       // bytes of an image that each byte of the data section allows
	imageLess = 64 << 10 // bytes of an image that are always allowed
)

// data returns the content of the data section, changed if the rewritten module must prevent an
// image.
func (e *emitter) data() []byte {
	low, high, first := e.extent()
	if first == 0 || high-low <= uint64(imageOf*len(e.m.Data))+imageLess {
		return e.m.Data
	}
	out := append([]byte{}, e.m.Data[:first]...)
	out = append(out, opI32Const, 0, opI32Add)
	return append(out, e.m.Data[first:]...)
}

// extent returns the range of memory that active segments cover. first is the position, in the data
// section, after the constant offset of the first active segment. All are 0 if there is no active
// segment.
func (e *emitter) extent() (low, high uint64, first int) {
	c := code{b: e.m.Data}
	if e.m.Datas == 0 {
		return 0, 0, 0
	}
	c.u32() // skip the number of segments
	for range e.m.Datas {
		flags := c.u32()
		if flags == 2 {
			c.u32() // skip the index of the memory
		}
		at := uint64(0)
		if flags != 1 {
			c.pos++ // skip the opcode i32.const
			at = uint64(uint32(c.signed()))
			c.pos++ // skip the opcode end
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
