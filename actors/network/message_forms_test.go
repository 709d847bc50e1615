package network

import (
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// validatorForm is a message between validators in one of its forms.
type validatorForm struct {
	name    string
	message consensus.Message
	kind    wire.BodyKind // in which it is sent
	// The core does not get it: another part of the node handles it.
	elsewhere bool
	// The core sends it as a reply on the route of a request and not to an account.
	isReply bool
}

// validatorForms has every message between validators, in every form. Those of protocol version 87
// name the chunk's anchor.
func validatorForms() []validatorForm {
	key := primitives.ChunkKey{ShardID: 4, EpochID: primitives.Hash{3}, HeightCreated: 5}
	sig := primitives.ZeroED25519Signature
	at := &primitives.ChunkAnchor{PrevBlock: primitives.Hash{1}, PrevPrevBlock: primitives.Hash{2}}
	witness := func(at *primitives.ChunkAnchor) *primitives.PartialWitness {
		return &primitives.PartialWitness{EpochID: key.EpochID, ShardID: key.ShardID, HeightCreated: key.HeightCreated, Anchor: at,
			Ord: 6, Part: []byte("part"), EncodedLength: 7, Signature: sig}
	}
	accesses := func(at *primitives.ChunkAnchor) *primitives.ContractAccesses {
		return &primitives.ContractAccesses{Key: key, Contracts: []primitives.Hash{{8}}, Anchor: at, Signature: sig}
	}
	deploys := func(at *primitives.ChunkAnchor) *primitives.PartialContractDeploys {
		return &primitives.PartialContractDeploys{Key: key, Ord: 1, Part: []byte("part"), EncodedLength: 4, Anchor: at, Signature: sig}
	}
	part := primitives.ChunkPart{Ord: 2, Part: []byte("part"), Proof: primitives.MerklePath{{Hash: primitives.Hash{9}}}}
	chunk := func(at *primitives.PartialChunkAnchor) *primitives.PartialChunk {
		h := primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{Version: primitives.ChunkInnerV5, ShardID: 4,
			HeightCreated: 5}, Signature: sig}
		return &primitives.PartialChunk{Header: h, Parts: []primitives.ChunkPart{part}, Anchor: at}
	}
	return []validatorForm{
		{"partial chunk of 86", chunk(nil), wire.BodyPartialChunk, false, false},
		{"partial chunk of 87", chunk(&primitives.PartialChunkAnchor{PrevPrevBlock: primitives.Hash{2}, EpochID: primitives.Hash{3}}),
			wire.BodyPartialChunk, false, false},
		{"witness part of 86", witness(nil), wire.BodyPartialWitness, false, false},
		{"witness part of 87", witness(at), wire.BodyVersionedWitness, false, false},
		{"forwarded witness part of 86", consensus.Forwarded{PartialWitness: witness(nil)}, wire.BodyPartialWitnessForward, false, false},
		{"forwarded witness part of 87", consensus.Forwarded{PartialWitness: witness(at)}, wire.BodyVersionedForward, false, false},
		{"contract accesses of 86", accesses(nil), wire.BodyContractAccesses, false, false},
		{"contract accesses of 87", accesses(at), wire.BodyContractAccesses, false, false},
		{"contract deploys of 86", deploys(nil), wire.BodyContractDeploys, false, false},
		{"contract deploys of 87", deploys(at), wire.BodyContractDeploys, false, false},
		{"approval", &primitives.Approval{Inner: primitives.ApprovalInner{Endorsement: primitives.Hash{1}}, Target: 5, AccountID: "a.near",
			Signature: sig}, wire.BodyBlockApproval, false, false},
		{"chunk forward", &primitives.ChunkForward{ShardID: 4, HeightCreated: 5, Signature: sig, Parts: []primitives.ChunkPart{part}},
			wire.BodyChunkForward, false, false},
		{"witness acknowledgement", &primitives.WitnessAck{ChunkHash: primitives.Hash{1}}, wire.BodyWitnessAck, false, false},
		{"endorsement", &primitives.ChunkEndorsement{ChunkHash: primitives.Hash{1}, Signature: sig, MetadataSignature: sig,
			Metadata: primitives.ChunkEndorsementMetadata{AccountID: "a.near", ShardID: 4, EpochID: primitives.Hash{3}, HeightCreated: 5}},
			wire.BodyChunkEndorsement, false, false},
		{"code request", &primitives.ContractCodeRequest{Requester: "a.near", Key: key, Contracts: []primitives.Hash{{8}}, Signature: sig},
			wire.BodyContractCodeRequest, false, false},
		{"code response", &primitives.ContractCodeResponse{Key: key, Responder: "a.near", Compressed: []byte("code"), Signature: sig},
			wire.BodyContractCodeResponse, false, false},
		{"chunk request", &primitives.ChunkRequest{ChunkHash: primitives.Hash{1}, Ords: []uint64{2}, Shards: []primitives.ShardID{4}},
			wire.BodyChunkRequest, true, false},
		{"chunk response", &primitives.ChunkResponse{ChunkHash: primitives.Hash{1}, Parts: []primitives.ChunkPart{part}},
			wire.BodyChunkResponse, false, true},
		{"transaction", primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near",
			PublicKey: primitives.ZeroED25519Key, Actions: []primitives.Action{&primitives.Transfer{}}}, sig), wire.BodyForwardTx, true, false},
	}
}

