package logic

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of nearcore logic/tests/registers.rs, logic/vmstate.rs.

func TestRegisterIsReadWhole(t *testing.T) {
	r := newHarness(t)
	if got := r.must("register_len", 0); got != ^uint64(0) {
		t.Errorf("length of no register = %d", got)
	}
	r.fails(HostError{Kind: InvalidRegisterID}, "read_register", 0, 12345)
	if err := r.setReg(0, []byte{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	if got := r.must("register_len", 0); got != 3 {
		t.Errorf("length = %d, want 3", got)
	}
	r.wantReg(0, []byte{0, 1, 2})
}

func TestNumberOfRegistersIsLimited(t *testing.T) {
	r := newHarness(t)
	limit := r.cfg.Wasm.Limits.MaxNumberRegisters
	for i := range limit {
		value := binary.LittleEndian.AppendUint64(nil, i*10)
		if err := r.setReg(i, value); err != nil {
			t.Fatal(err)
		}
		r.wantReg(i, value)
	}
	if err := r.setReg(limit, nil); !errors.Is(err, fail(MemoryAccessViolation)) {
		t.Errorf("one more: %v", err)
	}
}

// TestRegisterLimitsAreExact checks the exact gas at each limit.
func TestRegisterLimitsAreExact(t *testing.T) {
	const ok, full = true, false
	tests := []struct {
		name string
		set  func(*parameters.Limits)
		do   []any // id, value, whether it is set
		gas  primitives.Gas
	}{
		{"set", nil, []any{42, "foo", ok}, 5_394_388_050},
		{"number", func(l *parameters.Limits) { l.MaxNumberRegisters = 2 },
			[]any{42, "foo", ok, 24, "bar", ok, 12, "baz", full, 42, "O_o", full, 24, "O_o", full}, 19_419_557_634},
		{"size", func(l *parameters.Limits) { l.MaxRegisterSize = 3 }, []any{42, "foo", ok, 24, "quux", full}, 8_275_116_792},
		{"usage", func(l *parameters.Limits) { l.RegistersMemoryLimit = 11 },
			[]any{42, "foo", ok, 42, "bar", ok, 42, "", ok, 42, "baz", ok, 42, "quux", full}, 24_446_580_564},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t, func(r *harness) {
				if test.set != nil {
					test.set(&r.cfg.Wasm.Limits)
				}
			})
			for i := 0; i < len(test.do); i += 3 {
				id, value := uint64(test.do[i].(int)), test.do[i+1].(string)
				err := r.setReg(id, []byte(value))
				if test.do[i+2] == full {
					if !errors.Is(err, fail(MemoryAccessViolation)) {
						t.Errorf("set %d %q: %v", id, value, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("set %d %q: %v", id, value, err)
				}
				if got, err := r.arg(inRegister, id); string(got) != value || err != nil {
					t.Errorf("get %d = %q, %v, want %q", id, got, err, value)
				}
			}
			if r.gas.burnt != test.gas || r.gas.used() != test.gas {
				t.Errorf("burnt %d, used %d, want %d", r.gas.burnt, r.gas.used(), test.gas)
			}
		})
	}
}

// TestRegisterMemoryIsLimited fills 1 GiB of registers that share one value, so the test itself
// needs little memory.
func TestRegisterMemoryIsLimited(t *testing.T) {
	r := newHarness(t, free)
	limits := &r.cfg.Wasm.Limits
	value := make([]byte, limits.MaxRegisterSize)
	n := limits.RegistersMemoryLimit / limits.MaxRegisterSize
	for i := range n {
		if err := r.setRegister(i, value); err != nil {
			t.Fatalf("register %d: %v", i, err)
		}
	}
	if err := r.setRegister(n, value); !errors.Is(err, fail(MemoryAccessViolation)) {
		t.Errorf("over 1 GiB: %v", err)
	}
	r = newHarness(t, free)
	if err := r.setRegister(0, append(value, 0)); !errors.Is(err, fail(MemoryAccessViolation)) {
		t.Errorf("over 100 MiB: %v", err)
	}
}
