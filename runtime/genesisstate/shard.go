package genesisstate

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Shard is the initial state of a shard.
type Shard struct {
	ID primitives.ShardID
	// Congestion is the congestion info of the shard's first chunk. The congestion info counts the
	// delayed receipts, and its allowed shard is the shard itself.
	Congestion primitives.CongestionInfo
	entries    []entry
}

// Pairs yields keys and values in strictly ascending order of keys. The caller must not change the
// yielded slices.
func (s *Shard) Pairs() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for i := range s.entries {
			if !yield(s.entries[i].key, s.entries[i].value) {
				return
			}
		}
	}
}

// Len returns the number of pairs.
func (s *Shard) Len() int { return len(s.entries) }

// Finish returns the state of the shard at index i and releases the records of that shard.
// validators are all validators of the chain.
func (b *Builder) Finish(i primitives.ShardIndex, validators []genesis.Validator) (*Shard, error) {
	id, err := b.layout.IDAt(i)
	if err != nil {
		return nil, err
	}
	s := &b.shards[i]
	defer func() { *s = shard{} }()
	s.sort()
	if err := b.recount(s); err != nil {
		return nil, err
	}
	s.keepLast()
	for _, v := range validators {
		if b.layout.ShardOf(v.AccountID) == id {
			if err := s.lock(v.AccountID, v.Amount); err != nil {
				return nil, err
			}
		}
	}
	if err := s.postpone(); err != nil {
		return nil, err
	}
	if s.delayed > 0 {
		key := primitives.DelayedIndicesKey
		if err := s.put(borsh.AppendUint64(borsh.AppendUint64(slices.Clone(key), 0), s.delayed), len(key)); err != nil {
			return nil, err
		}
	}
	s.sort()
	s.keepLast()
	s.load.AllowedShard = uint16(id)
	return &Shard{ID: id, Congestion: s.load, entries: s.entries}, nil
}

// State adds all records of g to b and returns the initial state of every shard, in layout order.
// State is for a genesis small enough for memory.
func State(b *Builder, g *genesis.Genesis) ([]*Shard, error) {
	for _, r := range g.Records {
		if err := b.Add(r); err != nil {
			return nil, err
		}
	}
	out := make([]*Shard, b.layout.NumShards())
	for i := range out {
		var err error
		if out[i], err = b.Finish(primitives.ShardIndex(i), g.Config.Validators); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sort sorts entries by key; equal keys keep their order.
func (s *shard) sort() {
	byKey := func(a, b entry) int {
		if c := bytes.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.number, b.number)
	}
	if !slices.IsSortedFunc(s.entries, byKey) {
		slices.SortFunc(s.entries, byKey)
	}
}

// keepLast keeps the last of the entries with equal keys.
func (s *shard) keepLast() {
	out := s.entries[:0]
	for i := range s.entries {
		if i+1 == len(s.entries) || !bytes.Equal(s.entries[i].key, s.entries[i+1].key) {
			out = append(out, s.entries[i])
		}
	}
	clear(s.entries[len(out):])
	s.entries = out
}

// find returns the index of key among sorted entries.
func (s *shard) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(s.entries, key, func(e entry, key []byte) int { return bytes.Compare(e.key, key) })
}

// column returns the entries of a column; the entries must be sorted.
func (s *shard) column(c primitives.TrieColumn) []entry {
	from, _ := s.find([]byte{byte(c)})
	to, _ := s.find([]byte{byte(c) + 1})
	return s.entries[from:to]
}

// usageColumns are the columns that count in an account's storage usage besides the account itself.
// If record is false, only the value counts. If record is true, the rest of the key after the
// account id and NumExtraBytesRecord count too.
var usageColumns = []struct {
	column primitives.TrieColumn
	record bool
}{{primitives.ColContractCode, false}, {primitives.ColAccessKey, true}, {primitives.ColContractData, true}}