// notOfValidators are the routed bodies that are no messages between validators.
var notOfValidators = []wire.BodyKind{wire.BodyTxStatusRequest, wire.BodyTxStatusResponse, wire.BodyPing, wire.BodyPong,
	wire.BodyStatePartRequest, wire.BodyStateHeaderRequest, wire.BodyStateRequestAck}

// bodyOf is toWire, with replies.
func (f *validatorForm) bodyOf() wire.Body {
	if m, ok := f.message.(*primitives.ChunkResponse); ok {
		return &wire.ChunkResponse{ChunkResponse: *m}
	}
	return toWire(f.message)
}

// TestValidatorMessageKeepsItsForm: each message of the core is sent as the body kind of its form,
// and the core of the receiver gets the same message from any encoding of a routed message.
func TestValidatorMessageKeepsItsForm(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "sender")
	covered := map[wire.BodyKind]bool{}
	for _, f := range validatorForms() {
		body := f.bodyOf()
		if body == nil || body.BodyKind() != f.kind {
			t.Errorf("%s is sent as %v, want %v", f.name, body, f.kind)
			continue
		}
		covered[f.kind] = true
		if f.isReply && toWire(f.message) != nil {
			t.Errorf("%s is sent to an account", f.name)
		}
		routed := wire.NewRouted(key, wire.ToPeer(key.PublicKey()), body, 7)
		for form, frame := range map[string][]byte{"first": wire.Append(nil, routed), "third": routed.AppendV3(nil)} {
			m, err := wire.Decode(frame)
			if err != nil {
				t.Errorf("%s in the %s form of routed messages: %v", f.name, form, err)
				continue
			}
			got := fromWire(m)
			if f.elsewhere {
				if got != nil {
					t.Errorf("the core gets %s as %T", f.name, got)
				}
				continue
			}
			if !reflect.DeepEqual(got, f.message) {
				t.Errorf("%s in the %s form of routed messages arrives as %+v, want %+v", f.name, form, got, f.message)
			}
		}
	}
	for _, kind := range notOfValidators {
		if covered[kind] {
			t.Errorf("%v has two entries", kind)
		}
		covered[kind] = true
	}
	for kind := range 256 {
		if k := wire.BodyKind(kind); !covered[k] && !strings.HasPrefix(k.String(), "body ") {
			t.Errorf("%v is in no table", k)
		}
	}
}

