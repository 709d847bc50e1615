package logic

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Memory addresses of valid contents, below the part that the fuzz input fills.
func fuzzMemory() (b []byte, at []uint64) {
	hash := primitives.HashBytes([]byte("seed"))
	for _, s := range []string{
		"alice.near", "bob.near", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		"0x00112233445566778899aabbccddeeff00112233", "0s00112233445566778899aabbccddeeff00112233",
		string(primitives.MustParsePublicKey(testKey)), string(hash[:]), "method", "a,b", "h\x00i\x00\x00\x00", "\xff\xfe",
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		at = append(at, uint64(len(b)))
		b = append(append(b, s...), 0)
	}
	return b, at
}

// fuzzArg makes an argument: a value near a limit of lengths, pointers, numbers and indices, or a
// piece of the input.
func fuzzArg(kind byte, raw uint64, size uint64, at []uint64) uint64 {
	near := raw%5 - 2 // wraps: two below to two above
	switch kind % 16 {
	case 0:
		return raw % 4
	case 1:
		return size + near
	case 2:
		return inRegister - raw%3
	case 3:
		return 1<<32 + near
	case 4:
		return 1<<63 + near
	case 5:
		return 1<<31 + near
	case 6:
		return raw
	case 7:
		return raw % size
	case 8, 9, 10, 11:
		return at[raw%uint64(len(at))]
	case 12:
		return []uint64{32, 33, 64, 16, 42, 4000, 4001, 1024, 1025, 2048, 2049}[raw%11]
	case 13:
		return 1<<61 + near // times 8
	case 14:
		return 1<<16 + near // nonces
	}
	return raw % 128
}

// FuzzHostFunctions calls any functions with any arguments. None may panic, allocate more than the
// limits allow, or burn more gas than is available. Every failure is a *HostError, since the state
// here never returns errors.
func FuzzHostFunctions(f *testing.F) {
	for i := range Functions {
		for kind := range byte(16) {
			seed := []byte{byte(i), 0}
			for n := range Functions[i].Params {
				seed = append(seed, kind+byte(n)*3)
				seed = binary.LittleEndian.AppendUint64(seed, uint64(kind)*7+uint64(n))
			}
			f.Add(seed, uint64(kind)*20*uint64(tera))
		}
	}
	filler, at := fuzzMemory()
	f.Fuzz(func(t *testing.T, in []byte, prepaid uint64) {
		r := newHarness(t, mainnet, func(r *harness) {
			r.c.PrepaidGas = primitives.Gas(prepaid) % (1000*tera + 1)
			r.c.View = prepaid>>63 == 1
			r.c.Results = []action.PromiseResult{{Data: []byte("result")}, {Failed: true}}
			r.c.OutputReceivers = []primitives.AccountID{"alice", "bob.near"}
			r.w.nodes = action.NodeCount{Touched: 2, Cached: 1}
			r.w.grow = 10_000
		})
		copy(r.Memory, filler)
		copy(r.Memory[1<<12:], in)
		for id, n := range []int{0, 1, 32, 33, 64, 5000} {
			r.registers.all = append(r.registers.all, register{uint64(id), r.Memory[1<<12 : 1<<12+n : 1<<12+n]})
			r.registers.usage += uint64(n) + registerOverhead
		}
		burnt := primitives.Gas(0)
		for len(in) >= 2 {
			index := int(in[0]) % len(Functions)
			in = in[2:]
			args := make([]uint64, len(Functions[index].Params))
			for n := range args {
				if len(in) < 9 {
					break
				}
				args[n] = fuzzArg(in[0], binary.LittleEndian.Uint64(in[1:]), uint64(len(r.Memory)), at)
				in = in[9:]
			}
			_, err := r.Invoke(index, args)
			var host *HostError
			if err != nil && !errors.As(err, &host) {
				t.Fatalf("%s%x: %v", Functions[index].Name, args, err)
			}
			checkBounds(t, r.Logic, burnt)
			burnt = r.gas.burnt
			if err != nil {
				_ = err.Error() // every kind has a text
				break
			}
			if left := r.Leave(); left < 0 || left > int64(1000*tera) {
				t.Fatalf("the module is given %d", left)
			}
		}
		out, err := r.Outcome()
		if err != nil {
			t.Fatal(err)
		}
		var sum primitives.Gas
		for _, e := range out.Profile {
			sum += e.Gas
		}
		if sum != out.GasBurnt || out.GasBurnt > out.GasUsed || !r.c.View && out.GasUsed > r.c.PrepaidGas {
			t.Fatalf("profile of %d, burnt %d, used %d of %d", sum, out.GasBurnt, out.GasUsed, r.c.PrepaidGas)
		}
		if r.c.View && len(r.w.receipts) > 0 {
			t.Fatalf("a view made %d receipts", len(r.w.receipts))
		}
	})
}

// checkBounds fails if a call holds more than the limits allow, or burnt more gas than it had.
func checkBounds(t *testing.T, l *Logic, before primitives.Gas) {
	t.Helper()
	g, limits := &l.gas, &l.wasm.Limits
	if g.burnt < before || g.burnt > min(g.maxBurnt, g.prepaid) || g.used() > g.prepaid || g.used() < g.burnt {
		t.Fatalf("burnt %d after %d, used %d of %d", g.burnt, before, g.used(), g.prepaid)
	}
	var held uint64
	for _, r := range l.registers.all {
		held += uint64(len(r.data)) + registerOverhead
	}
	if held != l.registers.usage || held > limits.RegistersMemoryLimit || uint64(len(l.registers.all)) > limits.MaxNumberRegisters {
		t.Fatalf("%d registers of %d bytes, counted %d", len(l.registers.all), held, l.registers.usage)
	}
	var logged uint64
	for _, s := range l.logs {
		logged += uint64(len(s))
	}
	if uint64(len(l.logs)) > limits.MaxNumberLogs || logged > limits.MaxTotalLogLength {
		t.Fatalf("%d logs of %d bytes", len(l.logs), logged)
	}
	if n := uint64(len(l.promises)); n > limits.MaxPromisesPerFunctionCallAction+1 { // the one above the limit ends the call
		t.Fatalf("%d promises", n)
	}
	for _, p := range l.promises {
		if uint64(len(p.joint)) > limits.MaxNumberInputDataDependencies {
			t.Fatalf("%d promises in one", len(p.joint))
		}
	}
	if have, _ := l.call.Balance.Add(l.call.Deposit); have.Less(l.balance) {
		t.Fatalf("balance %v of %v", l.balance, have)
	}
	if n := g.instructions(); n > g.burnt {
		t.Fatalf("%d gas for instructions, %d burnt", n, g.burnt)
	}
	if c := g.compute(g.instructions()); c == ^parameters.Compute(0) {
		t.Fatalf("compute %d", c)
	}
}
