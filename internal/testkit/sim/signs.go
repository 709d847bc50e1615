package sim

import (
	"errors"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// signs records what honest nodes have signed, to detect signatures that contradict each other.
type signs struct {
	c      *checks
	blocks map[blockKey]primitives.Hash
	chunks map[chunkKey]primitives.Hash
	judged map[chunkKey]primitives.Hash
	votes  map[primitives.AccountID]*voted
	twin   bool                     // the second node of Scenario.Twin has signed
	honest map[primitives.Hash]bool // hashes of the blocks and chunks that honest nodes produced
	// sent maps the height of a block to the virtual time at which a node first sent a block of that
	// height. waited is the total time from there to endorsements of chunks on it, waits their number.
	sent          map[primitives.Height]int64
	waited, waits int64
}

type blockKey struct {
	epoch  primitives.EpochID
	height primitives.Height
}

type chunkKey struct {
	by     primitives.AccountID
	shard  primitives.ShardID
	height primitives.Height
	// epoch is the epoch of an endorsed chunk, whose height may lie in another epoch. Zero: the
	// signature is no endorsement.
	epoch primitives.EpochID
}

// voted contains a validator's approvals: endorsements of blocks, and skips as pairs of heights
// (from, to).
type voted struct {
	// endorsed maps a target height to the hash of the endorsed block, whose height is target-1.
	endorsed map[primitives.Height]primitives.Hash
	skips    map[[2]primitives.Height]bool // skip approvals: parent height and target height
}

func (s *signs) init(c *checks) {
	*s = signs{c: c, blocks: map[blockKey]primitives.Hash{}, chunks: map[chunkKey]primitives.Hash{}, judged: map[chunkKey]primitives.Hash{},
		votes: map[primitives.AccountID]*voted{}, honest: map[primitives.Hash]bool{}, sent: map[primitives.Height]int64{}}
}

// made returns whether the refused block, chunk or witness is from an honest node.
func (s *signs) made(refused error) bool {
	var b *consensus.Refusal
	var c *consensus.ChunkRefusal
	return errors.As(refused, &b) && s.honest[b.Block] || errors.As(refused, &c) && s.honest[c.Chunk]
}

func (s *signs) said(n *node, m consensus.Message) {
	if s.c.w.s.Twin && n.index == s.c.w.s.Nodes {
		a, ok := m.(*primitives.Approval)
		s.twin = s.twin || ok && a.AccountID == n.account
	}
	switch m := m.(type) {
	case *primitives.Block:
		if _, ok := s.sent[m.Header.Height]; !ok {
			s.sent[m.Header.Height] = s.c.w.now
		}
		k, hash := blockKey{m.Header.EpochID, m.Header.Height}, m.Hash()
		// Blocks of the byzantine validator are not counted here, because honest nodes relay them
		// too.
		if s.c.w.s.Byzantine && verify(m.Header.Signature, hash[:], secretOf(s.c.w.nodes[0].name).PublicKey()) {
			return
		}
		if other, ok := s.blocks[k]; ok && other != hash {
			s.c.fail("two blocks of height %d were signed by one producer: %v and %v", k.height, other, hash)
		}
		s.blocks[k], s.honest[hash] = hash, true
		s.within(n, m)
	case *primitives.PartialChunk: // only the chunk producer sends a partial chunk
		hash := m.Header.ChunkHash()
		s.once(s.chunks, chunkKey{n.account, m.Header.ShardID, m.Header.HeightCreated, primitives.EpochID{}}, hash, "produced")
		s.honest[hash] = true
	case *primitives.ChunkEndorsement:
		if at, ok := s.sent[m.Metadata.HeightCreated-1]; ok {
			s.waited, s.waits = s.waited+s.c.w.now-at, s.waits+1
		}
		s.once(s.judged, chunkKey{m.Metadata.AccountID, m.Metadata.ShardID, m.Metadata.HeightCreated, m.Metadata.EpochID},
			m.ChunkHash, "endorsed")
	case *primitives.Approval:
		if m.AccountID == n.account {
			s.vote(m)
		}
	}
}

// within records the endorsements in a block. The block producer's own endorsements may occur only
// there.
func (s *signs) within(n *node, b *primitives.Block) {
	for i, h := range b.Body.Chunks {
		if h.HeightIncluded != b.Header.Height || i >= len(b.Body.ChunkEndorsements) {
			continue
		}
		list, err := n.engine.Validation().Validators(primitives.ChunkKey{ShardID: h.ShardID, EpochID: b.Header.EpochID,
			HeightCreated: h.HeightCreated})
		if err != nil {
			continue
		}
		hash := h.ChunkHash()
		for k, sig := range b.Body.ChunkEndorsements[i] {
			if byzantine := s.c.w.s.Byzantine && list[k].AccountID == s.c.w.nodes[0].name; sig != "" && !byzantine {
				s.once(s.judged, chunkKey{list[k].AccountID, h.ShardID, h.HeightCreated, b.Header.EpochID}, hash, "endorsed")
			}
		}
	}
}

func (s *signs) once(of map[chunkKey]primitives.Hash, k chunkKey, hash primitives.Hash, does string) {
	if other, ok := of[k]; ok && other != hash {
		s.c.fail("%s %s two chunks of shard %d at height %d: %v and %v", k.by, does, k.shard, k.height, other, hash)
	}
	of[k] = hash
}

// vote checks an approval against its validator's earlier approvals. A validator may endorse only
// one block of each height, and no block between the two heights of a skip.
func (s *signs) vote(a *primitives.Approval) {
	v := s.votes[a.AccountID]
	if v == nil {
		v = &voted{map[primitives.Height]primitives.Hash{}, map[[2]primitives.Height]bool{}}
		s.votes[a.AccountID] = v
	}
	if a.Inner.Skip {
		from, to := a.Inner.SkipHeight, a.Target
		v.skips[[2]primitives.Height{from, to}] = true
		for target := from + 2; target <= to; target++ { // targets of endorsements of blocks from from+1 to to-1
			if _, ok := v.endorsed[target]; ok {
				s.c.fail("%s skipped from %d to %d after it endorsed a block of height %d", a.AccountID, from, to, target-1)
			}
		}
		return
	}
	if other, ok := v.endorsed[a.Target]; ok && other != a.Inner.Endorsement {
		s.c.fail("%s endorsed two blocks of height %d", a.AccountID, a.Target-1)
	}
	v.endorsed[a.Target] = a.Inner.Endorsement
	for skip := range v.skips {
		if skip[0] < a.Target-1 && a.Target-1 < skip[1] {
			s.c.fail("%s endorsed a block of height %d after it skipped from %d to %d", a.AccountID, a.Target-1, skip[0], skip[1])
		}
	}
}
