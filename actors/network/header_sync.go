package network

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Limits and times.
const (
	// maxLocator is the maximum number of hashes in a request for headers. neard bans peers that send
	// more.
	maxLocator     = 20
	maxAnswer      = blocksync.WholeAnswer // maximum number of headers of a response that are used
	stuckAfter     = 30_000                // ms after which the actor logs that a requested block has not arrived
	stuckLogPeriod = 60_000                // ms between two such logs
)

// headerPath is the list of verified headers from the chain's tip to the highest header.
type headerPath struct {
	e     *engine.Engine
	refs  []storage.BlockRef
	known bool // refs is up to date; if not set, list reads refs again
}

// list returns the headers above the imported blocks, lowest first.
func (p *headerPath) list() ([]storage.BlockRef, error) {
	for len(p.refs) > 0 && p.e.Imported(p.refs[0].Hash) != nil {
		p.refs = p.refs[1:]
	}
	if p.known {
		return p.refs, nil
	}
	var err error
	p.refs, err = p.e.HeaderChain().Path()
	p.known = err == nil
	return p.refs, err
}

// grow appends accepted headers that continue the path. If a header does not continue the path,
// grow invalidates the path, and the next reader reads it again.
func (p *headerPath) grow(list []*primitives.BlockHeader) {
	for _, h := range list {
		hash := h.Hash()
		n := len(p.refs)
		switch {
		case p.e.Imported(hash) != nil:
		case n > 0 && p.refs[n-1].Hash == h.PrevHash, n == 0 && p.e.Imported(h.PrevHash) != nil:
			p.refs = append(p.refs, storage.BlockRef{Height: h.Height, Hash: hash})
		default:
			p.known = false
			return
		}
	}
}

// chainView implements blocksync.Chain.
type chainView struct{ a *Actor }

func (c chainView) Tip() blocksync.Ref {
	at := c.a.o.Engine.Tip()
	return blocksync.Ref{Hash: at.Hash, Height: at.Height()}
}

func (c chainView) Headers() (blocksync.Ref, error) {
	at, err := c.a.o.Engine.HeaderChain().Head()
	return blocksync.Ref{Hash: at.Hash, Height: at.Height}, err
}

func (c chainView) Path(n int) (out []blocksync.Ref, err error) {
	list, err := c.a.path.list()
	for _, r := range list[:min(n, len(list))] {
		out = append(out, blocksync.Ref{Hash: r.Hash, Height: r.Height})
	}
	return out, err
}

func (c chainView) Apart() bool { return c.a.headersApart }

func (c chainView) Has(hash primitives.Hash) bool { return c.a.o.Engine.Imported(hash) != nil }

// step steps the sync machine and carries out its effects.
func (a *Actor) step(ev blocksync.Event) {
	was := a.sync.Syncing()
	defer func() {
		if !was && a.sync.Syncing() { // a.path may be outdated
			a.path.known = false
		}
	}()
	out, err := a.sync.Step(a.now(), ev)
	if err != nil {
		a.o.Log.WithError(err).Error("network: read the header chain")
	}
	if out.Proof != "" {
		a.o.Log.WithField("peer", out.Proof).Infof("%d blocks behind its peers: requests an epoch sync proof",
			a.sync.Best()-min(a.sync.Best(), a.o.Engine.Tip().Height()))
		a.host.Post(near.ToPeer{Peer: out.Proof, Msg: &wire.EpochSyncRequest{}})
	}
	if out.Headers != "" {
		if list, err := a.path.list(); err == nil {
			a.o.Log.WithField("peer", out.Headers).Debugf("network: requests headers after %d known ones", len(list))
			a.host.Post(near.ToPeer{Peer: out.Headers, Msg: &wire.HeadersRequest{Hashes: a.o.Engine.Locator(list, maxLocator)}})
		}
	}
	for _, q := range out.Blocks {
		a.host.Post(near.ToPeer{Peer: q.Peer, Msg: &wire.BlockRequest{Hash: q.Hash}})
	}
	for _, b := range out.Ban {
		why := near.NotEnoughHeaders
		if b.Bad {
			why = near.BadBlockHeader
		}
		a.ban(b.Peer, why)
	}
	a.o.Status.syncs(a.sync.Syncing(), a.sync.Stuck(), a.sync.Best())
	a.o.Status.headers.Store(uint64(a.headersAt()))
}

// updatePeers passes the connected peers to the sync machine, and deletes the state of peers that
// are no longer connected.
func (a *Actor) updatePeers(info *near.Info) {
	here := map[wire.PeerID]bool{}
	var ev blocksync.Peers
	for i := range info.Peers {
		p := &info.Peers[i]
		here[p.Info.ID] = true
		if height := max(p.Height, a.heights[p.Info.ID]); p.HasBlock {
			ev.List = append(ev.List, blocksync.Peer{ID: p.Info.ID, Height: height, Archival: p.Archival})
		}
	}
	for id := range a.heights {
		if !here[id] {
			delete(a.heights, id)
		}
	}
	for id := range a.limits {
		if !here[id] {
			delete(a.limits, id)
		}
	}
	a.clock.keep(here)
	a.checkHeadersApart()
	a.step(ev)
	if len(ev.List) > 0 {
		a.o.Status.knows.Store(true)
	}
	a.logStuck()
}

