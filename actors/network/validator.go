package network

import (
	"strings"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// ConsensusReceiver passes peers' messages to the validator actor. Safe for concurrent use.
type ConsensusReceiver interface {
	// Receive passes a message. The receiver calls done to release the message's inbox slot. Receive
	// does not block.
	Receive(m consensus.Received, done func())
}

// routeBackPrefix is the prefix of a consensus.Peer that identifies the sender of a routed chunk
// request. The rest is the hash by which the response is routed back.
const routeBackPrefix = "back:"

// gossipWindow is the maximum number of heights below the highest verified header at which a block
// is broadcast.
const gossipWindow = primitives.Height(8)

// partsRequest is a request for chunk parts. The actor chooses the receiver, because the actor has
// the list of peers.
type partsRequest struct{ *chunkparts.Ask }

// fromWire converts a peer's message for the consensus core. fromWire returns nil if the core does
// not handle the message. nearcore verifies the signature of an optimistic block over the hash that
// the sender states; this node drops one with another hash, which no nearcore node sends.
func fromWire(m wire.Message) consensus.Message {
	if o, ok := m.(*wire.OptimisticBlock); ok && o.WireHash == o.Block.Hash() {
		return o.Block
	}
	r, ok := m.(*wire.Routed)
	if !ok {
		return nil
	}
	switch b := r.Body.(type) {
	case *wire.BlockApproval:
		return &b.Approval
	case *wire.PartialChunk:
		return &b.PartialChunk
	case *wire.ChunkForward:
		return &b.ChunkForward
	case *wire.ChunkResponse:
		return &b.ChunkResponse
	case *wire.PartialWitness:
		return &b.PartialWitness
	case *wire.PartialWitnessForward:
		return consensus.Forwarded{PartialWitness: &b.PartialWitness}
	case *wire.VersionedWitness:
		return &b.PartialWitness
	case *wire.VersionedWitnessForward:
		return consensus.Forwarded{PartialWitness: &b.PartialWitness}
	case *wire.WitnessAck:
		return &b.WitnessAck
	case *wire.ChunkEndorsement:
		return &b.ChunkEndorsement
	case *wire.ContractAccesses:
		return &b.ContractAccesses
	case *wire.ContractCodeRequest:
		return &b.ContractCodeRequest
	case *wire.ContractCodeResponse:
		return &b.ContractCodeResponse
	case *wire.ContractDeploys:
		return &b.PartialContractDeploys
	}
	return nil
}

// toWire converts a message of the core to another validator. It returns nil for messages that are
// not sent in this form.
func toWire(m consensus.Message) wire.Body {
	switch m := m.(type) {
	case *primitives.Approval:
		return &wire.BlockApproval{Approval: *m}
	case *primitives.PartialChunk:
		return &wire.PartialChunk{PartialChunk: *m}
	case *primitives.ChunkForward:
		return &wire.ChunkForward{ChunkForward: *m}
	case *primitives.ChunkRequest:
		return &wire.ChunkRequest{ChunkRequest: *m}
	case *primitives.PartialWitness:
		if m.Anchor != nil {
			return &wire.VersionedWitness{VersionedPartialWitness: primitives.VersionedPartialWitness{PartialWitness: *m}}
		}
		return &wire.PartialWitness{PartialWitness: *m}
	case consensus.Forwarded:
		if m.Anchor != nil {
			return &wire.VersionedWitnessForward{VersionedPartialWitness: primitives.VersionedPartialWitness{
				PartialWitness: *m.PartialWitness}}
		}
		return &wire.PartialWitnessForward{PartialWitness: *m.PartialWitness}
	case *primitives.WitnessAck:
		return &wire.WitnessAck{WitnessAck: *m}
	case *primitives.ChunkEndorsement:
		return &wire.ChunkEndorsement{ChunkEndorsement: *m}
	case *primitives.ContractAccesses:
		return &wire.ContractAccesses{ContractAccesses: *m}
	case *primitives.ContractCodeRequest:
		return &wire.ContractCodeRequest{ContractCodeRequest: *m}
	case *primitives.ContractCodeResponse:
		return &wire.ContractCodeResponse{ContractCodeResponse: *m}
	case *primitives.PartialContractDeploys:
		return &wire.ContractDeploys{PartialContractDeploys: *m}
	case *primitives.SignedTransaction:
		return &wire.ForwardTx{SignedTransaction: *m}
	}
	return nil
}

// isRecent returns whether peers may need a block of this height: the height is not far below the
// highest verified header. isRecent ignores heights that peers claim, because they prove nothing.
func (f *Status) isRecent(h primitives.Height) bool {
	return h+gossipWindow >= primitives.Height(f.headers.Load())
}

// Send sends messages of the core through the current host. If no host is running, the messages are
// lost. tell passes to the actor the messages whose receiver the actor must choose. Send blocks
// while the host is busy. Safe for concurrent use.
func (f *Status) Send(list []consensus.Send, tell func(any)) {
	host := f.host.Load()
	if host == nil {
		return
	}
	for i := range list {
		s := &list[i]
		switch m := s.Message.(type) {
		case *primitives.Block:
			if s.Peer != "" {
				host.Post(near.ToPeer{Peer: peerOf(string(s.Peer)), Msg: &wire.Block{Block: m}})
			} else if f.isRecent(m.Header.Height) && (!f.early.take(m.Hash()) || s.Again) {
				host.Post(near.ToAll{Msg: &wire.Block{Block: m}, Again: s.Again})
			}
		case *primitives.OptimisticBlock:
			host.Post(near.OptimisticTo{Accounts: s.Receivers, Msg: &wire.OptimisticBlock{Block: m, WireHash: m.Hash()}})
		case consensus.BlockRequest:
			tell(messages.BlockWanted{Hash: m.Hash, From: string(s.Peer)})
		case *primitives.ChunkResponse:
			if raw, ok := strings.CutPrefix(string(s.Peer), routeBackPrefix); ok {
				host.Post(near.RouteTo{Target: wire.RouteBack(primitives.Hash([]byte(raw))),
					Body: &wire.ChunkResponse{ChunkResponse: *m}})
			}
		default: // HeadersRequest is not sent (toWire returns nil), because chain/blocksync requests headers
			if s.Ask != nil {
				tell(partsRequest{s.Ask})
			} else if body := toWire(m); body != nil && s.To != "" {
				host.Post(near.RouteToAccount{AccountID: s.To, Body: body})
			}
		}
	}
}

// routeToValidator passes a chunk request to the validator actor, which may have chunks that are
// not stored. The message keeps its inbox slot until the validator has read it. For a message that
// is not a chunk request, routeToValidator returns false.
func (a *Actor) routeToValidator(d *delivered) bool {
	m, ok := d.Msg.(*wire.Routed)
	if !ok || a.o.Validator == nil {
		return false
	}
	q, ok := m.Body.(*wire.ChunkRequest)
	if !ok {
		return false
	}
	hash := m.Hash()
	a.receiveInTurn(consensus.Received{From: consensus.Peer(routeBackPrefix + string(hash[:])),
		Message: &q.ChunkRequest}, d.in)
	return true
}
