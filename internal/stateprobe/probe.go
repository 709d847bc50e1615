package stateprobe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/trie"
)

// pollEvery is the time between two looks at the connections.
const pollEvery = 50 * time.Millisecond

// maxHandshakeFailure is the maximum size in bytes of a frame that is searched for the reason of a
// refused handshake.
const maxHandshakeFailure = 1 << 10

// prober is a running probe.
type prober struct {
	o      Options
	server *tcp.Server

	mu    sync.Mutex
	waits map[wire.PeerID]*waiting
	// owed is the number of state requests of a peer that timed out and may still be answered.
	owed map[wire.PeerID]int
	// refused has the reason of refused handshakes, by address of the peer.
	refused   map[string]string
	done, all int // requests that have ended, and all requests
}

// waiting is a request that waits for its answer.
type waiting struct {
	// answers returns whether a message answers the request.
	answers func(m wire.Message) bool
	got     chan arrival
}

type arrival struct {
	msg wire.Message
	at  time.Time
}

// Run runs a probe. It returns a Report together with ErrNoHeader or ErrNoPart if no peer gave a
// valid header or part, and without an error if one did. With other errors there is no Report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &prober{o: o, waits: map[wire.PeerID]*waiting{}, owed: map[wire.PeerID]int{}, refused: map[string]string{}}
	var err error
	p.server, err = tcp.Listen(near.Config{
		Key: o.Key, Genesis: o.Chain, Version: o.Version, Oldest: o.Oldest, ListenAddr: o.Listen, PublicAddr: o.Public,
		NoInbound: true, OnlyBoot: true, Boot: o.Peers, NoInboundT1: true, NoOutboundT1: true,
		Draw: rand.IntN,
	}, p.deliver, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From}
	})
	if err != nil {
		return nil, err
	}
	p.server.Tap, p.server.MaxFrame = p.tap, maxAnswer
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.server.Run(run) }()
	r, err := p.probe(ctx)
	cancel()
	if failed := <-ended; failed != nil {
		err = errors.Join(err, failed)
	}
	return r, err
}

// tap notes why peers refuse the handshake.
func (p *prober) tap(t tcp.Tapped) {
	if t.Sent || len(t.Frame) == 0 || len(t.Frame) > maxHandshakeFailure {
		return
	}
	m, err := wire.Decode(t.Frame)
	f, is := m.(*wire.HandshakeFailure)
	if err != nil || !is {
		return
	}
	text := "the peer refuses the handshake: " + f.Reason.String()
	switch f.Reason {
	case wire.GenesisMismatch:
		text = fmt.Sprintf("the peer is of chain %q with genesis %v", f.Genesis.ChainID, f.Genesis.Hash)
	case wire.VersionMismatch:
		text = fmt.Sprintf("the peer wants a protocol version from %d to %d", f.Oldest, f.Version)
	case wire.InvalidTarget:
		text = fmt.Sprintf("the peer's key is %v", f.Peer.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[t.Remote] = text
}

// deliver gives a message to the request that waits for it. A message that no request waits for is
// dropped.
func (p *prober) deliver(d near.Deliver) {
	from := d.From
	if r, ok := d.Msg.(*wire.Routed); ok {
		from = r.Author
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waits[from]
	if r, ok := d.Msg.(*wire.StateResponse); ok && p.owed[from] > 0 {
		if isEmpty(r) || w == nil || !w.answers(d.Msg) { // it answers a request that timed out
			p.owed[from]--
			return
		}
	}
	if w != nil && w.answers(d.Msg) {
		select {
		case w.got <- arrival{d.Msg, time.Now()}:
			delete(p.waits, from)
		default:
		}
	}
}

func isEmpty(r *wire.StateResponse) bool { return r.Header == nil && r.Part == nil }

// Errors of ask.
var (
	errSilent       = errors.New("no answer")
	errDisconnected = errors.New("the peer has closed the connection")
)

// askBlock asks a connected peer for headers or a block.
func (p *prober) askBlock(ctx context.Context, peer wire.PeerID, q wire.Message, answers func(wire.Message) bool) (wire.Message, error) {
	a, _, err := p.ask(ctx, peer, near.ToPeer{Peer: peer, Msg: q}, true, min(p.o.Wait, p.o.Connect), answers)
	return a.msg, err
}

// ask sends a request and waits for the answer, at most for wait. connected is whether the request
// needs the peer's connection.
func (p *prober) ask(ctx context.Context, peer wire.PeerID, ev near.Event, connected bool, wait time.Duration,
	answers func(wire.Message) bool) (arrival, time.Duration, error) {
	w := &waiting{answers: answers, got: make(chan arrival, 1)}
	p.mu.Lock()
	p.waits[peer] = w
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waits[peer] == w {
			delete(p.waits, peer)
		}
	}()
	begun := time.Now()
	p.server.Post(ev)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case a := <-w.got:
			return a, a.at.Sub(begun), nil
		case <-limit.C:
			return arrival{}, 0, errSilent
		case <-ctx.Done():
			return arrival{}, 0, ctx.Err()
		case <-look.C:
			if connected && !p.isConnected(peer) {
				return arrival{}, 0, errDisconnected
			}
		}
	}
}

