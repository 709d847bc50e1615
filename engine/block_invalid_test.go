package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// invalidChanges are changes that each make a block invalid in one respect, while its approvals, chunks and
// endorsements stay valid. Different salts lead to different blocks.
var invalidChanges = []struct {
	name   string
	change func(b *primitives.Block, h *primitives.BlockHeader, salt int)
	want   error
}{
	{"no votes", func(_ *primitives.Block, h *primitives.BlockHeader, _ int) { h.Approvals = nil }, chain.NotEnoughApprovals},
	{"the first vote", func(_ *primitives.Block, h *primitives.BlockHeader, _ int) { h.Approvals = spoiled(h.Approvals, 0) }, chain.InvalidApprovals},
	{"the last vote", func(_ *primitives.Block, h *primitives.BlockHeader, _ int) {
		h.Approvals = spoiled(h.Approvals, len(h.Approvals)-1)
	}, chain.InvalidApprovals},
	{"a height far above", func(_ *primitives.Block, h *primitives.BlockHeader, _ int) { h.Height += 50 }, chain.InvalidApprovals},
	{"the random value", func(b *primitives.Block, _ *primitives.BlockHeader, salt int) { b.Body.VRFProof[0] ^= byte(1 + salt) }, chain.InvalidRandomness},
	{"the state root", func(_ *primitives.Block, h *primitives.BlockHeader, salt int) { h.PrevStateRoot[0] ^= byte(1 + salt) }, chain.InvalidStateRoot},
	{"a chunk's signature", func(b *primitives.Block, _ *primitives.BlockHeader, _ int) {
		c := *b.Body.Chunks[len(b.Body.Chunks)-1]
		c.Signature = b.Header.Signature
		b.Body.Chunks[len(b.Body.Chunks)-1] = &c
	}, chain.InvalidChunk},
	{"heights of chunks", func(b *primitives.Block, h *primitives.BlockHeader, salt int) {
		for i := range b.Body.Chunks {
			c := *b.Body.Chunks[i]
			c.HeightCreated = primitives.Height(1_000_000 + 100*salt + i)
			b.Body.Chunks[i] = &c
		}
		roots(b, h)
	}, chain.InvalidChunk},
	{"heights of chunks, without votes", func(b *primitives.Block, h *primitives.BlockHeader, salt int) {
		h.Approvals = nil
		for i := range b.Body.Chunks {
			c := *b.Body.Chunks[i]
			c.HeightCreated = primitives.Height(1_000_000 + 100*salt + i)
			b.Body.Chunks[i] = &c
		}
	}, chain.NotEnoughApprovals},
	{"the last endorsement", func(b *primitives.Block, _ *primitives.BlockHeader, _ int) {
		last := len(b.Body.ChunkEndorsements) - 1
		list := b.Body.ChunkEndorsements[last]
		b.Body.ChunkEndorsements[last] = spoiled(list, len(list)-1)
	}, chain.InvalidChunkEndorsement},
	{"8 MiB of challenges, without votes", func(b *primitives.Block, h *primitives.BlockHeader, _ int) {
		h.Approvals = nil
		b.Body.Challenges = make([]byte, 8<<20)
	}, chain.NotEnoughApprovals},
}

func spoiled(list []primitives.Signature, i int) []primitives.Signature {
	list = append([]primitives.Signature(nil), list...)
	list[i] = list[(i+1)%len(list)]
	return list
}

// roots sets the header fields that follow from the body.
func roots(b *primitives.Block, h *primitives.BlockHeader) {
	r := chain.ComputeRoots(b.Body.Chunks, h.Height)
	h.PrevStateRoot, h.PrevChunkOutgoingReceiptsRoot, h.ChunkHeadersRoot, h.ChunkTxRoot, h.PrevOutcomeRoot = r.PrevStateRoot, r.PrevOutgoingReceipts, r.ChunkHeaders, r.ChunkTx, r.PrevOutcomeRoot
}

// wrong returns an invalid block: a copy of b with a change, signed by its producer.
func (n *node) invalidBlock(b *primitives.Block, change func(*primitives.Block, *primitives.BlockHeader, int), salt int) *primitives.Block {
	h := *b.Header
	x := &primitives.Block{Body: b.Body}
	x.Body.Chunks = append([]*primitives.ChunkHeader(nil), b.Body.Chunks...)
	x.Body.ChunkEndorsements = append([][]primitives.Signature(nil), b.Body.ChunkEndorsements...)
	h.Timestamp += uint64(salt)
	x.Header = &h
	change(x, &h, salt)
	h.BlockBodyHash = x.Body.Hash()
	h.Init()
	chain.SignBlock(x, n.producer(h.PrevHash, h.Height))
	return x
}

