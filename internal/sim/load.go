package sim

import (
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// load are clients that send transfers to random nodes.
type load struct {
	w       *World
	nonces  [users]primitives.Nonce
	stopped bool
	sent    int
	signers map[primitives.Hash]primitives.AccountID // of what was sent
}

func (l *load) init(w *World) { l.w, l.signers = w, map[primitives.Hash]primitives.AccountID{} }

// go on sends one transfer, and later the next.
func (l *load) next() {
	w := l.w
	if l.stopped {
		return
	}
	l.send()
	w.after(w.between(second/int64(2*w.s.Load), 3*second/int64(2*w.s.Load)), l.next)
}

func (l *load) send() {
	w := l.w
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	from, to := w.rng.IntN(users), w.rng.IntN(users)
	amount := primitives.NEAR(uint64(w.rng.IntN(5)))
	if n.core == nil {
		return
	}
	l.nonces[from]++
	signer, key := user(from), secretOf(user(from))
	tx := primitives.Transaction{SignerID: signer, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: l.nonces[from]},
		ReceiverID: user(to), BlockHash: n.engine.Final().Hash, Actions: []primitives.Action{&primitives.Transfer{Deposit: amount}}}
	hash := tx.Hash()
	l.sent++
	l.signers[hash] = signer
	n.step(n.life, consensus.Submitted{Tx: primitives.NewSignedTransaction(tx, key.Sign(hash[:]))})
}
