package blocksync

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Machine is the state machine of header and block sync. Not safe for concurrent use.
type Machine struct {
	o       Options
	chain   Chain
	peers   map[PeerID]*peer
	headers *request
	proof   *request
	proofAt int64 // earliest time of the next proof request
	// proofTried means that a proof request failed since sync started. Block requests then do not
	// wait for the next proof request.
	proofTried bool
	proofs     ProofRequests
	// provedAt is the height that the sender of the last accepted proof claimed. 0: none was accepted.
	provedAt      primitives.Height
	lastFullBatch int64 // time of the last full header response, or of the start of sync
	blocks        map[primitives.Hash]*blockRequest
	active        bool
	stuck         bool              // sync stopped only because no peer is trusted any more
	asking        primitives.Height // height of the tip at the last header request, or at the start of sync
	tip           primitives.Height
	tipMovedAt    int64 // time at which tip last changed
	best          primitives.Height
	likely        primitives.Height // highest height that a believed peer without strikes claims
}

// peer is the state of one connected peer.
type peer struct {
	id              PeerID
	height          primitives.Height
	pausedUntil     int64 // earliest time of the next request
	distrustedUntil int64 // before this time, the claimed height does not count
	noProof         int64 // earliest time of the next proof request
	strikes         int
	inFlight        int // block requests in flight
	archival        bool

	// misses is the number of consecutive requested blocks that did not arrive. At each multiple of
	// MaxMisses the peer is paused. unexcused counts those of them that the peer should have.
	misses, unexcused int
	missPause         int64 // time at which the last of these pauses began
	// avoidedUntil is the time before which another peer is asked for blocks, if there is one.
	avoidedUntil int64
	// lost is the share of the last requested blocks that did not arrive, in thousandths.
	lost int
}

// Weights of peer.lost: one request moves it by 1/lostSpan of the way. The shares of two peers that
// differ by at most lostEqual count as equal.
const (
	lostSpan  = 16
	lostEqual = 100
)

// request is a header or proof request in flight.
type request struct {
	peer      PeerID
	at        int64
	claimed   primitives.Height
	verifying bool
}

// blockRequest is a block that was requested, or that has arrived and is not imported yet.
type blockRequest struct {
	hash     primitives.Hash
	height   primitives.Height // 0: unknown
	peer     PeerID            // the peer from which this node requested the block; empty: none
	at       int64
	received bool
	// parent means that the block is the unknown parent of a received block. Otherwise the block is
	// on the path to the highest header.
	parent bool
	tries  int
}

// New returns a machine without peers.
func New(c Chain, o Options) *Machine {
	if o.Threshold == 0 {
		o.Threshold = 1
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = 10
	}
	if o.HeadersWait == 0 {
		o.HeadersWait = 10_000
	}
	if o.ProofWait == 0 {
		o.ProofWait = 60_000
	}
	return &Machine{o: o, chain: c, peers: map[PeerID]*peer{}, blocks: map[primitives.Hash]*blockRequest{}}
}

// Syncing returns whether the node knows that it is behind. Best returns the highest height that a
// trusted peer claims.
func (m *Machine) Syncing() bool           { return m.active }
func (m *Machine) Best() primitives.Height { return m.best }

// Stuck returns whether sync stopped because no peer is trusted any more, although the tip is below
// the highest known header. The node may still be behind.
func (m *Machine) Stuck() bool { return m.stuck }

// Still returns whether no full header response has arrived for HeadersWait. In that case, no peer
// has headers above the known ones, whatever heights the peers claim.
func (m *Machine) Still(now int64) bool { return now-m.lastFullBatch >= m.o.HeadersWait }

// Asked returns whether a block was requested and has not arrived.
func (m *Machine) Asked(hash primitives.Hash) bool {
	w := m.blocks[hash]
	return w != nil && !w.received
}

// Expects returns whether a header response is expected from a peer.
func (m *Machine) Expects(from PeerID) bool {
	return m.headers != nil && m.headers.peer == from && !m.headers.verifying
}

// ExpectsProof returns whether a proof is expected from a peer. claimed is the height that the peer
// claimed when the proof was requested.
func (m *Machine) ExpectsProof(from PeerID) (claimed primitives.Height, expected bool) {
	if m.proof == nil || m.proof.peer != from || m.proof.verifying {
		return 0, false
	}
	return m.proof.claimed, true
}