// large returns a node whose chain has many validators and shards, and the next block with its
// chunks.
func large(t testing.TB, validators, shards int) (*node, *primitives.Block, []*primitives.Chunk) {
	t.Helper()
	var names []primitives.AccountID
	for i := range validators {
		names = append(names, primitives.AccountID([]byte{'v', byte('a' + i/26), byte('a' + i%26)}))
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{ChainID: "test-engine", Time: 1_700_000_000_000_000_000, Accounts: names, Validators: validators, Shards: shards,
		Protocol: parameters.Newest(primitives.NumberingRelease)})
	if err != nil {
		t.Fatal(err)
	}
	n, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) { o.Verify = signature.NewCachedVerifier(primitives.NewVerifier(8192).Verify).Verify })
	if err != nil {
		t.Fatal(err)
	}
	p := n.Head()
	prop := &Proposal{Parent: p.Hash, Height: 1, Timestamp: p.Header().Timestamp + 1_000_000_000, Vote: parameters.Newest(primitives.NumberingRelease)}
	for i, id := range p.Layout.ShardIDs() {
		producer, err := n.ChunkProducer(p.Hash, id)
		if err != nil {
			t.Fatal(err)
		}
		c, err := n.NewChunk(p.Hash, primitives.ShardIndex(i), nil, seedKey(producer.AccountID))
		if err != nil {
			t.Fatal(err)
		}
		list, err := n.ChunkValidators(p, id)
		if err != nil {
			t.Fatal(err)
		}
		var signed []primitives.Signature
		for _, v := range list {
			signed = append(signed, seedKey(v.AccountID).Sign(primitives.ChunkEndorsementBytes(c.Hash)))
		}
		prop.Chunks, prop.Endorsements = append(prop.Chunks, c), append(prop.Endorsements, signed)
	}
	approvers, err := n.Approvers(p.Hash)
	if err != nil {
		t.Fatal(err)
	}
	inner := primitives.NewApprovalInner(p.Hash, p.Height(), 1)
	for _, a := range approvers {
		prop.Approvals = append(prop.Approvals, seedKey(a.AccountID).Sign(inner.SignedBytes(1)))
	}
	b, err := n.NewBlock(prop, n.producer(p.Hash, 1))
	if err != nil {
		t.Fatal(err)
	}
	return n, b, prop.Chunks
}

// TestInvalidBlockIsRefusedForItsDefect also accepts the valid block with the same height and
// producer afterwards.
func TestInvalidBlockIsRefusedForItsDefect(t *testing.T) {
	n, right, chunks := large(t, 8, 3)
	for _, w := range invalidChanges {
		for salt := range 3 {
			x := n.invalidBlock(right, w.change, salt)
			unvoted := errors.Is(w.want, chain.NotEnoughApprovals) || errors.Is(w.want, chain.InvalidApprovals)
			if _, err := n.Precheck(x); errors.Is(err, chain.NotEnoughApprovals) != unvoted || err != nil && !errors.Is(err, ErrGossipCheck) {
				t.Errorf("%s: Precheck returned %v", w.name, err)
			}
			if _, err := n.BeginImport(x, chunks, false); !errors.Is(err, w.want) || VerdictOf(err) != VerdictInvalid {
				t.Errorf("%s: %v, want %v", w.name, err, w.want)
			}
		}
	}
	if !n.accept(right, chunks).IsHead {
		t.Error("the valid block is not the head")
	}
}

// BenchmarkRefuseInvalidBlock measures the time to refuse an invalid block, from Precheck to the
// verdict. For comparison ("right") it measures the validation of the valid block without bodies,
// once with signatures that are not in the caches and once with signatures that are.
func BenchmarkRefuseInvalidBlock(b *testing.B) {
	for _, size := range []struct {
		name               string
		validators, shards int
	}{{"validators=4", 4, 1}, {"validators=100", 100, 6}} {
		n, right, chunks := large(b, size.validators, size.shards)
		look := func(b *testing.B, x *primitives.Block) error {
			if _, err := n.Precheck(x); err != nil {
				return err
			}
			_, err := n.BeginImport(x, nil, false)
			return err
		}
		b.Run(size.name+"/what=right, new", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				n.o.Verify = signature.NewCachedVerifier(primitives.NewVerifier(8192).Verify).Verify
				n.validBlocks = recentHashes{}
				b.StartTimer()
				if err := look(b, right); !errors.Is(err, ErrMissing) {
					b.Fatal(err)
				}
			}
		})
		if _, err := n.BeginImport(right, nil, false); !errors.Is(err, ErrMissing) {
			b.Fatal(err)
		}
		_ = chunks
		for _, w := range invalidChanges {
			b.Run(size.name+"/what="+w.name, func(b *testing.B) {
				list := make([]*primitives.Block, b.N)
				for i := range list {
					list[i] = n.invalidBlock(right, w.change, i)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for _, x := range list {
					if err := look(b, x); VerdictOf(err) != VerdictInvalid {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
