package primitives

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ContractKind is where an account's code comes from.
type ContractKind byte

// The kinds, by their borsh tags (nearcore core/primitives-core/src/account.rs AccountContract).
const (
	ContractNone          ContractKind = 0
	ContractLocal         ContractKind = 1
	ContractGlobalHash    ContractKind = 2
	ContractGlobalAccount ContractKind = 3
)

// AccountContract is an account's code: none, its own by hash, global by hash, or global by the
// deploying account. Values compare with ==.
type AccountContract struct {
	Kind    ContractKind
	Hash    Hash      // hash of the code, if Kind is ContractLocal or ContractGlobalHash
	Account AccountID // account that deployed the code, if Kind is ContractGlobalAccount
}

// IdentifierUsage returns the storage, in bytes, of an account's reference to a global contract: 32
// for a hash, or the length of the account id. The account is charged for this storage. The result
// is 0 for contracts that are not global.
func (c *AccountContract) IdentifierUsage() uint64 {
	switch c.Kind {
	case ContractGlobalHash:
		return uint64(len(c.Hash))
	case ContractGlobalAccount:
		return uint64(len(c.Account))
	case ContractNone, ContractLocal:
		return 0
	}
	panic(unknownKind(c.Kind))
}

func unknownKind(k ContractKind) string {
	return fmt.Sprintf("primitives: no case for contract kind %d", k)
}

// GlobalContract returns an AccountContract that refers to the global contract id.
func GlobalContract(id GlobalContractID) AccountContract {
	if id.Account != "" {
		return AccountContract{Kind: ContractGlobalAccount, Account: id.Account}
	}
	return AccountContract{Kind: ContractGlobalHash, Hash: id.Hash}
}

// GlobalID returns the id of the global contract; ok is false if the account has a local contract
// or none.
func (c *AccountContract) GlobalID() (id GlobalContractID, ok bool) {
	switch c.Kind {
	case ContractGlobalHash:
		return GlobalContractID{Hash: c.Hash}, true
	case ContractGlobalAccount:
		return GlobalContractID{Account: c.Account}, true
	case ContractNone, ContractLocal:
		return id, false
	}
	panic(unknownKind(c.Kind))
}

// AppendBorsh appends tag and payload.
func (c *AccountContract) AppendBorsh(b []byte) []byte {
	b = append(b, byte(c.Kind))
	switch c.Kind {
	case ContractLocal, ContractGlobalHash:
		b = append(b, c.Hash[:]...)
	case ContractGlobalAccount:
		b = c.Account.AppendBorsh(b)
	case ContractNone:
	default:
		panic(unknownKind(c.Kind))
	}
	return b
}

// DecodeBorsh reads what AppendBorsh writes.
func (c *AccountContract) DecodeBorsh(r *borsh.Reader) {
	*c = AccountContract{Kind: ContractKind(r.Byte())}
	switch c.Kind {
	case ContractNone:
	case ContractLocal, ContractGlobalHash:
		c.Hash = ReadHash(r)
	case ContractGlobalAccount:
		c.Account = ReadAccountID(r)
	default:
		r.BadTag("AccountContract", byte(c.Kind))
	}
}

// AccountVersion is 1 or 2.
type AccountVersion byte

// The versions. V1 can only hold a local contract or none. An account becomes V2 with its first
// global contract, and stays V2.
const (
	AccountV1 AccountVersion = 1
	AccountV2 AccountVersion = 2
)

// AccountState says whether the state init of an account has run.
type AccountState byte

// The states. Only a universal account (0u...) can be uninitialized: after a transfer created it,
// until its state init.
const (
	AccountInitialized   AccountState = 0
	AccountUninitialized AccountState = 1
)

// Account is the value in column 0 of the trie.
type Account struct {
	Amount       Balance         // balance without Locked
	Locked       Balance         // validator stake; 0 if uninitialized
	Contract     AccountContract // none if uninitialized
	StorageUsage uint64          // storage that the account uses, in bytes
	Version      AccountVersion  // V1 if uninitialized
	State        AccountState
	// BootstrapNonce is the last nonce of the account's own transactions while it is uninitialized
	// and has no keys that could store nonces. 0 and unused if initialized.
	BootstrapNonce Nonce
}

