// Package outcome decodes the transaction outcome that nodes send each other: nearcore's
// FinalExecutionOutcomeView in borsh.
//
//	in      the bytes of a TxStatusResponse
//	out     the bytes as neard would encode them, which it hashes: map entries sorted by key, the
//	        last one of equal keys
//	state   none
//	units   those of package primitives
//	bound   the output is no longer than the input
//	errors  those of the reader; the same inputs fail as in neard: unknown tags, invalid UTF-8,
//	        invalid accounts and keys, NaN
//	source  nearcore core/primitives/src/views.rs, errors.rs, action/delegate.rs
//
// Read is composed of forms, each of which decodes a value and appends its encoding.
package outcome

import (
	"math"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Read decodes an outcome until the end of r, and returns its canonical encoding.
func Read(r *borsh.Reader) []byte { return finalOutcome(r, make([]byte, 0, r.Remaining())) }

// form decodes a value and appends its encoding. After an error the output is undefined.
type form func(r *borsh.Reader, b []byte) []byte

func unit(_ *borsh.Reader, b []byte) []byte { return b }

// fixed is a value of n bytes.
func fixed(n int) form {
	return func(r *borsh.Reader, b []byte) []byte { return append(b, r.Take(n)...) }
}

// notNaN is an f64 that is not NaN.
func notNaN(r *borsh.Reader, b []byte) []byte {
	v := r.Uint64()
	if math.IsNaN(math.Float64frombits(v)) {
		r.Failf("NaN")
	}
	return borsh.AppendUint64(b, v)
}

func text(r *borsh.Reader, b []byte) []byte     { return borsh.AppendString(b, r.String()) }
func blob(r *borsh.Reader, b []byte) []byte     { return borsh.AppendBytes(b, r.Bytes()) }
func account(r *borsh.Reader, b []byte) []byte  { return primitives.ReadAccountID(r).AppendBorsh(b) }
func key(r *borsh.Reader, b []byte) []byte      { return primitives.ReadPublicKey(r).AppendBorsh(b) }
func signedBy(r *borsh.Reader, b []byte) []byte { return primitives.ReadSignature(r).AppendBorsh(b) }
func entries(r *borsh.Reader, b []byte) []byte {
	return primitives.AppendStateEntries(b, primitives.ReadStateEntries(r))
}

// typed is a type of package primitives.
func typed[T any, P interface {
	*T
	borsh.Decoder
	AppendBorsh([]byte) []byte
}](r *borsh.Reader, b []byte) []byte {
	v := P(new(T))
	if v.DecodeBorsh(r); r.Err() != nil {
		return b
	}
	return v.AppendBorsh(b)
}

// fields is a sequence of forms.
func fields(list ...form) form {
	return func(r *borsh.Reader, b []byte) []byte {
		for _, f := range list {
			if r.Err() != nil {
				return b
			}
			b = f(r, b)
		}
		return b
	}
}

// maybe is an Option.
func maybe(f form) form {
	return func(r *borsh.Reader, b []byte) []byte {
		if !r.Option() {
			return append(b, 0)
		}
		return f(r, append(b, 1))
	}
}

// many reads a Vec whose items have at least `least` bytes each.
func many(least int, f form) form {
	return func(r *borsh.Reader, b []byte) []byte {
		n := r.Len(least)
		b = borsh.AppendUint32(b, uint32(n))
		for i := 0; i < n && r.Err() == nil; i++ {
			b = f(r, b)
		}
		return b
	}
}

// one is an enum. variants are the forms of its variants, by tag.
func one(name string, variants ...form) form {
	return func(r *borsh.Reader, b []byte) []byte {
		tag := r.Byte()
		if int(tag) >= len(variants) {
			r.BadTag(name, tag)
			return b
		}
		return variants[tag](r, append(b, tag))
	}
}

// units is an enum of n variants without fields.
func units(name string, n int) form {
	list := make([]form, n)
	for i := range list {
		list[i] = unit
	}
	return one(name, list...)
}

// The forms. Variants are in the order of their tags.
var (
	u16, u32, u64, balance, hash = fixed(2), fixed(4), fixed(8), fixed(16), fixed(32)
	empty                        = form(unit)
	twice                        = fields(u64, u64)
	withKey                      = fields(account, key)

	globalID = form(typed[primitives.GlobalContractID])

	accessError = one("InvalidAccessKeyError", withKey, fields(account, text), text, empty,
		fields(account, key, balance, balance), empty, empty, empty)
	storeError = one("StorageError", empty, fields(units("MissingTrieValueContext", 4), hash), empty, text, text, text)
	checkError = one("ActionsValidationError", empty, twice, twice, twice, twice, empty, text, twice, twice, twice, key, empty, empty,
		fields(text, u32), fields(account, account), twice, twice, fields(u16, u16), balance, empty, twice,
		empty, fields(account, account), twice, twice, empty, fields(text, u32), empty, twice, twice, account)
	receiptError = one("ReceiptValidationError", text, text, text, text, twice, twice, checkError, twice, text)

	hostError = one("HostError", empty, empty, empty, empty, empty, empty, text, empty, u64, empty, empty, u64, u64, u64, empty, u64, u64,
		empty, empty, empty, text, u64, twice, twice, twice, twice, twice, twice, twice, text, text, text, text, text, text)
	compileError = one("CompilationError", account, units("PrepareError", 20), text)
	callError    = one("FunctionCallError", compileError, text, units("MethodResolveError", 3), units("WasmTrap", 9),
		empty, hostError, empty, text)

	actionError = fields(maybe(u64), one("ActionErrorKind", account, account, fields(account, account, account), fields(account, account),
		fields(account, account), withKey, withKey, account, fields(account, balance), account, fields(account, balance, balance, balance),
		fields(account, balance, balance), callError, receiptError, account, account, empty, fields(account, account), empty, accessError,
		twice, twice, globalID, withKey, fields(account, key, balance, balance), fields(account, maybe(key), balance), fields(u16, u16),
		twice, u64, empty, account))
	txError = one("InvalidTxError", accessError, text, account, twice, twice, text, empty, fields(account, balance, balance),
		fields(account, balance), empty, empty, empty, checkError, twice, empty, storeError, fields(u32, notNaN), fields(u32, u64),
		fields(maybe(u16), u16), fields(account, balance, balance), fields(account, balance, balance, units("DepositCostFailureReason", 2)))
	failure = one("TxExecutionError", actionError, txError)

	callRights = fields(maybe(balance), text, many(4, text))
	gasKey     = fields(balance, u16)
	accessKey  = fields(u64, one("AccessKeyPermissionView", callRights, empty, fields(gasKey, callRights), gasKey))
	actionView = one("ActionView", empty, blob, fields(text, blob, u64, balance), balance, fields(balance, key), fields(key, accessKey), key,
		account, fields(typed[primitives.DelegateAction], signedBy), blob, blob, hash, account, fields(globalID, entries, balance),
		fields(key, balance), fields(key, balance),
		fields(one("VersionedDelegateActionPayload", typed[primitives.DelegateActionV2]), signedBy), fields(blob, balance))
	transaction = fields(account, key, u64, account, many(1, actionView), u64, signedBy, hash, maybe(u16), maybe(units("NonceMode", 2)))

	contract = one("AccountContractView", hash, hash, account)
	metadata = fields(u32, maybe(many(16, fields(text, text, u64))), maybe(many(1, maybe(contract))))
	outcome  = fields(many(4, text), many(32, hash), u64, balance, account, one("ExecutionStatusView", empty, failure, blob, hash), metadata)
	proven   = fields(typed[primitives.MerklePath], hash, hash, outcome)

	finalOutcome = fields(one("FinalExecutionStatus", empty, empty, failure, blob), transaction, proven, many(100, proven))
)
