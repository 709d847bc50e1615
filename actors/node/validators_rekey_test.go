package node

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// rekeyed counts the signatures of a validator by key. Signatures of other validators that it
// forwards are not counted.
type rekeyed struct {
	keys [2]primitives.PublicKey
	by   [2]atomic.Int64
	none atomic.Int64 // by neither key
}

func (r *rekeyed) countByKey(me primitives.AccountID, list []consensus.Send) {
	for _, s := range list {
		var data []byte
		var sig primitives.Signature
		switch m := s.Message.(type) {
		case *primitives.Approval:
			data, sig = m.Inner.SignedBytes(m.Target), m.Signature
		case *primitives.ChunkEndorsement:
			data, sig = primitives.ChunkEndorsementBytes(m.ChunkHash), m.Signature
		default:
			continue
		}
		switch {
		case sig.Verify(data, r.keys[0]):
			r.by[0].Add(1)
		case sig.Verify(data, r.keys[1]):
			r.by[1].Add(1)
		default:
			r.none.Add(1)
		}
	}
}

// TestRekeyedValidatorNeverContradictsItself: a validator stakes with another key and switches to
// it while it runs. It keeps making blocks, and its account never signs contradictory messages:
// also after its actor fails, after the key is removed and set again, and after a restart. Without
// a key it signs nothing. Other nodes learn its address from an announcement with the new key.
func TestRekeyedValidatorNeverContradictsItself(t *testing.T) {
	t.Parallel()
	const who, length = 2, 20
	old, next := keyOf(voter(who)), keyOf("another key")
	r := &rekeyed{keys: [2]primitives.PublicKey{old.PublicKey(), next.PublicKey()}}
	var armed atomic.Bool
	key := old
	c := newCluster(t, 4, 4, length, func(i int, o *Options) {
		if i != who {
			return
		}
		said := o.hooks.onSend
		o.hooks.onSend = func(list []consensus.Send) { said(list); r.countByKey(voter(who), list) }
		o.Validator.Key = key
		o.hooks.trip = func(kind string, m any, after bool) {
			if _, system := m.(actor.SystemMessage); kind == validatoractor.Name && !system && !after &&
				armed.CompareAndSwap(true, false) {
				panic("tripped on purpose")
			}
		}
	}, shuffled(4, 1)) // a validator with a wrong key for some time is not kicked out
	for i := range 4 {
		c.start(i)
	}
	c.reach(3, 60*time.Second)
	e := c.members[0].e
	in := func() (out *primitives.ValidatorStake) { // in the epoch of the head's child
		if err := e.Epochs(func(m *epoch.Manager) error {
			id, err := m.EpochIDFromPrev(e.Head().Hash)
			if err == nil {
				out, err = m.Validator(id, voter(who))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	stake := in().Stake
	s := &sandbox{key: old}
	tx := s.sign(primitives.Transaction{SignerID: voter(who), ReceiverID: voter(who),
		Nonce: primitives.TransactionNonce{Nonce: 1}, BlockHash: e.Final().Hash,
		Actions: []primitives.Action{&primitives.Stake{Stake: stake, PublicKey: next.PublicKey()}}})
	if out, err := c.members[0].SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal}); err != nil ||
		out.Status.Kind != view.FinalSuccessValue {
		t.Fatalf("%+v, %v", out, err)
	}
	for limit := time.Now().Add(300 * time.Second); in().PublicKey != next.PublicKey(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the epoch with the other key does not come")
		}
	}
	// makes waits for a block of the validator above the head.
	makes := func(what string) {
		t.Helper()
		from := e.Head().Height()
		for limit := time.Now().Add(120 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			for at := e.Head().Header(); at.Height > from+1; {
				if by, err := e.BlockProducer(at.PrevHash, at.Height); err == nil && by.AccountID == voter(who) {
					t.Logf("%s: makes %d, %d behind", what, at.Height, at.Height-from)
					return
				}
				prev, err := e.Header(at.PrevHash)
				if err != nil {
					t.Fatal(err)
				}
				at = prev
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: it makes no block: %s", what, c.where())
			}
		}
	}
	change := func(k primitives.SecretKey) {
		if key = k; !c.members[who].Rekey(k, consensus.KeyWait{}) {
			t.Fatal("it takes no other key")
		}
	}
	change(next)
	makes("with the other key")
	was := r.by[0].Load()
	armed.Store(true)
	until(t, func() bool { return !armed.Load() })
	makes("behind a failure")
	if now := r.by[0].Load(); now != was {
		t.Errorf("it signs with the old key: %d times", now-was)
	}
	until(t, func() bool {
		a := c.members[0].front.Announcement(voter(who))
		return a != nil && a.Verify(next.PublicKey())
	})

	change(primitives.SecretKey{})
	c.reach(e.Final().Height+3, 60*time.Second) // signatures that were already on their way
	was = r.by[1].Load()
	c.reach(e.Final().Height+10, 60*time.Second)
	if now := r.by[1].Load(); now != was {
		t.Errorf("without a key it signs %d times", now-was)
	}
	change(next)
	makes("with its key again")

	c.stop(c.members[who])
	c.start(who)
	makes("behind a restart")
	if h, is := c.members[who].Halted(); is || r.none.Load() > 0 || r.by[0].Load() == 0 || r.by[1].Load() == 0 {
		t.Errorf("halted %v %+v; signed %d with the old key, %d with the other one, %d with none of them", is, h,
			r.by[0].Load(), r.by[1].Load(), r.none.Load())
	}
}
