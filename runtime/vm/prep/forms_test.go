package prep

import (
	"bytes"
	"strings"
	"testing"
)

// TestFloatStaysOnOperandStack checks that a float stays on the operand stack while it is made
// canonical. Storing it to a local and loading it again takes twice as long as an addition.
func TestFloatStaysOnOperandStack(t *testing.T) {
	for _, c := range []struct {
		code      string
		op, equal byte
	}{
		{"(drop (i64.reinterpret_f64 (f64.add (f64.const 1) (f64.const 2))))", 0xa0, opF64Eq},
		{"(drop (i32.reinterpret_f32 (f32.mul (f32.const 1) (f32.const 2))))", 0x94, opF32Eq},
	} {
		m, err := Prepare(wat(t, "(module (func (export \"main\") "+c.code+"))"), june86())
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(m.Code, []byte{c.op, opLocalTee})
		if at < 0 {
			t.Fatalf("%s: no tee after the instruction: %x", c.code, m.Code)
		}
		got := m.Code[at+2:]
		value, nan := got[0], got[2]
		if want := []byte{value, opLocalGet, nan, opLocalGet, value, opLocalGet, value, c.equal, opSelect}; !bytes.HasPrefix(got, want) || value == nan {
			t.Errorf("%s: %x, want %x", c.code, got[:len(want)], want)
		}
	}
}

// TestConstantGasBecomesCharge checks by the length of the prepared code that a call of env.gas
// with the constant 0 becomes nothing except the gas of its instructions, and that another constant
// becomes a charge.
func TestConstantGasBecomesCharge(t *testing.T) {
	length := func(what string) int {
		m, err := Prepare(wat(t, `(module (import "env" "gas" (func $gas (param i32))) (import "env" "g" (func $g (param i32)))
			(func (export "main") `+strings.Repeat(what, 1000)+"))"), june86())
		if err != nil {
			t.Fatal(err)
		}
		return len(m.Code)
	}
	call, none, one := length("(call $g (i32.const 0))"), length("(call $gas (i32.const 0))"), length("(call $gas (i32.const 7))")
	const charge = 26
	if none > call-3_900 || one-none < 1000*10 || one-none > 1000*charge {
		t.Errorf("1,000 calls of another function are %d bytes, of env.gas(0) %d, of env.gas(7) %d", call, none, one)
	}
}
