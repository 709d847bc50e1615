package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// recordColumns are the state columns that are written as records, in key order. Delayed receipts
// are written too, by recordScan.delayed. The remaining columns have no record type (nearcore
// tools/state-viewer/src/state_dump.rs): global code, promise yields, and receipts that wait for
// another shard.
var recordColumns = []primitives.TrieColumn{
	primitives.ColAccount,
	primitives.ColContractCode,
	primitives.ColAccessKey,
	primitives.ColReceivedData,
	primitives.ColPostponedReceipt,
	primitives.ColContractData,
}

// EachRecord calls yield with the state after a stored block as records. EachRecord goes shard by
// shard. A shard's records are in key order, followed by its delayed receipts in queue order.
// accounts selects the accounts; nil: all. All records are of the same state, although EachRecord
// holds no lock. EachRecord stops at the first error of yield, and when ctx is done. Errors:
// ErrUnknown; storage.ErrGone if the state was garbage collected. Safe for concurrent use.
func (e *Engine) EachRecord(
	ctx context.Context,
	hash primitives.Hash,
	accounts []primitives.AccountID,
	yield func(genesis.Record) error,
) error {
	return e.eachRecord(ctx, hash, accounts, recordScan{columns: recordColumns, queue: true, yield: yield})
}

// EachAccount does the same as EachRecord, for account records only.
func (e *Engine) EachAccount(
	ctx context.Context,
	hash primitives.Hash,
	accounts []primitives.AccountID,
	yield func(*genesis.AccountRecord) error,
) error {
	return e.eachRecord(
		ctx,
		hash,
		accounts,
		recordScan{
			columns: recordColumns[:1],
			yield:   func(r genesis.Record) error { return yield(r.(*genesis.AccountRecord)) },
		},
	)
}

