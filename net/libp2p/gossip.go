package libp2p

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// topic is what is spread together.
type topic int

const (
	blocks topic = iota
	transactions
	numTopics
)

const (
	maxGossip       = 16 << 20 // bytes; a longer block goes to each peer beside it
	maxBatch        = 256      // transactions
	maxBatchBytes   = 64 << 10 // after which a batch takes no more
	maxSpread       = 1024
	judgeLimit      = 10 * time.Second
	queueValidation = 4096
	queuePeer       = 1024
)

// spread is what waits to be spread.
type spread struct {
	block []byte // a frame
	tx    *primitives.SignedTransaction
}

func (w *Way) name(t topic) string {
	return "/troupe/" + w.o.Genesis.ChainID + "/" + w.o.Genesis.Hash.String() + "/" + [...]string{"blocks", "transactions"}[t]
}

// gossip joins what is spread. Messages bear no signature of their sender: what they hold is signed. Of equal bytes there is one.
func (w *Way) gossip(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	g, err := pubsub.NewGossipSub(ctx, w.host,
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { h := sha256.Sum256(m.Data); return string(h[:]) }),
		pubsub.WithMaxMessageSize(maxGossip+64<<10), pubsub.WithValidateQueueSize(queueValidation), pubsub.WithPeerOutboundQueueSize(queuePeer),
		pubsub.WithFloodPublish(true), pubsub.WithSubscriptionFilter(pubsub.NewAllowlistSubscriptionFilter(w.name(blocks), w.name(transactions))),
		pubsub.WithPeerScore(w.scores()), pubsub.WithAppSpecificRpcInspector(w.inspect), pubsub.WithRawTracer(tracer{w}), pubsub.WithLogger(quiet), pubsub.WithRPCLogger(quiet))
	if err != nil {
		return err
	}
	for t := range w.topics {
		check := func(ctx context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
			return w.take(topic(t), from, m.Data)
		}
		if err := g.RegisterTopicValidator(w.name(topic(t)), pubsub.ValidatorEx(check), pubsub.WithValidatorTimeout(judgeLimit)); err != nil {
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

// scores say whom gossipsub keeps in its mesh: those whose handshake is done, and nobody who brings rubbish.
func (w *Way) scores() (*pubsub.PeerScoreParams, *pubsub.PeerScoreThresholds) {
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
	return p, &pubsub.PeerScoreThresholds{SkipAtomicValidation: true, GossipThreshold: -20, PublishThreshold: -50, GraylistThreshold: -100}
}

// follow keeps who has joined a topic: whom what is spread reaches.
func (w *Way) follow(ctx context.Context, t topic) {
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
			w.joined[t][ev.Peer] = true
		} else {
			delete(w.joined[t], ev.Peer)
		}
		w.mu.Unlock()
	}
}

// reaches tells whether a peer gets what is spread: it has said that it wants it, and there is a stream to it. w.mu is held.
func (w *Way) reaches(t topic, id peer.ID) bool { return w.joined[t][id] && w.outbound[id] }

// Spread is of tcp.Way: a block, or a transaction of this node for the peer's. What a peer is sent for the second time goes beside: the first did
// not help.
func (w *Way) Spread(p wire.PeerID, m wire.Message) bool {
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
	if !w.reaches(t, id) {
		return false
	}
	switch now := time.Now(); w.recent.state(key, now) {
	case fresh:
		return true
	case stale:
		return t == blocks // it may be there, or be asked for
	default:
		if m, ok := m.(*wire.Block); ok {
			if x.block = wire.Append(nil, m); len(x.block) > maxGossip {
				return false
			}
		}
		select {
		case w.spread <- x:
			w.recent.put(key, now)
			return true
		default:
			w.o.Counters.lost.Add(1)
			return false
		}
	}
}

// spreading publishes what waits. Transactions go together, as many as there are.
func (w *Way) spreading(ctx context.Context) {
	var next *spread
	for {
		var x spread
		if next != nil {
			x, next = *next, nil
		} else {
			select {
			case x = <-w.spread:
			case <-ctx.Done():
				return
			}
		}
		if x.block != nil {
			w.publish(ctx, blocks, x.block)
			continue
		}
		b := appendBatch(nil, time.Now(), x.tx)
	gather:
		for n := 1; n < maxBatch && len(b) < maxBatchBytes; n++ {
			select {
			case x = <-w.spread:
				if x.tx == nil {
					next = &x
					break gather
				}
				b = appendBatch(b, time.Time{}, x.tx)
			default:
				break gather
			}
		}
		w.publish(ctx, transactions, b)
	}
}

func (w *Way) publish(ctx context.Context, t topic, data []byte) {
	if w.topics[t].Publish(ctx, data) != nil {
		w.o.Counters.lost.Add(1)
		return
	}
	w.o.Counters.spread.Add(1)
	w.o.Counters.spreadBytes.Add(uint64(len(data)))
}

