package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// network delivers messages between nodes, each after a random delay. The network loses, delays and
// duplicates messages as the scenario configures. It also contains the state of the byzantine
// validator.
type network struct {
	w    *World
	side []bool // while cut is set: side of the partition of each node
	cut  bool   // the network is partitioned into two
	// drop returns whether a message is lost, for tests. nil: no message is lost.
	drop func(from, to *node, m consensus.Message) bool

	equivocated primitives.Hash   // the byzantine validator's last chunk for which equivocate ran
	secondChunk []chunkparts.Send // parts of the second chunk of the byzantine validator; empty: there is none

	createdFor     primitives.Hash // the byzantine validator's last chunk for which create ran
	misnumberedAll []*misnumbered
	chosen         chosen
	anchors        anchors
}

func (x *network) init(w *World) {
	x.w, x.side, x.chosen = w, make([]bool, w.s.Nodes+w.s.Followers+1), chosen{}
	x.anchors = anchors{x: x, unentitled: map[primitives.Hash]bool{}, displaced: map[anchoredChunk]bool{}}
}

// send sends a message that a node's consensus core has returned.
func (x *network) send(from *node, s *consensus.Send) {
	w := x.w
	if from.misbehaves() {
		x.sendFalse(from, s)
		return
	}
	if !from.retired && w.move.tooLate(from, s.Message) {
		w.retire()
	}
	if from.retired {
		return
	}
	w.check.said(from, s.Message)
	x.pass(from, s)
}

// pass sends a message of a node: it calls carry for each receiver.
func (x *network) pass(from *node, s *consensus.Send) {
	w, to := x.w, s.To
	switch {
	case to == "" && s.Peer != "":
		to = primitives.AccountID(s.Peer)
	case to == "" && s.Ask != nil:
		to = w.nodes[w.rng.IntN(len(w.nodes))].name
	}
	if len(s.Receivers) > 0 {
		for _, to := range s.Receivers {
			if n := w.byName[to]; n != nil && n != from {
				x.carry(from, n, s.Message)
			}
		}
		return
	}
	if to != "" {
		if n := w.byName[to]; n != nil && n != from {
			x.carry(from, n, s.Message)
		}
		return
	}
	for _, n := range w.nodes {
		if n != from {
			x.carry(from, n, s.Message)
		}
	}
}

// carry delivers a message after a delay, unless the message is lost. Faults may duplicate the
// message.
func (x *network) carry(from, to *node, m consensus.Message) {
	w := x.w
	if x.drop != nil && x.drop(from, to, m) || from.withholds(m) {
		return
	}
	w.result.Messages++
	for again := true; again; again = w.faulty() && w.chance(w.s.Double) {
		lost := w.faulty() && (w.chance(w.s.Drop) || x.cut && x.side[from.index] != x.side[to.index])
		d := w.between(w.s.Latency[0], w.s.Latency[1])
		if w.faulty() && w.chance(w.s.Late) {
			d += w.between(0, 3*second)
		}
		if lost {
			if w.trace.to != nil {
				w.tell(from.name, "-> %s lost: %s", to.name, describe(m))
			}
			continue
		}
		w.after(d, func() { x.deliver(from, to, m) })
	}
}

func (x *network) deliver(from, to *node, m consensus.Message) {
	w := x.w
	if to.core == nil {
		return
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(w.now))
	b[8], b[9], b[10] = byte(from.index), byte(to.index), kind(m)
	_, _ = w.trace.hash.Write(b[:])
	if w.trace.to != nil {
		w.tell(to.name, "<- %s: %s", from.name, describe(m))
	}
	if deaf := w.o.Bug.deaf; deaf != nil && deaf(to, m) {
		return
	}
	if to.misbehaves() {
		x.heard(m)
		if w.s.Anchors {
			x.anchors.heard(m)
		}
	}
	x.anchors.countDisplaced(to, m)
	to.step(to.life, consensus.Received{From: consensus.Peer(from.name), Message: m})
	w.check.bounded(to)
}

