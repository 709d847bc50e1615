package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// leave crashes a validator after five seconds and restarts it when the time of faults ends.
func (w *World) leave(n *node) {
	w.at(begin+5*second, func() { n.crash() })
	w.at(w.faultsEnd(), func() {
		if err := n.start(); err != nil {
			w.check.fail("%s: the restart failed: %v", n.name, err)
		}
		w.after(second, func() { w.comeBack(n, 0) })
	})
}

// comeBack checks every second whether an account is a validator, and submits a stake every 20 s
// while it is not. staked is the virtual time of the last stake. comeBack ends when the account has
// become a validator after it was none.
func (w *World) comeBack(n *node, staked int64) {
	c := &w.check
	list, err := n.engine.Approvers(n.engine.Head().Hash)
	if err != nil {
		c.fail("%s: %v", n.name, err)
		return
	}
	in := slices.ContainsFunc(list, func(a chain.Approver) bool { return a.AccountID == n.account && !a.StakeThis.IsZero() })
	switch {
	case !in && !c.out:
		c.out = true
		w.say(n.name, "is no validator any more")
	case in && c.out:
		c.returned = true
		w.say(n.name, "is a validator again")
		return
	}
	if c.out && w.now-staked > 20*second {
		staked = w.now
		key := secretOf(n.account)
		tx := primitives.Transaction{SignerID: n.account, PublicKey: key.PublicKey(),
			Nonce:      primitives.TransactionNonce{Nonce: primitives.Nonce((w.now - begin) / second)},
			ReceiverID: n.account, BlockHash: n.engine.Final().Hash,
			Actions: []primitives.Action{&primitives.Stake{Stake: primitives.NEAR(50_000_000), PublicKey: key.PublicKey()}}}
		hash := tx.Hash()
		w.say(n.name, "stakes again")
		n.step(n.life, consensus.Submitted{Tx: primitives.NewSignedTransaction(tx, key.Sign(hash[:]))})
	}
	w.after(second, func() { w.comeBack(n, staked) })
}
