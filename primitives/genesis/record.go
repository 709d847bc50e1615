package genesis

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Record is one entry of the state, as in genesis.json, state dumps and sandbox_patch_state
// (nearcore StateRecord). The types below are the only ones.
//
//sumtype:decl
type Record interface {
	// Owner is the account whose shard holds the record.
	Owner() primitives.AccountID
	recordName() string
}

type (
	// AccountRecord is an account (column 0). In a genesis its storage usage is recomputed.
	AccountRecord struct {
		AccountID primitives.AccountID
		Account   primitives.Account
	}
	// DataRecord is an entry of a contract's storage.
	DataRecord struct {
		AccountID  primitives.AccountID
		Key, Value []byte
	}
	// ContractRecord is an account's own code.
	ContractRecord struct {
		AccountID primitives.AccountID
		Code      []byte
	}
	// AccessKeyRecord is a key, ordinary or gas key.
	AccessKeyRecord struct {
		AccountID primitives.AccountID
		PublicKey primitives.PublicKeyHandle
		AccessKey primitives.AccessKey
	}
	// PostponedReceiptRecord is a receipt that waits for data.
	PostponedReceiptRecord struct{ Receipt *primitives.Receipt }
	// ReceivedDataRecord is data that waits for its receipt; Data is nil for a failed promise.
	ReceivedDataRecord struct {
		AccountID primitives.AccountID
		DataID    primitives.Hash
		Data      []byte
	}
	// DelayedReceiptRecord is a receipt of the delayed queue. The records are in the order of the
	// queue.
	DelayedReceiptRecord struct{ Receipt *primitives.Receipt }
	// GasKeyNonceRecord is one nonce of a gas key.
	GasKeyNonceRecord struct {
		AccountID primitives.AccountID
		PublicKey primitives.PublicKeyHandle
		Index     uint16
		Nonce     primitives.Nonce
	}
	// Removal is unknown to nearcore, and only valid in patches: the state entry that the record
	// identifies is removed. Its JSON has null in place of account, value, code, access_key or
	// nonce.
	Removal struct{ Of Record }
	// ForkRecord is unknown to nearcore, and only valid in patches. A ForkRecord resets an account
	// of a fork to the account's state after a block of the remote chain. A zero block means that
	// the account does not exist on the remote chain. Local changes of the account are discarded
	// unless Keep is set.
	ForkRecord struct {
		AccountID primitives.AccountID
		Block     primitives.Hash
		Keep      bool
	}
)

// Owner returns the account whose shard holds the record.
func (r *AccountRecord) Owner() primitives.AccountID          { return r.AccountID }
func (r *DataRecord) Owner() primitives.AccountID             { return r.AccountID }
func (r *ContractRecord) Owner() primitives.AccountID         { return r.AccountID }
func (r *AccessKeyRecord) Owner() primitives.AccountID        { return r.AccountID }
func (r *PostponedReceiptRecord) Owner() primitives.AccountID { return r.Receipt.ReceiverID }
func (r *ReceivedDataRecord) Owner() primitives.AccountID     { return r.AccountID }
func (r *DelayedReceiptRecord) Owner() primitives.AccountID   { return r.Receipt.ReceiverID }
func (r *GasKeyNonceRecord) Owner() primitives.AccountID      { return r.AccountID }

func (r *ForkRecord) Owner() primitives.AccountID { return r.AccountID }

func (r *Removal) Owner() primitives.AccountID { return r.Of.Owner() }

func (*AccountRecord) recordName() string          { return "Account" }
func (*DataRecord) recordName() string             { return "Data" }
func (*ContractRecord) recordName() string         { return "Contract" }
func (*AccessKeyRecord) recordName() string        { return "AccessKey" }
func (*PostponedReceiptRecord) recordName() string { return "PostponedReceipt" }
func (*ReceivedDataRecord) recordName() string     { return "ReceivedData" }
func (*DelayedReceiptRecord) recordName() string   { return "DelayedReceipt" }
func (*GasKeyNonceRecord) recordName() string      { return "GasKeyNonce" }
func (*ForkRecord) recordName() string             { return "Fork" }
func (r *Removal) recordName() string              { return r.Of.recordName() }

// UnknownRecordText is nearcore's error text for an unknown record, which RPC clients see.
const UnknownRecordText = "unknown variant `%s`, expected one of `Account`, `Data`, `Contract`, `AccessKey`, " +
	"`PostponedReceipt`, `ReceivedData`, `DelayedReceipt`, `GasKeyNonce`"

