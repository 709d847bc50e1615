package network

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Limits of transactions that are forwarded to and received from peers.
const (
	maxOut      = 20_000 // maximum number of forwarded transactions kept for another send
	maxOutBytes = 64 << 20
	maxIn       = 4096   // maximum number of received transactions that are not checked yet, of all peers
	maxInEach   = 1024   // the same for each peer
	batch       = 256    // number of transactions that are checked together
	resendAfter = 4_000  // ms after which a transaction that no block includes is sent again
	maxSends    = 3      // maximum number of sends of one transaction
	maxForeign  = 16_384 // maximum number of received transactions remembered as not to be forwarded
)

// Route is where transactions are forwarded (tx_routing_height_horizon, disable_tx_routing).
type Route struct {
	Off     bool              // forward only transactions that this node cannot check (view.ErrRouted)
	Horizon primitives.Height // transactions go to the chunk producers of this many next heights; 0: 4
	// All: send transactions to all block producers too. In eager mode, a block producer makes
	// blocks and chunks earlier if it has transactions than without them.
	All bool
}

// txForwarder holds forwarded and received transactions.
type txForwarder struct {
	out     map[primitives.Hash]*outgoing // forwarded transactions that no block includes yet
	bytes   int                           // total size of out
	in      []incoming                    // received transactions that are not checked yet
	each    map[wire.PeerID]int           // number of items of in by peer
	busy    bool                          // a batch of in is being checked
	foreign map[primitives.Hash]bool      // hashes of received transactions that must not be forwarded
	order   []primitives.Hash             // keys of foreign, oldest first
	next    int64                         // time of the next check for overdue transactions, ms
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

// received queues a transaction of a peer. forward is false if the peer forwarded the transaction
// to this node as chunk producer. In that case this node must not forward the transaction again.
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

// submit passes the next batch to the mempools if no batch is being checked. A batch contains
// transactions of one peer.
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

// hasRoom returns whether the forwarder has space to keep one more transaction for a second send.
func (t *txForwarder) hasRoom(tx *primitives.SignedTransaction) bool {
	return len(t.out) < maxOut && t.bytes+tx.Size() <= maxOutBytes
}

// add keeps a transaction that was sent.
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

// pooled handles TransactionPooled: it passes the transaction to the validator actor, if the node
// has one, and forwards it. A routed transaction is sent only once. It is sent even if forwarding is
// off, because the node has told the client that it forwards the transaction.
func (a *Actor) pooled(tx *primitives.SignedTransaction, routed bool) {
	if a.o.Validator != nil {
		// done does nothing, because the transaction has no inbox slot.
		a.o.Validator.Receive(consensus.Received{Message: tx}, func() {})
	}
	if !routed { // a routed transaction was not checked
		switch {
		case a.txRoute(tx.SignerID).soon:
			a.o.Status.txValidator.Add(1)
		case a.txs.foreign[tx.Hash()]:
			a.o.Status.txForwarded.Add(1)
		default:
			a.o.Status.txOther.Add(1)
		}
	}
	x, keep := a.txs.toForward(tx, routed, a.o.Route.Off, a.now())
	if x != nil && a.send(tx) && keep {
		a.txs.add(x)
	}
}

// toForward returns the record of a transaction to send, or nil if it must not be sent. keep says
// whether the record is kept for a second send. If there is no space to keep the record, the caller
// still sends the transaction once, because the node has told the client that it accepted the
// transaction.
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

// resend sends a transaction again if no block has included it for resendAfter, because a chunk
// producer may have been offline. resend drops the transaction after maxSends sends.
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

// included drops the transactions that a block includes.
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

// send sends a transaction to the next chunk producers of its signer's shard. Near the end of an
// epoch, send also sends the transaction to the chunk producers of the next epoch (nearcore
// chain/client/src/rpc_handler.rs:325). It returns false if there are no such producers besides
// this node.
func (a *Actor) send(tx *primitives.SignedTransaction) bool {
	to, own := a.chunkProducers(tx.SignerID)
	if own && a.o.Validator == nil || len(to) == 0 {
		return false
	}
	for _, id := range to {
		a.host.Post(near.RouteToAccount{AccountID: id, Body: &wire.ForwardTx{SignedTransaction: *tx}})
	}
	a.o.Status.forwarded.Add(1)
	return true
}
