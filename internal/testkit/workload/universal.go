package workload

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// universal is a universal account (id 0u...) of a generator. Generated transactions create, use and
// delete it.
type universal struct {
	raw  primitives.RawStateInit // encoded state init from which id is derived
	id   primitives.AccountID
	keys []primitives.SecretKey // secret keys of the access keys in raw
	// seed is the nonce with which the account was created, if the first transaction that pays into
	// the account ran at the expected height. 0: no transaction has paid into it.
	seed primitives.Nonce
	used primitives.Nonce // number of self-signed first transactions generated since seed was set
	// last is the newest self-signed first transaction. The generator repeats it as a replay.
	last *draft
}

// mostUniversals is the maximum number of universal accounts of a generator.
const mostUniversals = 12

// UniversalTransaction returns a signed transaction that creates, uses or deletes a universal account,
// even if Options.Universal is not set. Such a transaction is invalid before protocol version 88.
func (g *Generator) UniversalTransaction(at Base) *primitives.SignedTransaction {
	return g.universal(at, g.account()).sign()
}

// universal draws an unsigned transaction with a universal account. It is a transfer to the
// account, its state init (action 15) sent by another account or by itself, a transaction signed
// with one of its keys, or its deletion. Some of these are invalid: the state init is malformed,
// too large or of another account, or the transaction is a replay.
func (g *Generator) universal(at Base, from primitives.AccountID) *draft {
	if len(g.firsts) == 0 || len(g.firsts) < mostUniversals && g.rng.IntN(4) == 0 {
		g.firsts = append(g.firsts, g.newUniversal())
	}
	u := g.firsts[g.rng.IntN(len(g.firsts))]
	init := &primitives.UniversalStateInit{Init: u.raw, Deposit: primitives.NEAR(uint64(g.rng.IntN(2)))}
	pay := &primitives.Transfer{Deposit: primitives.NEAR(uint64(1 + g.rng.IntN(9)))}
	switch g.rng.IntN(12) {
	case 0, 1:
		u.paid(at)
		return g.draft(at, from, u.id, pay)
	case 2:
		u.paid(at)
		return g.draft(at, from, u.id, pay, init, g.action(at, from, u.id))
	case 10:
		u.paid(at)
		return g.draft(at, from, u.id, pay, g.action(at, from, u.id))
	case 3:
		return g.draft(at, from, u.id, init)
	case 4, 5, 6:
		return g.bootstrap(at, u)
	case 7:
		if u.last != nil {
			return u.last
		}
		return g.draft(at, from, from, init) // invalid: the receiver is not the account of the state init
	case 8:
		return g.badInit(at, from)
	case 9:
		u.seed = 0
		return g.draftBy(at, g.keyOf(u), u.id, u.id, &primitives.DeleteAccount{Beneficiary: g.receiver()})
	}
	to := g.receiver()
	return g.draftBy(at, g.keyOf(u), u.id, to, g.action(at, u.id, to))
}

// newUniversal draws a state init with one to three keys, and sometimes with code or data.
func (g *Generator) newUniversal() *universal {
	u := &universal{}
	s := primitives.UniversalStateInitV1{}
	for range 1 + g.rng.IntN(3) {
		kind := [...]primitives.KeyType{primitives.ED25519, primitives.ED25519, primitives.SECP256K1, primitives.MLDSA65}[g.rng.IntN(4)]
		key := g.keys.get(kind, fmt.Sprint("universal ", g.rng.IntN(20)))
		if !slices.Contains(s.AccessKeys, key.PublicKey().Handle()) {
			u.keys = append(u.keys, key)
			s.AccessKeys = append(s.AccessKeys, key.PublicKey().Handle())
		}
	}
	slices.Sort(s.AccessKeys)
	if g.rng.IntN(3) == 0 {
		code := g.global()
		s.Code = &code
	}
	if g.rng.IntN(3) == 0 {
		s.Data = []primitives.StateEntry{{Key: []byte("k"), Value: make([]byte, g.rng.IntN(1200))}}
	}
	u.raw = s.Encode()
	u.id = u.raw.DerivedAccount()
	return u
}

func (g *Generator) keyOf(u *universal) primitives.SecretKey { return u.keys[g.rng.IntN(len(u.keys))] }

// paid records that the transaction being drawn transfers to the account. If the account does not
// exist yet, the transfer creates it one block later.
func (u *universal) paid(at Base) {
	if u.seed == 0 {
		u.seed, u.used = primitives.InitialNonce(at.Height+1), 0
	}
}

// bootstrap returns a self-signed first transaction of the account: it contains the account's state
// init and is signed with a key in that state init. In most cases its nonce is the only valid one.
func (g *Generator) bootstrap(at Base, u *universal) *draft {
	actions := []primitives.Action{&primitives.UniversalStateInit{Init: u.raw}}
	switch g.rng.IntN(6) {
	case 0:
		actions = append(actions, g.action(at, u.id, u.id))
	case 1:
		actions = append([]primitives.Action{g.action(at, u.id, u.id)}, actions...)
	}
	d := g.draftBy(at, g.keyOf(u), u.id, u.id, actions...)
	u.used++
	d.Nonce.Nonce = u.seed + u.used
	switch g.rng.IntN(8) {
	case 0:
		d.Nonce.Nonce++
	case 1:
		d.Version, d.NonceMode = primitives.TransactionV1, primitives.NonceStrict
	case 2:
		d.Version, d.Nonce.HasIndex = primitives.TransactionV1, true
	}
	u.last = d
	return d
}

// badInit returns a transaction with an invalid state init.
func (g *Generator) badInit(at Base, from primitives.AccountID) *draft {
	key := g.keyOf(g.newUniversal()).PublicKey().Handle()
	s := primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{key}}
	switch g.rng.IntN(4) {
	case 0:
		s.Data = []primitives.StateEntry{{Key: []byte("b")}, {Key: []byte("a")}}
	case 1:
		s.AccessKeys = append(s.AccessKeys, key)
	case 2:
		for i := range 1501 {
			s.Data = append(s.Data, primitives.StateEntry{Key: fmt.Appendf(nil, "%04d", i)})
		}
	}
	raw := s.Encode()
	to := raw.DerivedAccount()
	if g.rng.IntN(3) == 0 {
		raw = raw[:len(raw)-1-g.rng.IntN(len(raw)-1)]
		to = raw.DerivedAccount()
	}
	return g.draft(at, from, to, &primitives.UniversalStateInit{Init: raw})
}
