package network

import (
	"errors"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Limits of the unrequested blocks of one peer.
const (
	blockRate = 200 // maximum number of blocks a second from one peer
	// maxOfHeight is how many different blocks of one height the actor accepts from a peer.
	maxOfHeight = 8
	// A block of more than longBlock bytes is long. NEAR's blocks are shorter, but neard accepts
	// longer blocks too.
	longBlock = 1 << 20
	longRate  = 16 << 20               // maximum bytes of long blocks a second from one peer
	nearby    = primitives.Height(128) // during sync: maximum height above the tip of blocks that were not requested
)

// block handles a received block. The block's message keeps its inbox slot until the chain actor
// has read the block.
func (a *Actor) block(from wire.PeerID, b *primitives.Block, gossiped bool, in *slot) {
	if a.shouldImport(from, b, gossiped) {
		a.o.Out.Block(messages.BlockReceived{Block: b, From: from.String(), Taken: in.done})
		return
	}
	in.done()
}

// shouldImport returns whether the block is passed to the chain actor.
func (a *Actor) shouldImport(from wire.PeerID, b *primitives.Block, gossiped bool) bool {
	hash, height, judged := b.Hash(), b.Header.Height, a.gossiped.take(b)
	if height >= a.heights[from] {
		a.heights[from] = height
	}
	if a.bootstrapTakes(hash, b) {
		return false
	}
	asked := a.sync.Asked(hash)
	a.step(blocksync.Block{Hash: hash})
	if a.o.Engine.Imported(hash) != nil {
		return false
	}
	if !asked {
		if a.sync.Syncing() && height > a.o.Engine.Tip().Height()+nearby {
			return false
		}
		if !a.admits(from, judged || gossiped, b) {
			a.o.Status.dropped.Add(1)
			return false
		}
		a.relayEarly(hash, b, judged)
	}
	a.clock.note(from, heightAndHash{height, hash}, a.o.Engine.Tip().Height(), a.headersAt(), time.Now())
	return true
}

// refused bans a peer that sent a forged copy of a block. It also bans a peer that sent more
// invalid blocks than an honest peer relays unchecked. It bans no peer for invalid chunks, because
// honest peers relay blocks before they execute them, nor for the faults of checkedAfterRelay.
func (a *Actor) refused(m *messages.BlockRefused) {
	from, bare := peerOf(m.From), false
	for _, e := range [...]chain.Invalid{chain.InvalidSignature, chain.InvalidBodyHash, chain.InvalidHeaderVersion,
		chain.InvalidNumberOfChunkHeaders,
		chain.InvalidBlockHeight, chain.InvalidEpochHash} {
		bare = bare || errors.Is(m.Err, e)
	}
	a.step(blocksync.Refused{Hash: m.Hash, From: from, Copy: bare})
	if bare && from != "" && engine.VerdictOf(m.Err) == engine.VerdictInvalid {
		a.ban(from, near.BadBlockHeader)
	} else if from != "" && errors.Is(m.Err, engine.ErrGossipCheck) && !isCheckedAfterRelay(m.Err) &&
		engine.VerdictOf(m.Err) == engine.VerdictInvalid && a.badBlocks.tooMany(from, m.Height, m.Hash,
		a.o.Engine.Tip().Height()) {
		a.ban(from, near.BadBlockHeader)
	}
}

func (a *Actor) ban(peer wire.PeerID, why near.Reason) {
	a.o.Status.bans.Add(1)
	a.o.Log.WithField("peer", peer).Infof("peer banned: %v", why)
	a.host.Post(near.Ban{Peer: peer, Reason: why})
}

// blockImported handles a block that was imported.
func (a *Actor) blockImported(m *messages.BlockAccepted) {
	a.bodies.final(m.Final)
	a.txs.included(m)
	a.compareClock(m.Block, m.Hash)
	if m.IsHead {
		h := m.Block.Header
		a.partsStep(chunkparts.Head{Hash: m.Hash, Prev: h.PrevHash, Height: h.Height}, "")
	}
	a.partsStep(chunkparts.BlockArrived{Hash: m.Hash}, "")
	a.step(blocksync.Imported{Hash: m.Hash})
	a.askWaiting(m.Final)
}

// blockAccepted broadcasts a block that is on disk, unless this node has already relayed the block.
func (a *Actor) blockAccepted(m *messages.BlockAccepted) {
	if m.IsHead {
		a.headMoved(a.o.Engine.Head())
	}
	if a.o.Validator == nil && a.o.Status.isRecent(m.Block.Header.Height) && !a.o.Status.early.take(m.Hash) {
		a.host.Post(near.ToAll{Msg: &wire.Block{Block: m.Block}})
	}
}

// rebroadcast decides when an unchanged head is broadcast again. Times are in ms.
type rebroadcast struct {
	hash primitives.Hash
	at   int64 // time in ms at which the head was last broadcast, or became the head
	wait int64 // ms until the next broadcast
}

// again returns whether the head is to be broadcast now.
func (s *rebroadcast) again(now int64, head primitives.Hash) bool {
	if head != s.hash {
		*s = rebroadcast{head, now, againFirst}
		return false
	}
	if s.wait > againMost || now-s.at < s.wait {
		return false
	}
	s.at, s.wait = now, 2*s.wait
	return true
}

// rebroadcastHead broadcasts an unchanged head again, over connections and not by gossip. If a
// block was lost in gossip or in a full queue, peers would otherwise request it only when its child
// arrives. rebroadcastHead does nothing on a validator, where the consensus core rebroadcasts the
// head, and on a node that is behind its peers.
func (a *Actor) rebroadcastHead(now int64) {
	if a.o.Validator != nil {
		return
	}
	head := a.o.Engine.Head()
	if a.rebroadcast.again(now, head.Hash) && !a.sync.Syncing() && a.o.Status.isRecent(head.Height()) {
		a.host.Post(near.ToAll{Msg: &wire.Block{Block: head.Block}, Again: true})
	}
}

// headMoved gives the host the data that depends on the head: the content of handshakes, and the
// validators whose account data the host accepts.
func (a *Actor) headMoved(head *engine.BlockNode) {
	var height, point uint64
	last, known := a.o.Engine.Snapshots().LastPoint()
	err := a.o.Engine.Epochs(func(m *epoch.Manager) error {
		if known && last.Kept {
			info, err := m.EpochInfo(last.Epoch)
			if err != nil {
				return err
			}
			point = info.EpochHeight
		}
		id, err := m.EpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		info, err := m.EpochInfo(id)
		if err != nil {
			return err
		}
		if height = info.EpochHeight; id == a.epoch && a.t1 != nil {
			return nil
		}
		next, err := m.NextEpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		a.epoch, a.t1 = id, map[primitives.AccountID][]primitives.PublicKey{}
		for _, id := range []primitives.EpochID{id, next} {
			info, err := m.EpochInfo(id)
			if err != nil {
				return err
			}
			for i := range info.Validators {
				v := &info.Validators[i]
				if list := a.t1[v.AccountID]; len(list) == 0 || list[len(list)-1] != v.PublicKey {
					a.t1[v.AccountID] = append(list, v.PublicKey)
				}
			}
		}
		a.seat = findSeat(m, id, next, a.o.Account, a.key())
		return nil
	})
	if err != nil {
		a.o.Log.WithError(err).Error("network: look up the epoch of the head")
		return
	}
	tracked := held(head)
	// A handshake is valid as long as its connection, but the tracked shards may change. Therefore
	// the handshake names no shards. neard names either all shards or none.
	if a.o.Engine.Scheduled() {
		tracked = nil
	}
	a.host.Post(near.Head{Block: head.Block, TrackedShards: tracked, T1: a.t1, EpochHeight: height, PointEpoch: point})
	a.announce()
}

func held(at *engine.BlockNode) (out []primitives.ShardID) {
	for i := range at.Shards {
		if at.Shards[i].Held() {
			out = append(out, at.Shards[i].ID)
		}
	}
	return out
}
