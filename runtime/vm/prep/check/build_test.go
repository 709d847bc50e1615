package check

import (
	"encoding/binary"
	"strings"

	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Functions that build modules for tests.

func leb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func cat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			b = append(b, p...)
		case string:
			b = append(b, p...)
		case int:
			b = append(b, byte(p))
		case ValType:
			b = append(b, byte(p))
		default:
			panic("cat: what is this?")
		}
	}
	return b
}

// vec encodes a count and its items.
func vec(items ...[]byte) []byte {
	b := leb(uint64(len(items)))
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

// sized encodes b with its length as prefix.
func sized(b []byte) []byte { return append(leb(uint64(len(b))), b...) }

func sec(id int, b []byte) []byte { return append([]byte{byte(id)}, sized(b)...) }

const header = "\x00asm\x01\x00\x00\x00"

func wasm(sections ...[]byte) []byte {
	b := []byte(header)
	for _, s := range sections {
		b = append(b, s...)
	}
	return b
}

// fn encodes a function type from a signature like "i32 i64>f32".
func fn(sig string) []byte {
	from, to, _ := strings.Cut(sig, ">")
	list := func(s string) []byte {
		var b []byte
		for _, w := range strings.Fields(s) {
			b = append(b, map[string]byte{"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c, "funcref": 0x70}[w])
		}
		return sized(b)
	}
	return cat(0x60, list(from), list(to))
}

func exportOf(name string, kind, index int) []byte {
	return cat(sized([]byte(name)), kind, leb(uint64(index)))
}

func importOf(module, name string, rest ...any) []byte {
	return cat(sized([]byte(module)), sized([]byte(name)), cat(rest...))
}

// code encodes a body without locals. It appends the final end.
func code(ops ...any) []byte { return sized(cat(0, cat(ops...), opEnd)) }

// mainModule returns a module with one exported function of the given type.
func mainModule(sig string, body []byte) []byte {
	return wasm(sec(sectionType, vec(fn(sig))), sec(sectionFunction, vec(leb(0))),
		sec(sectionExport, vec(exportOf("main", kindFunc, 0))), sec(sectionCode, vec(body)))
}

// Prepare validates and measures a module, with a callback that accepts all bodies.
func Prepare(code []byte, w *parameters.Wasm) (*Module, error) {
	return Run(code, w, func(*Module, *Body) {})
}