// record reads {"Name": {...}}.
func (c *cursor) record() (r Record) {
	if c.next() != '{' {
		c.recordName()
		return nil
	}
	n := 0
	c.object(func(key []byte) bool {
		if n++; n > 1 {
			c.failf("invalid value: map, expected map with a single key")
			return true
		}
		switch string(key) {
		case "Account":
			r = c.field("Account").accountRecord()
		case "AccessKey":
			r = c.field("AccessKey").accessKeyRecord()
		case "Data":
			r = c.field("Data").dataRecord()
		case "Contract":
			r = c.field("Contract").contractRecord()
		case "GasKeyNonce":
			r = c.field("GasKeyNonce").gasKeyNonceRecord()
		case "ReceivedData":
			r = c.field("ReceivedData").receivedDataRecord()
		case "PostponedReceipt":
			r = &PostponedReceiptRecord{c.field("PostponedReceipt").receipt()}
		case "DelayedReceipt":
			r = &DelayedReceiptRecord{c.field("DelayedReceipt").receipt()}
		case "Fork":
			if c.removals {
				r = c.field("Fork").forkRecord()
				return true
			}
			fallthrough
		default:
			c.field(string(key)).fail(fmt.Errorf(UnknownRecordText, key))
		}
		return true
	})
	if n == 0 && c.err == nil {
		c.failf("invalid value: map, expected map with a single key")
	}
	if c.gone {
		return &Removal{r}
	}
	return r
}

// recordName fails, with nearcore's text, on a value that is not an object.
func (c *cursor) recordName() {
	if !c.want('"', "string or map") {
		return
	}
	switch name := string(c.str()); name {
	case "Account", "Data", "Contract", "AccessKey", "ReceivedData", "GasKeyNonce":
		c.failf("%w: unit variant, expected struct variant", errWrongType)
	case "PostponedReceipt", "DelayedReceipt":
		c.failf("%w: unit variant, expected newtype variant", errWrongType)
	default:
		c.failf(UnknownRecordText, name)
	}
}

func (c *cursor) accountRecord() *AccountRecord {
	r, seen := new(AccountRecord), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "account_id":
			c.field("account_id").once(&seen, 0)
			r.AccountID = c.account()
		case "account":
			c.field("account").once(&seen, 1)
			if !c.absent() {
				r.Account = c.accountState()
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "account_id", "account")
	return r
}

// accountState reads an account (near-primitives-core 0.38.0 src/account.rs:603). As in nearcore,
// the global fields of an initialized V1 account are ignored. An uninitialized account needs its
// bootstrap nonce: 0 in its place would let old transactions be replayed.
func (c *cursor) accountState() primitives.Account {
	a, seen := primitives.Account{Version: primitives.AccountV1}, uint(0)
	var code primitives.Hash
	var globalHash *primitives.Hash
	var globalAccount primitives.AccountID
	var nonce *primitives.Nonce
	c.object(func(key []byte) bool {
		switch string(key) {
		case "amount":
			c.field("amount").once(&seen, 0)
			a.Amount = c.balance()
		case "locked":
			c.field("locked").once(&seen, 1)
			a.Locked = c.balance()
		case "code_hash":
			c.field("code_hash").once(&seen, 2)
			code = c.codeHash()
		case "storage_usage":
			c.field("storage_usage").once(&seen, 3)
			a.StorageUsage = c.uint(64)
		case "version":
			c.field("version").once(&seen, 4)
			switch v := string(c.str()); v {
			case "V1":
			case "V2":
				a.Version = primitives.AccountV2
			default:
				c.failf("unknown variant `%s`, expected `V1` or `V2`", v)
			}
		case "global_contract_hash":
			c.field("global_contract_hash").once(&seen, 5)
			if !c.null() {
				h := c.hash()
				globalHash = &h
			}
		case "global_contract_account_id":
			c.field("global_contract_account_id").once(&seen, 6)
			if !c.null() {
				globalAccount = c.account()
			}
		case "state":
			c.field("state").once(&seen, 7)
			switch v := string(c.str()); v {
			case "initialized":
			case "uninitialized":
				a.State = primitives.AccountUninitialized
			default:
				c.failf("unknown variant `%s`, expected `initialized` or `uninitialized`", v)
			}
		case "bootstrap_nonce":
			c.field("bootstrap_nonce").once(&seen, 8)
			if !c.null() {
				n := primitives.Nonce(c.uint(64))
				nonce = &n
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "amount", "locked", "code_hash", "storage_usage")
	contract := !code.IsZero() || globalHash != nil || globalAccount != ""
	switch {
	case !code.IsZero() && (globalHash != nil || globalAccount != ""):
		c.failf("An Account can't contain both a local and global contract")
	case globalHash != nil && globalAccount != "":
		c.failf("An Account can't contain both types of global contracts")
	case !a.IsInitialized():
		return c.uninitialized(&a, contract, nonce)
	case nonce != nil:
		c.failf("an initialized account can't have a bootstrap nonce")
	case a.Version == primitives.AccountV2 && globalAccount != "":
		a.Contract = primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: globalAccount}
	case a.Version == primitives.AccountV2 && globalHash != nil:
		a.Contract = primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: *globalHash}
	case !code.IsZero():
		a.Contract = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: code}
	}
	return a
}

