package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// one is a pool with one transaction.
type one struct {
	tx   *primitives.SignedTransaction
	seen bool
}

func (o *one) NextGroup() apply.Group {
	if o.seen {
		return nil
	}
	o.seen = true
	return o
}

func (o *one) Peek() *primitives.SignedTransaction { return o.tx }

func (o *one) Pop() { o.tx = nil }

// TestStrictNonceWaitIsBounded: a transaction with a strict nonce waits for the nonces before it as
// long as in neard: by default 64 blocks after its reference block (nearcore
// chain/chain/src/store/mod.rs:533). If it waited until it expires, such transactions could fill
// the pool.
func TestStrictNonceWaitIsBounded(t *testing.T) {
	g := testGenesis(t, owner, bare)
	g.Config.EpochLength, g.Config.TransactionValidityPeriod = 50, 100
	n := openNode(t, g)
	key := seedKey(owner)
	x := primitives.Transaction{SignerID: owner, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 3}, NonceMode: primitives.NonceStrict,
		ReceiverID: owner, BlockHash: n.Head().Hash, Actions: []primitives.Action{&primitives.Transfer{}}}
	hash := x.Hash()
	tx := primitives.NewSignedTransaction(x, key.Sign(hash[:]))
	for height := range primitives.Height(70) {
		for _, limit := range []primitives.Height{0, 7} {
			n.o.GapBlocks = limit
			out, err := n.Prepare(n.Head().Hash, 0, &one{tx: tx}, func() bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			if limit == 0 {
				limit = DefaultGapBlocks
			}
			dropped := len(out.Dropped) == 1 && out.Dropped[0].Reason == apply.DropExpired
			if len(out.Transactions) != 0 || dropped != (height > limit) {
				t.Fatalf("on height %d with limit %d: %+v", height, limit, out)
			}
		}
		n.accept(n.make(n.Head().Hash, height+1, false))
	}
}
