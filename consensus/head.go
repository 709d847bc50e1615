package consensus

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// head is the persisted head on which the node produces and approves blocks, with the validators of
// its children.
type head struct {
	block     *primitives.Block
	hash      primitives.Hash
	height    primitives.Height
	final     primitives.Height
	epoch     primitives.EpochID // epoch of the head's children
	layout    primitives.ShardLayout
	approvers []chain.Approver  // approvers of the head's children
	approves  bool              // this validator is one of approvers
	next      []chain.Approver  // approvers in the epoch after that of the head's children; nil: not computed yet
	made      primitives.Height // height of the block that this node produced on the head; 0: none
	// endorsedAt is the time at which the node could first produce a block with enough
	// endorsements, although some endorsements were still missing. 0: the node could not produce
	// such a block yet.
	endorsedAt int64
	// The following fields are for near_block_approval_delay. noted means that other is known: another
	// validator produces the block of the next height. endorsed is the number of shards, from the first on, whose chunk
	// has enough endorsements. chunksAt is the time at which endorsed reached all shards, or 0.
	noted, other bool
	endorsed     int
	chunksAt     int64
	measured     bool // the delay was measured
}

// endorsementWait is how long, in ns, a block with enough endorsements waits for missing
// endorsements. The wait starts again with each endorsement that arrives, but lasts at most twice
// endorsementWait in total. neard checks only periodically whether it can produce a block
// (block_production_tracking_delay), so its blocks contain endorsements that arrive slightly late.
// The wait has the same effect. endorsementWait is also limited to an eighth of the time until an
// approval, so that a block is at most a quarter of the time until an approval late. There is no
// wait in eager mode, or if approvals arrive later than endorsements, as they do with neard's
// delays.
const endorsementWait = 10 * ms

// setHead makes a block the head. If the block is on disk, setHead also produces chunks on the
// block.
func (n *Node) setHead(at *engine.BlockNode) {
	h := &head{block: at.Block, hash: at.Hash, height: at.Height(), final: n.e.Final().Height}
	err := n.e.Epochs(func(m *epoch.Manager) (err error) {
		if h.epoch, err = m.EpochIDFromPrev(at.Hash); err == nil {
			h.layout, err = m.ShardLayout(h.epoch)
		}
		return err
	})
	if err == nil {
		h.approvers, err = n.e.Approvers(at.Hash)
	}
	if err != nil {
		n.fail(err)
		return
	}
	n.checkKey(at.Header(), h.epoch)
	for i := range h.approvers {
		h.approves = h.approves || n.isMe(h.approvers[i].AccountID, h.approvers[i].PublicKey)
	}
	n.head, n.headAt = h, n.now
	// Deferred endorsements may be for chunks on the new head. Keep the endorsements for such
	// chunks.
	n.deferred = slices.DeleteFunc(n.deferred, func(s partialwitness.Send) bool {
		e, ok := s.Body.(*primitives.ChunkEndorsement)
		return !ok || e.Metadata.HeightCreated <= h.height
	})
	n.tracker.Tip(h.hash, h.height, h.final, n.now)
	if n.e.BlockNode(at.Hash) != nil {
		n.redistributePools(at)
		n.makeChunks()
	}
	n.unpark()
	if target := h.height + 1; n.o.Hooks.planted(PlantedSkip) && n.tracker.LargestTarget() > target {
		n.vote(doomslug.Proposal{Inner: primitives.NewApprovalInner(h.hash, h.height, target), Target: target})
	}
}

// isMe returns whether this node signs for the account with this key.
func (n *Node) isMe(account primitives.AccountID, key primitives.PublicKey) bool {
	return account == n.me && n.public != "" && n.public == key
}

// setKey sets the signing key. With the zero key this node signs nothing.
func (n *Node) setKey(key primitives.SecretKey) {
	n.o.Key, n.public = key, ""
	if !key.IsZero() {
		n.public = key.PublicKey()
	}
}

// candidate is a chunk that the next block may include. signatures are its endorsements, in the
// order of the chunk's validators.
type candidate struct {
	chunk      *primitives.Chunk
	signatures []primitives.Signature
}

// candidates returns, by shard index, the chunks on the head that have enough endorsements. all
// means that every shard has such a chunk. full means that all validators of these chunks have
// endorsed them.
func (n *Node) candidates() (out []candidate, all, full bool, err error) {
	h := n.head
	out, all, full = make([]candidate, h.layout.NumShards()), true, true
	for i, id := range h.layout.ShardIDs() {
		header := n.ready[h.hash][id]
		if header == nil {
			all = false
			continue
		}
		hash := header.ChunkHash()
		key := primitives.ChunkKey{ShardID: id, EpochID: h.epoch, HeightCreated: header.HeightCreated}
		signatures, enough, err := n.votes.Of(key, hash)
		if err != nil {
			return nil, false, false, err
		}
		if !enough && !n.o.Hooks.planted(PlantedUnendorsed) {
			all = false
			continue
		}
		full = full && !slices.Contains(signatures, "")
		out[i] = candidate{&primitives.Chunk{Hash: hash, Header: *header}, signatures}
	}
	return out, all, full, nil
}

// isEager returns whether the node approves blocks at once. In eager mode the node approves at once
// while there are transactions or receipts to process.
func (n *Node) isEager() bool { return n.o.Eager && n.head.height < n.activeUntil }

