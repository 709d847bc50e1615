package contracts

import (
	"math/rand/v2"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
)

// Large returns a contract with about size bytes of code similar to that of compilers: functions of
// some 400 bytes that loop, branch, compute, load and store, and call one another. Its method run
// calls one of them. Each seed gives different code.
func Large(size int, seed uint64) []byte {
	const (
		i32Eqz, i32And, i32Add, i32Sub, i32Mul, i32Xor, i32Shl = 0x45, 0x71, 0x6a, 0x6b, 0x6c, 0x73, 0x74
		i64Add, i64Mul, i64Rotl, i32Wrap, i64Extend            = 0x7c, 0x7e, 0x89, 0xa7, 0xad
		i32Load, i64Load, i32Store, i64Store                   = 0x28, 0x29, 0x36, 0x37
		bytesPerFunction, steps                                = 400, 12
	)
	rng := rand.New(rand.NewPCG(seed, uint64(size)))
	m := &wasmasm.Module{}
	m.Memory(1, -1)
	var before *wasmasm.Func
	for range max(size/bytesPerFunction, 1) {
		// the parameters are count and address, the locals sum and product
		f := m.Func([]wasmasm.ValType{wasmasm.I32, wasmasm.I32}, []wasmasm.ValType{wasmasm.I32}, wasmasm.I32, wasmasm.I64)
		f.Block("out", wasmasm.Void).Loop("again", wasmasm.Void)
		f.Get(0).Op(i32Eqz).BrIf("out")
		for range steps {
			at := rng.Uint32N(4000)
			f.Get(2).Get(1).I32(0xfff).Op(i32And).Memory(i32Load, 2, at).Op([]byte{i32Add, i32Sub, i32Mul, i32Xor}[rng.IntN(4)]).Set(2)
			f.Get(3).Get(1).I32(0xfff).Op(i32And).Memory(i64Load, 3, at).Op([]byte{i64Add, i64Mul, i64Rotl}[rng.IntN(3)]).Set(3)
		}
		f.Get(1).I32(0xfff).Op(i32And).Get(2).I32(rng.Int32()).Op(i32Xor).Memory(i32Store, 2, rng.Uint32N(4000))
		f.Get(1).I32(0xfff).Op(i32And).Get(3).Get(2).Op(i64Extend, i64Mul).Memory(i64Store, 3, rng.Uint32N(4000))
		f.Get(0).I32(1).Op(i32Sub).Set(0)
		f.Br("again").End().End()
		if before != nil {
			f.Get(2).I32(1<<rng.Int32N(30)).Op(i32And).If("", wasmasm.Void)
			f.Get(0).Get(3).Op(i32Wrap).Call(before.Index).Set(2)
			f.End()
		}
		f.Get(2).I32(rng.Int32N(31)).Op(i32Shl)
		before = f
	}
	run := m.Func(nil, nil)
	run.I32(10).I32(64).Call(before.Index).Op(wasmasm.Drop)
	m.ExportFunc("run", run)
	return m.Encode()
}
