package libp2p

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// topic is what is spread together.
type topic int

const (
	blocks topic = iota
	transactions
	numTopics
)

const (
	maxGossip       = 8 + maxBatchBytes + 4 + maxTx // bytes of a batch; a longer block goes to each peer beside it
	batchGap        = 10 * time.Millisecond         // from one batch to the next
	maxSpread       = 1024
	maxDropped      = 64          // blocks to peers, of those that gossip had no room for
	maxDroppedBytes = 256 << 10   // of one
	newFor          = time.Second // a handshake is through at both ends
	judgeLimit      = 10 * time.Second
	// of both topics: what all neighbours may bring at once, and of each topic how much of that is
	// looked at. What is beyond that is lost for all
	queueValidation = 65_536
	maxChecks       = 64  // batches of a neighbour that wait to be looked at
	trustedPX       = 1e6 // a score that nobody has: whom a peer would have this node dial is not dialled
	queuePeer       = 256
	renewBeats      = 5 // seconds after which a mesh that brings little is joined by who brings more
	// of who brings a block before all others each 50 s: less, and honest ones of a large mesh
	// would be joined without need
	enoughScore = 12
	mostFirst   = 20 // such blocks that count
)

// spread is what waits to be spread.
type spread struct {
	block []byte // a frame
	tx    *primitives.SignedTransaction
}

// dropped is a block that gossip has no room for on the way to a peer.
type dropped struct {
	to   peer.ID
	data []byte
}

// tell sends such blocks by their connections.
func (w *Transport) tell(ctx context.Context, s tcp.Station) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-w.dropped:
			who, err := PeerOf(x.to)
			if err != nil {
				continue
			}
			if m, err := wire.Decode(x.data); err == nil {
				s.Post(near.ToPeer{Peer: who, Msg: m})
				w.o.Counters.beside.Add(1)
			}
		}
	}
}

func (w *Transport) name(t topic) string {
	return "/troupe/" + w.o.Genesis.ChainID + "/" + w.o.Genesis.Hash.String() + "/" + [...]string{"blocks", "transactions"}[t]
}

// gossip joins what is spread. Messages bear no signature of their sender: what they hold is
// signed. Of equal bytes there is one.
func (w *Transport) gossip(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	params := pubsub.DefaultGossipSubParams()
	params.OpportunisticGraftTicks = renewBeats
	g, err := pubsub.NewGossipSub(ctx, gossipHost{w.host, w},
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { h := sha256.Sum256(m.Data); return string(h[:]) }),
		pubsub.WithMaxMessageSize(maxRPC), pubsub.WithValidateQueueSize(queueValidation), pubsub.WithValidateThrottle(int(numTopics)*queueValidation), pubsub.WithPeerOutboundQueueSize(queuePeer),
		pubsub.WithGossipSubParams(params), pubsub.WithFloodPublish(true), pubsub.WithSubscriptionFilter(pubsub.NewAllowlistSubscriptionFilter(w.name(blocks), w.name(transactions))),
		pubsub.WithPeerScore(w.scores()), pubsub.WithAppSpecificRpcInspector(w.inspect), pubsub.WithRawTracer(tracer{w}), pubsub.WithLogger(quiet), pubsub.WithRPCLogger(quiet))
	if err != nil {
		return err
	}
	for t := range w.topics {
		check := func(ctx context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
			return w.take(topic(t), from, m.Data)
		}
		if err := g.RegisterTopicValidator(w.name(topic(t)), pubsub.ValidatorEx(check), pubsub.WithValidatorTimeout(judgeLimit), pubsub.WithValidatorConcurrency(queueValidation)); err != nil {
			return err
		}
		if w.topics[t], err = g.Join(w.name(topic(t))); err != nil {
			return err
		}
		sub, err := w.topics[t].Subscribe(pubsub.WithBufferSize(1)) // what comes is taken when it is judged
		if err != nil {
			return err
		}
		go func() {
			for {
				if _, err := sub.Next(ctx); err != nil {
					return
				}
			}
		}()
	}
	return nil
}

// scores say whom gossipsub keeps in its mesh: those whose handshake is done, and nobody who brings
// rubbish; before others who is the first to bring blocks, so that strangers who were there first
// and hand nothing on have to give way.
func (w *Transport) scores() (*pubsub.PeerScoreParams, *pubsub.PeerScoreThresholds) {
	p := &pubsub.PeerScoreParams{
		SkipAtomicValidation: true, Topics: map[string]*pubsub.TopicScoreParams{},
		AppSpecificWeight: 1, AppSpecificScore: func(id peer.ID) float64 {
			switch {
			case w.isBanned(id):
				return -1000
			case w.isMet(id):
				return 10
			}
			return 0
		},
		BehaviourPenaltyWeight: -1, BehaviourPenaltyThreshold: 6, BehaviourPenaltyDecay: 0.99,
		DecayInterval: time.Second, DecayToZero: 0.01, RetainScore: 10 * time.Minute,
	}
	for t := range numTopics {
		p.Topics[w.name(t)] = &pubsub.TopicScoreParams{SkipAtomicValidation: true, TopicWeight: 1, TimeInMeshQuantum: time.Second,
			InvalidMessageDeliveriesWeight: -20, InvalidMessageDeliveriesDecay: 0.999}
	}
	b := p.Topics[w.name(blocks)] // anybody can sign transactions
	b.FirstMessageDeliveriesWeight, b.FirstMessageDeliveriesDecay, b.FirstMessageDeliveriesCap = 1, 0.99, mostFirst
	return p, &pubsub.PeerScoreThresholds{SkipAtomicValidation: true, GossipThreshold: -20, PublishThreshold: -50, GraylistThreshold: -100,
		AcceptPXThreshold: trustedPX, OpportunisticGraftThreshold: enoughScore}
}

