package logic

import (
	"errors"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of nearcore logic/tests/logs.rs.

const mixed = "j ñ r'ø qò$`5 y'5 øò{%÷ `Võ%"

func utf16Bytes(s string) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func logLimits(number, length uint64) func(*harness) {
	return func(r *harness) {
		if number != 0 {
			r.cfg.Wasm.Limits.MaxNumberLogs = number
		}
		if length != 0 {
			r.cfg.Wasm.Limits.MaxTotalLogLength = length
		}
	}
}

// TestEachLogFunctionIsCharged makes one log with each function and checks the gas, and the text or
// the error. If end is set, the memory ends with the string.
func TestEachLogFunctionIsCharged(t *testing.T) {
	const lone = "\x00\xd8" // U+D800 without its pair
	bad16 := string(utf16Bytes("$ qò$`")) + lone + string(utf16Bytes("foobarbaz"))
	n := uint64(len(mixed))
	tests := []struct {
		name, fn, in string
		more         uint64 // added to the given length
		nul          bool   // zero-terminated instead of with a length
		end          bool
		limit        uint64
		log          string
		err          HostError
		costs        costs
	}{
		{name: "utf8", fn: "log_utf8", in: mixed, log: mixed, costs: costs{
			parameters.ExtLogBase: 1, parameters.ExtLogByte: n, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: n,
			parameters.ExtUTF8DecodingBase: 1, parameters.ExtUTF8DecodingByte: n,
		}},
		{name: "not utf8", fn: "log_utf8", in: "\x80", err: HostError{Kind: BadUTF8}, costs: costs{
			parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 1, parameters.ExtUTF8DecodingBase: 1, parameters.ExtUTF8DecodingByte: 1,
		}},
		{name: "utf8 to NUL, at the limit", fn: "log_utf8", in: mixed + "\x00", nul: true, limit: n, log: mixed, costs: costs{
			parameters.ExtLogBase: 1, parameters.ExtLogByte: n, parameters.ExtReadMemoryBase: n + 1, parameters.ExtReadMemoryByte: n + 1,
			parameters.ExtUTF8DecodingBase: 1, parameters.ExtUTF8DecodingByte: n,
		}},
		{name: "utf8 over the limit", fn: "log_utf8", in: mixed, limit: n - 1, err: HostError{Kind: TotalLogLengthExceeded, A: n, B: n - 1},
			costs: costs{parameters.ExtUTF8DecodingBase: 1}},
		{name: "utf8 to NUL, over the limit", fn: "log_utf8", in: mixed + "\x00", nul: true, limit: n - 1,
			err:   HostError{Kind: TotalLogLengthExceeded, A: n, B: n - 1},
			costs: costs{parameters.ExtReadMemoryBase: n, parameters.ExtReadMemoryByte: n, parameters.ExtUTF8DecodingBase: 1}},
		{name: "utf8 to NUL, far over the limit", fn: "log_utf8", in: "abcdefgh\x00", nul: true, limit: 3,
			err:   HostError{Kind: TotalLogLengthExceeded, A: 4, B: 3},
			costs: costs{parameters.ExtReadMemoryBase: 4, parameters.ExtReadMemoryByte: 4, parameters.ExtUTF8DecodingBase: 1}},
		{name: "utf16", fn: "log_utf16", in: string(utf16Bytes("$ qò$`")), log: "$ qò$`", costs: costs{
			parameters.ExtLogBase: 1, parameters.ExtLogByte: 7, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 12,
			parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 12,
		}},
		{name: "utf16 to NUL", fn: "log_utf16", in: string(utf16Bytes("$ qò$`\x00")), nul: true, log: "$ qò$`", costs: costs{
			parameters.ExtLogBase: 1, parameters.ExtLogByte: 7, parameters.ExtReadMemoryBase: 7, parameters.ExtReadMemoryByte: 14,
			parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 12,
		}},
		{name: "utf16 to NUL, odd limit", fn: "log_utf16", in: string(utf16Bytes("ab\x00")), nul: true, limit: 5, log: "ab", costs: costs{
			parameters.ExtLogBase: 1, parameters.ExtLogByte: 2, parameters.ExtReadMemoryBase: 3, parameters.ExtReadMemoryByte: 6,
			parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 4,
		}},
		{name: "surrogate pair", fn: "log_utf16", in: "\x34\xd8\x1e\xdd", log: "𝄞", costs: costs{
			parameters.ExtLogBase: 1, parameters.ExtLogByte: 4, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 4,
			parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 4,
		}},
		{name: "lone surrogate", fn: "log_utf16", in: "\x34\xd8\x1e\xdd\x6d\x00\x75\x00\x00\xd8\x69\x00\x63\x00", err: HostError{Kind: BadUTF16},
			costs: costs{parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 14, parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 14}},
		{name: "odd utf16", fn: "log_utf16", in: "abc", err: HostError{Kind: BadUTF16},
			costs: costs{parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 3, parameters.ExtUTF16DecodingBase: 1}},
		{name: "utf16 that grows over the limit", fn: "log_utf16", in: string(utf16Bytes("ここ")), limit: 5,
			err: HostError{Kind: TotalLogLengthExceeded, A: 12, B: 5}, costs: costs{
				parameters.ExtLogBase: 1, parameters.ExtLogByte: 6, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 4,
				parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 4,
			}},
		{name: "utf8 at the end", fn: "log_utf8", in: "foo bar \xff baz qux", end: true, err: HostError{Kind: BadUTF8}, costs: costs{
			parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 17, parameters.ExtUTF8DecodingBase: 1, parameters.ExtUTF8DecodingByte: 17,
		}},
		{name: "utf8 past the end", fn: "log_utf8", in: "foo bar \xff baz qux", end: true, more: 1, err: HostError{Kind: MemoryAccessViolation},
			costs: costs{parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 18, parameters.ExtUTF8DecodingBase: 1}},
		{name: "NUL past the end", fn: "log_utf8", in: "foo bar \xff baz qux", end: true, nul: true, err: HostError{Kind: MemoryAccessViolation},
			costs: costs{parameters.ExtReadMemoryBase: 18, parameters.ExtReadMemoryByte: 18, parameters.ExtUTF8DecodingBase: 1}},
		{name: "utf16 at the end", fn: "log_utf16", in: bad16, end: true, err: HostError{Kind: BadUTF16}, costs: costs{
			parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 32, parameters.ExtUTF16DecodingBase: 1, parameters.ExtUTF16DecodingByte: 32,
		}},
		{name: "utf16 past the end", fn: "log_utf16", in: bad16, end: true, more: 2, err: HostError{Kind: MemoryAccessViolation},
			costs: costs{parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 34, parameters.ExtUTF16DecodingBase: 1}},
		{name: "utf16 NUL past the end", fn: "log_utf16", in: bad16, end: true, nul: true, err: HostError{Kind: MemoryAccessViolation},
			costs: costs{parameters.ExtReadMemoryBase: 17, parameters.ExtReadMemoryByte: 34, parameters.ExtUTF16DecodingBase: 1}},
		{name: "NUL at the last address", fn: "log_utf8", more: ^uint64(0), nul: true, end: true, err: HostError{Kind: MemoryAccessViolation},
			costs: costs{parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 1, parameters.ExtUTF8DecodingBase: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t, logLimits(0, test.limit))
			if test.end {
				r.at = uint64(len(r.Memory) - len(test.in))
			}
			s := r.putString(test.in)
			if s.len += test.more; test.nul {
				s.len = inRegister
			}
			_, err := r.do(test.fn, s.len, s.ptr)
			test.costs[parameters.ExtBase] = 1
			r.wantCosts(test.costs)
			out, fatal := r.Outcome()
			if test.err != (HostError{}) {
				if !errors.Is(err, &test.err) || len(out.Logs) != 0 || fatal != nil {
					t.Errorf("err = %v, logs %q, %v, want %v", err, out.Logs, fatal, &test.err)
				}
				return
			}
			if err != nil || len(out.Logs) != 1 || out.Logs[0] != test.log {
				t.Errorf("%v, logs %q, want %q", err, out.Logs, test.log)
			}
		})
	}
}

