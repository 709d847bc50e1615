package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// ErrUntracked means that this node does not hold the state of a shard.
var ErrUntracked = errors.New("engine: this node does not have the state of the shard")

// Track returns whether a node holds a shard of a layout (nearcore TrackedShardsConfig).
type Track func(primitives.ShardLayout, primitives.ShardID) bool

// TrackShards returns a Track for these shards and their descendants. If a layout records its
// history (version 3 or later), the Track selects descendants after any number of splits. With a
// layout of version 2 or less the Track selects only the children.
func TrackShards(ids ...primitives.ShardID) Track {
	return func(layout primitives.ShardLayout, id primitives.ShardID) bool {
		if slices.Contains(ids, id) {
			return true
		}
		if all, known := layout.Ancestors(id); known {
			return slices.ContainsFunc(all, func(a primitives.ShardID) bool { return slices.Contains(ids, a) })
		}
		parent, err := layout.Parent(id)
		return err == nil && slices.Contains(ids, parent)
	}
}

// TrackUIDs does the same as TrackShards for shards that are identified by id and layout version
// (nearcore shard_tracker.rs).
func TrackUIDs(uids ...primitives.ShardUID) Track {
	return func(layout primitives.ShardLayout, id primitives.ShardID) bool {
		if slices.Contains(uids, layout.UID(id)) {
			return true
		}
		if all, known := layout.Ancestors(id); known {
			return slices.ContainsFunc(all, func(a primitives.ShardID) bool { return slices.Contains(uids, layout.UID(a)) })
		}
		parent, err := layout.Parent(id) // compare only ids, because the version of the parent's layout is unknown
		return err == nil && parent != id &&
			slices.ContainsFunc(uids, func(u primitives.ShardUID) bool { return primitives.ShardID(u.ID) == parent })
	}
}

// TrackAccounts returns a Track for the shards that contain these accounts.
func TrackAccounts(accounts ...primitives.AccountID) Track {
	return func(layout primitives.ShardLayout, id primitives.ShardID) bool {
		return slices.ContainsFunc(accounts, func(a primitives.AccountID) bool { return layout.ShardOf(a) == id })
	}
}

// tracks returns whether this node's options select a shard.
func (e *Engine) tracks(layout primitives.ShardLayout, id primitives.ShardID) bool {
	return e.o.Tracks == nil || e.o.Tracks(layout, id)
}

// HoldsAll returns whether this node's options select all shards. The node then holds all shards at
// every block. Safe for concurrent use.
func (e *Engine) HoldsAll() bool { return e.o.Tracks == nil }

// Holds returns whether this node has the state of a shard at the head. Safe for concurrent use.
func (e *Engine) Holds(id primitives.ShardID) bool {
	at := e.Head()
	i, err := at.Layout.Index(id)
	return err == nil && at.Shards[i].Held()
}

// Held returns whether this node has the shard's state. If not, this node has only the shard's
// chunk headers and the receipts that the shard sends to held shards.
func (s *ShardState) Held() bool { return s.Extra != nil }

// holds returns, by shard index, which shards of a layout this node holds in a child of parent. If
// this node holds a shard in parent, it holds the shard in the child. If that shard is split, this
// node holds those child shards that it tracks.
func (e *Engine) holds(parent *BlockNode, layout primitives.ShardLayout) ([]bool, error) {
	out := make([]bool, layout.NumShards())
	if layout.Equal(parent.Layout) {
		for i := range parent.Shards {
			out[i] = parent.Shards[i].Held()
		}
		return out, nil
	}
	for i, id := range layout.ShardIDs() {
		from, err := layout.Parent(id)
		if err != nil {
			return nil, err
		}
		index, err := parent.Layout.Index(from)
		if err != nil {
			return nil, err
		}
		// A node with Options.Assigned first holds all children. Its Schedule then drops the child
		// shards that the node does not need.
		out[i] = parent.Shards[index].Held() && (from == id || len(e.o.Assigned) > 0 || e.tracks(layout, id))
	}
	return out, nil
}

// heldIDs returns the ids of the shards for which holds is true.
func heldIDs(layout primitives.ShardLayout, holds []bool) (out []primitives.ShardID) {
	for i, id := range layout.ShardIDs() {
		if holds[i] {
			out = append(out, id)
		}
	}
	return out
}