// NewUninitializedAccount returns a universal account before its state init. nonce should be
// InitialNonce of the block that creates the account.
func NewUninitializedAccount(amount Balance, usage uint64, nonce Nonce) Account {
	return Account{Amount: amount, StorageUsage: usage, Version: AccountV1, State: AccountUninitialized, BootstrapNonce: nonce}
}

// IsInitialized returns whether the account can have keys, code, data and a stake. Only a universal
// account before its state init cannot.
func (a *Account) IsInitialized() bool { return a.State == AccountInitialized }

// Initialize makes an uninitialized account an initialized account of V1 without contract. The
// amount and the storage usage stay. Initialize panics if the account is initialized.
func (a *Account) Initialize() {
	if a.IsInitialized() {
		panic("primitives: account is already initialized")
	}
	*a = Account{Amount: a.Amount, StorageUsage: a.StorageUsage, Version: AccountV1}
}

// The tags of the encodings other than V1. A tag follows 16 bytes of FF. No V1 encoding begins with
// these bytes, because no amount is that large.
const (
	accountTagV2            = 0
	accountTagUninitialized = 1
)

// AppendBorsh appends V1 without a tag, or V2 or an uninitialized account after 16 bytes of FF and
// its tag (near-primitives-core 0.38.0 src/account.rs:731). It panics for an uninitialized account
// with a stake or a contract.
func (a *Account) AppendBorsh(b []byte) []byte {
	if a.State == AccountUninitialized {
		if !a.Locked.IsZero() || a.Contract != (AccountContract{}) {
			panic("primitives: uninitialized account with a stake or a contract")
		}
		b = append(MaxBalance.AppendBorsh(b), accountTagUninitialized)
		b = borsh.AppendUint64(a.Amount.AppendBorsh(b), a.StorageUsage)
		return borsh.AppendUint64(b, uint64(a.BootstrapNonce))
	}
	if a.Version == AccountV2 {
		b = append(MaxBalance.AppendBorsh(b), accountTagV2)
		b = borsh.AppendUint64(a.Locked.AppendBorsh(a.Amount.AppendBorsh(b)), a.StorageUsage)
		return a.Contract.AppendBorsh(b)
	}
	b = append(a.Locked.AppendBorsh(a.Amount.AppendBorsh(b)), a.Contract.Hash[:]...)
	return borsh.AppendUint64(b, a.StorageUsage)
}

// DecodeBorsh reads V1, V2 and uninitialized accounts.
func (a *Account) DecodeBorsh(r *borsh.Reader) {
	*a = Account{Version: AccountV1}
	a.Amount.DecodeBorsh(r)
	if a.Amount == MaxBalance && r.Err() == nil {
		switch tag := r.Byte(); tag {
		case accountTagV2:
			a.Version = AccountV2
			a.Amount, a.Locked, a.StorageUsage = ReadBalance(r), ReadBalance(r), r.Uint64()
			a.Contract.DecodeBorsh(r)
		case accountTagUninitialized:
			*a = NewUninitializedAccount(ReadBalance(r), r.Uint64(), Nonce(r.Uint64()))
		default:
			r.BadTag("AccountVersion", tag)
		}
		return
	}
	a.Locked = ReadBalance(r)
	if h := ReadHash(r); !h.IsZero() {
		a.Contract = AccountContract{Kind: ContractLocal, Hash: h}
	}
	a.StorageUsage = r.Uint64()
}

// SetContract replaces the contract. A global contract makes the account V2.
func (a *Account) SetContract(c AccountContract) {
	a.Contract = c
	if c.Kind == ContractGlobalHash || c.Kind == ContractGlobalAccount {
		a.Version = AccountV2
	}
}

// LocalCodeHash returns the hash of the account's own code, or zero if the account has no own code.
// Views show this hash as code_hash.
func (a *Account) LocalCodeHash() Hash {
	if a.Contract.Kind == ContractLocal {
		return a.Contract.Hash
	}
	return Hash{}
}

