package state

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestBombs: a part that is many empty strings, small when packed and large in memory, is refused before there are any.
func TestBombs(t *testing.T) {
	const strings = 8 << 20 // 192 MiB of slices
	raw := append(binary.LittleEndian.AppendUint32([]byte{0}, strings), make([]byte, strings*4)...)
	part := &primitives.StatePart{Compressed: true, Body: packer().EncodeAll(raw, nil)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := UnpackPart(part); !errors.Is(err, ErrPacked) || !errors.Is(err, borsh.ErrTooMuch) {
		t.Errorf("a part of %d bytes: %v", len(part.Body), err)
	}
	runtime.ReadMemStats(&after)
	if made := int(after.TotalAlloc-before.TotalAlloc) >> 20; made > 2*len(raw)>>20+16 { // what is unpacked, and little more
		t.Errorf("%d MiB were allocated for a part of %d KiB", made, len(part.Body)>>10)
	}
}