// endorsementDeadline returns the time until which a block with enough endorsements waits for
// missing endorsements.
func (n *Node) endorsementDeadline() int64 {
	h := n.head
	if h.endorsedAt == 0 {
		h.endorsedAt = n.now
	}
	each := min(endorsementWait, n.o.Delays.Endorsement/8)
	return min(n.endorsed, h.endorsedAt+each) + each
}

// makeBlock produces the next block if this node is the producer and the block is ready. Otherwise
// makeBlock returns the time at which to try again; 0: only another event can make the block ready.
func (n *Node) makeBlock() (wait int64) {
	h := n.head
	if h.made != 0 || n.me == "" {
		return 0
	}
	n.noteChunks()
	var list []candidate
	var all, full, known bool
	last := n.tracker.LargestReady()
	if n.o.Hooks.planted(PlantedThreshold) {
		last = max(last, h.height+1)
	}
	for height := h.height + 1; height <= last; height++ {
		p, err := n.e.BlockProducer(h.hash, height)
		if err != nil {
			n.fail(err)
			return 0
		}
		if !n.isMe(p.AccountID, p.PublicKey) {
			continue
		}
		if height <= n.signed.Block { // this validator has already signed a block of this height or of a greater height
			continue
		}
		if !known {
			if list, all, full, err = n.candidates(); err != nil {
				n.fail(err)
				return 0
			}
			known = true
		}
		ready, until := n.tracker.Ready(height, all, n.now)
		if ready && all && !h.measured {
			h.measured = true
			delay := int64(0)
			if h.chunksAt != 0 {
				delay = n.now - h.chunksAt
			}
			n.measured.Add(approvalDelay, delay)
		}
		if n.o.Hooks.planted(PlantedThreshold) && !ready && until == 0 {
			ready = n.now-n.headAt > n.o.Delays.Endorsement
		}
		if ready && all && !full && !n.isEager() {
			until = n.endorsementDeadline()
			ready = n.now >= until
		}
		if !ready {
			if until > 0 && (wait == 0 || until < wait) {
				wait = until
			}
			continue
		}
		n.propose(height, list)
		return 0
	}
	return wait
}

// noteChunks records when all chunks of the next block have enough endorsements, from the first
// approval of that block on (nearcore chain/client/src/chunk_inclusion_tracker.rs
// get_chunks_readiness).
func (n *Node) noteChunks() {
	h := n.head
	if h.other || h.chunksAt != 0 || n.tracker.LargestApproval() <= h.height {
		return
	}
	if !h.noted {
		p, err := n.e.BlockProducer(h.hash, h.height+1)
		if h.noted, h.other = true, err != nil || !n.isMe(p.AccountID, p.PublicKey); h.other {
			return // makeBlock reports the error
		}
	}
	for ids := h.layout.ShardIDs(); h.endorsed < len(ids); h.endorsed++ {
		header := n.ready[h.hash][ids[h.endorsed]]
		if header == nil {
			return
		}
		key := primitives.ChunkKey{ShardID: header.ShardID, EpochID: h.epoch, HeightCreated: header.HeightCreated}
		if _, enough, err := n.votes.Of(key, header.ChunkHash()); err != nil || !enough {
			return
		}
	}
	h.chunksAt = n.now
}

// propose produces a block on the head, broadcasts the block, and imports the block like a peer's
// block.
func (n *Node) propose(height primitives.Height, list []candidate) {
	h := n.head
	h.made = height
	if !n.signed.block(height) {
		return
	}
	n.save()
	n.measureEndorsements()
	wall := n.wall()
	if o := n.announced; o != nil && o.PrevBlockHash == h.hash {
		wall = o.Timestamp
	}
	p := &engine.Proposal{
		Parent: h.hash, Height: height, Timestamp: wall, Chunks: make([]*primitives.Chunk, len(list)),
		Endorsements: make(
			[][]primitives.Signature,
			len(list),
		), Approvals: n.tracker.Approvals(height, h.approvers), Vote: n.o.Vote,
	}
	for i := range list {
		p.Chunks[i], p.Endorsements[i] = list[i].chunk, list[i].signatures
	}
	b, err := n.e.NewBlock(p, n.o.Key)
	switch {
	case errors.Is(err, engine.ErrOrphan):
		n.note(err, "block %d was overtaken", height)
	case err != nil:
		n.fail(err)
	default:
		hash := b.Hash()
		n.produced[hash] = height
		n.counters.Blocks.Add(1)
		n.note(nil, "makes block %d %v on %d", height, short(hash), h.height)
		n.sendPeer("", b)
		n.block("", b)
	}
}

// short returns the first 8 characters of a hash, for notes.
func short(h primitives.Hash) string { return h.String()[:8] }

// rekey changes the signing key. The node signs with the new key when ev.Wait permits. In an epoch
// for which the account is registered with another key, the node signs nothing.
func (n *Node) rekey(ev KeyChanged) {
	if n.me == "" {
		return
	}
	n.witnesses.Rekey(primitives.SecretKey{})
	n.takeKey(ev.Key, ev.Wait)
	n.again, n.announced, n.announcing = repeatedVote{}, nil, nextBlock{}
	if h := n.head; h != nil {
		n.checkKey(h.block.Header, h.epoch)
		n.signHead()
	}
}

// signHead lets the node approve the head's children and make chunks on the head, after its key has
// changed.
func (n *Node) signHead() {
	h := n.head
	h.approves = false
	for i := range h.approvers {
		h.approves = h.approves || n.isMe(h.approvers[i].AccountID, h.approvers[i].PublicKey)
	}
	if n.e.BlockNode(h.hash) != nil { // the same condition as in setHead
		n.makeChunks()
	}
}