func TestTotalLogLengthIsLimited(t *testing.T) {
	// The last of ten logs is one byte too long.
	limit := uint64(len(mixed))*10 - 1
	r := newHarness(t, logLimits(10, limit))
	s := r.putString(mixed)
	for range 9 {
		r.must("log_utf8", s.len, s.ptr)
	}
	r.fails(HostError{Kind: TotalLogLengthExceeded, A: limit + 1, B: limit}, "log_utf8", s.len, s.ptr)
	if len(r.logs) != 9 {
		t.Errorf("%d logs", len(r.logs))
	}

	// The total length reaches its limit, in both encodings.
	limit = 3*21 - 1
	r = newHarness(t, logLimits(21, limit))
	s8, s16 := r.putString("abc"), r.put(utf16Bytes("abc"))
	for range 10 {
		r.must("log_utf16", s16.len, s16.ptr)
		r.must("log_utf8", s8.len, s8.ptr)
	}
	r.fails(HostError{Kind: TotalLogLengthExceeded, A: limit + 1, B: limit}, "log_utf8", s8.len, s8.ptr)
	if len(r.logs) != 20 {
		t.Errorf("%d logs", len(r.logs))
	}
}

func TestNumberOfLogsIsLimited(t *testing.T) {
	for _, test := range []struct {
		fn            string
		in            []byte
		length        uint64
		base, perByte parameters.ExtCost
	}{
		{"log_utf8", []byte("blabla"), 6, parameters.ExtUTF8DecodingBase, parameters.ExtUTF8DecodingByte},
		{"log_utf16", utf16Bytes("$ qò$`"), 7, parameters.ExtUTF16DecodingBase, parameters.ExtUTF16DecodingByte},
	} {
		r := newHarness(t, logLimits(3, uint64(len(test.in)+1)*4))
		s := r.put(test.in)
		for range 3 {
			r.must(test.fn, s.len, s.ptr)
		}
		r.fails(HostError{Kind: NumberOfLogsExceeded, B: 3}, test.fn, s.len, s.ptr)
		r.wantCosts(costs{
			parameters.ExtBase: 4, parameters.ExtLogBase: 3, parameters.ExtLogByte: test.length * 3, parameters.ExtReadMemoryBase: 3,
			parameters.ExtReadMemoryByte: s.len * 3, test.base: 3, test.perByte: s.len * 3,
		})
		if len(r.logs) != 3 {
			t.Errorf("%d logs", len(r.logs))
		}
	}
}