// recount writes the storage usage of every account. As in nearcore, recount counts all records of
// the account, even replaced records. All four columns are sorted by account id, because the
// separator after an id is smaller than any character of an id. So one pass over each column is
// enough.
func (b *Builder) recount(s *shard) error {
	accounts := s.column(primitives.ColAccount)
	rest := make([][]entry, len(usageColumns))
	for i, u := range usageColumns {
		rest[i] = s.column(u.column)
	}
	f := &b.config.Fees
	for len(accounts) > 0 {
		name := accounts[0].key[1:]
		n := 1
		for n < len(accounts) && bytes.Equal(accounts[n].key[1:], name) {
			n++
		}
		last := &accounts[n-1]
		accounts = accounts[n:]
		var a primitives.Account
		if err := borsh.Unmarshal(last.value, &a); err != nil {
			return &Error{primitives.AccountID(name), err.Error()}
		}
		a.StorageUsage = uint64(n) * f.NumBytesAccount
		for i, u := range usageColumns {
			for len(rest[i]) > 0 {
				e := rest[i][0]
				owner, tail := split(e.key)
				if !bytes.Equal(owner, name) {
					break
				}
				rest[i] = rest[i][1:]
				if !a.IsInitialized() {
					return &Error{primitives.AccountID(name), "it is uninitialized, yet it has code, keys or data"}
				}
				a.StorageUsage += uint64(len(e.value))
				if u.record {
					a.StorageUsage += f.NumExtraBytesRecord + uint64(len(tail))
				}
				if u.column == primitives.ColContractCode && (primitives.HashBytes(e.value) != a.LocalCodeHash() || e.number < last.number) {
					return &Error{primitives.AccountID(name), "its code does not have the hash that the account record before it says"}
				}
			}
		}
		last.value = s.arena.copy(a.AppendBorsh(nil))
	}
	for i := range rest {
		if len(rest[i]) > 0 {
			owner, _ := split(rest[i][0].key)
			return &Error{primitives.AccountID(owner), "it has records but does not exist"}
		}
	}
	return nil
}

// split returns the account id in a key of a usage column, and the part of the key after the
// separator.
func split(key []byte) (account, tail []byte) {
	separator := byte(',')
	if primitives.TrieColumn(key[0]) == primitives.ColAccessKey {
		separator = byte(primitives.ColAccessKey)
	}
	account, tail, _ = bytes.Cut(key[1:], []byte{separator})
	return account, tail
}

// lock sets the locked stake of a validator.
func (s *shard) lock(id primitives.AccountID, stake primitives.Balance) error {
	i, ok := s.find(primitives.AppendAccountKey(nil, id))
	if !ok {
		return &Error{id, "the validator does not exist"}
	}
	var a primitives.Account
	if err := borsh.Unmarshal(s.entries[i].value, &a); err != nil {
		return &Error{id, err.Error()}
	}
	if !a.IsInitialized() {
		return &Error{id, "the validator is uninitialized"}
	}
	a.Locked = stake
	s.entries[i].value = s.arena.copy(a.AppendBorsh(nil))
	return nil
}

// postpone stores the postponed receipts and the promise yields. For each input that has not been
// received, postpone stores which receipt waits for that input.
func (s *shard) postpone() error {
	known := shard{entries: s.entries} // sorted entries; the entries that put adds below are no received data
	var buf []byte
	for _, r := range s.postponed {
		a, ok := r.Body.(*primitives.ActionReceipt)
		if !ok {
			return &Error{r.ReceiverID, "a postponed receipt is no action receipt"}
		}
		if a.Yield {
			if len(a.InputDataIDs) != 1 {
				return &Error{r.ReceiverID, "a promise yield has not one input"}
			}
			buf = primitives.AppendAccountHashKey(buf[:0], primitives.ColPromiseYieldReceipt, r.ReceiverID, a.InputDataIDs[0])
			n := len(buf)
			if err := s.put(r.AppendBorsh(buf), n); err != nil {
				return err
			}
			continue
		}
		missing := uint32(0)
		for _, id := range a.InputDataIDs {
			buf = primitives.AppendAccountHashKey(buf[:0], primitives.ColReceivedData, r.ReceiverID, id)
			if _, ok := known.find(buf); ok {
				continue
			}
			missing++
			buf = primitives.AppendAccountHashKey(buf[:0], primitives.ColPostponedReceiptID, r.ReceiverID, id)
			n := len(buf)
			if err := s.put(append(buf, r.ID[:]...), n); err != nil {
				return err
			}
		}
		if missing == 0 {
			return &Error{r.ReceiverID, "a postponed receipt has all its data"}
		}
		buf = primitives.AppendAccountHashKey(buf[:0], primitives.ColPendingDataCount, r.ReceiverID, r.ID)
		n := len(buf)
		if err := s.put(borsh.AppendUint32(buf, missing), n); err != nil {
			return err
		}
		buf = primitives.AppendAccountHashKey(buf[:0], primitives.ColPostponedReceipt, r.ReceiverID, r.ID)
		n = len(buf)
		if err := s.put(r.AppendBorsh(buf), n); err != nil {
			return err
		}
	}
	return nil
}
