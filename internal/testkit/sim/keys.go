package sim

import (
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// changeKeys schedules a stake with a new key for each validator, four seconds apart. The validator
// signs with the new key from the first epoch in which it is valid.
func (w *World) changeKeys() {
	for i, n := range w.nodes[:w.s.Nodes] {
		key := secretOf(n.name + ".next")
		w.at(begin+int64(2+4*i)*second, func() { w.stakeWith(n, key) })
	}
}

// stakeWith submits a stake of the same amount with a new key. It repeats the stake every five
// seconds until the epoch manager has the new key. Then the validator changes its signing key.
func (w *World) stakeWith(n *node, key primitives.SecretKey) {
	if n.core == nil {
		w.after(second, func() { w.stakeWith(n, key) })
		return
	}
	list, err := n.engine.Approvers(n.engine.Head().Hash)
	if err != nil {
		w.check.fail("%s: %v", n.name, err)
		return
	}
	for i := range list {
		if list[i].AccountID == n.account && list[i].PublicKey == key.PublicKey() {
			w.say(n.name, "signs with another key")
			w.check.rekeyed++
			n.key = key
			n.step(n.life, consensus.KeyChanged{Key: key})
			return
		}
	}
	if (w.now-begin)/second%5 == 2 {
		own := secretOf(n.account) // the account's access key
		tx := primitives.Transaction{SignerID: n.account, PublicKey: own.PublicKey(),
			Nonce:      primitives.TransactionNonce{Nonce: primitives.Nonce((w.now - begin) / second)},
			ReceiverID: n.account, BlockHash: n.engine.Final().Hash,
			Actions: []primitives.Action{&primitives.Stake{Stake: n.staked(), PublicKey: key.PublicKey()}}}
		hash := tx.Hash()
		n.step(n.life, consensus.Submitted{Tx: primitives.NewSignedTransaction(tx, own.Sign(hash[:]))})
	}
	w.after(second, func() { w.stakeWith(n, key) })
}

// staked returns a validator's stake in the genesis.
func (n *node) staked() primitives.Balance {
	return n.w.genesis.Config.Validators[n.index].Amount
}
