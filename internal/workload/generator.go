package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/troupe-chain/troupe/primitives"
)

// Options of a workload.
type Options struct {
	Seed     uint64
	Accounts int     // at least 2
	Shards   int     // 1 to 26
	Skew     float64 // Zipf exponent of senders and receivers; 0: all alike
	OneKey   bool    // all accounts have the same key: large states are made in seconds
	// Contracts: the accounts have contracts, by Deployments, and half of the transactions call
	// them.
	Contracts bool
	// Universal: some transactions make and use universal accounts, which needs protocol 88.
	Universal bool
	// Names are more accounts, which the generator does not draw.
	Names []primitives.AccountID
}

// Generator makes transactions. Equal options and calls give equal transactions. Nonces follow from
// the height at which a transaction is to be included, so generators need not know the chain, and a
// later one may go on where another stopped.
type Generator struct {
	o      Options
	rng    *rand.Rand
	zipf   *Zipf
	keys   keyring
	height primitives.Height
	count  primitives.Nonce // within the height
	last   map[string]primitives.Nonce
	made   []primitives.AccountID // accounts that transactions were to create, the last few
	inits  []primitives.StateInit
	firsts []*universal
}

// Base is where on a chain transactions are to go.
type Base struct {
	Height primitives.Height // of the block that is to include them
	Hash   primitives.Hash   // of a recent block
}

// NewGenerator returns a generator.
func NewGenerator(o Options) *Generator {
	rng := rand.New(rand.NewPCG(o.Seed, 0x7472_6f75_7065))
	return &Generator{o: o, rng: rng, zipf: NewZipf(rng, o.Accounts, o.Skew), keys: keyring{}, last: map[string]primitives.Nonce{}}
}

// Key is an account's own key, that of its genesis.
func (g *Generator) Key(id primitives.AccountID) primitives.SecretKey {
	if g.o.OneKey {
		return g.keys.get(primitives.ED25519, sharedSeed)
	}
	return g.keys.get(primitives.ED25519, string(id))
}

// account draws one of the accounts.
func (g *Generator) account() primitives.AccountID { return Account(g.zipf.Draw(g.rng)) }

// extraKeys bounds how many keys of each class an account may get.
const extraKeys = 3

// keyClass says what an extra key is for; all of an account's keys of one class are added alike.
type keyClass byte

const (
	fullKeys keyClass = 'f'
	callKeys keyClass = 'c'
	gasKeys  keyClass = 'g'
	gasCalls keyClass = 'h' // gas keys for calls only
)

// extra draws one of an account's extra keys of a class. It need not have been added.
func (g *Generator) extra(id primitives.AccountID, class keyClass) primitives.SecretKey {
	t := primitives.ED25519
	switch g.rng.IntN(16) {
	case 0:
		t = primitives.SECP256K1
	case 1:
		if g.rng.IntN(4) == 0 { // 3.3 KB a signature
			t = primitives.MLDSA65
		}
	}
	return g.keys.get(t, fmt.Sprintf("%s %c%d", id, class, g.rng.IntN(extraKeys)))
}

// nonce returns the next nonce for a block of the base's height: above all that earlier blocks can
// have used.
func (g *Generator) nonce(at Base, key string) primitives.Nonce {
	if at.Height != g.height {
		g.height, g.count = at.Height, 0
	}
	g.count++
	n := primitives.InitialNonce(at.Height) + g.count
	g.last[key] = n
	return n
}

// draft is a transaction before it is signed.
type draft struct {
	primitives.Transaction
	key primitives.SecretKey
}

// draft begins a transaction by an account's own key.
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

// Transfer makes a transfer between two accounts, of so little that it hardly ever fails.
func (g *Generator) Transfer(at Base) *primitives.SignedTransaction {
	return g.draft(at, g.account(), g.account(), &primitives.Transfer{Deposit: primitives.Yocto(1 + g.rng.Uint64N(1_000_000))}).sign()
}

// Transaction makes one of any kind. Most are valid; what a tenth of them do must fail in one way
// or another.
func (g *Generator) Transaction(at Base) *primitives.SignedTransaction {
	d := g.any(at)
	if g.rng.IntN(10) == 0 {
		return g.spoil(at, d)
	}
	return d.sign()
}

// spoil makes a transaction bad before or after it is signed.
func (g *Generator) spoil(at Base, d *draft) *primitives.SignedTransaction {
	switch g.rng.IntN(8) {
	case 0: // used already, or of long ago
		d.Nonce.Nonce -= primitives.Nonce(g.rng.IntN(3)) * primitives.NonceRangeMultiplier
	case 1: // of a block to come
		d.Nonce.Nonce += primitives.NonceRangeMultiplier
	case 2: // an unknown block
		d.BlockHash = primitives.HashBytes([]byte{byte(g.rng.IntN(256))})
	case 3: // no such signer
		d.SignerID = primitives.AccountID(fmt.Sprintf("nobody%d.w", g.rng.IntN(9)))
	case 4: // no such key
		d.key = g.keys.get(primitives.ED25519, "a key of nobody")
		d.PublicKey = d.key.PublicKey()
	case 5: // more than anyone has
		d.Actions = append(d.Actions, &primitives.Transfer{Deposit: primitives.NEAR(2_000_000_000)})
	case 6: // signed by another
		d.key = g.keys.get(d.key.Type(), "a key of nobody")
	case 7: // strict, with a gap or without
		d.Version, d.NonceMode = primitives.TransactionV1, primitives.NonceStrict
		if g.rng.IntN(2) == 0 {
			d.Nonce.Nonce = g.last[slot(d.SignerID, d.PublicKey)] + primitives.Nonce(g.rng.IntN(3))
		}
	}
	return d.sign()
}