// missing returns the index of the first shard whose new chunk in b is incomplete, or -1 if all new
// chunks are complete. A held shard's chunk is complete if chunks has its body. The chunk of a
// shard that is not held is complete if chunks has its receipt proofs to the held shards.
func missing(b *primitives.Block, chunks []*primitives.Chunk, layout primitives.ShardLayout, holds []bool) int {
	held := heldIDs(layout, holds)
	for i, h := range b.Body.Chunks {
		if h.HeightIncluded != b.Header.Height || !holds[i] && len(held) == 0 {
			continue
		}
		switch {
		case i >= len(chunks) || chunks[i] == nil || chunks[i].Hash != h.ChunkHash():
			return i
		case holds[i] && chunks[i].Proofs != nil, !holds[i] && !chain.Proves(chunks[i], held):
			return i
		}
	}
	return -1
}

// untrackedChunk returns the new chunk of a shard that is not held, with only its receipt proofs to
// the held shards. came is the received chunk. came may be nil if held is empty. An error means
// that a proof is wrong.
func untrackedChunk(
	came *primitives.Chunk,
	h *primitives.ChunkHeader,
	held []primitives.ShardID,
) (*primitives.Chunk, error) {
	c := &primitives.Chunk{Hash: h.ChunkHash(), Header: *h, Proofs: []primitives.ReceiptProof{}}
	for _, id := range held {
		c.Proofs = append(c.Proofs, *chain.ProofTo(came, id))
	}
	return c, chain.ValidateProofs(c)
}

// encodeUntracked returns the stored form of a shard that is not held.
func encodeUntracked(s *ShardState) storage.Shard {
	out := storage.Shard{ID: s.ID}
	if s.Chunk != nil {
		out.Incoming = primitives.AppendReceiptProofs(nil, s.Chunk.Proofs)
	}
	return out
}

// loadUntracked reads what encodeUntracked has stored.
func loadUntracked(rec *storage.Record, s *ShardState, h *primitives.ChunkHeader) error {
	s.Extra = nil
	if h.HeightIncluded != rec.Ref().Height {
		return nil
	}
	s.Chunk = &primitives.Chunk{Hash: h.ChunkHash(), Header: *h, Proofs: []primitives.ReceiptProof{}}
	raw, err := rec.Incoming(s.ID)
	if errors.Is(err, storage.ErrNotFound) { // only the genesis has no record of incoming receipts
		return nil
	}
	if err != nil {
		return err
	}
	s.Chunk.Proofs, err = readBroughtReceipts(raw)
	return err
}

// readBroughtReceipts decodes the receipt proofs of a chunk without a body. It returns an empty
// list instead of nil, because nil Proofs mean a chunk with a body.
func readBroughtReceipts(raw []byte) ([]primitives.ReceiptProof, error) {
	r := borsh.NewReader(raw)
	list := primitives.ReadReceiptProofs(r)
	if list == nil {
		list = []primitives.ReceiptProof{}
	}
	return list, r.Close()
}

// checkTracked returns an error if the store lacks a shard that the options select. With
// Options.Scheduled it returns nil, because the shard will be caught up.
func (e *Engine) checkTracked(at *BlockNode) error {
	if e.o.Scheduled {
		return nil
	}
	for i := range at.Shards {
		if s := &at.Shards[i]; e.tracks(at.Layout, s.ID) && !s.Held() {
			return fmt.Errorf(
				"%w: shard %d is tracked, but the data folder does not have it at block %d: "+
					"start with another data folder or other tracked shards",
				ErrUntracked,
				s.ID,
				at.Height(),
			)
		}
	}
	return nil
}

// unheldTrie implements state.Trie for a shard that is not held. Reads return ErrUntracked.
type unheldTrie struct{ shard primitives.ShardID }

func (a unheldTrie) err() error { return fmt.Errorf("%w: shard %d", ErrUntracked, a.shard) }

func (a unheldTrie) Root() primitives.Hash         { return primitives.Hash{} }
func (a unheldTrie) NewRecording() state.Recording { return new(recording) }
func (a unheldTrie) MemoryUsage() uint64           { return 0 }

func (a unheldTrie) Get([]byte, state.Recording) ([]byte, error) { return nil, a.err() }

func (a unheldTrie) Lookup([]byte, state.Recording) (state.ValueRef, bool, error) {
	return state.ValueRef{}, false, a.err()
}

func (a unheldTrie) Path(_ []byte, _ state.Recording, path []state.Visit) ([]state.Visit, state.ValueRef, bool, error) {
	return path, state.ValueRef{}, false, a.err()
}

func (a unheldTrie) Scan(_, _ []byte, _ state.Recording, _ func(key, value []byte) bool) error {
	return a.err()
}

func (a unheldTrie) Update([]state.Change, state.Recording) (state.Trie, error) { return nil, a.err() }

func (a unheldTrie) FindSplit(state.Recording) (primitives.TrieSplit, error) {
	return primitives.TrieSplit{}, a.err()
}
