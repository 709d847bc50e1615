package rpc

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// dumpState are the parameters of sandbox_dump_state.
type dumpState struct {
	accounts []primitives.AccountID // nil: all accounts
	height   *uint64                // nil: the head
}

// sandboxDumpState is the method sandbox_dump_state, which nearcore does not have.
var sandboxDumpState = Method[dumpState]{
	Name: "sandbox_dump_state",
	Doc: `Returns the state as records for sandbox_load_state, sandbox_patch_state and genesis.json: all of it, or that of
account_ids, after the head or after the block of a height. For a state larger than a reply use troupe
view-state dump-state.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p dumpState, err error) {
		if v.isNull() {
			return p, nil
		}
		return p, readStruct(v, "RpcSandboxDumpStateRequest",
			field{"account_ids", true, func(v val) (err error) { p.accounts, err = readList(v, readAccountID); return err }},
			field{"height", true, into(&p.height, pointer(readUint64))})
	},
	Handle: func(c *call, b []byte, p *dumpState) ([]byte, error) {
		var record []byte
		b = append(b, `{"records":[`...)
		begun := len(b)
		at, err := c.node.DumpState(c.ctx, p.accounts, p.height, func(r genesis.Record) (err error) {
			record = genesis.AppendRecord(record[:0], r)
			if b, err = c.reserve(b, len(record)+smallReply); err != nil {
				return err
			}
			if len(b) > begun {
				b = append(b, ',')
			}
			b = append(b, record...)
			return nil
		})
		var full *failure
		switch {
		case errors.As(err, &full):
			return b, full
		case wasStopped(err):
			return b, c.tooLong("sandbox_dump_state", err)
		case err != nil:
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		return at.AppendMembers(append(b, "],"...)), nil
	},
}

// loadState are the parameters of sandbox_load_state.
type loadState struct{ records []genesis.Record }

// sandboxLoadState is the method sandbox_load_state, which nearcore does not have.
var sandboxLoadState = Method[loadState]{
	Name: "sandbox_load_state",
	Doc: `Writes records into the state like sandbox_patch_state, and removes all other keys, code and data of accounts
that have an Account record. Afterwards these accounts are as sandbox_dump_state returned them.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p loadState, err error) {
		return p, readStruct(v, "RpcSandboxLoadStateRequest", field{"records", false, into(&p.records, readRecords)})
	},
	Handle: func(c *call, b []byte, p *loadState) ([]byte, error) {
		if err := c.node.LoadState(c.ctx, p.records); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the records were not written in time; they still may be")
		}
		return append(b, "{}"...), nil
	},
}

// setAccount are the parameters of the methods that write one part of an account.
type setAccount struct {
	account primitives.AccountID
	record  genesis.Record // record to write; unused by sandbox_set_balance
	amount  primitives.Balance
}

// write writes records into the state and appends the reply.
func (c *call) write(b []byte, records ...genesis.Record) ([]byte, error) {
	if err := c.node.PatchState(c.ctx, records); err != nil {
		return b, sandboxFailure(err, SandboxRefused, "it was not written in time; it still may be")
	}
	return append(b, "{}"...), nil
}

// sandboxSetBalance is the method sandbox_set_balance, which nearcore does not have.
var sandboxSetBalance = Method[setAccount]{
	Name: "sandbox_set_balance",
	Doc: `Sets the balance of an account in yoctoNEAR, without its locked stake. If the account does not exist, it is
created without keys.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p setAccount, err error) {
		return p, readStruct(v, "RpcSandboxSetBalanceRequest", field{"account_id", false, into(&p.account, readAccountID)},
			field{"amount", false, into(&p.amount, readYocto)})
	},
	Handle: func(c *call, b []byte, p *setAccount) ([]byte, error) {
		s, err := c.node.State(view.BlockRef{Kind: view.RefOptimistic}, p.account)
		if err != nil {
			return b, internal("", err)
		}
		r := &genesis.AccountRecord{AccountID: p.account}
		found, err := s.Account(p.account, &r.Account)
		s.Release()
		if err != nil {
			return b, internal("", err)
		}
		if !found {
			r.Account = primitives.Account{Version: primitives.AccountV1, StorageUsage: primitives.AccountStorage}
		}
		r.Account.Amount = p.amount
		return c.write(b, r)
	},
}

// sandboxSetCode is the method sandbox_set_code, which nearcore does not have.
var sandboxSetCode = Method[setAccount]{
	Name: "sandbox_set_code",
	Doc: `Sets the contract code of an existing account, in base64. null removes it. No function of the contract is
called.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p setAccount, err error) {
		r := &genesis.ContractRecord{}
		gone := false
		err = readStruct(v, "RpcSandboxSetCodeRequest", field{"account_id", false, into(&r.AccountID, readAccountID)},
			field{"code_base64", false, orNull(&gone, into(&r.Code, readBase64))})
		p.record = removedIf(gone, r)
		return p, err
	},
	Handle: writeRecord,
}