// follow keeps who has joined a topic: whom what is spread reaches.
func (w *Transport) follow(ctx context.Context, t topic) {
	events, err := w.topics[t].EventHandler()
	if err != nil {
		return
	}
	defer events.Cancel()
	for {
		ev, err := events.NextPeerEvent(ctx)
		if err != nil {
			return
		}
		w.mu.Lock()
		if ev.Type == pubsub.PeerJoin {
			w.joined[t][ev.Peer] = time.Now()
		} else {
			delete(w.joined[t], ev.Peer)
		}
		w.mu.Unlock()
	}
}

// reaches tells whether a peer gets what is spread: it has said that it wants it, and there is a
// stream to it. w.mu is held.
func (w *Transport) reaches(t topic, id peer.ID) bool { return !w.reachedSince(t, id).IsZero() }

// reachedSince is since when; zero: it doesn't.
func (w *Transport) reachedSince(t topic, id peer.ID) time.Time {
	joined, is := w.joined[t][id]
	stream, has := w.outbound[id]
	switch {
	case !is || !has:
		return time.Time{}
	case stream.After(joined):
		return stream
	}
	return joined
}

// Spread is of tcp.Transport: a block, or a transaction of this node for the peer's. What a peer is
// sent for the second time goes by its connection: the first did not help. So does what gossip has
// brought and does not carry on, what it would not bear, and what was spread before the peer was
// reached. So does a block, beside gossip, while the peer may not be through with the handshake: it
// would drop it.
func (w *Transport) Spread(p wire.PeerID, m wire.Message) bool {
	id, err := idOf(p)
	if err != nil {
		return false
	}
	var (
		t   = blocks
		x   spread
		key primitives.Hash
	)
	switch m := m.(type) {
	case *wire.Block:
		key = m.Block.Hash()
	case *wire.Routed:
		f, ok := m.Body.(*wire.ForwardTx)
		if !ok || m.Author != w.o.Key.PublicKey() {
			return false
		}
		t, x.tx, key = transactions, &f.SignedTransaction, f.Hash()
	default:
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, since := time.Now(), w.reachedSince(t, id)
	if since.IsZero() || w.beside.state(key, now) != never {
		return false
	}
	isNew := t == blocks && now.Sub(w.metAt[id]) < newFor
	switch at, age := w.recent.when(key, now); {
	case age == never:
	case since.After(at):
		return false
	case age == fresh:
		return !isNew
	default:
		return t == blocks && !isNew // it may be there, or be asked for
	}
	if m, ok := m.(*wire.Block); ok {
		x.block = wire.Append(nil, m)
		if len(x.block) > maxGossip || !w.goesOn(blocks, len(x.block)) {
			return false
		}
	} else if n := len(x.tx.AppendBorsh(nil)); n > maxTx || !w.onward.bytes[t].AllowN(now, 2*n) {
		return false // how many messages they are is for who gathers them
	}
	select {
	case w.spread <- x:
		w.recent.put(key, now)
		return !isNew
	default:
		w.o.Counters.lost.Add(1)
		return false
	}
}

// spreading publishes what waits. Transactions go together: the first at once, behind it as many as
// come within batchGap.
func (w *Transport) spreading(ctx context.Context) {
	var (
		batch []byte
		n     int
		last  time.Time
	)
	due := time.NewTimer(batchGap)
	defer due.Stop()
	for {
		in := w.spread
		if n >= maxBatch || len(batch) >= maxBatchBytes {
			in = nil
		}
		select {
		case <-ctx.Done():
			return
		case x := <-in:
			if x.block != nil {
				w.overheard(true, "", func() []byte { return x.block })
				w.publish(ctx, blocks, x.block)
				continue
			}
			w.overheard(true, "", func() []byte { return wire.Append(nil, &wire.Transaction{Transaction: x.tx}) })
			batch = appendBatch(batch, time.Now(), x.tx)
			if n++; n == 1 {
				due.Reset(max(batchGap-time.Since(last), 0))
			}
		case <-due.C:
			if n > 0 {
				w.publish(ctx, transactions, batch)
				batch, n, last = nil, 0, time.Now()
			}
		}
	}
}

// overheard shows what is spread to who listens.
func (w *Transport) overheard(sent bool, who wire.PeerID, frame func() []byte) {
	if station := w.station.Load(); station != nil {
		(*station).Overheard(sent, who, frame)
	}
}

func (w *Transport) publish(ctx context.Context, t topic, data []byte) {
	if w.topics[t].Publish(ctx, data) != nil {
		w.o.Counters.lost.Add(1)
		return
	}
	w.o.Counters.spread.Add(1)
	w.o.Counters.spreadBytes.Add(uint64(len(data)))
}
