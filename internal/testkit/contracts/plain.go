package contracts

import (
	"sync"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
)

// Plain has the two cheapest methods: empty does nothing, and read reads the storage entry with the
// key PlainKey.
var Plain = sync.OnceValue(func() []byte {
	m := &wasmasm.Module{}
	read := m.Import("env", "storage_read", repeat(wasmasm.I64, 3), []wasmasm.ValType{wasmasm.I64})
	m.Memory(1, -1)
	m.ExportFunc("empty", m.Func(nil, nil))
	f := m.Func(nil, nil)
	f.I64(1).I64(0).I64(0).Call(read).Op(wasmasm.Drop)
	m.ExportFunc("read", f)
	return m.Encode()
})

// PlainKey is the storage key that Plain reads.
const PlainKey = "\x00"
