package refmodel

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Rules is a protocol version in the numbering of the releases. The model covers 86, 87 and 88.
// Version 86 equals version 86 of nearcore f0c7706f1.
type Rules primitives.ProtocolVersion

// Parameters (core/parameters/res/runtime_configs).
const (
	bytesOfAccount   = 100    // storage usage of an account without keys, code and data
	bytesOfRecord    = 40     // storage usage of an entry in addition to its key and value
	freeBytes        = 770    // storage usage up to which an account needs no balance
	mostBytesDeleted = 10_000 // maximum storage usage of an account to delete, without its contract
	shortestTopLevel = 65     // minimum length of a top-level account that is not created by the registrar
	registrar        = primitives.AccountID("registrar")
	noncesOfABlock   = 1_000_000
	longestKey       = 2048 // maximum length in bytes of a data key
	mostEntries      = 1500 // maximum number of entries in all state inits of an action list, from version 87
	mostKeys         = 1024 // maximum number of keys in all universal state inits of an action list
	// perByte is the balance in yoctoNEAR that a byte of storage requires. A byte of global code
	// burns perCodeByte times as much.
	perByte, perCodeByte = 10_000_000_000_000_000_000, 10
)

// MinimumStake is the minimum stake of a validator.
var MinimumStake = primitives.NEAR(10)

// World is the state that receipts read and write.
type World struct {
	Rules    Rules
	Accounts map[primitives.AccountID]*Account
	Global   map[primitives.GlobalContractID][]byte
	// highest nonce of a sent or received distribution of each global contract
	Nonces map[primitives.GlobalContractID]uint64

	received map[slot]*[]byte             // data that has arrived before its receipt; a nil slice: the promise failed
	waiting  map[slot]*primitives.Receipt // receipts that wait, by the missing data
	yields   map[slot]*primitives.Receipt
}

// slot identifies a data receipt by its receiver and its data id.
type slot struct {
	account primitives.AccountID
	id      primitives.Hash
}

// Account is an account with everything that its deletion removes.
type Account struct {
	Amount, Locked primitives.Balance
	Usage          uint64 // storage usage in bytes
	Contract       primitives.AccountContract
	wide           bool   // true: the account has or had global code, so its record has the newer encoding
	Code           []byte // code of a local contract; nil: none
	Keys           map[primitives.PublicKeyHandle]*Key
	Data           map[string]string
	// Bare is set for a universal account that has no state yet. Nonce is then the nonce of the
	// account's own transactions.
	Bare  bool
	Nonce primitives.Nonce
}

// Key is an access key. Rows are the nonces of a gas key, by nonce index.
type Key struct {
	primitives.AccessKey
	Rows []primitives.Nonce
}

// NewWorld returns an empty world.
func NewWorld(r Rules) *World {
	return &World{
		Rules: r, Accounts: map[primitives.AccountID]*Account{}, Global: map[primitives.GlobalContractID][]byte{},
		Nonces:   map[primitives.GlobalContractID]uint64{},
		received: map[slot]*[]byte{}, waiting: map[slot]*primitives.Receipt{}, yields: map[slot]*primitives.Receipt{},
	}
}

// Add adds an account with a balance and a full access key.
func (w *World) Add(id primitives.AccountID, amount primitives.Balance, key primitives.PublicKey) *Account {
	a := newAccount()
	a.Amount = amount
	k := &Key{}
	a.put(key.Handle(), k)
	w.Accounts[id] = a
	return a
}

func newAccount() *Account {
	return &Account{Usage: bytesOfAccount, Keys: map[primitives.PublicKeyHandle]*Key{}, Data: map[string]string{}}
}

// put adds an access key and counts the storage that it uses.
func (a *Account) put(h primitives.PublicKeyHandle, k *Key) {
	a.Keys[h] = k
	a.Usage += k.usage(h)
}

// key returns an access key of an account; nil: it has no such key.
func (a *Account) key(pk primitives.PublicKey) *Key { return a.Keys[pk.Handle()] }

// usage returns the storage usage of a key, in bytes.
func (k *Key) usage(h primitives.PublicKeyHandle) uint64 {
	name := uint64(len(h))
	return name + uint64(len(k.AppendBorsh(nil))) + bytesOfRecord + uint64(len(k.Rows))*(name+2+8+bytesOfRecord)
}