// ProofRequests counts the requests for an epoch sync proof since the last accepted one.
type ProofRequests struct {
	// Wanted means that the last event found the highest claim far enough ahead for a proof.
	Wanted bool
	Sent   int // requests, with the one in flight
	Silent int // requests without a response within Options.ProofWait
	Unused int // proofs that were not accepted
}

// ProofRequests returns what became of the requests for an epoch sync proof.
func (m *Machine) ProofRequests() ProofRequests { return m.proofs }

// Waits returns the height of the lowest requested block that has not arrived, or 0 if there is
// none. since is the time in ms since the tip last changed.
func (m *Machine) Waits(now int64) (height primitives.Height, since int64) {
	for _, w := range m.blocks {
		if !w.parent && !w.received && w.height > 0 && (height == 0 || w.height < height) {
			height, since = w.height, now-m.tipMovedAt
		}
	}
	return height, since
}

// Step handles an event at the time now, in ms. It returns only errors of Chain. It panics if ev is
// not one of the events of this package.
func (m *Machine) Step(now int64, ev Event) (out Out, err error) {
	switch ev := ev.(type) {
	case Peers:
		m.setPeers(ev.List)
	case Arrived:
		if m.Expects(ev.From) {
			m.headers.verifying = true
		}
	case HeadersVerified:
		m.headersVerified(&out, now, &ev)
	case ProofArrived:
		if _, is := m.ExpectsProof(ev.From); is {
			m.proof.verifying = true
		}
	case Proved:
		m.proved(&out, now, &ev)
	case Block:
		m.blockReceived(now, ev.Hash)
	case Refused:
		m.refused(now, &ev)
	case Imported:
		m.drop(ev.Hash)
	case Wanted:
		m.requestParent(&out, now, &ev)
	case Tick:
	default:
		panic(fmt.Sprintf("blocksync: no case for %T", ev))
	}
	return out, m.advance(&out, now)
}

func (m *Machine) setPeers(list []Peer) {
	here := map[PeerID]bool{}
	for _, p := range list {
		here[p.ID] = true
		if old := m.peers[p.ID]; old != nil {
			old.height, old.archival = p.Height, p.Archival
		} else {
			m.peers[p.ID] = &peer{id: p.ID, height: p.Height, archival: p.Archival}
		}
	}
	for id := range m.peers {
		if !here[id] {
			m.removePeer(id)
		}
	}
}

// removePeer removes a peer. The next steps repeat requests that were sent to this peer, to other
// peers.
func (m *Machine) removePeer(id PeerID) {
	delete(m.peers, id)
	if m.headers != nil && m.headers.peer == id && !m.headers.verifying {
		m.headers = nil
	}
	if m.proof != nil && m.proof.peer == id && !m.proof.verifying {
		m.proof = nil
	}
	for _, w := range m.blocks {
		if w.peer == id {
			w.peer = ""
		}
	}
}

// strike records that a peer has not delivered the headers that it claims. It pauses the peer or
// bans it.
func (m *Machine) strike(out *Out, now int64, id PeerID) {
	p := m.peers[id]
	if p == nil {
		return
	}
	if p.strikes++; p.strikes >= MaxStrikes {
		out.Ban = append(out.Ban, Ban{Peer: id})
		m.removePeer(id)
		return
	}
	p.pausedUntil = now + FirstPause<<(p.strikes-1)
	p.distrustedUntil = p.pausedUntil
}

// miss records that a requested block has not arrived. After MaxMisses of them the peer is paused.
// If they are blocks that the peer should have, other peers replace it for longer: twice as long
// after each such pause, until a block arrives from it. So a silent peer delays a node that has
// another peer less and less. A block that may not exist, and an old block of a peer that is no
// archive, do not make the pauses longer, because no honest peer sends it.
func (m *Machine) miss(now int64, w *blockRequest) {
	p := m.peers[w.peer]
	if p == nil {
		return
	}
	p.inFlight--
	if !w.parent {
		p.lost += (1000 - p.lost) / lostSpan
	}
	if w.at < p.missPause { // a request of the round for which the peer was paused
		return
	}
	p.misses++
	if !w.parent && (p.archival || !m.IsOld(w.height)) {
		p.unexcused++
	}
	if p.misses%MaxMisses != 0 {
		return
	}
	p.missPause, p.pausedUntil = now, max(p.pausedUntil, now+FirstPause)
	if rounds := p.unexcused / MaxMisses; rounds > 0 {
		p.avoidedUntil = now + min(int64(FirstPause)<<min(rounds-1, 16), MaxAvoided)
	}
}

