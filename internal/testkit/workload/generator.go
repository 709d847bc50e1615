package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/troupe-chain/troupe/primitives"
)

// Options configure a workload.
type Options struct {
	Seed     uint64
	Accounts int     // number of accounts, at least 2
	Shards   int     // number of shards, 1 to 26
	Skew     float64 // exponent of the Zipf distribution of senders and receivers; 0: uniform
	OneKey   bool    // all accounts share one key, so that a large genesis is generated fast
	// Contracts makes half of the transactions call contracts. The caller must have deployed these
	// with Deployments.
	Contracts bool
	// Universal makes some transactions create and use universal accounts. These transactions are
	// valid from version 88 on.
	Universal bool
	// Names are additional accounts of the genesis. The generator does not use them.
	Names []primitives.AccountID
}

// Generator generates transactions. Equal options and calls give equal transactions. A nonce is
// derived from the height of the block that is to include the transaction. So a generator does not
// need the chain, and a new generator can continue where a previous generator ended.
type Generator struct {
	o      Options
	rng    *rand.Rand
	zipf   *Zipf
	keys   keyring
	height primitives.Height
	count  primitives.Nonce // number of transactions generated for the current height
	last   map[string]primitives.Nonce
	made   []primitives.AccountID // accounts that recent transactions create; the list is not complete
	inits  []primitives.StateInit
	firsts []*universal
}

// Base is the position in the chain for which a transaction is made.
type Base struct {
	Height primitives.Height // height of the block that shall include the transaction
	Hash   primitives.Hash   // hash of a recent block, the reference block of the transaction
}

// NewGenerator returns a generator.
func NewGenerator(o Options) *Generator {
	rng := rand.New(rand.NewPCG(o.Seed, 0x7472_6f75_7065))
	return &Generator{o: o, rng: rng, zipf: NewZipf(rng, o.Accounts, o.Skew), keys: keyring{}, last: map[string]primitives.Nonce{}}
}

// Key returns the full access key that an account has in the genesis.
func (g *Generator) Key(id primitives.AccountID) primitives.SecretKey {
	if g.o.OneKey {
		return g.keys.get(primitives.ED25519, sharedSeed)
	}
	return g.keys.get(primitives.ED25519, string(id))
}

// account draws an account with the distribution that Options.Skew sets.
func (g *Generator) account() primitives.AccountID { return Account(g.zipf.Draw(g.rng)) }

// extraKeys is the number of extra keys of each class that an account may get.
const extraKeys = 3

// keyClass is the permission of an extra key. All AddKey actions for a key give it the permission
// of its class.
type keyClass byte

const (
	fullKeys keyClass = 'f'
	callKeys keyClass = 'c'
	gasKeys  keyClass = 'g'
	gasCalls keyClass = 'h' // gas keys with a function call permission
)

// extra draws one of an account's extra keys of a class. The key may not have been added.
func (g *Generator) extra(id primitives.AccountID, class keyClass) primitives.SecretKey {
	t := primitives.ED25519
	switch g.rng.IntN(16) {
	case 0:
		t = primitives.SECP256K1
	case 1:
		if g.rng.IntN(4) == 0 { // rare, because an ML-DSA signature has 3.3 KB
			t = primitives.MLDSA65
		}
	}
	return g.keys.get(t, fmt.Sprintf("%s %c%d", id, class, g.rng.IntN(extraKeys)))
}

// nonce returns the next nonce for the height of at. The nonce is above all nonces for lower
// heights.
func (g *Generator) nonce(at Base, key string) primitives.Nonce {
	if at.Height != g.height {
		g.height, g.count = at.Height, 0
	}
	g.count++
	n := primitives.InitialNonce(at.Height) + g.count
	g.last[key] = n
	return n
}

// draft is an unsigned transaction with the key that will sign it.
type draft struct {
	primitives.Transaction
	key primitives.SecretKey
}

// draft returns an unsigned transaction for the genesis key of from.
func (g *Generator) draft(at Base, from, to primitives.AccountID, actions ...primitives.Action) *draft {
	return g.draftBy(at, g.Key(from), from, to, actions...)
}

func (g *Generator) draftBy(at Base, key primitives.SecretKey, from, to primitives.AccountID, actions ...primitives.Action) *draft {
	pk := key.PublicKey()
	d := &draft{key: key, Transaction: primitives.Transaction{
		SignerID: from, PublicKey: pk, Nonce: primitives.TransactionNonce{Nonce: g.nonce(at, slot(from, pk))}, ReceiverID: to,
		BlockHash: at.Hash, Actions: actions,
	}}
	if actions == nil {
		d.Actions = []primitives.Action{}
	}
	return d
}

func slot(id primitives.AccountID, pk primitives.PublicKey) string {
	return string(id) + "\x00" + string(pk)
}

func (d *draft) sign() *primitives.SignedTransaction {
	hash := d.Hash()
	return primitives.NewSignedTransaction(d.Transaction, d.key.Sign(hash[:]))
}

// Transfer returns a transfer between two accounts. The amount is so small that the transfer rarely
// fails.
func (g *Generator) Transfer(at Base) *primitives.SignedTransaction {
	return g.draft(at, g.account(), g.account(), &primitives.Transfer{Deposit: primitives.Yocto(1 + g.rng.Uint64N(1_000_000))}).sign()
}

// Transaction returns a transaction of a random kind. A tenth of the transactions are spoiled
// (spoil). Some of the transactions that are not spoiled fail when they are executed.
func (g *Generator) Transaction(at Base) *primitives.SignedTransaction {
	d := g.any(at)
	if g.rng.IntN(10) == 0 {
		return g.spoil(at, d)
	}
	return d.sign()
}

// spoil changes a transaction in one way that usually makes it invalid, and signs it.
func (g *Generator) spoil(at Base, d *draft) *primitives.SignedTransaction {
	switch g.rng.IntN(8) {
	case 0: // a nonce for an earlier block; IntN(3) = 0 leaves the transaction valid
		d.Nonce.Nonce -= primitives.Nonce(g.rng.IntN(3)) * primitives.NonceRangeMultiplier
	case 1: // a nonce for a later block
		d.Nonce.Nonce += primitives.NonceRangeMultiplier
	case 2: // an unknown block hash
		d.BlockHash = primitives.HashBytes([]byte{byte(g.rng.IntN(256))})
	case 3: // an unknown signer
		d.SignerID = primitives.AccountID(fmt.Sprintf("nobody%d.w", g.rng.IntN(9)))
	case 4: // an unknown key
		d.key = g.keys.get(primitives.ED25519, "a key of nobody")
		d.PublicKey = d.key.PublicKey()
	case 5: // more tokens than any account has
		d.Actions = append(d.Actions, &primitives.Transfer{Deposit: primitives.NEAR(2_000_000_000)})
	case 6: // a wrong signature
		d.key = g.keys.get(d.key.Type(), "a key of nobody")
	case 7: // a strict nonce, with or without a gap before it
		d.Version, d.NonceMode = primitives.TransactionV1, primitives.NonceStrict
		if g.rng.IntN(2) == 0 {
			d.Nonce.Nonce = g.last[slot(d.SignerID, d.PublicKey)] + primitives.Nonce(g.rng.IntN(3))
		}
	}
	return d.sign()
}