func (e *Engine) eachRecord(
	ctx context.Context,
	hash primitives.Hash,
	accounts []primitives.AccountID,
	s recordScan,
) error {
	rec, err := e.record(hash)
	if err != nil {
		return err
	}
	if tail := e.StateTail(); rec.Ref().Height < tail {
		return fmt.Errorf("engine: state of block %v: %w, the earliest is of height %d", rec.Ref(), storage.ErrGone, tail)
	}
	at, err := e.load(rec)
	if err != nil {
		return err
	}
	if accounts != nil {
		s.accounts = append([]primitives.AccountID{}, slices.Compact(slices.Sorted(slices.Values(accounts)))...)
	}
	for i := range at.Shards {
		s.values = overStored(e.valuesOf(ctx.Err, at, primitives.ShardIndex(i)))
		if !at.Shards[i].Held() {
			return fmt.Errorf("engine: state of shard %d at block %v: %w", at.Shards[i].ID, rec.Ref(), errNotHeld)
		}
		if err := s.all(); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf returns the values of a shard after a stored block. ask is the same as in StateUntil.
func (e *Engine) valuesOf(ask func() error, at *BlockNode, i primitives.ShardIndex) storedValues {
	return storedValues{e, ref(at), at.Shards[i].ID, accounts(at.Layout, i), ask}
}

// recordScan yields one shard's state as records.
type recordScan struct {
	values   historicalValues
	columns  []primitives.TrieColumn
	queue    bool                   // the delayed receipts are included
	accounts []primitives.AccountID // accounts whose records are included, sorted; nil: all
	yield    func(genesis.Record) error
}

func (s *recordScan) all() error {
	for _, col := range s.columns {
		if s.accounts == nil {
			if err := s.scan([]byte{byte(col)}); err != nil {
				return err
			}
			continue
		}
		for _, a := range s.accounts {
			if err := s.ofAccount(col, a); err != nil {
				return err
			}
		}
	}
	if !s.queue {
		return nil
	}
	return s.delayed()
}

// ofAccount yields one account's entries in a column.
func (s *recordScan) ofAccount(col primitives.TrieColumn, a primitives.AccountID) error {
	var key []byte
	switch col {
	case primitives.ColAccount:
		key = primitives.AppendAccountKey(nil, a)
	case primitives.ColContractCode:
		key = primitives.AppendCodeKey(nil, a)
	case primitives.ColAccessKey:
		return s.scan(primitives.AppendAccessKeyPrefix(nil, a))
	case primitives.ColContractData:
		return s.scan(primitives.AppendContractDataKey(nil, a, nil))
	default:
		return s.scan(append(append([]byte{byte(col)}, a...), primitives.AppendContractDataKey(nil, "", nil)[1]))
	}
	value, err := s.values.get(key)
	if value == nil || err != nil {
		return err
	}
	return s.one(key, value)
}

// scan yields the entries of all keys with a prefix.
func (s *recordScan) scan(prefix []byte) error {
	var inner error
	err := s.values.scan(prefix, storage.PrefixEnd(prefix), func(key, value []byte) bool {
		inner = s.one(key, value)
		return inner == nil
	})
	return errors.Join(inner, err)
}

// one yields an entry as a record. The record shares no memory with key or value.
func (s *recordScan) one(key, value []byte) error {
	r, err := recordOf(key, value)
	if err != nil {
		return state.Inconsistent("value at %x: %w", key, err)
	}
	return s.yield(r)
}

// recordOf decodes an entry of one of the recordColumns.
func recordOf(key, value []byte) (genesis.Record, error) {
	k, err := primitives.ParseTrieKey(slices.Clone(key))
	if err != nil {
		return nil, err
	}
	switch k.Column {
	case primitives.ColAccount:
		r := &genesis.AccountRecord{AccountID: k.Account}
		return r, borsh.Unmarshal(value, &r.Account)
	case primitives.ColContractCode:
		return &genesis.ContractRecord{AccountID: k.Account, Code: slices.Clone(value)}, nil
	case primitives.ColAccessKey:
		if k.HasIndex {
			n := borsh.NewReader(value)
			r := &genesis.GasKeyNonceRecord{
				AccountID: k.Account,
				PublicKey: k.Handle,
				Index:     uint16(k.Index),
				Nonce:     primitives.Nonce(n.Uint64()),
			}
			return r, n.Close()
		}
		r := &genesis.AccessKeyRecord{AccountID: k.Account, PublicKey: k.Handle}
		return r, borsh.Unmarshal(value, &r.AccessKey)
	case primitives.ColReceivedData:
		r, in := &genesis.ReceivedDataRecord{AccountID: k.Account, DataID: k.ID}, borsh.NewReader(value)
		if in.Option() {
			r.Data = in.BytesCopy()
		}
		return r, in.Close()
	case primitives.ColPostponedReceipt:
		r := &genesis.PostponedReceiptRecord{Receipt: new(primitives.Receipt)}
		return r, borsh.Unmarshal(value, r.Receipt)
	case primitives.ColContractData:
		return &genesis.DataRecord{AccountID: k.Account, Key: k.Data, Value: slices.Clone(value)}, nil
	}
	return nil, fmt.Errorf("trie column %d has no genesis record", k.Column)
}

// delayed yields the delayed receipts in queue order.
func (s *recordScan) delayed() error {
	raw, err := s.values.get(primitives.DelayedIndicesKey)
	if raw == nil || err != nil {
		return err
	}
	in := borsh.NewReader(raw)
	first, end := in.Uint64(), in.Uint64()
	if err := in.Close(); err != nil {
		return state.Inconsistent("indices of delayed receipts: %w", err)
	}
	for i := first; i < end; i++ {
		key := primitives.AppendDelayedReceiptKey(nil, i)
		value, err := s.values.get(key)
		if err != nil {
			return err
		}
		x := new(primitives.StoredReceipt)
		if err := borsh.Unmarshal(value, x); err != nil {
			return state.Inconsistent("delayed receipt at %x: %w", key, err)
		}
		if s.accounts != nil {
			if _, wanted := slices.BinarySearch(s.accounts, x.ReceiverID); !wanted {
				continue
			}
		}
		if err := s.yield(&genesis.DelayedReceiptRecord{Receipt: &x.Receipt}); err != nil {
			return err
		}
	}
	return nil
}
