package statesync

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestBombs: a part of many empty strings, small compressed and large in memory, is refused before
// it is allocated.
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
	// the decompressed bytes and little more
	if made := int(after.TotalAlloc-before.TotalAlloc) >> 20; made > 2*len(raw)>>20+16 {
		t.Errorf("%d MiB were allocated for a part of %d KiB", made, len(part.Body)>>10)
	}
}

// TestProofOfAbsentEndorsementsUnpacks: an endorsement that is absent has one byte in a proof and
// sixteen in memory. A proof in which nearly all are is decoded.
func TestProofOfAbsentEndorsementsUnpacks(t *testing.T) {
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