// appendBatch begins a batch with its time, so that what is spread again is another message, and appends a transaction.
func appendBatch(b []byte, at time.Time, tx *primitives.SignedTransaction) []byte {
	if len(b) == 0 {
		b = borsh.AppendUint64(b, uint64(at.UnixMilli()))
	}
	at0 := len(b)
	b = tx.AppendBorsh(borsh.AppendUint32(b, 0))
	binary.LittleEndian.PutUint32(b[at0:], uint32(len(b)-at0-4))
	return b
}

var errBatch = errors.New("libp2p: no batch of transactions")

// readBatch reads a batch, all of which must be transactions in their one encoding.
func readBatch(b []byte) (out []*primitives.SignedTransaction, err error) {
	if len(b) <= 8 {
		return nil, errBatch
	}
	for b = b[8:]; len(b) > 0; {
		if len(b) < 4 || len(out) >= maxBatch {
			return nil, errBatch
		}
		n := int(binary.LittleEndian.Uint32(b))
		if b = b[4:]; n > len(b) {
			return nil, errBatch
		}
		tx := new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(b[:n], tx); err != nil {
			return nil, err
		}
		out, b = append(out, tx), b[n:]
	}
	return out, nil
}

// take judges a message of gossip, and gives it to the node unless it is rubbish. Its sender is a neighbour; who has made it nobody knows.
func (w *Way) take(t topic, from peer.ID, data []byte) pubsub.ValidationResult {
	if from == w.me {
		return pubsub.ValidationAccept
	}
	c := w.o.Counters
	station := w.station.Load()
	if station == nil || !w.isMet(from) {
		c.held.Add(1)
		return pubsub.ValidationIgnore
	}
	who, err := PeerOf(from)
	if err != nil {
		return pubsub.ValidationIgnore
	}
	c.heard.Add(1)
	c.heardBytes.Add(uint64(len(data)))
	var verdict near.Verdict
	switch t {
	case blocks:
		verdict = w.takeBlock(*station, who, data)
	case transactions:
		verdict = w.takeTransactions(*station, who, data)
	}
	switch verdict {
	case near.Pass:
		return pubsub.ValidationAccept
	case near.Refuse:
		return w.refuse(*station, who)
	}
	c.held.Add(1)
	return pubsub.ValidationIgnore
}

var errFlood = errors.New("libp2p: too much gossip")

// inspect drops what comes too fast from one neighbour before it takes a place in the queues that all share.
func (w *Way) inspect(from peer.ID, rpc *pubsub.RPC) error {
	for _, m := range rpc.GetPublish() {
		t := blocks
		if m.GetTopic() == w.name(transactions) {
			t = transactions
		}
		switch w.allow(t, from, len(m.GetData())) {
		case flooding:
			if who, err := PeerOf(from); err == nil && !w.isBanned(from) {
				if s := w.station.Load(); s != nil {
					go w.refuse(*s, who) // which may wait for the node
				}
			}
			fallthrough
		case flooded:
			w.o.Counters.flooded.Add(1)
			return errFlood
		}
	}
	return nil
}

func (w *Way) refuse(s tcp.Station, who wire.PeerID) pubsub.ValidationResult {
	w.o.Counters.refused.Add(1)
	s.Post(near.Ban{Peer: who, Reason: near.Abusive})
	w.Ban(who)
	return pubsub.ValidationReject
}

// note remembers what has come, so that it is not spread again; false: it came lately.
func (w *Way) note(key primitives.Hash) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.recent.state(key, now) == fresh {
		return false
	}
	w.recent.put(key, now)
	return true
}

func (w *Way) takeBlock(s tcp.Station, who wire.PeerID, data []byte) near.Verdict {
	m, err := wire.Decode(data)
	b, ok := m.(*wire.Block)
	if err != nil || !ok {
		return near.Refuse
	}
	v := s.Judge(b)
	if v != near.Refuse {
		w.note(b.Block.Hash())
		s.Post(near.Gossiped{Peer: who, Msg: b})
	}
	return v
}

// takeTransactions takes them as forwarded ones, so that nobody sends them on beside.
func (w *Way) takeTransactions(s tcp.Station, who wire.PeerID, data []byte) near.Verdict {
	txs, err := readBatch(data)
	if err != nil {
		return near.Refuse
	}
	for _, tx := range txs {
		if v := s.Judge(&wire.Transaction{Transaction: tx}); v != near.Pass {
			return v
		}
	}
	for _, tx := range txs {
		if w.note(tx.Hash()) {
			s.Post(near.Gossiped{Peer: who, Msg: &wire.Routed{Body: &wire.ForwardTx{SignedTransaction: *tx}}})
		}
	}
	return near.Pass
}
