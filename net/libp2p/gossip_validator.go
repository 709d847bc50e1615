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

// inspect drops messages of peers without a complete handshake, and messages above a peer's rate.
// inspect does so before gossipsub marks the messages as seen and before the messages occupy the
// shared queues. inspect keeps the control part of an RPC.
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
				go w.refuse(*station, who) // refuse may block until the node accepts its message
			}
		}
		w.o.Counters.flooded.Add(1)
	}
	rpc.Publish = kept
	return nil
}

// refuse bans a peer.
func (w *Transport) refuse(s tcp.Station, who wire.PeerID) {
	w.o.Counters.refused.Add(1)
	w.Ban(who)
	s.Post(near.Ban{Peer: who, Reason: near.Abusive})
}

// validate validates a gossip message and passes it to the node.
//
// # Gossip validation
//
// Problem. gossipsub relays a message only after a validator accepts it. gossipsub passes each
// message to the validator once, and blames the peer that sent the message. Relaying must be fast,
// because blocks are on the critical path. But if this node relays an invalid message, its peers
// ban it. A message that is neither accepted nor delivered is lost, because gossipsub suppresses
// further copies as duplicates.
//
// Invariants.
//
//   - Nothing of a peer is relayed that Station.Validate has not passed. The first block of a height
//     passes with a known parent, its producer's signature and enough approvals. The next few of
//     the height pass after the checks that nearcore runs before it relays: all but chunk contents
//     (actors/network relaysGossip). A transaction passes with a valid signature.
//   - A peer is banned only for a message that no honest node relays (near.Refuse). A message that
//     cannot be validated here (near.Hold) is ignored, without blame.
//   - A block is delivered to the node in either case, even if its sender was banned in between,
//     because no other copy will arrive. A block that gossip does not relay (notGossiped) is sent
//     over connections by the node after its import.
//   - This node relays at most half of the rate that it accepts (outRates). So a flooded node does
//     not look like a flooding one.
//   - Transactions, which anyone can sign, use at most half of the cores (checking), and of these
//     at most maxChecks batches of one peer wait.
//
// Outline. inspect filters by handshake and rate before gossipsub sees an RPC. validate runs on a
// goroutine of gossipsub: validateBlock requires the canonical frame; validateTransactions verifies
// each signature once (verified) and relays a batch if any transaction in it is new (recent). A
// panic is reported and the message ignored.
//
// Rejected: validating after delivery to the node. A message would be relayed only after a round
// trip through the node's queue. Rejected: libp2p message signatures. Such signatures cost a
// verification, and prove nothing that the contents do not prove.
func (w *Transport) validate(t topic, from peer.ID, data []byte) (result pubsub.ValidationResult) {
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
		verdict = w.validateBlock(*station, who, data)
	case transactions:
		if !w.acquireCheck(from) {
			c.lost.Add(1)
			return pubsub.ValidationIgnore
		}
		defer w.releaseCheck(from)
		verdict = w.validateTransactions(*station, who, data)
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

// acquireCheck waits for a core to validate a batch. Batches use at most half of the cores.
// acquireCheck returns false if too many batches of the peer wait. In that case, the batch's
// transactions are sent again over a connection.
func (w *Transport) acquireCheck(from peer.ID) bool {
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

func (w *Transport) releaseCheck(from peer.ID) {
	<-w.checking
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checks[from]--; w.checks[from] == 0 {
		delete(w.checks, from)
	}
}

// validateBlock validates a block in its canonical frame. If gossip does not relay a block at its
// first arrival, gossip never relays the block, because the block's bytes are then marked as seen.
// In that case the node sends the block to its peers after the import.
func (w *Transport) validateBlock(s tcp.Station, who wire.PeerID, data []byte) near.Verdict {
	if len(data) > maxGossip {
		return near.Refuse
	}
	m, err := wire.Decode(data)
	b, ok := m.(*wire.Block)
	if err != nil || !ok || !bytes.Equal(data, wire.Append(nil, b)) {
		return near.Refuse
	}
	s.Overheard(false, who, func() []byte { return data })
	v := s.Validate(b)
	if v == near.Refuse {
		return v
	}
	v = w.noteBlock(b.Block.Hash(), len(data), v)
	s.Post(near.Gossiped{Peer: who, Msg: b})
	return v
}

// noteBlock records whether gossip relays a block. noteBlock returns near.Hold if the rate does not
// allow relaying.
func (w *Transport) noteBlock(hash primitives.Hash, size int, v near.Verdict) near.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if v == near.Pass && !w.mayRelayLocked(blocks, size) {
		v = near.Hold
	}
	if v == near.Pass {
		w.recent.put(hash, now)
	} else {
		w.notGossiped.put(hash, now)
	}
	return v
}

// validateTransactions delivers transactions to the node as forwarded transactions, so that the
// node does not forward them again. validateTransactions accepts a batch for relay if a transaction
// in the batch is new.
func (w *Transport) validateTransactions(s tcp.Station, who wire.PeerID, data []byte) near.Verdict {
	txs, err := readBatch(data)
	if err != nil {
		return near.Refuse
	}
	for _, tx := range txs {
		s.Overheard(false, who, func() []byte { return wire.Append(nil, &wire.Transaction{Transaction: tx}) })
	}
	for _, tx := range txs {
		if v := w.verifyTx(s, tx); v != near.Pass {
			return v
		}
	}
	verdict := near.Hold
	for _, tx := range txs {
		switch w.markSeen(tx.Hash()) {
		case fresh:
			continue
		case never:
			verdict = near.Pass
		}
		s.Post(near.Gossiped{Peer: who, Msg: &wire.Routed{Body: &wire.ForwardTx{SignedTransaction: *tx}}})
	}
	if verdict == near.Pass && !w.mayRelay(transactions, len(data)) {
		verdict = near.Hold
	}
	return verdict
}

// verifyTx verifies a transaction's signature, unless this node has verified that signature
// recently.
func (w *Transport) verifyTx(s tcp.Station, tx *primitives.SignedTransaction) near.Verdict {
	key := primitives.HashBytes(tx.AppendBorsh(nil))
	w.mu.Lock()
	known := w.verified.state(key, time.Now()) != never
	w.mu.Unlock()
	if known {
		return near.Pass
	}
	v := s.Validate(&wire.Transaction{Transaction: tx})
	if v == near.Pass {
		w.mu.Lock()
		w.verified.put(key, time.Now())
		w.mu.Unlock()
	}
	return v
}

// markSeen records that a transaction has arrived, so that this node does not publish the
// transaction again. markSeen returns the age of the transaction's previous arrival.
func (w *Transport) markSeen(key primitives.Hash) age {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	was := w.recent.state(key, now)
	if was != fresh {
		w.recent.put(key, now)
	}
	return was
}

func (w *Transport) mayRelay(t topic, size int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mayRelayLocked(t, size)
}
