package statesync

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestPartOfEmptyStringsIsNotAllocated: a part of very many empty strings, which is small when
// compressed and large in memory, is rejected before it is allocated.
func TestPartOfEmptyStringsIsNotAllocated(t *testing.T) {
	const strings = 8 << 20 // 192 MiB of slices
	raw := append(binary.LittleEndian.AppendUint32([]byte{0}, strings), make([]byte, strings*4)...)
	part := &primitives.StatePart{Compressed: true, Body: packer().EncodeAll(raw, nil)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := UnpackPart(part); !errors.Is(err, ErrPacked) || !errors.Is(err, borsh.ErrTooMuch) {
		t.Errorf("a part of %d bytes: %v", len(part.Body), err)
	}
	runtime.ReadMemStats(&after)
	// allocated is the decoder's window: the part is rejected because of its first bytes
	if made := int(after.TotalAlloc-before.TotalAlloc) >> 20; made > 16 {
		t.Errorf("%d MiB were allocated for a part of %d KiB", made, len(part.Body)>>10)
	}
}

// TestStatePartAboveEntryLimitIsRefused does the same as
// test_state_part_entry_count_at_limit_is_accepted and test_state_part_entry_count_bomb of
// near-primitives 0.38.0 src/state_part.rs.
func TestStatePartAboveEntryLimitIsRefused(t *testing.T) {
	t.Parallel()
	if MaxPartStrings != 1_258_291 {
		t.Errorf("the limit is %d", MaxPartStrings)
	}
	for n, want := range map[int]error{MaxPartStrings: nil, MaxPartStrings + 1: borsh.ErrTooMuch} {
		part := PackPart(0, make([][]byte, n))
		plain := &primitives.StatePart{Body: append(binary.LittleEndian.AppendUint32([]byte{0}, uint32(n)), make([]byte, 4*n)...)}
		for _, p := range []*primitives.StatePart{part, plain} {
			if got, err := UnpackPart(p); !errors.Is(err, want) || want == nil && len(got) != n {
				t.Errorf("%d strings, compressed %v: %d came, %v", n, p.Compressed, len(got), err)
			}
		}
	}
}

// TestStatePartBombIsRefused: a part whose decompressed bytes exceed the limit is rejected
// (test_state_part_compression_bomb).
func TestStatePartBombIsRefused(t *testing.T) {
	t.Parallel()
	var raw bytes.Buffer
	w, err := zstd.NewWriter(&raw, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	value := uint32(MaxPart)
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte{0}, 1), value)
	if _, err := w.Write(head); err != nil {
		t.Fatal(err)
	}
	for range MaxPart >> 20 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := UnpackPart(&primitives.StatePart{Compressed: true, Body: raw.Bytes()}); !errors.Is(err, ErrPacked) {
		t.Errorf("a part of %d KiB: %v", raw.Len()>>10, err)
	}
}

// TestProofOfAbsentEndorsementsUnpacks: an absent endorsement takes one byte in a proof and sixteen
// in memory. A proof in which nearly all endorsements are absent is decoded.
func TestProofOfAbsentEndorsementsUnpacks(t *testing.T) {
	t.Parallel()
	const epochs, producers = 600, 2000
	stake := primitives.ValidatorStake{AccountID: "aa", PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "x").PublicKey()}
	list := make([]primitives.ValidatorStake, producers)
	for i := range list {
		list[i] = stake
	}
	info, block := &epoch.EpochInfo{Version: epoch.EpochInfoV2, Validators: list[:1], BlockProducers: []epoch.ValidatorID{0}, ChunkProducers: [][]epoch.ValidatorID{{0}}}, new(epoch.BlockInfo)
	header := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	header.Approvals = make([]primitives.Signature, 2*producers)
	p := &headerchain.EpochProof{
		Last:    headerchain.LastEpoch{Info: info, Next: info, NextNext: info, First: block, End: block, BeforeTheLast: block},
		Current: headerchain.CurrentEpoch{First: header, Prev: header, PrevPrev: header, Tree: new(primitives.PartialMerkleTree)},
	}
	for range epochs {
		p.Epochs = append(p.Epochs, headerchain.ProvenEpoch{Producers: list, Final: header, Endorsements: make([]primitives.Signature, producers)})
	}
	got, err := UnpackProof(PackProof(p))
	if err != nil || len(got.Epochs) != epochs || len(got.Epochs[0].Endorsements) != producers {
		t.Errorf("a proof of %d bytes: %v", len(p.AppendBorsh(nil)), err)
	}
}