// logStuck logs, at most once in stuckLogPeriod, that no peer sends the next block.
func (a *Actor) logStuck() {
	now := a.now()
	height, since := a.sync.Waits(now)
	if height == 0 || since < stuckAfter || now < a.o.Status.stuckAgain.Load() {
		return
	}
	a.o.Status.stuckAgain.Store(now + stuckLogPeriod)
	a.path.known = false
	then := "state sync starts only beyond the horizon"
	if a.o.Sync.Horizon == 0 || a.o.Sync.ProofBelow != 0 {
		then = "this node does not use state sync: add an archival peer to network.boot_nodes"
	}
	a.o.Log.WithField("height", height).Warnf(
		"no peer has sent the requested block for %d s; peers may have deleted it, and %s", since/1000, then)
}

// headersResult is a message to self: headers have been verified.
type headersResult struct {
	from  wire.PeerID
	list  []*primitives.BlockHeader
	taken int
	err   error
	// ahead is by how much the network is ahead of this machine's clock, if err is that a header is in
	// the future and the stake proves the header (engine.ProvenAhead). 0: that is not proven.
	ahead time.Duration
}

// headers verifies requested headers outside the mailbox.
func (a *Actor) headers(from wire.PeerID, list []*primitives.BlockHeader) {
	if !a.sync.Expects(from) {
		return
	}
	a.step(blocksync.Arrived{From: from})
	list = list[:min(len(list), maxAnswer)]
	self, e := a.self, a.o.Engine
	go func() {
		m := headersResult{from: from, list: list}
		defer func() {
			if p := recover(); p != nil {
				m.err = errOwnFailure
				a.o.Status.note("headers", p)
			}
			self(m)
		}()
		if m.taken, m.err = e.HeaderChain().Add(list); errors.Is(m.err, chain.InvalidBlockFutureTime) {
			var err error
			if m.ahead, err = e.ProvenAhead(list, time.Now()); err != nil {
				m.err = err
			}
		}
	}()
}

var errOwnFailure = errors.New("network: this node failed to verify headers")

func (a *Actor) headersDone(m *headersResult) {
	if a.path.known = a.path.known && m.err == nil; a.path.known && m.taken > 0 {
		a.path.grow(m.list)
	}
	ev := blocksync.HeadersVerified{From: m.from, Sent: len(m.list), Taken: m.taken}
	a.o.Log.WithField("peer", m.from).WithError(m.err).Debugf("network: %d of %d headers are new", m.taken, len(m.list))
	switch {
	case m.err == nil:
	// This machine's clock is behind. The peer is right, and gets no strike.
	case m.ahead > 0:
		ev.Own = true
		a.clockProvenBehind(m.ahead)
	// Unlike neard, do not ban the peer at once. One that answers only so gets strikes: any producer can
	// sign a header in the future.
	case errors.Is(m.err, chain.InvalidBlockFutureTime):
	case errors.As(m.err, new(chain.Invalid)):
		ev.Bad = true
	// The peer follows another chain, or has sent unrelated headers.
	case errors.Is(m.err, headerchain.ErrOrphan), errors.Is(m.err, headerchain.ErrOld):
	case errors.Is(m.err, headerchain.ErrEquivocating), errors.Is(m.err, headerchain.ErrFull):
		ev.Own = true
	case errors.Is(m.err, headerchain.ErrVersion):
		ev.Own = true
		a.logNewer("network: headers of later epochs cannot be validated: this program must be upgraded", m.err)
		a.requestNext(m)
	default:
		ev.Own = true
		a.ownFailure("headers", m.err)
	}
	a.step(ev)
}

// logNewer warns, at most once in stuckLogPeriod, that the network has or will have a protocol version
// that this program does not know.
func (a *Actor) logNewer(what string, err error) {
	if now := a.now(); now >= a.newerLogAt {
		a.newerLogAt = now + stuckLogPeriod
		a.o.Log.WithError(err).Warn(what)
	}
}

// requestNext requests the block after the tip, if its header is in the list. The engine then finds
// that it cannot import any block of the next epoch, and the node halts with that reason.
func (a *Actor) requestNext(m *headersResult) {
	tip := a.o.Engine.Tip().Hash
	for _, h := range m.list {
		if h.PrevHash == tip {
			a.host.Post(near.ToPeer{Peer: m.from, Msg: &wire.BlockRequest{Hash: h.Hash()}})
			return
		}
	}
}

// ownFailure handles an error that is this node's fault. If the store has failed, ownFailure ends
// the node, because the node could not store the requested blocks and headers. It logs any other
// error. Until a full disk has room, each peer's next headers meet the same error.
func (a *Actor) ownFailure(what string, err error) {
	if errors.Is(err, storage.ErrFailed) {
		a.o.Out.Failed(fmt.Errorf("network: %s: %w", what, err))
		return
	}
	a.logFailure(what, err)
}

// logFailure logs an error that is this node's fault, a full disk at most once in stuckLogPeriod.
func (a *Actor) logFailure(what string, err error) {
	if storage.IsFull(err) {
		now := a.now()
		if now < a.fullLogAt {
			return
		}
		a.fullLogAt = now + stuckLogPeriod
	}
	a.o.Log.WithError(err).Errorf("network: %s", what)
}
