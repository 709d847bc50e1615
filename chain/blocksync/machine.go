package blocksync

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Machine is the state. It is used by one goroutine.
type Machine struct {
	o       Options
	chain   Chain
	peers   map[PeerID]*peer
	headers *request
	proof   *request
	proofAt int64 // before which none is asked for
	waited  bool  // for a proof, since it is behind: blocks do not wait for the next
	full    int64 // when it last had as many headers as an answer has, or found out that it is behind
	blocks  map[primitives.Hash]*wanted
	active  bool
	stuck   bool              // it was behind when it last knew, and nobody is believed
	asking  primitives.Height // the tip when headers were asked for, or when it found out that it is behind
	tip     primitives.Height
	moved   int64 // when the tip did
	best    primitives.Height
}

// peer is who may be asked.
type peer struct {
	id      PeerID
	height  primitives.Height
	pause   int64 // until when it is not asked
	doubted int64 // until when its height is not believed
	noProof int64 // until when it is not asked for a proof
	strikes int
	misses  int
	asked   int // blocks
}

// request is that for headers which is under way.
type request struct {
	peer    PeerID
	at      int64
	claimed primitives.Height
	judging bool
}

// wanted is a block that is asked for, or has come and is no part of the chain yet.
type wanted struct {
	hash   primitives.Hash
	height primitives.Height // 0: not known
	peer   PeerID            // "": nobody
	at     int64
	came   bool
	parent bool // of a block that has come; else one of the way to the highest header
	tries  int
}

// New returns a machine that knows nobody.
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
	return &Machine{o: o, chain: c, peers: map[PeerID]*peer{}, blocks: map[primitives.Hash]*wanted{}}
}

// Syncing tells whether the node is behind as far as it knows, Best the height of the highest peer that is believed.
func (m *Machine) Syncing() bool           { return m.active }
func (m *Machine) Best() primitives.Height { return m.best }

// Stuck tells whether the node was behind when it last knew, has nobody left whom it believes, and has not come further, or not as far as the headers that were judged: it is
// behind still, or can't know whether it is in step.
func (m *Machine) Stuck() bool { return m.stuck }

// Still tells whether nobody has given a whole answer of headers for as long as one is waited for: what is known is what there is, whatever somebody
// claims.
func (m *Machine) Still(now int64) bool { return now-m.full >= m.o.HeadersWait }

// Asked tells whether a block was asked for and has not come.
func (m *Machine) Asked(hash primitives.Hash) bool {
	w := m.blocks[hash]
	return w != nil && !w.came
}

// Expects tells whether headers are to come from a peer.
func (m *Machine) Expects(from PeerID) bool {
	return m.headers != nil && m.headers.peer == from && !m.headers.judging
}

// ExpectsProof tells whether a proof is to come from a peer; claimed is how high that was when it was asked.
func (m *Machine) ExpectsProof(from PeerID) (claimed primitives.Height, expected bool) {
	if m.proof == nil || m.proof.peer != from || m.proof.judging {
		return 0, false
	}
	return m.proof.claimed, true
}

// Waits returns the lowest height that is asked for, and for how long that has been: why it does not go on; 0: for nothing.
func (m *Machine) Waits(now int64) (height primitives.Height, since int64) {
	for _, w := range m.blocks {
		if !w.parent && !w.came && w.height > 0 && (height == 0 || w.height < height) {
			height, since = w.height, now-m.moved
		}
	}
	return height, since
}

// Step takes an event at a time in ms.
func (m *Machine) Step(now int64, ev Event) (out Out, err error) {
	switch ev := ev.(type) {
	case Peers:
		m.setPeers(ev.List)
	case Came:
		if m.Expects(ev.From) {
			m.headers.judging = true
		}
	case Judged:
		m.judged(&out, now, &ev)
	case ProofCame:
		if _, is := m.ExpectsProof(ev.From); is {
			m.proof.judging = true
		}
	case Proved:
		m.proved(&out, now, &ev)
	case Block:
		m.came(now, ev.Hash)
	case Refused:
		m.refused(now, &ev)
	case Adopted:
		m.drop(ev.Hash)
	case Wanted:
		m.want(&out, now, &ev)
	case Tick:
	default:
		panic(fmt.Sprintf("sync: no case for %T", ev))
	}
	return out, m.advance(&out, now)
}

func (m *Machine) setPeers(list []Peer) {
	here := map[PeerID]bool{}
	for _, p := range list {
		here[p.ID] = true
		if old := m.peers[p.ID]; old != nil {
			old.height = p.Height
		} else {
			m.peers[p.ID] = &peer{id: p.ID, height: p.Height}
		}
	}
	for id := range m.peers {
		if !here[id] {
			m.gone(id)
		}
	}
}

// gone has what a peer was asked for asked of others.
func (m *Machine) gone(id PeerID) {
	delete(m.peers, id)
	if m.headers != nil && m.headers.peer == id && !m.headers.judging {
		m.headers = nil
	}
	if m.proof != nil && m.proof.peer == id && !m.proof.judging {
		m.proof = nil
	}
	for _, w := range m.blocks {
		if w.peer == id {
			w.peer = ""
		}
	}
}

