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

const (
	maxOut      = 20_000 // transactions of ours on their way to who makes chunks
	maxOutBytes = 64 << 20
	maxIn       = 4096 // of others that the mempools have not looked at
	maxInEach   = 1024
	batch       = 256    // that the mempools look at together
	resendAfter = 4_000  // ms after which a transaction that is in no block is sent again
	maxSends    = 3      // of one transaction
	maxForeign  = 16_384 // hashes of transactions that came from others, and are not sent on
)

// Route says to whom transactions go (tx_routing_height_horizon, disable_tx_routing).
type Route struct {
	Off     bool
	Horizon primitives.Height // 0: 4
	All     bool              // they go to all validators, who make blocks at once while there is something to do
}

// txForwarder are those on their way in and out.
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

// submitted says that the mempools are done with a batch.
type submitted struct{}

func newTxForwarder() txForwarder {
	return txForwarder{out: map[primitives.Hash]*outgoing{}, each: map[wire.PeerID]int{}, foreign: map[primitives.Hash]bool{}}
}

// received takes a transaction of a peer; one that was forwarded is not forwarded again.
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

// submit gives the mempools the next batch, of one peer, when they are done with the one before.
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

// makeRoom tells whether there is some for a transaction.
func (t *txForwarder) hasRoom(tx *primitives.SignedTransaction) bool {
	return len(t.out) < maxOut && t.bytes+tx.Size() <= maxOutBytes
}

// add notes one that was sent.
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

// pooled sends on a transaction that a client of this node has submitted. One that is routed is sent once, wherever it came from: its client was told so.
func (a *Actor) pooled(tx *primitives.SignedTransaction, routed bool) {
	if a.o.Receive != nil {
		a.o.Receive(consensus.Received{Message: tx}, func() {}) // its place was that of its client
	}
	x, keep := a.txs.toForward(tx, routed, a.o.Route.Off, a.now())
	if x != nil && a.send(tx) && keep {
		a.txs.add(x)
	}
}

// toForward returns what is to be sent of a transaction, nil if it is not to be, and whether it is kept to be sent again. Where there is no room
// for that it is sent all the same, once: its client has been told that it is taken.
func (t *txForwarder) toForward(tx *primitives.SignedTransaction, routed, off bool, now int64) (x *outgoing, keep bool) {
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

// resend sends again what is in no block after a while: who was to get it may not have been there.
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

// included forgets what a block has.
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

// send sends a transaction to who makes the next chunks of its signer's shard, near the end of an epoch also to those of the next one
// (nearcore chain/client/src/rpc_handler.rs:325). False: this node does.
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