// kind returns a number for a message's type. The number goes into the hash of the run.
func kind(m consensus.Message) byte {
	switch m.(type) {
	case *primitives.Block:
		return 1
	case consensus.BlockRequest:
		return 2
	case consensus.HeadersRequest:
		return 3
	case consensus.Headers:
		return 4
	case *primitives.Approval:
		return 5
	case *primitives.SignedTransaction:
		return 6
	case *primitives.PartialChunk:
		return 7
	case *primitives.ChunkForward:
		return 8
	case *primitives.ChunkRequest:
		return 9
	case *primitives.ChunkResponse:
		return 10
	case *primitives.PartialWitness:
		return 11
	case consensus.Forwarded:
		return 12
	case *primitives.WitnessAck:
		return 13
	case *primitives.ChunkEndorsement:
		return 14
	case *primitives.ContractAccesses:
		return 15
	case *primitives.ContractCodeRequest:
		return 16
	case *primitives.ContractCodeResponse:
		return 17
	case *primitives.PartialContractDeploys:
		return 18
	case *primitives.OptimisticBlock:
		return 19
	}
	return 0
}

// describe returns the text of a message in the trace.
func describe(m consensus.Message) string {
	short := func(h primitives.Hash) string { return h.String()[:8] }
	switch m := m.(type) {
	case *primitives.Block:
		return fmt.Sprintf("block %d %s on %s", m.Header.Height, short(m.Hash()), short(m.Header.PrevHash))
	case consensus.BlockRequest:
		return "asks for block " + short(m.Hash)
	case consensus.HeadersRequest:
		return "asks for headers"
	case consensus.Headers:
		return fmt.Sprintf("%d headers", len(m.List))
	case *primitives.OptimisticBlock:
		return fmt.Sprintf("optimistic block %d on %s", m.Height, short(m.PrevBlockHash))
	case *primitives.Approval:
		if m.Inner.Skip {
			return fmt.Sprintf("vote of %s for %d, skips from %d", m.AccountID, m.Target, m.Inner.SkipHeight)
		}
		return fmt.Sprintf("vote of %s for %d, endorses %s", m.AccountID, m.Target, short(m.Inner.Endorsement))
	case *primitives.SignedTransaction:
		return "transaction " + short(m.Hash())
	case *primitives.PartialChunk:
		return fmt.Sprintf("%d parts of chunk %s, shard %d at %d", len(m.Parts), short(m.Header.ChunkHash()),
			m.Header.ShardID, m.Header.HeightCreated)
	case *primitives.ChunkForward:
		return fmt.Sprintf("forwards %d parts of chunk %s, shard %d at %d", len(m.Parts), short(m.ChunkHash), m.ShardID, m.HeightCreated)
	case *primitives.ChunkRequest:
		return fmt.Sprintf("asks for %d parts of chunk %s and receipts to %v", len(m.Ords), short(m.ChunkHash), m.Shards)
	case *primitives.ChunkResponse:
		return fmt.Sprintf("answers with %d parts of chunk %s", len(m.Parts), short(m.ChunkHash))
	case *primitives.PartialWitness:
		return fmt.Sprintf("part %d of the witness of shard %d at %d", m.Ord, m.ShardID, m.HeightCreated)
	case consensus.Forwarded:
		return fmt.Sprintf("forwards part %d of the witness of shard %d at %d", m.Ord, m.ShardID, m.HeightCreated)
	case *primitives.WitnessAck:
		return "has the witness of chunk " + short(m.ChunkHash)
	case *primitives.ChunkEndorsement:
		return fmt.Sprintf("%s endorses chunk %s of shard %d at %d", m.Metadata.AccountID, short(m.ChunkHash),
			m.Metadata.ShardID, m.Metadata.HeightCreated)
	case *primitives.ContractAccesses:
		return fmt.Sprintf("the chunk of shard %d at %d is on one that calls %d contracts", m.Key.ShardID, m.Key.HeightCreated, len(m.Contracts))
	case *primitives.ContractCodeRequest:
		return fmt.Sprintf("%s asks for %d contracts of shard %d at %d", m.Requester, len(m.Contracts), m.Key.ShardID, m.Key.HeightCreated)
	case *primitives.ContractCodeResponse:
		return fmt.Sprintf("%s gives contracts of shard %d at %d", m.Responder, m.Key.ShardID, m.Key.HeightCreated)
	}
	return fmt.Sprintf("%T", m)
}