// strike holds against a peer that it has not shown what it says to have.
func (m *Machine) strike(out *Out, now int64, id PeerID) {
	p := m.peers[id]
	if p == nil {
		return
	}
	if p.strikes++; p.strikes >= MaxStrikes {
		out.Ban = append(out.Ban, Ban{Peer: id})
		m.gone(id)
		return
	}
	p.pause = now + FirstPause<<(p.strikes-1)
	p.doubted = p.pause
}

// miss holds against a peer that a block has not come.
func (m *Machine) miss(now int64, id PeerID) {
	p := m.peers[id]
	if p == nil {
		return
	}
	p.asked--
	if p.misses++; p.misses >= MaxMisses {
		p.misses, p.pause = 0, max(p.pause, now+FirstPause)
	}
}

func (m *Machine) judged(out *Out, now int64, ev *Judged) {
	r := m.headers
	if r == nil || r.peer != ev.From {
		return
	}
	m.headers = nil
	p := m.peers[ev.From]
	switch {
	case ev.Bad:
		out.Ban = append(out.Ban, Ban{Peer: ev.From, Bad: true})
		m.gone(ev.From)
	case p == nil:
	case ev.Own:
		p.pause = now + FirstPause
	case ev.Taken > 0 && ev.Sent >= WholeAnswer:
		p.strikes, m.full = 0, now
	default: // all that it says to have; else others were faster
		at, err := m.chain.Headers()
		switch {
		case err != nil || at.Height+Horizon < r.claimed || ev.Taken == 0 && at.Height < r.claimed:
			m.strike(out, now, ev.From)
		case ev.Taken > 0:
			p.strikes = 0
		}
	}
}

// release gives back the place that a request has at its peer.
func (m *Machine) release(w *wanted) {
	if p := m.peers[w.peer]; p != nil && !w.came {
		p.asked--
	}
	w.peer = ""
}

func (m *Machine) drop(hash primitives.Hash) {
	if w := m.blocks[hash]; w != nil {
		m.release(w)
		delete(m.blocks, hash)
	}
}

func (m *Machine) came(now int64, hash primitives.Hash) {
	w := m.blocks[hash]
	if w == nil || w.came {
		return
	}
	if p := m.peers[w.peer]; p != nil {
		p.misses = 0
	}
	m.release(w)
	w.came, w.at = true, now
	if w.parent {
		delete(m.blocks, hash)
	}
}

// refused has a block asked of another, if only this copy of it was bad; if it is bad itself nothing will come of it soon.
func (m *Machine) refused(now int64, ev *Refused) {
	if p := m.peers[ev.From]; p != nil && ev.Copy {
		p.pause = max(p.pause, now+FirstPause)
	}
	w := m.blocks[ev.Hash]
	switch {
	case w == nil:
	case ev.Copy:
		m.release(w)
		w.came, w.at = false, now-BlockWait
	case !w.came:
		m.release(w)
		w.came, w.at = true, now
	}
}

// want asks for the parent of a block that came by itself, first of who sent that.
func (m *Machine) want(out *Out, now int64, ev *Wanted) {
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
	w := &wanted{hash: ev.Hash, parent: true}
	m.blocks[ev.Hash] = w
	if p := m.peers[ev.From]; p != nil && now >= p.pause && p.asked < m.o.MaxRequests {
		m.ask(out, now, w, p)
	}
}

func (m *Machine) ask(out *Out, now int64, w *wanted, p *peer) {
	w.peer, w.at = p.id, now
	w.tries++
	p.asked++
	out.Blocks = append(out.Blocks, Ask{p.id, w.hash})
}

// advance does what can be done now.
func (m *Machine) advance(out *Out, now int64) error {
	tip := m.chain.Tip()
	if tip.Height != m.tip {
		m.tip, m.moved = tip.Height, now
	}
	m.expire(out, now)
	m.decide(now)
	if m.active {
		if err := m.askProof(out, now); err != nil {
			return err
		}
		if m.proof != nil && !m.waited && now-m.proof.at < proofFirst {
			return nil
		}
		if err := m.askHeaders(out, now); err != nil {
			return err
		}
		if err := m.walk(); err != nil {
			return err
		}
	}
	m.askBlocks(out, now)
	return nil
}

// expire ends what was asked for too long ago.
func (m *Machine) expire(out *Out, now int64) {
	if r := m.headers; r != nil && !r.judging && now-r.at >= m.o.HeadersWait {
		m.headers = nil
		m.strike(out, now, r.peer)
	}
	if r := m.proof; r != nil && !r.judging && now-r.at >= m.o.ProofWait { // many have none
		m.proof, m.waited = nil, true
		if p := m.peers[r.peer]; p != nil {
			p.noProof = now + 10*m.o.ProofWait
		}
	}
	for _, w := range m.sorted() {
		switch {
		case w.came:
			if now-w.at >= AdoptWait {
				delete(m.blocks, w.hash)
			}
		case w.peer != "" && now-w.at >= BlockWait:
			m.miss(now, w.peer)
			w.peer = ""
			fallthrough
		case w.peer == "":
			if w.parent && w.tries >= maxTries {
				delete(m.blocks, w.hash)
			}
		}
	}
}

