package network

import (
	"strings"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Receive takes what peers say to a validator; done gives back the message's place. From any goroutine; it does not wait.
type ReceiveFunc func(m consensus.Received, done func())

// routeBackPrefix begins the name of who has asked for a chunk: the way that the answer goes.
const routeBackPrefix = "back:"

// gossipWindow is how far a block may be below the highest header and still be told to all.
const gossipWindow = primitives.Height(8)

// partsRequest hands a request for chunk parts to the actor, which knows who is there.
type partsRequest struct{ *chunkparts.Ask }

// fromWire is what a peer's message is to the core, nil: nothing.
func fromWire(m wire.Message) consensus.Message {
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

// toWire is what the core says to a validator, as it is on the wire; nil: nothing.
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
		return &wire.PartialWitness{PartialWitness: *m}
	case consensus.Forwarded:
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

// isRecent tells whether others want to hear of a block of a height: it is not far below the headers that were judged. What others only say of their height
// is not looked at: anybody may say anything.
func (f *Status) isRecent(h primitives.Height) bool {
	return h+gossipWindow >= primitives.Height(f.headers.Load())
}

// Send sends what the core says, by the host that there is; without one it is lost, as in any network. tell hands the actor what it has to decide.
// From any goroutine; it waits while the host is busy.
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
		case consensus.BlockRequest:
			tell(messages.BlockWanted{Hash: m.Hash, From: string(s.Peer)})
		case *primitives.ChunkResponse:
			if raw, ok := strings.CutPrefix(string(s.Peer), routeBackPrefix); ok {
				host.Post(near.RouteTo{Target: wire.RouteBack(primitives.Hash([]byte(raw))), Body: &wire.ChunkResponse{ChunkResponse: *m}})
			}
		default: // headers are chain/blocksync's
			if s.Ask != nil {
				tell(partsRequest{s.Ask})
			} else if body := toWire(m); body != nil && s.To != "" {
				host.Post(near.RouteToAccount{AccountID: s.To, Body: body})
			}
		}
	}
}

// routeToValidator hands the validator a request for what only it can have, with the place in the mailbox: until it has taken that, its peer has one less.
func (a *Actor) routeToValidator(d *delivered) bool {
	m, ok := d.Msg.(*wire.Routed)
	if !ok || a.o.Receive == nil {
		return false
	}
	q, ok := m.Body.(*wire.ChunkRequest)
	if !ok {
		return false
	}
	hash := m.Hash()
	a.receiveInTurn(consensus.Received{From: consensus.Peer(routeBackPrefix + string(hash[:])), Message: &q.ChunkRequest}, d.in)
	return true
}