func (p *prober) isConnected(peer wire.PeerID) bool {
	return slices.ContainsFunc(p.server.Info().Peers, func(s near.PeerState) bool { return s.Info.ID == peer })
}

// poll calls is until it returns true, or the time limit Options.Connect ends.
func (p *prober) poll(ctx context.Context, is func(*near.Info) bool) error {
	limit := time.NewTimer(p.o.Connect)
	defer limit.Stop()
	for {
		i := p.server.Info()
		if is(&i) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return nil
		case <-time.After(pollEvery):
		}
	}
}

// probe connects, finds the sync block, and asks the peers.
func (p *prober) probe(ctx context.Context) (*Report, error) {
	err := p.poll(ctx, func(i *near.Info) bool {
		if len(i.Peers) == len(p.o.Peers) {
			return true
		}
		p.server.Post(near.Heard{}) // the manager then dials one of the other peers at once
		return false
	})
	if err != nil {
		return nil, err
	}
	info := p.server.Info()
	if len(info.Peers) == 0 {
		return nil, p.unconnected()
	}
	if p.o.Sync.IsZero() || p.o.Routed {
		err := p.poll(ctx, func(i *near.Info) bool {
			return slices.ContainsFunc(i.Hosts, p.serves) && (!p.o.Routed || i.Public.IsValid())
		})
		if err != nil {
			return nil, err
		}
	}
	info = p.server.Info()
	at, err := p.syncBlock(ctx, &info)
	if err != nil {
		return nil, err
	}
	r := &Report{ChainID: p.o.Chain.ChainID, Shard: p.o.Shard, Sync: at.sync.Hash(), Height: at.sync.Height,
		EpochID: at.sync.EpochID, Routed: p.o.Routed}
	if err := p.targets(ctx, r, &info, at.point.PrevHash); err != nil {
		return nil, err
	}
	return r, p.askAll(ctx, r, at)
}

// serves returns whether a host announces a state of the shard.
func (p *prober) serves(h *wire.SnapshotHost) bool { return slices.Contains(h.Shards, p.o.Shard) }

// unconnected returns ErrNoPeer with the reason of each peer.
func (p *prober) unconnected() error {
	err := fmt.Errorf("%w after %v", ErrNoPeer, p.o.Connect)
	for i := range p.o.Peers {
		err = fmt.Errorf("%w; %v@%v: %s", err, p.o.Peers[i].ID, p.o.Peers[i].Addr, p.reason(p.o.Peers[i].Addr))
	}
	return err
}

// reason returns why the peer at an address is not connected.
func (p *prober) reason(at netip.AddrPort) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := p.refused[at.String()]; text != "" {
		return text
	}
	return "there is no connection: the peer cannot be reached, or it has closed the connection"
}

// syncPoint has the headers of a sync block and of its parent.
type syncPoint struct{ sync, point *primitives.BlockHeader }

