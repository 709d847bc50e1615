package sim

import (
	"bytes"
	"encoding/binary"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// hosts is the number of users whose accounts get contracts with Scenario.Calls. These are the
// first users.
const hosts = 4

// payers is the number of genesis accounts that create and fund universal accounts.
const payers = 16

// still is a VM in which every contract call succeeds and does nothing.
type still struct{}

// Call implements action.VM.
func (still) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	o := c.Unchanged()
	o.GasBurnt, o.GasUsed, o.Compute = 1_000_000_000_000, 1_000_000_000_000, 1_000_000_000_000
	return o, nil
}

// code returns the contract code of the n-th deployment. host is the user to whose account the code
// is deployed.
func code(host, n int) []byte {
	out := bytes.Repeat([]byte{byte(host)}, 3000)
	binary.LittleEndian.PutUint64(out, uint64(n))
	return out
}

// load sends the scenario's transactions: transfers, deployments and calls of random users to
// random nodes.
type load struct {
	w       *World
	nonces  [users]primitives.Nonce
	stopped bool
	sent    int
	codes   int                                      // number of deployed contracts
	signers map[primitives.Hash]primitives.AccountID // hash of a sent transaction -> its signer
	// generator generates transactions of universal accounts. nil: Scenario.Universal is not set.
	generator *workload.Generator
}

func (l *load) init(w *World) {
	l.w, l.signers = w, map[primitives.Hash]primitives.AccountID{}
	if w.s.Universal {
		l.generator = workload.NewGenerator(workload.Options{Seed: w.o.Seed, Accounts: payers, Universal: true})
	}
}

// next sends a transaction, and schedules the next call of itself.
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
	if l.generator != nil && w.chance(500) {
		at := workload.Base{Height: n.engine.Head().Height() + 1, Hash: n.engine.Final().Hash}
		l.submit(n, l.generator.UniversalTransaction(at))
		return
	}
	signer, key := user(from), secretOf(user(from))
	receiver, actions := user(to), []primitives.Action{&primitives.Transfer{Deposit: amount}}
	if w.s.Calls && (l.codes < hosts || w.chance(5)) {
		from = l.codes % hosts
		signer, key = user(from), secretOf(user(from))
		receiver, actions = signer, []primitives.Action{&primitives.DeployContract{Code: code(from, l.codes)}}
		l.codes++
	} else if w.s.Calls && w.chance(500) {
		receiver, actions = user(to%hosts), []primitives.Action{&primitives.FunctionCall{Method: "nothing", Gas: 10_000_000_000_000}}
	}
	l.nonces[from]++
	tx := primitives.Transaction{SignerID: signer, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: l.nonces[from]},
		ReceiverID: receiver, BlockHash: n.engine.Final().Hash, Actions: actions}
	hash := tx.Hash()
	l.submit(n, primitives.NewSignedTransaction(tx, key.Sign(hash[:])))
}

// submit submits a transaction to a node, as a client does.
func (l *load) submit(n *node, tx *primitives.SignedTransaction) {
	l.sent++
	l.signers[tx.Hash()] = tx.Transaction.SignerID
	n.step(n.life, consensus.Submitted{Tx: tx})
}
