//go:build unix

package curve

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkGas prints the processor time of a call relative to the time that its gas pays for (1
// Tgas is 1 ms), in ms per Tgas. Reads of memory and writes of registers are not included. The
// figure must stay well below 1.
func BenchmarkGas(b *testing.B) {
	m := newMaker(b, 4)
	scalar := func() []byte { s := m.bytes(32); s[31] &= 0x1f; return s }
	repeat := func(n int, item func() []byte) (out []byte) {
		for range n {
			out = append(out, item()...)
		}
		return out
	}
	good := func(make func() [][]byte, name, want string) [][]byte {
		for {
			if args := make(); functions[name](args, false) == want {
				return args
			}
		}
	}
	bnGood := func() []byte {
		for {
			p := m.bnG1()
			if _, err := altBN128G1(p); err == nil && !bytes.Equal(p, make([]byte, 64)) {
				return p
			}
		}
	}
	bnGood2 := func() []byte {
		for {
			p := m.bnG2()
			if _, err := altBN128G2(p); err == nil && !bytes.Equal(p, make([]byte, 128)) {
				return p
			}
		}
	}
	compressed := func(size int) func() []byte {
		return func() []byte {
			for {
				p := m.blsCompressed(size)
				if size == 48 {
					if _, ok := blsP1Compressed(p, false); ok && p[0]&0x40 == 0 {
						return p
					}
				} else if _, ok := blsP2Compressed(p, false); ok && p[0]&0x40 == 0 {
					return p
				}
			}
		}
	}
	type call struct {
		name          string
		n             int
		base, element float64 // gas
		args          [][]byte
	}
	var calls []call
	for _, n := range []int{1, 50} {
		calls = append(calls,
			call{"bn_mul", n, 713e9, 320e9, [][]byte{repeat(n, func() []byte { return append(bnGood(), scalar()...) })}},
			call{"bn_sum", n, 3e9, 5e9, [][]byte{repeat(n, func() []byte { return append([]byte{1}, bnGood()...) })}},
			call{"bn_pair", n, 9686e9, 5102e9, [][]byte{repeat(n, func() []byte { return append(bnGood(), bnGood2()...) })}},
			call{"p1_sum", n, 16.5e9, 6e9, [][]byte{repeat(n, func() []byte { return append([]byte{1}, m.blsG1()...) })}},
			call{"p2_sum", n, 18.6e9, 15e9, [][]byte{repeat(n, func() []byte { return append([]byte{1}, m.blsG2()...) })}},
			call{"p1_mul", n, 16.5e9, 930e9, [][]byte{repeat(n, func() []byte { return append(m.blsG1(), scalar()...) })}},
			call{"p2_mul", n, 18.6e9, 1995e9, [][]byte{repeat(n, func() []byte { return append(m.blsG2(), scalar()...) })}},
			call{"map1", n, 1.5e9, 252e9, [][]byte{repeat(n, func() []byte { b := m.bytes(48); b[0] &= 0x0f; return b })}},
			call{"map2", n, 1.5e9, 900e9, [][]byte{repeat(n, func() []byte { b := m.bytes(96); b[0], b[48] = b[0]&0x0f, b[48]&0x0f; return b })}},
			call{"p1_dec", n, 15e9, 81e9, [][]byte{repeat(n, compressed(48))}},
			call{"p2_dec", n, 15e9, 165e9, [][]byte{repeat(n, compressed(96))}},
			call{"pair", n, 2130e9, 2130e9, [][]byte{repeat(n, func() []byte { return append(m.blsG1(), m.blsG2()...) })}},
		)
	}
	calls = append(calls,
		call{"p256", 1, 1.3e12, 0, good(m.p256, "p256", "ok 01")},
		call{"ed25519", 1, 210e9, 0, good(m.ed25519, "ed25519", "ok 01")},
	)
	sign := m.ecrecover()
	for functions["ecrecover"](sign, false) == "ok 00" {
		sign = m.ecrecover()
	}
	calls = append(calls, call{"ecrecover", 1, 278.8e9, 0, sign})
	for _, c := range calls {
		b.Run(fmt.Sprintf("fn=%s/items=%d", c.name, c.n), func(b *testing.B) {
			if got := functions[c.name](c.args, false); got == "no" || strings.HasPrefix(got, "err") {
				b.Fatal(got)
			}
			start := processorTime(b)
			for b.Loop() {
				functions[c.name](c.args, false)
			}
			perTgas(b, start, c.base+float64(c.n)*c.element)
		})
	}
	for _, c := range []struct {
		name       string
		base, byte float64
		hash       func([]byte)
	}{
		{"sha256", 4.54e9, 24_117_351, func(b []byte) { SHA256(b) }},
		{"keccak256", 5.88e9, 21_471_105, func(b []byte) { Keccak256(b) }},
		{"keccak512", 5.81e9, 36_649_701, func(b []byte) { Keccak512(b) }},
		{"ripemd160", 0.85e9, 680_107_584. / 64, func(b []byte) { RIPEMD160(b) }},
		{"sha3_512", 5.81e9, 36_649_701, func(b []byte) { SHA3_512(b) }},
	} {
		for _, n := range []int{0, 100_000} {
			in := make([]byte, n)
			b.Run(fmt.Sprintf("fn=%s/bytes=%d", c.name, n), func(b *testing.B) {
				start := processorTime(b)
				for b.Loop() {
					c.hash(in)
				}
				perTgas(b, start, c.base+float64(n)*c.byte)
			})
		}
	}
}

// processorTime is what the process has used, so that other processes do not count.
func processorTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func perTgas(b *testing.B, start time.Duration, gas float64) {
	used := processorTime(b) - start
	b.ReportMetric(used.Seconds()*1e3/float64(b.N)/(gas/1e12), "ms/Tgas")
}
