package network

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Limits of transactions on their way out and in.
const (
	maxOut      = 20_000 // own transactions on their way to chunk producers
	maxOutBytes = 64 << 20
	maxIn       = 4096 // of peers, unchecked
	maxInEach   = 1024
	batch       = 256    // checked together
	resendAfter = 4_000  // ms after which a transaction in no block is sent again
	maxSends    = 3      // of one transaction
	maxForeign  = 16_384 // remembered hashes of peers' transactions, which are not forwarded
)

// Route is where transactions go (tx_routing_height_horizon, disable_tx_routing).
type Route struct {
	Off     bool
	Horizon primitives.Height // 0: 4
	All     bool              // to all validators, which make blocks at once while there is work
}

// txForwarder holds transactions on their way out and in.
type txForwarder struct {
	out     map[primitives.Hash]*outgoing
	bytes   int // of out
	in      []incoming
	each    map[wire.PeerID]int
	busy    bool
	foreign map[primitives.Hash]bool
	order   []primitives.Hash // of foreign
	next    int64
}

type outgoing struct {
	tx    *primitives.SignedTransaction
	at    int64
	sends int
}

type incoming struct {
	from wire.PeerID
	tx   *primitives.SignedTransaction
}

// submitted is a message to self: the mempools have checked a batch.
type submitted struct{}

func newTxForwarder() txForwarder {
	return txForwarder{out: map[primitives.Hash]*outgoing{}, each: map[wire.PeerID]int{},
		foreign: map[primitives.Hash]bool{}}
}

// received takes a transaction of a peer. forward: it may be forwarded. One that was forwarded
// to this node may not.
func (a *Actor) received(from wire.PeerID, tx *primitives.SignedTransaction, forward bool) {
	t := &a.txs
	if len(t.in) >= maxIn || t.each[from] >= maxInEach {
		a.o.Status.dropped.Add(1)
		return
	}
	if hash := tx.Hash(); !forward && !t.foreign[hash] {
		if len(t.order) >= maxForeign {
			delete(t.foreign, t.order[0])
			t.order = t.order[1:]
		}
		t.foreign[hash] = true
		t.order = append(t.order, hash)
	}
	t.in = append(t.in, incoming{from, tx})
	t.each[from]++
	a.submit()
}

// submit passes the next batch of one peer to the mempools when the previous one is checked.
func (a *Actor) submit() {
	t := &a.txs
	if t.busy || len(t.in) == 0 {
		return
	}
	t.busy = true
	from := t.in[0].from
	var txs []*primitives.SignedTransaction
	t.in = slices.DeleteFunc(t.in, func(x incoming) bool {
		if x.from != from || len(txs) >= batch {
			return false
		}
		txs = append(txs, x.tx)
		return true
	})
	if t.each[from] -= len(txs); t.each[from] == 0 {
		delete(t.each, from)
	}
	waits := a.o.Out.Submit(messages.ClientPeer(from.String()), txs)
	self := a.self
	go func() {
		for _, r := range waits {
			select {
			case <-r.Done():
			case <-r.Lost():
			}
		}
		self(submitted{})
	}()
}

func (a *Actor) submitted() {
	a.txs.busy = false
	a.submit()
}

// hasRoom returns whether a transaction can be kept for another send.
func (t *txForwarder) hasRoom(tx *primitives.SignedTransaction) bool {
	return len(t.out) < maxOut && t.bytes+tx.Size() <= maxOutBytes
}

// add records a transaction that was sent.
func (t *txForwarder) add(x *outgoing) {
	t.out[x.tx.Hash()] = x
	t.bytes += x.tx.Size()
}

func (t *txForwarder) drop(hash primitives.Hash) {
	if x := t.out[hash]; x != nil {
		t.bytes -= x.tx.Size()
		delete(t.out, hash)
	}
}

// pooled forwards a transaction of a client of this node. A routed one is forwarded once,
// wherever it came from, since its client was told so.
func (a *Actor) pooled(tx *primitives.SignedTransaction, routed bool) {
	if a.o.Receive != nil {
		a.o.Receive(consensus.Received{Message: tx}, func() {}) // it took no inbox slot
	}
	x, keep := a.txs.toForward(tx, routed, a.o.Route.Off, a.now())
	if x != nil && a.send(tx) && keep {
		a.txs.add(x)
	}
}

// toForward returns what to send of a transaction (nil: nothing), and whether to keep it for
// another send. Without room it is sent once all the same: its client was told that it is
// accepted.
func (t *txForwarder) toForward(tx *primitives.SignedTransaction, routed, off bool, now int64) (x *outgoing,
	keep bool) {
	hash := tx.Hash()
	if !routed && (off || t.foreign[hash]) || t.out[hash] != nil {
		return nil, false
	}
	x = &outgoing{tx: tx, at: now, sends: 1}
	if routed {
		x.sends = maxSends
	}
	return x, t.hasRoom(tx)
}

// resend repeats transactions that are in no block after a while: a chunk producer may have
// been offline.
func (t *txForwarder) resend(now int64, send func(*primitives.SignedTransaction) bool) {
	if now < t.next {
		return
	}
	t.next = now + 1000
	for _, hash := range slices.SortedFunc(maps.Keys(t.out), primitives.Hash.Compare) {
		x := t.out[hash]
		switch {
		case now-x.at < resendAfter:
		case x.sends >= maxSends:
			t.drop(hash)
		default:
			x.at, x.sends = now, x.sends+1
			send(x.tx)
		}
	}
}

// included forgets what a block includes.
func (t *txForwarder) included(m *messages.BlockAccepted) {
	if len(t.out) == 0 {
		return
	}
	for i := range m.Shards {
		if c := m.Shards[i].Chunk; c != nil {
			for _, tx := range c.Transactions {
				t.drop(tx.Hash())
			}
		}
	}
}

// send sends a transaction to the producers of the next chunks of its signer's shard, near the
// end of an epoch also to the next epoch's (nearcore chain/client/src/rpc_handler.rs:325). It
// returns false if that is only this node.
func (a *Actor) send(tx *primitives.SignedTransaction) bool {
	to, own := a.chunkProducers(tx.SignerID)
	if own && a.o.Receive == nil || len(to) == 0 {
		return false
	}
	for _, id := range to {
		a.host.Post(near.RouteToAccount{AccountID: id, Body: &wire.ForwardTx{SignedTransaction: *tx}})
	}
	a.o.Status.forwarded.Add(1)
	return true
}
