//go:build cgo && (linux || darwin) && (amd64 || arm64)

package engine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// sharing, a custom section, is where the sections of a module begin that is to be compiled by the other register allocator.
const sharing = "\x00\x08\x07sharing"

const header = 8 // bytes of a module before its sections

// Share returns a prepared module that asks for the register allocator that lets values share slots of the frame. It takes several
// times as long. No contract can ask for it: what package prep writes begins with another section.
func Share(wasm []byte) []byte {
	return append(append(append(make([]byte, 0, len(wasm)+len(sharing)), wasm[:header]...), sharing...), wasm[header:]...)
}

func shares(wasm []byte) bool {
	return len(wasm) > header && bytes.HasPrefix(wasm[header:], []byte(sharing))
}

// Fits tells whether an artifact's code stays within the native stack as long as it stays within the metered one, of height bytes.
// metered is what each of the functions from number first on takes of that.
//
// The register allocator of amd64 works in a single pass, and never uses a slot of a frame for two values. So a function whose code is long may
// have a frame of megabytes where the metered stack knows of 72 bytes, and recursion goes on while that has room. Two thirds of
// the stack are for all frames that the metered stack has room for, the rest is for the one that it no longer has: a function has
// its frame before it is metered. Functions that are not metered end at once, or call one that is: the largest of them counts with each.
func Fits(artifact []byte, first int, metered []uint64, height uint64) (bool, error) {
	if !Measured {
		return true, nil
	}
	frames, err := framesOf(artifact)
	if err != nil {
		return false, err
	}
	const last = MaxStack/3 - 1<<20
	own := uint64(0)
	for n, frame := range frames {
		if n < first || n >= first+len(metered) {
			own = max(own, frame)
		}
	}
	for i, m := range metered {
		frame, ok := frames[first+i]
		if !ok {
			return false, fmt.Errorf("engine: function %d is not in its artifact", first+i)
		}
		if frame += own; frame > last || frame*height > m*(MaxStack/3*2) {
			return false, nil
		}
	}
	return true, nil
}

// framesOf reads the prologues of an artifact's functions: how much of the stack each takes, in bytes.
func framesOf(artifact []byte) (map[int]uint64, error) {
	f, err := elf.NewFile(bytes.NewReader(artifact))
	if err != nil {
		return nil, fmt.Errorf("engine: artifact: %w", err)
	}
	section := f.Section(".text")
	if section == nil {
		return nil, fmt.Errorf("engine: artifact without code")
	}
	text, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("engine: artifact: %w", err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("engine: artifact: %w", err)
	}
	frames := make(map[int]uint64, len(symbols))
	for i := range symbols {
		name, ok := strings.CutPrefix(symbols[i].Name, "wasm[0]::function[")
		name, _, closed := strings.Cut(name, "]")
		n, err := strconv.Atoi(name)
		if !ok || !closed || err != nil {
			continue // a trampoline
		}
		at := symbols[i].Value
		if at > uint64(len(text)) {
			return nil, fmt.Errorf("engine: function %d is not in its artifact", n)
		}
		if frames[n], ok = prologue(text[at:]); !ok {
			return nil, fmt.Errorf("engine: function %d begins with % x, which says nothing of its frame", n, text[at:][:min(32, len(text[at:]))])
		}
	}
	return frames, nil
}

// prologue reads what a function of amd64 begins with: it compares what it will use with what is left.
func prologue(code []byte) (frame uint64, ok bool) {
	const (
		saved = 16                                              // the return address and the frame's pointer
		begin = "\x55\x48\x89\xe5"                              // push rbp; mov rbp, rsp
		limit = begin + "\x4c\x8b\x57\x08" + "\x4d\x8b\x52\x18" // mov r10, [rdi+8]; mov r10, [r10+24]
		below = "\x4c\x3b\xd4\x0f\x87"                          // cmp r10, rsp; ja: once more where the frame is large
	)
	rest, checks := bytes.CutPrefix(code, []byte(limit))
	if !checks {
		// Without calls, and so without recursion.
		rest, ok = bytes.CutPrefix(code, []byte(begin))
		if after, sub := bytes.CutPrefix(rest, []byte("\x48\x83\xec")); sub && len(after) > 0 { // sub rsp, imm8
			return saved + uint64(after[0]), ok
		}
		if after, sub := bytes.CutPrefix(rest, []byte("\x48\x81\xec")); sub && len(after) > 3 { // sub rsp, imm32
			return saved + uint64(binary.LittleEndian.Uint32(after)), ok
		}
		return saved, ok
	}
	compared := false
	if after, is := bytes.CutPrefix(rest, []byte(below)); is && len(after) > 4 {
		rest, compared = after[4:], true
	}
	if after, is := bytes.CutPrefix(rest, []byte("\x49\x83\xc2")); is && len(after) > 0 && after[0] < 0x80 { // add r10, imm8
		return saved + uint64(after[0]), true
	}
	if after, is := bytes.CutPrefix(rest, []byte("\x49\x81\xc2")); is && len(after) > 3 { // add r10, imm32
		return saved + uint64(binary.LittleEndian.Uint32(after)), true
	}
	return saved, compared
}