// TestOldWitnessPartIsAcceptedWithVersion: as in nearcore, a witness part in the form before
// protocol version 87 is also accepted in the versioned encoding (bodies 40 and 41), in which
// nearcore does not send it. The core gets the same message as from the unversioned encoding.
func TestOldWitnessPartIsAcceptedWithVersion(t *testing.T) {
	part := primitives.PartialWitness{EpochID: primitives.Hash{3}, ShardID: 4, HeightCreated: 5, Part: []byte("part"), EncodedLength: 4,
		Signature: primitives.ZeroED25519Signature}
	versioned := primitives.VersionedPartialWitness{PartialWitness: part}
	if got := fromWire(&wire.Routed{Body: &wire.VersionedWitness{VersionedPartialWitness: versioned}}); !reflect.DeepEqual(got, &part) {
		t.Errorf("body 40: %+v", got)
	}
	if got := fromWire(&wire.Routed{Body: &wire.VersionedWitnessForward{VersionedPartialWitness: versioned}}); !reflect.DeepEqual(got,
		consensus.Forwarded{PartialWitness: &part}) {
		t.Errorf("body 41: %+v", got)
	}
}

// TestDeliveredMessageReachesValidator: a delivered message of each form goes to the validator,
// with its sender, and its slot is free when the validator has taken it. A node without a validator
// gets none of those that only validators use.
func TestDeliveredMessageReachesValidator(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "sender")
	for _, f := range validatorForms() {
		if f.elsewhere {
			continue
		}
		var got []consensus.Received
		var done []func()
		a := &Actor{host: new(tcp.Server), inbox: newInbox(new(Status)), o: Options{Validator: receiveFunc(func(m consensus.Received, free func()) {
			got, done = append(got, m), append(done, free)
		})}}
		a.deliver(near.Deliver{From: key.PublicKey(), Tier: wire.T1, Msg: wire.NewRouted(key, wire.ToPeer(key.PublicKey()), f.bodyOf(), 7)})
		if len(got) != 1 || !reflect.DeepEqual(got[0].Message, f.message) || got[0].From != consensus.Peer(key.PublicKey().String()) {
			t.Errorf("%s: the validator gets %+v", f.name, got)
			continue
		}
		if a.inbox.all != 1 {
			t.Errorf("%s takes %d slots", f.name, a.inbox.all)
		}
		if done[0](); a.inbox.all != 0 {
			t.Errorf("%s keeps its slot", f.name)
		}
	}
}

// TestOptimisticBlockReachesValidator: an optimistic block goes to the validator, with a slot. One
// that states another hash goes nowhere, and neither does one at a node without a validator.
func TestOptimisticBlockReachesValidator(t *testing.T) {
	o := &primitives.OptimisticBlock{Height: 5, Signature: primitives.ZeroED25519Signature}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "sender")
	for name, c := range map[string]struct {
		hash      primitives.Hash
		validator bool
		want      int
	}{"right": {o.Hash(), true, 1}, "another hash": {primitives.Hash{1}, true, 0}, "no validator": {o.Hash(), false, 0}} {
		t.Run(name, func(t *testing.T) {
			var got []consensus.Received
			var done []func()
			a := &Actor{host: new(tcp.Server), inbox: newInbox(new(Status)), o: Options{}}
			a.self = func(m any) { t.Errorf("the actor gets %T", m) }
			if c.validator {
				a.o.Validator = receiveFunc(func(m consensus.Received, free func()) { got, done = append(got, m), append(done, free) })
			}
			a.deliver(near.Deliver{From: key.PublicKey(), Tier: wire.T1, Msg: &wire.OptimisticBlock{Block: o, WireHash: c.hash}})
			if len(got) != c.want || a.inbox.all != c.want {
				t.Fatalf("%d messages, %d slots", len(got), a.inbox.all)
			}
			if c.want > 0 {
				if got[0].Message != consensus.Message(o) {
					t.Errorf("message %+v", got[0].Message)
				}
				if done[0](); a.inbox.all != 0 {
					t.Error("the slot is kept")
				}
			}
		})
	}
}