// syncBlock finds the headers of the sync block and of its parent.
func (p *prober) syncBlock(ctx context.Context, info *near.Info) (*syncPoint, error) {
	if !p.o.Sync.IsZero() {
		sync, err := p.header(ctx, info, p.o.Sync)
		if err != nil {
			return nil, err
		}
		point, err := p.header(ctx, info, sync.PrevHash)
		return &syncPoint{sync, point}, err
	}
	list, err := p.announced(info)
	if err != nil {
		return nil, err
	}
	for _, grandparent := range list {
		if at := p.childrenOf(ctx, info, grandparent); at != nil {
			return at, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%w: peers announce the state of block %v, but none has the two blocks after it; name a "+
		"sync block", ErrNoSync, list[0])
}

// childrenOf asks all connected peers for the two blocks after a block. The answer of most of them
// counts. It returns nil without a valid answer.
func (p *prober) childrenOf(ctx context.Context, info *near.Info, of primitives.Hash) *syncPoint {
	var mu sync.Mutex
	var group sync.WaitGroup
	found, votes := map[primitives.Hash]*syncPoint{}, map[primitives.Hash]int{}
	for i := range info.Peers {
		group.Go(func() {
			at := p.children(ctx, info.Peers[i].Info.ID, of)
			if at == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			hash := at.sync.Hash()
			found[hash], votes[hash] = at, votes[hash]+1
		})
	}
	group.Wait()
	var best primitives.Hash
	for hash, n := range votes {
		if n > votes[best] || n == votes[best] && bytes.Compare(hash[:], best[:]) < 0 {
			best = hash
		}
	}
	return found[best]
}

// maxAnnounced is the maximum number of announced blocks that are tried.
const maxAnnounced = 8

// announced returns the blocks whose state hosts of the shard announce, in the order in which they are
// tried: those that connected peers announce, then those of the newest epochs, then those of the most
// hosts. Any node of the network can announce any block and epoch under any number of keys, so the first
// one may not exist.
func (p *prober) announced(info *near.Info) ([]primitives.Hash, error) {
	type votes struct {
		of           primitives.Hash
		epoch        uint64
		peers, hosts int
	}
	by := map[primitives.Hash]*votes{}
	for _, h := range info.Hosts {
		if !p.serves(h) {
			continue
		}
		v := by[h.SyncHash]
		if v == nil {
			v = &votes{of: h.SyncHash}
			by[h.SyncHash] = v
		}
		v.epoch, v.hosts = max(v.epoch, h.EpochHeight), v.hosts+1
		if slices.ContainsFunc(info.Peers, func(s near.PeerState) bool { return s.Info.ID == h.PeerID }) {
			v.peers++
		}
	}
	if len(by) == 0 {
		return nil, fmt.Errorf("%w: no peer announces a state of shard %d; name a sync block", ErrNoSync, p.o.Shard)
	}
	list := slices.SortedFunc(maps.Values(by), func(a, b *votes) int {
		return cmp.Or(cmp.Compare(min(b.peers, 1), min(a.peers, 1)), cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.peers, a.peers),
			cmp.Compare(b.hosts, a.hosts), bytes.Compare(a.of[:], b.of[:]))
	})
	out := make([]primitives.Hash, min(len(list), maxAnnounced))
	for i := range out {
		out[i] = list[i].of
	}
	return out, nil
}

// children asks a peer for the two blocks after a block; nil without a valid answer.
func (p *prober) children(ctx context.Context, peer wire.PeerID, of primitives.Hash) *syncPoint {
	m, err := p.askBlock(ctx, peer, &wire.HeadersRequest{Hashes: []primitives.Hash{of}},
		func(m wire.Message) bool { _, is := m.(*wire.Headers); return is })
	if err != nil {
		return nil
	}
	list := m.(*wire.Headers).Headers
	if len(list) < 2 || list[0].PrevHash != of || list[1].PrevHash != list[0].Hash() {
		return nil
	}
	return &syncPoint{sync: list[1], point: list[0]}
}

