package replay

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage/trie"
)

// neardsHeaders are the state headers of a recording, by sync block and shard.
func neardsHeaders(t *testing.T, path string) map[primitives.Hash]map[primitives.ShardID][]byte {
	t.Helper()
	out := map[primitives.Hash]map[primitives.ShardID][]byte{}
	_, frames := testutil.Frames(t, path, func(kind string) bool { return kind == "state_response" })
	for f := range frames {
		r := new(primitives.StateResponse)
		if err := borsh.Unmarshal(testutil.ProtoField(f.Message(31), 1), r); err != nil {
			t.Fatal(err)
		}
		if r.Header == nil {
			continue
		}
		if out[r.SyncHash] == nil {
			out[r.SyncHash] = map[primitives.ShardID][]byte{}
		}
		out[r.SyncHash][r.ShardID] = r.Header.AppendBorsh(nil)
	}
	return out
}

// TestStateSyncHeaderEqualsNeards: at each sync block of a recorded network a node builds the state
// header of each shard that a neard has, with the same bytes where one sent it. A node that
// bootstraps accepts it and refuses changed ones.
func TestStateSyncHeaderEqualsNeards(t *testing.T) {
	n := readNetwork(t, netPath())
	theirs := neardsHeaders(t, netPath())
	e := n.open(t, engine.Options{Par: par, Snapshots: true})
	blocks := map[primitives.Hash]*primitives.Block{}
	seen := map[primitives.EpochID]bool{}
	made, same, refused := 0, 0, 0
	for _, b := range n.blocks {
		blocks[b.Hash()] = b
		if b.Header.PrevHash.IsZero() {
			continue
		}
		if _, err := e.Process(b, n.bodies(b), false); err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		point, err := e.SyncPoint(e.Imported(b.Header.PrevHash))
		if b.Header.PrevHash == e.Genesis().Hash || err != nil || point == nil || point.Hash != b.Header.PrevHash || seen[b.Header.EpochID] {
			continue
		}
		seen[b.Header.EpochID] = true
		for i, id := range point.Layout.ShardIDs() {
			h, err := e.StateSyncHeader(b.Hash(), id)
			if err != nil {
				t.Fatalf("shard %d at %d: %v", id, b.Header.Height, err)
			}
			made++
			raw := h.AppendBorsh(nil)
			if want := theirs[b.Hash()][id]; want != nil {
				if same++; !bytes.Equal(raw, want) {
					t.Errorf("shard %d at sync block %d: the header differs from the one that a neard sent", id, b.Header.Height)
				}
			}
			find := func(hash primitives.Hash) *primitives.Block { return blocks[hash] }
			missed := 0 // blocks whose receipts are requested
			judge := func(h *primitives.StateHeader) error {
				got, err := engine.VerifyStateHeader(h, point.Block, point.Layout, primitives.ShardIndex(i), id, find)
				missed = max(missed, len(got))
				return err
			}
			if err := judge(h); err != nil {
				t.Fatalf("shard %d at %d: %v", id, b.Header.Height, err)
			}
			for name, change := range map[string]func(*primitives.StateHeader){
				"root":  func(h *primitives.StateHeader) { h.Root.Data[len(h.Root.Data)-1] ^= 1 },
				"usage": func(h *primitives.StateHeader) { h.Root.MemoryUsage += trie.PartUsage },
				"chunk": func(h *primitives.StateHeader) { h.Chunk.Hash[3] ^= 1 },
				"outgoing": func(h *primitives.StateHeader) {
					if list := h.Chunk.PrevOutgoingReceipts; len(list) > 0 {
						h.Chunk.PrevOutgoingReceipts = list[1:]
						return
					}
					h.Chunk.PrevOutgoingReceipts = []*primitives.Receipt{{PredecessorID: "a.near", ReceiverID: "b.near", Body: &primitives.DataReceipt{}}}
				},
				"none": func(h *primitives.StateHeader) { h.Incoming = nil },
				"receipts": func(h *primitives.StateHeader) {
					for k := range h.Incoming {
						for j := range h.Incoming[k].Proofs {
							h.Incoming[k].Proofs[j].To += 50
						}
					}
				},
			} {
				wrong := new(primitives.StateHeader)
				if err := borsh.Unmarshal(raw, wrong); err != nil {
					t.Fatal(err)
				}
				change(wrong)
				if missed == 0 && (name == "none" || name == "receipts") {
					continue
				}
				if err := judge(wrong); !errors.As(err, new(chain.Invalid)) {
					t.Errorf("shard %d at %d with another %s: %v", id, b.Header.Height, name, err)
				}
				refused++
			}
		}
	}
	if t.Logf("%d headers, %d of them compared with a neard's, %d refused", made, same, refused); made == 0 || all() && same == 0 {
		t.Error("the test reaches too little")
	}
}