func (m *Machine) headersVerified(out *Out, now int64, ev *HeadersVerified) {
	r := m.headers
	if r == nil || r.peer != ev.From {
		return
	}
	m.headers = nil
	p := m.peers[ev.From]
	switch {
	case ev.Bad:
		out.Ban = append(out.Ban, Ban{Peer: ev.From, Bad: true})
		m.removePeer(ev.From)
	case p == nil:
	case ev.Own:
		p.pausedUntil = now + FirstPause
	case ev.Taken > 0 && ev.Sent >= WholeAnswer:
		p.strikes, m.lastFullBatch = 0, now
	// The response is not full, so it must reach the height that the peer claimed at the request.
	// The response need not reach that height if other peers have delivered these headers
	// meanwhile.
	default:
		at, err := m.chain.Headers()
		switch {
		case err != nil || at.Height+Horizon < r.claimed || ev.Taken == 0 && at.Height < r.claimed:
			m.strike(out, now, ev.From)
		case ev.Taken > 0:
			p.strikes = 0
		}
	}
}

// release removes a block request from the requests in flight to its peer.
func (m *Machine) release(w *blockRequest) {
	if p := m.peers[w.peer]; p != nil && !w.received {
		p.inFlight--
	}
	w.peer = ""
}

func (m *Machine) drop(hash primitives.Hash) {
	if w := m.blocks[hash]; w != nil {
		m.release(w)
		delete(m.blocks, hash)
	}
}

func (m *Machine) blockReceived(now int64, hash primitives.Hash) {
	w := m.blocks[hash]
	if w == nil || w.received {
		return
	}
	if p := m.peers[w.peer]; p != nil {
		p.misses, p.unexcused, p.avoidedUntil = 0, 0, 0
		p.lost -= p.lost / lostSpan
	}
	m.release(w)
	w.received, w.at = true, now
	if w.parent {
		delete(m.blocks, hash)
	}
}

// refused handles a block that this node did not accept. If only the received copy was bad, the
// block is requested again at once. Otherwise the block is requested again after AdoptWait.
func (m *Machine) refused(now int64, ev *Refused) {
	if p := m.peers[ev.From]; p != nil && ev.Copy {
		p.pausedUntil = max(p.pausedUntil, now+FirstPause)
	}
	w := m.blocks[ev.Hash]
	switch {
	case w == nil:
	case ev.Copy:
		m.release(w)
		w.received, w.at = false, now-BlockWait
	case !w.received:
		m.release(w)
		w.received, w.at = true, now
	}
}

// requestParent requests the unknown parent of a block, first from the sender of that block.
func (m *Machine) requestParent(out *Out, now int64, ev *Wanted) {
	if m.blocks[ev.Hash] != nil || m.chain.Has(ev.Hash) {
		return
	}
	n := 0
	for _, w := range m.blocks {
		if w.parent {
			n++
		}
	}
	if n >= MaxWanted {
		return
	}
	w := &blockRequest{hash: ev.Hash, parent: true}
	m.blocks[ev.Hash] = w
	if p := m.peers[ev.From]; p != nil && now >= p.pausedUntil && p.inFlight < m.o.MaxRequests {
		m.ask(out, now, w, p)
	}
}

func (m *Machine) ask(out *Out, now int64, w *blockRequest, p *peer) {
	w.peer, w.at = p.id, now
	w.tries++
	p.inFlight++
	out.Blocks = append(out.Blocks, Ask{p.id, w.hash})
}

// advance updates the state of sync and sends the requests that are due.
func (m *Machine) advance(out *Out, now int64) error {
	tip := m.chain.Tip()
	if tip.Height != m.tip {
		m.tip, m.tipMovedAt = tip.Height, now
	}
	m.expire(out, now)
	m.updateSyncing(now)
	if m.active {
		if err := m.askProof(out, now); err != nil {
			return err
		}
		if m.proof != nil && !m.proofTried && now-m.proof.at < proofFirst || m.o.ProofFirst && !m.chain.Apart() {
			return nil
		}
		if err := m.askHeaders(out, now); err != nil {
			return err
		}
		if err := m.requestPath(); err != nil {
			return err
		}
	}
	m.askBlocks(out, now)
	return nil
}