// header asks all connected peers for the block with a hash, and returns the header of the first
// answer.
func (p *prober) header(ctx context.Context, info *near.Info, hash primitives.Hash) (*primitives.BlockHeader, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	found := make(chan *primitives.BlockHeader, len(info.Peers))
	for i := range info.Peers {
		group.Go(func() {
			var h *primitives.BlockHeader
			m, err := p.askBlock(ctx, info.Peers[i].Info.ID, &wire.BlockRequest{Hash: hash}, func(m wire.Message) bool {
				b, is := m.(*wire.Block)
				return is && b.Block.Hash() == hash
			})
			if err == nil {
				h = m.(*wire.Block).Block.Header
			}
			found <- h
		})
	}
	for range info.Peers {
		if h := <-found; h != nil {
			cancel()
			return h, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%w: no connected peer sends block %v", ErrNoSync, hash), ctx.Err())
}

// targets fills r.Peers with the peers of the options, and then the other hosts to ask. announced is
// the block that hosts of the state announce.
func (p *prober) targets(ctx context.Context, r *Report, info *near.Info, announced primitives.Hash) error {
	hosts := map[wire.PeerID]bool{}
	for _, h := range info.Hosts {
		if h.SyncHash == announced && p.serves(h) {
			hosts[h.PeerID] = true
		}
	}
	for i := range p.o.Peers {
		x := Peer{ID: p.o.Peers[i].ID, Address: p.o.Peers[i].Addr.String(), Announces: hosts[p.o.Peers[i].ID], Answers: []Answer{}}
		connected := slices.ContainsFunc(info.Peers, func(s near.PeerState) bool { return s.Info.ID == x.ID })
		if !connected {
			x.Error = p.reason(p.o.Peers[i].Addr)
		}
		r.Peers = append(r.Peers, x)
		delete(hosts, x.ID)
	}
	if p.o.Routed {
		if !info.Public.IsValid() {
			return errors.New("no peer has reported the address of the probe; name the address under which hosts reach it")
		}
		for id := range hosts {
			r.Peers = append(r.Peers, Peer{ID: id, Announces: true, Answers: []Answer{}})
		}
		slices.SortFunc(r.Peers[len(p.o.Peers):], func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
		r.Peers = r.Peers[:min(len(r.Peers), MaxPeers)]
		return p.awaitRoutes(ctx, r)
	}
	return nil
}

// awaitRoutes waits until there are routes to the peers, and notes the peers without one.
func (p *prober) awaitRoutes(ctx context.Context, r *Report) error {
	routed := map[wire.PeerID]bool{}
	err := p.poll(ctx, func(*near.Info) bool {
		var hops map[wire.PeerID][]wire.PeerID
		p.server.Inspect(func(n *near.PeerManager) { _, hops = n.RoutingGraph() })
		left := 0
		for i := range r.Peers {
			if routed[r.Peers[i].ID] = len(hops[r.Peers[i].ID]) > 0; !routed[r.Peers[i].ID] && r.Peers[i].Error == "" {
				left++
			}
		}
		return left == 0
	})
	for i := range r.Peers {
		if x := &r.Peers[i]; !routed[x.ID] && x.Error == "" {
			x.Error = "there is no route to the host"
		}
	}
	return err
}

// askAll asks all peers for the header, and then for the parts.
func (p *prober) askAll(ctx context.Context, r *Report, at *syncPoint) error {
	asked := 0
	for i := range r.Peers {
		if r.Peers[i].Error == "" {
			asked++
		}
	}
	p.progress(0, asked)
	headers := make([]*primitives.StateHeader, len(r.Peers))
	p.each(r, func(i int, x *Peer) {
		var a Answer
		a, headers[i] = p.askHeader(ctx, x, at)
		x.Answers = append(x.Answers, a)
		p.progress(1, 0)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	i := slices.IndexFunc(headers, func(h *primitives.StateHeader) bool { return h != nil })
	if i < 0 {
		return ErrNoHeader
	}
	root := headers[i].Chunk.Header.PrevStateRoot
	r.StateRoot = root
	if !root.IsZero() {
		r.Memory, r.Parts = headers[i].Root.MemoryUsage, trie.NumParts(headers[i].Root.MemoryUsage)
	}
	if r.Parts == 0 {
		return nil
	}
	parts := p.o.Parts.of(r.Parts)
	if len(parts) == 0 {
		last := fmt.Sprintf("%d parts, 0 to %d", r.Parts, r.Parts-1)
		if r.Parts == 1 {
			last = "part 0"
		}
		return fmt.Errorf("the state has only %s", last)
	}
	p.progress(0, asked*len(parts))
	judged := make(chan struct{}, maxJudged)
	p.each(r, func(_ int, x *Peer) {
		t := target{p: p, peer: x, sync: r.Sync, root: root, total: r.Parts, judged: judged}
		for _, n := range parts {
			x.Answers = append(x.Answers, t.part(ctx, n))
			p.progress(1, 0)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if peers, _, _ := r.Valid(); peers == 0 {
		return ErrNoPart
	}
	return nil
}

// each calls do for each peer that can be asked, all at once.
func (p *prober) each(r *Report, do func(i int, x *Peer)) {
	var group sync.WaitGroup
	for i := range r.Peers {
		if r.Peers[i].Error == "" {
			group.Go(func() { do(i, &r.Peers[i]) })
		}
	}
	group.Wait()
}

func (p *prober) progress(done, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.all = p.done+done, p.all+all
	if p.o.Progress != nil {
		p.o.Progress(p.done, p.all)
	}
}

// askState sends a state request to a peer. part is nil for the header. The result is an Answer
// without a verdict if the peer sent the header or part.
func (p *prober) askState(ctx context.Context, peer wire.PeerID, sync primitives.Hash, part *uint64) (Answer, *wire.StateResponse) {
	a := Answer{Part: part}
	ask := near.AskState{Host: peer, ShardID: p.o.Shard, SyncHash: sync, IsHeader: part == nil}
	if part != nil {
		ask.Part = *part
	}
	var ev near.Event = ask
	switch {
	case p.o.Routed:
	case part == nil:
		ev = near.ToPeer{Peer: peer, Msg: &wire.StateHeaderRequest{ShardID: p.o.Shard, SyncHash: sync}}
	default:
		ev = near.ToPeer{Peer: peer, Msg: &wire.StatePartRequest{ShardID: p.o.Shard, SyncHash: sync, Part: *part}}
	}
	got, took, err := p.ask(ctx, peer, ev, !p.o.Routed, p.o.Wait, func(m wire.Message) bool {
		switch m := m.(type) {
		case *wire.StateResponse:
			return m.ShardID == p.o.Shard && m.SyncHash == sync && (isEmpty(m) || part == nil && m.Header != nil ||
				part != nil && m.Part != nil && m.Part.Number == *part)
		case *wire.Routed:
			q, is := m.Body.(*wire.StateRequestAck)
			return is && q.ShardID == p.o.Shard && q.SyncHash == sync && q.Header == (part == nil) && (part == nil || q.Part == *part) &&
				q.Body != primitives.StateWillRespond
		}
		return false
	})
	switch {
	case errors.Is(err, errDisconnected):
		a.Verdict = Disconnected
	case err != nil:
		a.Verdict, a.Error = Silent, fmt.Sprintf("no answer within %v", p.o.Wait)
		p.mu.Lock()
		p.owed[peer]++
		p.mu.Unlock()
	}
	if err != nil {
		return a, nil
	}
	a.Ms = took.Milliseconds()
	if m, is := got.msg.(*wire.Routed); is {
		if a.Verdict = Failed; m.Body.(*wire.StateRequestAck).Body == primitives.StateBusy {
			a.Verdict = Busy
		}
		return a, nil
	}
	m := got.msg.(*wire.StateResponse)
	if isEmpty(m) {
		a.Verdict = Unavailable
		return a, nil
	}
	return a, m
}

// askHeader asks a peer for the state header, which is nil if it is not valid.
func (p *prober) askHeader(ctx context.Context, x *Peer, at *syncPoint) (Answer, *primitives.StateHeader) {
	a, m := p.askState(ctx, x.ID, at.sync.Hash(), nil)
	if m == nil {
		return a, nil
	}
	a.Bytes = len(m.Header.AppendBorsh(nil))
	if err := judgeHeader(m.Header, at.point, p.o.Shard); err != nil {
		a.Verdict, a.Error = Wrong, err.Error()
		return a, nil
	}
	a.Verdict = Valid
	return a, m.Header
}

// target is a peer that is asked for parts.
type target struct {
	p      *prober
	peer   *Peer
	sync   primitives.Hash
	root   primitives.Hash
	total  uint64
	judged chan struct{} // limits the parts that are judged at a time, of all peers
	silent int           // requests in a row without an answer
	skip   string        // why the peer is asked no more; empty: it is
}

// part asks the peer for a part and judges the answer.
func (t *target) part(ctx context.Context, n uint64) Answer {
	if len(t.peer.Answers) == 1 && t.silent == 0 && t.peer.Answers[0].Verdict == Silent {
		t.silent = 1
	}
	if t.skip != "" || ctx.Err() != nil {
		return Answer{Part: &n, Verdict: Skipped, Error: t.skip}
	}
	if len(t.peer.Answers) > 1 && t.p.o.Interval > 0 {
		select {
		case <-time.After(t.p.o.Interval):
		case <-ctx.Done():
		}
	}
	a, m := t.p.askState(ctx, t.peer.ID, t.sync, &n)
	if a.Verdict != Silent {
		t.silent = 0
	} else if t.silent++; t.silent >= maxSilent {
		t.skip = fmt.Sprintf("the peer has not answered %d requests in a row", t.silent)
	}
	if a.Verdict == Disconnected {
		t.skip = errDisconnected.Error()
	}
	if m == nil {
		return a
	}
	a.Bytes = len(m.Part.Body)
	t.judged <- struct{}{}
	err := judgePart(m.Part, t.root, trie.PartID{Index: n, Total: t.total})
	<-t.judged
	if a.Verdict = Valid; err != nil {
		a.Verdict, a.Error = Wrong, err.Error()
	}
	return a
}