// sandboxSetKey is the method sandbox_set_key, which nearcore does not have.
var sandboxSetKey = Method[setAccount]{
	Name: "sandbox_set_key",
	Doc: `Adds a full access key to an account, with nonce 0 or a given one. With "remove": true it removes a key of any
kind.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p setAccount, err error) {
		r := &genesis.AccessKeyRecord{}
		var key primitives.PublicKey
		var nonce uint64
		gone := false
		err = readStruct(v, "RpcSandboxSetKeyRequest", field{"account_id", false, into(&r.AccountID, readAccountID)},
			field{"public_key", false, into(&key, readKey)}, field{"nonce", true, into(&nonce, readUint64)},
			field{"remove", true, into(&gone, readBool)})
		if err == nil {
			r.PublicKey, r.AccessKey.Nonce = key.Handle(), primitives.Nonce(nonce)
		}
		p.record = removedIf(gone, r)
		return p, err
	},
	Handle: writeRecord,
}

// sandboxSetStorage is the method sandbox_set_storage, which nearcore does not have.
var sandboxSetStorage = Method[setAccount]{
	Name: "sandbox_set_storage", Doc: "Sets one value of a contract's storage; key and value are in base64. null removes the value.",
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p setAccount, err error) {
		r := &genesis.DataRecord{}
		gone := false
		err = readStruct(v, "RpcSandboxSetStorageRequest", field{"account_id", false, into(&r.AccountID, readAccountID)},
			field{"key_base64", false, into(&r.Key, readBase64)}, field{"value_base64", false, orNull(&gone, into(&r.Value, readBase64))})
		p.record = removedIf(gone, r)
		return p, err
	},
	Handle: writeRecord,
}

func writeRecord(c *call, b []byte, p *setAccount) ([]byte, error) { return c.write(b, p.record) }

func removedIf(gone bool, r genesis.Record) genesis.Record {
	if gone {
		return &genesis.Removal{Of: r}
	}
	return r
}

// orNull returns a reader that sets null to true for a null value, and reads any other value with
// read.
func orNull(null *bool, read func(val) error) func(val) error {
	return func(v val) error {
		if *null = v.isNull(); *null {
			return nil
		}
		return read(v)
	}
}

// readYocto reads an amount of yoctoNEAR: a decimal string.
func readYocto(v val) (primitives.Balance, error) {
	text, err := readString(v)
	if err != nil {
		return primitives.Balance{}, err
	}
	return primitives.ParseBalance(string(text))
}

// deal are the parameters of sandbox_deal.
type deal struct {
	token, account primitives.AccountID
	amount         primitives.Balance
}

// sandboxDeal is the method sandbox_deal, which nearcore does not have.
var sandboxDeal = Method[deal]{
	Name: "sandbox_deal",
	Doc: `Sets an account's balance of a NEP-141 token, by changing the stored value that ft_balance_of reads. The change
is first simulated and fails unless ft_balance_of then returns the amount. The token's total supply does not
change.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p deal, err error) {
		return p, readStruct(v, "RpcSandboxDealRequest", field{"token_id", false, into(&p.token, readAccountID)},
			field{"account_id", false, into(&p.account, readAccountID)}, field{"amount", false, into(&p.amount, readYocto)})
	},
	Handle: func(c *call, b []byte, p *deal) ([]byte, error) {
		if err := c.node.Deal(c.ctx, p.token, p.account, p.amount); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "it was not written in time; it still may be")
		}
		return append(b, "{}"...), nil
	},
}

// impersonate are the parameters of sandbox_impersonate.
type impersonate struct {
	accounts []primitives.AccountID
	all      bool
}

// sandboxImpersonate is the method sandbox_impersonate, which nearcore does not have.
var sandboxImpersonate = Method[impersonate]{
	Name: "sandbox_impersonate",
	Doc: `Sets for which accounts the node accepts unsigned transactions, which are those with an ed25519 signature of 64
zero bytes. account_ids replaces the previous list; all means every account. The transaction must name a key of
the account, and a nonce above that key's nonce.`,
	Faults: sandboxFaults, Sandbox: true, Own: true,
	Parse: func(v val) (p impersonate, err error) {
		return p, readStruct(v, "RpcSandboxImpersonateRequest",
			field{"account_ids", true, func(v val) (err error) { p.accounts, err = readList(v, readAccountID); return err }},
			field{"all", true, into(&p.all, readBool)})
	},
	Handle: func(c *call, b []byte, p *impersonate) ([]byte, error) {
		if err := c.node.Impersonate(p.accounts, p.all); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		return append(b, "{}"...), nil
	},
}
