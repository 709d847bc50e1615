//go:build cgo && (linux || darwin) && (amd64 || arm64)

package engine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
)

// Compile translates wasm to an artifact. Compile takes 1 to 5 ms per kilobyte of contract, on one
// core. An error comes from the code generator.
func (e *Engine) Compile(wasm []byte) ([]byte, error) {
	artifact, err := e.compile(wasm)
	return withoutMap(artifact), err
}

// mapSection is the ELF section that maps addresses of machine code to wasm offsets.
const mapSection = ".wasmtime.addrmap"

// mapped returns whether an artifact has a mapSection that is not empty.
func mapped(artifact []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(artifact))
	if err != nil {
		return true
	}
	s := f.Section(mapSection)
	return s != nil && s.Size > 0
}

// Whole returns whether an artifact still has its mapSection, because withoutMap did not recognise
// the format. Such an artifact is twice as large as necessary.
func Whole(artifact []byte) bool {
	return len(artifact) > 0 && WholeIn(bytes.NewReader(artifact))
}

// WholeIn is Whole for an artifact that is not in memory.
func WholeIn(artifact io.ReaderAt) bool {
	f, err := elf.NewFile(artifact)
	if err != nil {
		return true
	}
	s := f.Section(mapSection)
	return s != nil && s.Size >= 4096 || len(f.Sections) == 0
}

// withoutMap removes mapSection from an artifact. The section takes half of the artifact and serves
// only backtraces, which no caller reads. The section may be present because wasmtime's C API has
// no setting that omits it (see Mapless). withoutMap returns an artifact unchanged if the artifact
// does not have the form of wasmtime 44: 64-bit ELF, sections aligned to at most a page.
func withoutMap(artifact []byte) []byte {
	const (
		header, section, page = 64, 64, 4096
		name                  = mapSection + "\x00"
	)
	le := binary.LittleEndian
	if len(artifact) < header || !bytes.HasPrefix(artifact, []byte("\x7fELF\x02\x01")) || le.Uint16(artifact[58:]) != section {
		return artifact
	}
	size := uint64(len(artifact))
	table, count, names := le.Uint64(artifact[40:]), uint64(le.Uint16(artifact[60:])), uint64(le.Uint16(artifact[62:]))
	if table > size || count*section > size-table || names >= count {
		return artifact
	}
	at := func(i uint64) []byte { return artifact[table+i*section:][:section] }
	offset := func(s []byte) uint64 { return le.Uint64(s[24:]) }
	length := func(s []byte) uint64 { return le.Uint64(s[32:]) }
	text := at(names)
	if offset(text) > size || length(text) > size-offset(text) {
		return artifact
	}
	text = artifact[offset(text):][:length(text)]
	found, from, cut := uint64(0), uint64(0), uint64(0)
	for i := range count {
		s := at(i)
		if n := uint64(le.Uint32(s)); n < uint64(len(text)) && bytes.HasPrefix(text[n:], []byte(name)) {
			// Remove a multiple of the page size, so that the following sections stay aligned.
			found, from, cut = i, offset(s), length(s)&^(page-1)
		}
		if align := le.Uint64(s[48:]); align > page {
			return artifact
		}
	}
	if cut == 0 || from > size || cut > size-from || table < from+cut {
		return artifact
	}
	for i := range count {
		if o := offset(at(i)); i != found && o > from && o < from+cut {
			return artifact
		}
	}
	// Move the bytes within the artifact instead of copying it, because it may have 100 MB.
	out := artifact[:from+uint64(copy(artifact[from:], artifact[from+cut:]))]
	le.PutUint64(out[40:], table-cut)
	for i := range count {
		s := out[table-cut+i*section:][:section]
		if i == found {
			le.PutUint64(s[32:], 0)
		} else if offset(s) > from {
			le.PutUint64(s[24:], offset(s)-cut)
		}
	}
	return out
}