// expire ends requests that timed out.
func (m *Machine) expire(out *Out, now int64) {
	if r := m.headers; r != nil && !r.verifying && now-r.at >= m.o.HeadersWait {
		m.headers = nil
		m.strike(out, now, r.peer)
	}
	// A timeout is no strike, because many peers have no proof.
	if r := m.proof; r != nil && !r.verifying && now-r.at >= m.o.ProofWait {
		m.proof, m.proofTried = nil, true
		m.proofs.Silent++
		if p := m.peers[r.peer]; p != nil {
			p.noProof = now + 10*m.o.ProofWait
		}
	}
	for _, w := range m.sorted() {
		switch {
		case w.received:
			if now-w.at >= AdoptWait {
				delete(m.blocks, w.hash)
			}
		case w.peer != "" && now-w.at >= BlockWait:
			m.miss(now, w)
			w.peer = ""
			fallthrough
		case w.peer == "":
			if w.parent && w.tries >= maxTries {
				delete(m.blocks, w.hash)
			}
		}
	}
}

// sorted returns the block requests, ascending by height.
func (m *Machine) sorted() []*blockRequest {
	return slices.SortedFunc(maps.Values(m.blocks), func(a, b *blockRequest) int {
		if a.height != b.height {
			if a.height < b.height {
				return -1
			}
			return 1
		}
		return a.hash.Compare(b.hash)
	})
}

// updateSyncing determines whether the node is behind. For a gap of at most Eager blocks,
// updateSyncing first waits for gossip for Patience.
func (m *Machine) updateSyncing(now int64) {
	m.best, m.likely = 0, 0
	was, believed := m.active || m.stuck, false
	for _, p := range m.peers {
		if now >= p.distrustedUntil {
			m.best, believed = max(m.best, p.height), true
			if p.strikes == 0 {
				m.likely = max(m.likely, p.height)
			}
		}
	}
	switch {
	case m.best <= m.tip:
		m.active = false
	case m.active:
	case m.best > m.tip+Eager, m.best > m.tip+m.o.Threshold && now-m.tipMovedAt >= Patience:
		m.active, m.lastFullBatch, m.proofTried, m.asking = true, now, false, m.tip
	}
	if m.stuck = was && !m.active && !believed; m.stuck && m.tip != m.asking {
		at, err := m.chain.Headers()
		m.stuck = err != nil || at.Height > m.tip+Eager
	}
	if !m.active { // requests for blocks on the path to the highest header are obsolete
		for hash, w := range m.blocks {
			if !w.parent {
				m.release(w)
				delete(m.blocks, hash)
			}
		}
	}
}

// eligible returns the peers that are not paused and claim at least the given height, sorted by id.
func (m *Machine) eligible(now int64, least primitives.Height) (out []*peer) {
	for _, id := range slices.Sorted(maps.Keys(m.peers)) {
		if p := m.peers[id]; now >= p.pausedUntil && now >= p.distrustedUntil && p.height >= least {
			out = append(out, p)
		}
	}
	return out
}

func (m *Machine) askHeaders(out *Out, now int64) error {
	if m.headers != nil {
		return nil
	}
	at, err := m.chain.Headers()
	if err != nil || at.Height >= m.best || at.Height >= m.tip+MaxLead && !m.chain.Apart() {
		return err
	}
	list := m.eligible(now, max(at.Height+1, m.best-min(m.best, Horizon)))
	if len(list) == 0 {
		list = m.eligible(now, at.Height+1)
	}
	if len(list) == 0 {
		return nil
	}
	p := list[m.o.Random(len(list))]
	m.headers, m.asking = &request{peer: p.id, at: now, claimed: p.height}, m.tip
	out.Headers = p.id
	return nil
}

// askProof requests an epoch sync proof if the highest claimed height is more than Horizon above
// the blocks and headers. It prefers peers from which no recent request failed. Sync continues if
// no proof arrives within proofFirst, because a young network has no proof.
//
// A proof ends up to three epochs below the claim, which is more than a usual Horizon. So after a
// proof the headers have to close that gap: another proof is requested only if the highest claim has
// risen by more than Horizon since.
func (m *Machine) askProof(out *Out, now int64) error {
	m.proofs.Wanted = false
	if m.o.Horizon == 0 {
		return nil
	}
	if m.o.ProofBelow != 0 && m.tip >= m.o.ProofBelow && !m.chain.Apart() {
		return nil
	}
	at, err := m.chain.Headers()
	if err != nil || m.best <= max(at.Height, m.tip)+m.o.Horizon {
		return err
	}
	if m.chain.Apart() && m.best <= m.provedAt+m.o.Horizon {
		return nil
	}
	m.proofs.Wanted = true
	if m.proof != nil || now < m.proofAt {
		return nil
	}
	list := m.eligible(now, max(at.Height, m.tip)+m.o.Horizon+1)
	list = prefer(list, func(p *peer) bool { return now >= p.noProof })
	if len(list) == 0 {
		return nil
	}
	p := list[m.o.Random(len(list))]
	m.proof = &request{peer: p.id, at: now, claimed: p.height}
	m.proofs.Sent++
	out.Proof = p.id
	return nil
}