// FunctionCallPermission limits a key to calls of one contract.
type FunctionCallPermission struct {
	Allowance   *Balance // yoctoNEAR that the key may still spend on gas; nil: unlimited
	ReceiverID  string   // account of the contract; decoding does not validate it
	MethodNames []string // methods that the key may call; empty: all
}

// GasKeyInfo is present in gas keys only.
type GasKeyInfo struct {
	Balance   Balance
	NumNonces uint16
}

// AccessKey is the value in column 2 of the trie. A nil FunctionCall means full access; a nil
// GasKey means an ordinary key.
type AccessKey struct {
	Nonce        Nonce // 0 and unused for gas keys
	FunctionCall *FunctionCallPermission
	GasKey       *GasKeyInfo
}

// IsFullAccess returns whether the key permits everything, gas key or not.
func (k *AccessKey) IsFullAccess() bool { return k.FunctionCall == nil }

func (p *FunctionCallPermission) appendBorsh(b []byte) []byte {
	if p.Allowance == nil {
		b = append(b, 0)
	} else {
		b = p.Allowance.AppendBorsh(append(b, 1))
	}
	b = borsh.AppendString(b, p.ReceiverID)
	return borsh.AppendSlice(b, p.MethodNames, func(b []byte, s *string) []byte { return borsh.AppendString(b, *s) })
}

func readFunctionCallPermission(r *borsh.Reader) *FunctionCallPermission {
	p := new(FunctionCallPermission)
	if r.Option() {
		v := ReadBalance(r)
		p.Allowance = &v
	}
	p.ReceiverID = r.String()
	p.MethodNames = borsh.Slice(r, 4, func(r *borsh.Reader) string { return r.String() })
	return p
}

// AppendBorsh appends nonce and permission (tags 0 FunctionCall, 1 FullAccess, 2
// GasKeyFunctionCall, 3 GasKeyFullAccess).
func (k *AccessKey) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(b, uint64(k.Nonce))
	switch {
	case k.GasKey == nil && k.FunctionCall == nil:
		return append(b, 1)
	case k.GasKey == nil:
		return k.FunctionCall.appendBorsh(append(b, 0))
	case k.FunctionCall == nil:
		return borsh.AppendUint16(k.GasKey.Balance.AppendBorsh(append(b, 3)), k.GasKey.NumNonces)
	default:
		b = borsh.AppendUint16(k.GasKey.Balance.AppendBorsh(append(b, 2)), k.GasKey.NumNonces)
		return k.FunctionCall.appendBorsh(b)
	}
}

// DecodeBorsh reads what AppendBorsh writes.
func (k *AccessKey) DecodeBorsh(r *borsh.Reader) {
	*k = AccessKey{Nonce: Nonce(r.Uint64())}
	switch tag := r.Byte(); tag {
	case 0:
		k.FunctionCall = readFunctionCallPermission(r)
	case 1:
	case 2:
		k.GasKey = &GasKeyInfo{Balance: ReadBalance(r), NumNonces: r.Uint16()}
		k.FunctionCall = readFunctionCallPermission(r)
	case 3:
		k.GasKey = &GasKeyInfo{Balance: ReadBalance(r), NumNonces: r.Uint16()}
	default:
		r.BadTag("AccessKeyPermission", tag)
	}
}

// Storage usage in bytes, with the parameters num_bytes_account and num_extra_bytes_record of
// neard's genesis files.
const (
	// AccountStorage is the storage of an account without keys, code or data.
	AccountStorage = 100
	// FullAccessKeyStorage is the storage of an ed25519 key with full access: 40 bytes for the
	// record, 33 for the key, 9 for its value.
	FullAccessKeyStorage = 82
)

// TestKey returns the key of a test account, which is derived from its name, as nearcore's
// InMemorySigner::test_signer does. The key is no secret.
func TestKey(id AccountID) SecretKey { return SecretKeyFromSeed(ED25519, string(id)) }
