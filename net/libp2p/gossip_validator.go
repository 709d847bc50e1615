package libp2p

import (
	"bytes"
	"runtime/debug"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// inspect drops what comes of who has not shaken hands, and what comes too fast from one neighbour,
// before it counts as seen or takes a place in the queues that all share. What else an RPC says
// goes on.
func (w *Transport) inspect(from peer.ID, rpc *pubsub.RPC) error {
	list := rpc.GetPublish()
	if len(list) == 0 {
		return nil
	}
	station := w.station.Load()
	if station == nil || !w.isMet(from) {
		w.o.Counters.held.Add(uint64(len(list)))
		rpc.Publish = nil
		return nil
	}
	kept := list[:0]
	for _, m := range list {
		t := blocks
		if m.GetTopic() == w.name(transactions) {
			t = transactions
		}
		switch w.allow(t, from, len(m.GetData())) {
		case allowed:
			kept = append(kept, m)
			continue
		case flooding:
			if who, err := PeerOf(from); err == nil && !w.isBanned(from) {
				w.Ban(who)
				go w.refuse(*station, who) // which may wait for the node
			}
		}
		w.o.Counters.flooded.Add(1)
	}
	rpc.Publish = kept
	return nil
}

// refuse bans.
func (w *Transport) refuse(s tcp.Station, who wire.PeerID) {
	w.o.Counters.refused.Add(1)
	w.Ban(who)
	s.Post(near.Ban{Peer: who, Reason: near.Abusive})
}

// take judges a message of gossip, and gives it to the node unless it is rubbish. Its sender is a
// neighbour, or was when inspect let it in; who has made it nobody knows. A block counts whatever
// has become of its sender meanwhile: its bytes have been seen, and nobody else's copy comes
// through. A panic over it is this node's own fault, and ends nothing.
func (w *Transport) take(t topic, from peer.ID, data []byte) (result pubsub.ValidationResult) {
	if from == w.me {
		return pubsub.ValidationAccept
	}
	c := w.o.Counters
	station := w.station.Load()
	who, err := PeerOf(from)
	if station == nil || err != nil || t == transactions && w.isBanned(from) {
		c.held.Add(1)
		return pubsub.ValidationIgnore
	}
	c.heard.Add(1)
	c.heardBytes.Add(uint64(len(data)))
	defer func() {
		if p := recover(); p != nil {
			(*station).Panicked(p, debug.Stack())
			result = pubsub.ValidationIgnore
		}
	}()
	var verdict near.Verdict
	switch t {
	case blocks:
		verdict = w.takeBlock(*station, who, data)
	case transactions:
		if !w.mayCheck(from) {
			c.lost.Add(1)
			return pubsub.ValidationIgnore
		}
		defer w.checked(from)
		verdict = w.takeTransactions(*station, who, data)
	}
	switch verdict {
	case near.Pass:
		return pubsub.ValidationAccept
	case near.Refuse:
		w.refuse(*station, who)
		return pubsub.ValidationReject
	}
	c.held.Add(1)
	return pubsub.ValidationIgnore
}

// mayCheck waits for a core to look at a neighbour's transactions with, of which they have half, so
// that strangers who sign some take none from blocks and votes. False: too many of that neighbour
// wait. They are sent again, by a connection.
func (w *Transport) mayCheck(from peer.ID) bool {
	w.mu.Lock()
	crowd := w.checks[from] >= maxChecks
	if !crowd {
		w.checks[from]++
	}
	w.mu.Unlock()
	if !crowd {
		w.checking <- struct{}{}
	}
	return !crowd
}

func (w *Transport) checked(from peer.ID) {
	<-w.checking
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checks[from]--; w.checks[from] == 0 {
		delete(w.checks, from)
	}
}

// takeBlock takes a block, in the one form that a node of this code sends. What is not handed on
// now would not be later, since its bytes have been seen: the node sends it to each peer itself
// once it has adopted it.
func (w *Transport) takeBlock(s tcp.Station, who wire.PeerID, data []byte) near.Verdict {
	if len(data) > maxGossip {
		return near.Refuse
	}
	m, err := wire.Decode(data)
	b, ok := m.(*wire.Block)
	if err != nil || !ok || !bytes.Equal(data, wire.Append(nil, b)) {
		return near.Refuse
	}
	s.Overheard(false, who, func() []byte { return data })
	v := s.Judge(b)
	if v == near.Refuse {
		return v
	}
	v = w.noteBlock(b.Block.Hash(), len(data), v)
	s.Post(near.Gossiped{Peer: who, Msg: b})
	return v
}

// noteBlock remembers by which way a block goes on.
func (w *Transport) noteBlock(hash primitives.Hash, size int, v near.Verdict) near.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if v == near.Pass && !w.goesOn(blocks, size) {
		v = near.Hold
	}
	if v == near.Pass {
		w.recent.put(hash, now)
	} else {
		w.beside.put(hash, now)
	}
	return v
}

// takeTransactions takes them as forwarded ones, so that nobody sends them on beside. A batch is
// handed on for what of it has not been seen.
func (w *Transport) takeTransactions(s tcp.Station, who wire.PeerID, data []byte) near.Verdict {
	txs, err := readBatch(data)
	if err != nil {
		return near.Refuse
	}
	for _, tx := range txs {
		s.Overheard(false, who, func() []byte { return wire.Append(nil, &wire.Transaction{Transaction: tx}) })
	}
	for _, tx := range txs {
		if v := w.judge(s, tx); v != near.Pass {
			return v
		}
	}
	verdict := near.Hold
	for _, tx := range txs {
		switch w.note(tx.Hash()) {
		case fresh:
			continue
		case never:
			verdict = near.Pass
		}
		s.Post(near.Gossiped{Peer: who, Msg: &wire.Routed{Body: &wire.ForwardTx{SignedTransaction: *tx}}})
	}
	if verdict == near.Pass && !w.handsOn(transactions, len(data)) {
		verdict = near.Hold
	}
	return verdict
}

// judge has a transaction's signature looked at once.
func (w *Transport) judge(s tcp.Station, tx *primitives.SignedTransaction) near.Verdict {
	key := primitives.HashBytes(tx.AppendBorsh(nil))
	w.mu.Lock()
	known := w.verified.state(key, time.Now()) != never
	w.mu.Unlock()
	if known {
		return near.Pass
	}
	v := s.Judge(&wire.Transaction{Transaction: tx})
	if v == near.Pass {
		w.mu.Lock()
		w.verified.put(key, time.Now())
		w.mu.Unlock()
	}
	return v
}

// note remembers that a transaction has come, so that it is not spread again, and tells how long
// ago it has before.
func (w *Transport) note(key primitives.Hash) age {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	was := w.recent.state(key, now)
	if was != fresh {
		w.recent.put(key, now)
	}
	return was
}

func (w *Transport) handsOn(t topic, size int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.goesOn(t, size)
}