func TestGuestPanicCarriesItsMessage(t *testing.T) {
	r := newHarness(t)
	_, err := r.do("panic")
	if err == nil || err.Error() != "Smart contract panicked: explicit guest panic" {
		t.Errorf("panic: %v", err)
	}
	s := r.putString("ouch ø")
	if _, err = r.do("panic_utf8", s.len, s.ptr); err == nil || err.Error() != "Smart contract panicked: ouch ø" {
		t.Errorf("panic_utf8: %v", err)
	}
	r.fails(HostError{Kind: BadUTF8}, "panic_utf8", s.len-1, s.ptr)
	out, err := r.Outcome()
	if err != nil || out.Err == nil || out.Err.Message != "String encoding is bad UTF-8 sequence." {
		t.Errorf("outcome %+v, %v", out, err)
	}
}

func TestAbortLogsMessageAndPosition(t *testing.T) {
	r := newHarness(t)
	text := func(s string) slice {
		b := utf16Bytes(s)
		r.put([]byte{byte(len(b)), byte(len(b) >> 8), 0, 0})
		return r.put(b)
	}
	msg, file := text("größer"), text("a.ts")
	r.paid = r.gas.ext
	const want = `größer, filename: "a.ts" line: 7 col: 4294967295`
	high := uint64(0xdead_beef) << 32 // the upper half of an i32 argument is ignored
	_, err := r.do("abort", high|msg.ptr, file.ptr, high|7, 1<<32-1)
	if !errors.Is(err, &HostError{Kind: GuestPanic, Text: want}) {
		t.Errorf("abort: %v", err)
	}
	if !slices.Equal(r.logs, []string{"ABORT: " + want}) {
		t.Errorf("logs = %q", r.logs)
	}
	n := msg.len + file.len
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 4, parameters.ExtReadMemoryByte: 8 + n, parameters.ExtUTF16DecodingBase: 2,
		parameters.ExtUTF16DecodingByte: n, parameters.ExtLogBase: 1, parameters.ExtLogByte: uint64(len(want)),
	})
	for _, low := range [][2]uint64{{3, file.ptr}, {msg.ptr, 3}} {
		r.fails(HostError{Kind: BadUTF16}, "abort", low[0], low[1], 0, 0)
		r.wantCosts(costs{parameters.ExtBase: 1})
	}
	r.fails(HostError{Kind: MemoryAccessViolation}, "abort", 1<<32-1, file.ptr, 0, 0)
}
