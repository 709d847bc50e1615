package wasmasm

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Code is a function's body or a constant expression. Its methods append one instruction each and
// return the Code.
type Code struct {
	b      []byte
	open   []string // labels of the open blocks, outermost first; empty: the block has no label
	blocks uint32   // number of blocks opened so far
	named  []named  // labels with the numbers of their blocks
}

type named struct {
	index uint32
	name  string
}

// Op appends bytes unchanged: instructions without operands, or any bytes that a test needs.
func (c *Code) Op(ops ...byte) *Code {
	c.b = append(c.b, ops...)
	return c
}

// Len returns the number of bytes appended so far.
func (c *Code) Len() int { return len(c.b) }

func (c *Code) u32(op byte, v ...uint32) *Code {
	c.b = append(c.b, op)
	for _, x := range v {
		c.b = AppendU32(c.b, x)
	}
	return c
}

// I32 pushes a constant.
func (c *Code) I32(v int32) *Code {
	c.b = AppendS64(append(c.b, 0x41), int64(v))
	return c
}

// I64 pushes a constant.
func (c *Code) I64(v int64) *Code {
	c.b = AppendS64(append(c.b, 0x42), v)
	return c
}

// F32 pushes a constant.
func (c *Code) F32(v float32) *Code {
	c.b = binary.LittleEndian.AppendUint32(append(c.b, 0x43), math.Float32bits(v))
	return c
}

// F64 pushes a constant.
func (c *Code) F64(v float64) *Code {
	c.b = binary.LittleEndian.AppendUint64(append(c.b, 0x44), math.Float64bits(v))
	return c
}

// Get is local.get.
func (c *Code) Get(local uint32) *Code { return c.u32(0x20, local) }

// Set is local.set.
func (c *Code) Set(local uint32) *Code { return c.u32(0x21, local) }

// Tee is local.tee.
func (c *Code) Tee(local uint32) *Code { return c.u32(0x22, local) }

// GlobalGet is global.get.
func (c *Code) GlobalGet(global uint32) *Code { return c.u32(0x23, global) }

// GlobalSet is global.set.
func (c *Code) GlobalSet(global uint32) *Code { return c.u32(0x24, global) }

// Call calls a function by its index.
func (c *Code) Call(f uint32) *Code { return c.u32(0x10, f) }

// CallIndirect calls the function in table 0 at the index on the stack; kind is the index of its
// type.
func (c *Code) CallIndirect(kind uint32) *Code { return c.u32(0x11, kind, 0) }

// RefNull pushes a null reference.
func (c *Code) RefNull(t ValType) *Code { return c.Op(0xd0, byte(t)) }

// RefFunc pushes a reference to a function.
func (c *Code) RefFunc(f uint32) *Code { return c.u32(0xd2, f) }

// Memory loads or stores at an offset; align is the base-2 logarithm of the alignment.
func (c *Code) Memory(op byte, align, offset uint32) *Code { return c.u32(op, align, offset) }

// MemorySize is memory.size.
func (c *Code) MemorySize() *Code { return c.Op(0x3f, 0) }

// MemoryGrow is memory.grow.
func (c *Code) MemoryGrow() *Code { return c.Op(0x40, 0) }

// Bulk appends an instruction with the prefix 0xfc and its operands (indexes of segments, tables,
// memories).
func (c *Code) Bulk(op uint32, operands ...uint32) *Code {
	return c.u32(0xfc, append([]uint32{op}, operands...)...)
}

func (c *Code) enter(op byte, label string, t byte) *Code {
	if label != "" {
		c.named = append(c.named, named{c.blocks, label})
	}
	c.blocks++
	c.open = append(c.open, label)
	return c.Op(op, t)
}

// Block opens a block; label may be empty, t is Void or a ValType.
func (c *Code) Block(label string, t byte) *Code { return c.enter(0x02, label, t) }

// Loop opens a loop.
func (c *Code) Loop(label string, t byte) *Code { return c.enter(0x03, label, t) }

// If opens a block that runs if the value on the stack is not 0.
func (c *Code) If(label string, t byte) *Code { return c.enter(0x04, label, t) }

// Else begins the other branch of an if.
func (c *Code) Else() *Code { return c.Op(0x05) }

// End closes the block that was opened last.
func (c *Code) End() *Code {
	c.open = c.open[:len(c.open)-1]
	return c.Op(0x0b)
}

// depth returns the number of blocks between the current one and a label.
func (c *Code) depth(label string) uint32 {
	for i := len(c.open) - 1; i >= 0; i-- {
		if c.open[i] == label {
			return uint32(len(c.open) - 1 - i)
		}
	}
	panic(fmt.Sprintf("wasm: no open block %q", label))
}

// Br branches to a label.
func (c *Code) Br(label string) *Code { return c.u32(0x0c, c.depth(label)) }

// BrIf branches if the value on the stack is not 0.
func (c *Code) BrIf(label string) *Code { return c.u32(0x0d, c.depth(label)) }

// BrTable branches by the number on the stack; the last label is the default.
func (c *Code) BrTable(labels ...string) *Code {
	c.u32(0x0e, uint32(len(labels)-1))
	for _, l := range labels {
		c.b = AppendU32(c.b, c.depth(l))
	}
	return c
}

// done returns the code, closed by the instruction end.
func (c *Code) done() []byte {
	if len(c.open) != 0 {
		panic(fmt.Sprintf("wasm: %d blocks are still open", len(c.open)))
	}
	return append(c.b[:len(c.b):len(c.b)], 0x0b)
}
