package network

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// receiveFunc implements ConsensusReceiver.
type receiveFunc func(consensus.Received, func())

func (f receiveFunc) Receive(m consensus.Received, done func()) { f(m, done) }

// TestValidatorMessagesPassFullMailbox: peers fill the validator's mailbox, over their own
// connections and through a relaying peer. Messages of a validator's node still arrive soon, over
// its own connection and through that relaying peer.
func TestValidatorMessagesPassFullMailbox(t *testing.T) {
	type said struct {
		m    consensus.Received
		done func()
	}
	var mailbox []said
	a := &Actor{o: Options{Status: new(Status), Validator: receiveFunc(func(m consensus.Received,
		done func()) {
		mailbox = append(mailbox, said{m, done})
	})}}
	a.inbox = newInbox(a.o.Status)
	ids := map[string]wire.PeerID{}
	id := func(name string) wire.PeerID {
		if ids[name] == "" {
			ids[name] = primitives.SecretKeyFromSeed(primitives.ED25519, name).PublicKey()
		}
		return ids[name]
	}
	approval := func(by string) wire.Message {
		return &wire.Routed{Author: id(by),
			Body: &wire.BlockApproval{Approval: primitives.Approval{AccountID: primitives.AccountID(by)}}}
	}
	flood := func(n int) {
		for i := range 40 {
			name := fmt.Sprintf("stranger%d", i)
			for range n {
				a.deliver(near.Deliver{From: id(name), Tier: wire.T2, Msg: approval(name)})
				a.deliver(near.Deliver{From: id("bridge"), Tier: wire.T2, Msg: approval(name)})
			}
		}
	}
	a.inbox.setSeats([]wire.PeerID{id("far"), id("near")})
	flood(2000)
	for round := range 20 {
		a.deliver(near.Deliver{From: id("bridge"), Tier: wire.T2, Msg: approval("far")})
		a.deliver(near.Deliver{From: id("near"), Tier: wire.T1, Msg: approval("near")})
		a.deliver(near.Deliver{Tier: wire.T1, Msg: approval("here")})
		heard := map[primitives.AccountID]int{}
		for turn := 1; turn <= 200 && len(mailbox) > 0; turn++ {
			x := mailbox[0]
			mailbox = mailbox[1:]
			x.done()
			heard[x.m.Message.(*primitives.Approval).AccountID] = turn
		}
		if heard["far"] == 0 || heard["near"] == 0 || heard["here"] == 0 {
			t.Fatalf("round %d: the validator handled too few messages in 200 turns: %d distant, %d near", round, heard["far"], heard["near"])
		}
		flood(10)
	}
	if a.inbox.all > maxInbox+41*minInboxEach {
		t.Errorf("%d wait", a.inbox.all)
	}
}
