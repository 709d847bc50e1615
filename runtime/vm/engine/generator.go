//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

/*
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"debug/elf"
	"runtime"
	"sync"
)

// Generator returns the code generator of this process's engines. The generator is Winch on amd64,
// if the library can be made to use Winch and the library's output is recognised as Winch's.
// Otherwise the generator is Cranelift. The C API has no name for Winch (see strategy in shim.c),
// so the output is checked once per process.
func Generator() string { return settled().generator }

// Mapless returns whether engines of this process omit the table that maps machine code to wasm.
// The node does not use the table (see withoutMap), and a compiler needs a third more memory to
// make the table. The C API has no setting that omits the table (see address_map in shim.c).
func Mapless() bool { return settled().mapless }

// Wanted returns the generator that this platform should have.
func Wanted() string {
	if runtime.GOARCH == "amd64" {
		return Winch
	}
	return Cranelift
}

// settings are requested settings that the library's output confirms.
type settings struct {
	generator string
	mapless   bool
}

var settled = sync.OnceValue(func() settings {
	s := settings{generator: Cranelift}
	// There is not enough address space for an engine, and the library would abort the process.
	if chosen() == 0 {
		return s
	}
	winch, mapless := Wanted() == Winch && bool(C.troupe_has_strategy()), bool(C.troupe_has_address_map())
	e := bare(winch, mapless, MaxMemory)
	defer e.Close()
	artifact, err := e.compile(probe)
	if err != nil {
		return s
	}
	if winch {
		s.generator = madeBy(artifact)
	}
	s.mapless = mapless && !mapped(artifact)
	return s
})

// bare makes an engine without host functions, which allows one run at a time.
func bare(winch, mapless bool, space uint64) *Engine {
	e := &Engine{}
	e.refs.own()
	e.engine = C.troupe_engine_new(1, C.uint64_t(space), MaxMemory, MaxElements, MaxStack, MaxStack+(1<<20), C.bool(winch), C.bool(mapless))
	e.linker = C.troupe_linker_new(e.engine)
	return e
}

// probe is a module with an empty function.
var probe = []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a\x04\x01\x02\x00\x0b")

// winchBegins are the first bytes of every function that Winch generates on amd64. The instructions
// compare the remaining stack with the stack that the function needs. Winch uses register r11 for
// that; Cranelift uses another register.
//
//	push rbp; mov rbp, rsp; mov r11, [rdi+8]; mov r11, [r11+24]; add r11, imm32
var winchBegins = []byte("\x55\x48\x89\xe5" + "\x4c\x8b\x5f\x08" + "\x4d\x8b\x5b\x18" + "\x49\x81\xc3")

// madeBy returns the generator that made an artifact of probe.
func madeBy(artifact []byte) string {
	f, err := elf.NewFile(bytes.NewReader(artifact))
	if err != nil {
		return Cranelift
	}
	section := f.Section(".text")
	if section == nil {
		return Cranelift
	}
	text, err := section.Data()
	if err != nil || !bytes.HasPrefix(text, winchBegins) {
		return Cranelift
	}
	return Winch
}