// sorted are the blocks that are asked for, the lowest first.
func (m *Machine) sorted() []*wanted {
	return slices.SortedFunc(maps.Values(m.blocks), func(a, b *wanted) int {
		if a.height != b.height {
			if a.height < b.height {
				return -1
			}
			return 1
		}
		return a.hash.Compare(b.hash)
	})
}

// decide tells whether the node is behind: a small gap is left to gossip for a while.
func (m *Machine) decide(now int64) {
	m.best = 0
	was, believed := m.active || m.stuck, false
	for _, p := range m.peers {
		if now >= p.doubted {
			m.best, believed = max(m.best, p.height), true
		}
	}
	switch {
	case m.best <= m.tip:
		m.active = false
	case m.active:
	case m.best > m.tip+Eager, m.best > m.tip+m.o.Threshold && now-m.moved >= Patience:
		m.active, m.full, m.waited, m.asking = true, now, false, m.tip
	}
	if m.stuck = was && !m.active && !believed; m.stuck && m.tip != m.asking {
		at, err := m.chain.Headers()
		m.stuck = err != nil || at.Height > m.tip+Eager
	}
	if !m.active { // what was asked for on the way is not needed any more
		for hash, w := range m.blocks {
			if !w.parent {
				m.release(w)
				delete(m.blocks, hash)
			}
		}
	}
}

// able lists who may be asked, in the order of ids.
func (m *Machine) able(now int64, least primitives.Height) (out []*peer) {
	for _, id := range slices.Sorted(maps.Keys(m.peers)) {
		if p := m.peers[id]; now >= p.pause && now >= p.doubted && p.height >= least {
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
	list := m.able(now, max(at.Height+1, m.best-min(m.best, Horizon)))
	if len(list) == 0 {
		list = m.able(now, at.Height+1)
	}
	if len(list) == 0 {
		return nil
	}
	p := list[m.o.Random(len(list))]
	m.headers, m.asking = &request{peer: p.id, at: now, claimed: p.height}, m.tip
	out.Headers = p.id
	return nil
}

// askProof asks for a proof of epochs, if the best peer is far above blocks and headers: anybody who is, first of those who have not been asked in vain.
// While it does not come the rest goes on: the network may be too young to have one.
func (m *Machine) askProof(out *Out, now int64) error {
	if m.o.Horizon == 0 || m.proof != nil || now < m.proofAt {
		return nil
	}
	at, err := m.chain.Headers()
	if err != nil || m.best <= max(at.Height, m.tip)+m.o.Horizon {
		return err
	}
	list := m.able(now, max(at.Height, m.tip)+m.o.Horizon+1)
	if others := slices.DeleteFunc(slices.Clone(list), func(p *peer) bool { return now < p.noProof }); len(others) > 0 {
		list = others
	}
	if len(list) == 0 {
		return nil
	}
	p := list[m.o.Random(len(list))]
	m.proof = &request{peer: p.id, at: now, claimed: p.height}
	out.Proof = p.id
	return nil
}

func (m *Machine) proved(out *Out, now int64, ev *Proved) {
	if m.proof == nil || m.proof.peer != ev.From {
		return
	}
	m.proof = nil
	switch {
	case ev.Bad:
		out.Ban = append(out.Ban, Ban{Peer: ev.From, Bad: true})
		m.gone(ev.From)
	case !ev.Used:
		m.proofAt, m.waited = now+proofAgain, true
		if p := m.peers[ev.From]; p != nil {
			p.noProof = now + 10*m.o.ProofWait
		}
	case m.headers != nil && !m.headers.judging: // that was asked from where the headers were before
		m.headers = nil
	}
}

// walk wants the next blocks on the way to the highest header.
func (m *Machine) walk() error {
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
			m.blocks[r.Hash] = &wanted{hash: r.Hash, height: r.Height}
		} else {
			w.height, w.parent = r.Height, false
		}
	}
	for hash, w := range m.blocks { // of another branch, or part of the chain
		if !w.parent && !on[hash] {
			m.release(w)
			delete(m.blocks, hash)
		}
	}
	return nil
}

// askBlocks asks for what nobody is asked for, each of who is asked for least.
func (m *Machine) askBlocks(out *Out, now int64) {
	for _, w := range m.sorted() {
		if w.came || w.peer != "" || w.parent && w.tries > 0 && now-w.at < BlockWait {
			continue
		}
		var free []*peer
		for _, p := range m.able(now, w.height) {
			switch {
			case p.asked >= m.o.MaxRequests || len(free) > 0 && p.asked > free[0].asked:
			case len(free) > 0 && p.asked == free[0].asked:
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