func (m *Machine) proved(out *Out, now int64, ev *Proved) {
	if m.proof == nil || m.proof.peer != ev.From {
		return
	}
	if ev.Used {
		m.provedAt, m.proofs = m.proof.claimed, ProofRequests{}
	} else {
		m.proofs.Unused++
	}
	m.proof = nil
	switch {
	case ev.Bad:
		out.Ban = append(out.Ban, Ban{Peer: ev.From, Bad: true})
		m.removePeer(ev.From)
	case !ev.Used:
		m.proofAt, m.proofTried = now+proofAgain, true
		if ev.Newer {
			m.proofAt = now + proofNewer
		}
		if p := m.peers[ev.From]; p != nil {
			p.noProof = now + 10*m.o.ProofWait
		}
	case m.headers != nil && !m.headers.verifying: // the header request began at the header before the proof
		m.headers = nil
	}
}

// requestPath adds the next blocks on the path to the highest header, and drops requests that are
// no longer on it.
func (m *Machine) requestPath() error {
	if m.chain.Apart() {
		for hash, w := range m.blocks {
			if !w.parent {
				m.release(w)
				delete(m.blocks, hash)
			}
		}
		return nil
	}
	path, err := m.chain.Path(Window)
	if err != nil {
		return err
	}
	on := map[primitives.Hash]bool{}
	for _, r := range path {
		on[r.Hash] = true
		if w := m.blocks[r.Hash]; w == nil {
			m.blocks[r.Hash] = &blockRequest{hash: r.Hash, height: r.Height}
		} else {
			w.height, w.parent = r.Height, false
		}
	}
	for hash, w := range m.blocks { // the block is on another branch, or imported
		if !w.parent && !on[hash] {
			m.release(w)
			delete(m.blocks, hash)
		}
	}
	return nil
}

// IsOld returns whether peers that are no archives have probably deleted a block: it is more than
// Options.Kept below the highest height that a peer without strikes claims. A height of 0 means an
// unknown height.
func (m *Machine) IsOld(height primitives.Height) bool {
	return m.o.Kept != 0 && height != 0 && height+m.o.Kept < m.likely
}

// askBlocks sends each request that is due to the eligible peer with the fewest requests in flight.
// Old blocks are requested only from archival peers, if there are any (nearcore
// chain/client/src/sync/block.rs:156). A peer that is avoided is asked only if all are. A block that did
// not arrive is requested from the peers that lost the smallest share of their blocks. So peers that send
// just enough blocks not to be paused delay the node by about BlockWait in each Window, however many they are.
func (m *Machine) askBlocks(out *Out, now int64) {
	for _, w := range m.sorted() {
		if w.received || w.peer != "" || w.parent && w.tries > 0 && now-w.at < BlockWait {
			continue
		}
		var free []*peer
		list := m.eligible(now, w.height)
		if m.IsOld(w.height) {
			list = prefer(list, func(p *peer) bool { return p.archival })
		}
		list = prefer(list, func(p *peer) bool { return now >= p.avoidedUntil })
		if w.tries > 0 && len(list) > 0 {
			least := slices.MinFunc(list, func(a, b *peer) int { return a.lost - b.lost }).lost
			list = prefer(list, func(p *peer) bool { return p.lost <= least+lostEqual })
		}
		for _, p := range list {
			switch {
			case p.inFlight >= m.o.MaxRequests || len(free) > 0 && p.inFlight > free[0].inFlight:
			case len(free) > 0 && p.inFlight == free[0].inFlight:
				free = append(free, p)
			default:
				free = []*peer{p}
			}
		}
		if len(free) > 0 {
			m.ask(out, now, w, free[m.o.Random(len(free))])
		}
	}
}

// prefer returns the peers for which is returns true, or all if there are none.
func prefer(list []*peer, is func(*peer) bool) []*peer {
	var out []*peer
	for _, p := range list {
		if is(p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return list
	}
	return out
}