// uninitialized returns the uninitialized account with the fields that were read into a. contract
// is set if the fields include a contract.
func (c *cursor) uninitialized(a *primitives.Account, contract bool, nonce *primitives.Nonce) primitives.Account {
	switch {
	case a.Version != primitives.AccountV1:
		c.failf("an uninitialized account must be version V1")
	case !a.Locked.IsZero():
		c.failf("an uninitialized account can't have locked balance")
	case contract:
		c.failf("an uninitialized account can't have a contract")
	case nonce == nil:
		c.failf("an uninitialized account must carry a bootstrap nonce")
	default:
		return primitives.NewUninitializedAccount(a.Amount, a.StorageUsage, *nonce)
	}
	return primitives.Account{}
}

// zeroHashText is the text of the zero hash: the code hash of nearly all accounts, which have no
// code.
const zeroHashText = "11111111111111111111111111111111"

// codeHash is hash, with a fast path for the zero hash.
func (c *cursor) codeHash() primitives.Hash {
	if len(c.b) > 34 && string(c.b[1:34]) == zeroHashText+`"` && c.b[0] == '"' {
		c.b = c.b[34:]
		return primitives.Hash{}
	}
	return c.hash()
}

func (c *cursor) accessKeyRecord() *AccessKeyRecord {
	r, seen := new(AccessKeyRecord), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "account_id":
			c.field("account_id").once(&seen, 0)
			r.AccountID = c.account()
		case "public_key":
			c.field("public_key").once(&seen, 1)
			r.PublicKey = c.handle()
		case "access_key":
			c.field("access_key").once(&seen, 2)
			if !c.absent() {
				r.AccessKey = c.accessKey()
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "account_id", "public_key", "access_key")
	return r
}

func (c *cursor) forkRecord() *ForkRecord {
	r := new(ForkRecord)
	c.members(field("account_id", func() { r.AccountID = c.account() }), field("block", func() { r.Block = c.hash() }),
		field("keep", func() { r.Keep = c.boolean() }))
	return r
}

func (c *cursor) dataRecord() *DataRecord {
	r, seen := new(DataRecord), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "account_id":
			c.field("account_id").once(&seen, 0)
			r.AccountID = c.account()
		case "data_key":
			c.field("data_key").once(&seen, 1)
			r.Key = c.base64()
		case "value":
			c.field("value").once(&seen, 2)
			if !c.absent() {
				r.Value = c.base64()
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "account_id", "data_key", "value")
	return r
}

func (c *cursor) contractRecord() *ContractRecord {
	r, seen := new(ContractRecord), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "account_id":
			c.field("account_id").once(&seen, 0)
			r.AccountID = c.account()
		case "code":
			c.field("code").once(&seen, 1)
			if !c.absent() {
				r.Code = c.base64()
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "account_id", "code")
	return r
}

func (c *cursor) gasKeyNonceRecord() *GasKeyNonceRecord {
	r, seen := new(GasKeyNonceRecord), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "account_id":
			c.field("account_id").once(&seen, 0)
			r.AccountID = c.account()
		case "public_key":
			c.field("public_key").once(&seen, 1)
			r.PublicKey = c.handle()
		case "index":
			c.field("index").once(&seen, 2)
			r.Index = uint16(c.uint(16))
		case "nonce":
			c.field("nonce").once(&seen, 3)
			if !c.absent() {
				r.Nonce = primitives.Nonce(c.uint(64))
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "account_id", "public_key", "index", "nonce")
	return r
}

func (c *cursor) receivedDataRecord() *ReceivedDataRecord {
	r, seen := new(ReceivedDataRecord), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "account_id":
			c.field("account_id").once(&seen, 0)
			r.AccountID = c.account()
		case "data_id":
			c.field("data_id").once(&seen, 1)
			r.DataID = c.hash()
		case "data":
			c.field("data").once(&seen, 2)
			if !c.null() {
				r.Data = c.base64()
			}
		default:
			return false
		}
		return true
	})
	c.required(seen, "account_id", "data_id") // serde reads a missing option as none
	return r
}
