package txscript

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// ErrSupply reports that the tokens after a block do not add up to the total supply.
var ErrSupply = errors.New("txscript: the tokens in the state do not add up to the total supply")

// Options configure a World.
type Options struct {
	Accounts []primitives.AccountID
	Shards   int
	VM       action.VM
	Balance  primitives.Balance         // balance of each account in the genesis; zero: a million NEAR
	Release  primitives.ProtocolVersion // protocol version in the numbering of the releases; 0: the newest
}

// World is a chain that keeps all transactions, receipts and outcomes.
type World struct {
	*workload.Chain
	gen      *workload.Generator
	nonces   primitives.Nonce                              // number of nonces already used for the next block
	keys     map[primitives.AccountID]primitives.SecretKey // secret keys of the universal accounts, by account
	entries  map[primitives.Hash]*engine.BlockNode
	txs      map[primitives.Hash]*primitives.SignedTransaction
	receipts map[primitives.Hash]*primitives.Receipt
	outcomes map[primitives.Hash]*happened
}

// happened is an outcome with the height of its block.
type happened struct {
	*primitives.Outcome
	at primitives.Height
}

// quietBlocks is the number of blocks without an outcome after which no receipts are pending.
const quietBlocks = 4

// New creates a chain.
func New(o Options) (*World, error) {
	var c workload.ChainOptions
	c.Accounts, c.Shards, c.Names, c.Balance, c.VM = 2, o.Shards, o.Accounts, o.Balance, o.VM
	c.Release = o.Release
	c.EpochLength = 10_000
	chain, err := workload.OpenChain(c)
	if err != nil {
		return nil, err
	}
	g := chain.Engine.Genesis()
	return &World{
		Chain: chain, gen: workload.NewGenerator(c.Options), keys: map[primitives.AccountID]primitives.SecretKey{},
		entries: map[primitives.Hash]*engine.BlockNode{g.Hash: g}, txs: map[primitives.Hash]*primitives.SignedTransaction{},
		receipts: map[primitives.Hash]*primitives.Receipt{}, outcomes: map[primitives.Hash]*happened{},
	}, nil
}

// Universal returns the state init of a universal account with one key, and the account's id. Sign uses
// the key.
func (w *World) Universal(name string) (raw primitives.RawStateInit, id primitives.AccountID) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, name)
	raw = (&primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{key.PublicKey().Handle()}}).Encode()
	id = raw.DerivedAccount()
	w.keys[id] = key
	return raw, id
}

// Named returns the account id for a name in a script. @NAME stands for the account of Universal.
func (w *World) Named(text string) primitives.AccountID {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		_, id := w.Universal(name)
		return id
	}
	return primitives.AccountID(text)
}

// Sign returns a signed transaction for the next block. For an uninitialized universal account it uses
// the account's nonce instead of an access key's.
func (w *World) Sign(from, to primitives.AccountID, actions ...primitives.Action) *primitives.SignedTransaction {
	at := w.Base()
	key, ok := w.keys[from]
	if !ok {
		key = w.gen.Key(from)
	}
	w.nonces++
	tx := primitives.Transaction{
		SignerID: from, PublicKey: key.PublicKey(), ReceiverID: to, BlockHash: at.Hash, Actions: actions,
		Nonce: primitives.TransactionNonce{Nonce: primitives.InitialNonce(at.Height) + w.nonces},
	}
	if a, err := w.account(from); err == nil && a != nil && !a.IsInitialized() {
		tx.Nonce.Nonce = a.BootstrapNonce + 1
	}
	hash := tx.Hash()
	return primitives.NewSignedTransaction(tx, key.Sign(hash[:]))
}

// Block produces and imports a block with these transactions. It returns the number of outcomes, and
// ErrSupply if tokens do not add up.
func (w *World) Block(txs ...*primitives.SignedTransaction) (outcomes int, err error) {
	a, err := w.Next(txs)
	if err != nil {
		return 0, err
	}
	w.nonces = 0
	e := a.Entry
	w.entries[e.Hash] = e
	for _, tx := range txs {
		w.txs[tx.Hash()] = tx
	}
	for i := range e.Shards {
		s := &e.Shards[i]
		for _, list := range [][]*primitives.Receipt{s.Outgoing, s.Incoming} {
			for _, r := range list {
				w.receipts[r.ID] = r
			}
		}
		for _, p := range s.Result.Processed {
			w.receipts[p.ID] = p.Receipt
		}
		for k := range s.Result.Outcomes {
			o := &s.Result.Outcomes[k]
			w.outcomes[o.ID] = &happened{&o.Outcome, e.Height()}
			outcomes++
		}
	}
	held, err := workload.Held(w.Store, e, func(h primitives.Hash) *engine.BlockNode { return w.entries[h] })
	if err != nil {
		return outcomes, err
	}
	supply, err := workload.Supply(e)
	if err == nil && held != supply {
		err = fmt.Errorf("%w: at height %d there are %v, want %v", ErrSupply, e.Height(), held, supply)
	}
	return outcomes, err
}

// Run produces blocks, the first one with these transactions, until no receipts are pending.
func (w *World) Run(txs ...*primitives.SignedTransaction) error {
	for quiet, n := 0, 0; quiet < quietBlocks; n++ {
		if n == 1000 {
			return errors.New("txscript: receipts are still pending after 1,000 blocks")
		}
		outcomes, err := w.Block(txs...)
		if err != nil {
			return err
		}
		if txs, quiet = nil, quiet+1; outcomes > 0 {
			quiet = 0
		}
	}
	return nil
}