// clone copies the parts of the world that a failed receipt reverts.
func (w *World) clone() *World {
	c := *w
	c.Accounts = make(map[primitives.AccountID]*Account, len(w.Accounts))
	for id, a := range w.Accounts {
		b := *a
		b.Data = maps.Clone(a.Data)
		b.Keys = make(map[primitives.PublicKeyHandle]*Key, len(a.Keys))
		for h, k := range a.Keys {
			b.Keys[h] = k.clone()
		}
		c.Accounts[id] = &b
	}
	c.Nonces = maps.Clone(w.Nonces)
	return &c
}

func (k *Key) clone() *Key {
	c := &Key{k.AccessKey, slices.Clone(k.Rows)}
	if k.GasKey != nil {
		g := *k.GasKey
		c.GasKey = &g
	}
	return c
}

// Rows returns the world as state entries of a shard: accounts, code, keys, data, global code. It
// omits waiting receipts.
func (w *World) Rows() map[string][]byte {
	rows := map[string][]byte{}
	for id, a := range w.Accounts {
		value := primitives.Account{Amount: a.Amount, Locked: a.Locked, StorageUsage: a.Usage, Contract: a.Contract,
			Version: primitives.AccountV1}
		if a.wide {
			value.Version = primitives.AccountV2
		}
		if a.Bare {
			value = primitives.NewUninitializedAccount(a.Amount, a.Usage, a.Nonce)
		}
		rows[string(primitives.AppendAccountKey(nil, id))] = value.AppendBorsh(nil)
		if a.Code != nil {
			rows[string(primitives.AppendCodeKey(nil, id))] = a.Code
		}
		for h, k := range a.Keys {
			rows[string(primitives.AppendAccessKeyKey(nil, id, h))] = k.AppendBorsh(nil)
			for i, n := range k.Rows {
				rows[string(primitives.AppendGasKeyNonceKey(nil, id, h, uint16(i)))] = littleEndian(uint64(n))
			}
		}
		for key, v := range a.Data {
			rows[string(primitives.AppendContractDataKey(nil, id, []byte(key)))] = []byte(v)
		}
	}
	for id, code := range w.Global {
		rows[string(primitives.AppendGlobalCodeKey(nil, &id))] = code
	}
	for id, n := range w.Nonces {
		rows[string(primitives.AppendGlobalNonceKey(nil, &id))] = littleEndian(n)
	}
	return rows
}

func littleEndian(n uint64) []byte {
	b := make([]byte, 0, 8)
	for range 8 {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}

// set replaces an account's contract and updates its storage usage.
func (a *Account) set(c primitives.AccountContract, code []byte) {
	a.Usage -= a.contractBytes()
	a.Contract, a.Code = c, code
	a.Usage += a.contractBytes()
	a.wide = a.wide || c.Kind == primitives.ContractGlobalHash || c.Kind == primitives.ContractGlobalAccount
}

func local(code []byte) primitives.AccountContract {
	return primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(code)}
}

// lacks returns the balance, in yoctoNEAR, that the account lacks for its storage.
func (a *Account) lacks() primitives.Balance {
	need, _ := primitives.Yocto(perByte).Mul64(a.Usage)
	have, _ := a.Amount.Add(a.Locked)
	if a.Usage <= freeBytes {
		return primitives.Balance{}
	}
	return need.SaturatingSub(have)
}

// contractBytes returns the part of the storage usage that the contract takes, in bytes.
func (a *Account) contractBytes() uint64 {
	switch a.Contract.Kind {
	case primitives.ContractLocal:
		return uint64(len(a.Code))
	case primitives.ContractGlobalHash:
		return 32
	case primitives.ContractGlobalAccount:
		return uint64(len(a.Contract.Account))
	case primitives.ContractNone:
	}
	return 0
}

// Differences describes the keys at which two states differ, sorted.
func Differences(got, want map[string][]byte) (list []string) {
	for k, v := range got {
		if w, ok := want[k]; !ok {
			list = append(list, fmt.Sprintf("%q is there", k))
		} else if !bytes.Equal(v, w) {
			list = append(list, fmt.Sprintf("%q is %.80x, want %.80x", k, v, w))
		}
	}
	for k := range want {
		if _, ok := got[k]; !ok {
			list = append(list, fmt.Sprintf("%q is missing", k))
		}
	}
	slices.Sort(list)
	return list
}
