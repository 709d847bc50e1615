package genesisstate

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Error means that the records do not form a valid state. Account is the account of the bad record.
type Error struct {
	Account primitives.AccountID
	Reason  string
}

func (e *Error) Error() string { return fmt.Sprintf("genesis: account %s: %s", e.Account, e.Reason) }

// Builder collects records. Not safe for concurrent use.
type Builder struct {
	config *parameters.RuntimeConfig
	layout primitives.ShardLayout
	shards []shard
	buf    []byte
}

// shard holds the records added so far for one shard.
type shard struct {
	entries   []entry // trie entries, in the order of the records
	arena     arena
	postponed []*primitives.Receipt
	delayed   uint64 // receipts in the delayed queue
	load      primitives.CongestionInfo
}

// entry is a key with its value. number counts the entries of the shard. If several entries have
// the same key, the last entry is kept.
type entry struct {
	key, value []byte
	number     uint32
}

// NewBuilder returns a builder for a chain whose genesis has config c and this layout. Versions
// before 85 have the storage constants of 85, so the caller may pass the config of 85 for a genesis
// of such a version. Only the gas of delayed receipts would then differ.
func NewBuilder(c *parameters.RuntimeConfig, layout primitives.ShardLayout) *Builder {
	return &Builder{config: c, layout: layout, shards: make([]shard, layout.NumShards())}
}

// Add adds the next record. Records of the account "system" are dropped, as in nearcore.
func (b *Builder) Add(r genesis.Record) error {
	owner := r.Owner()
	if owner == primitives.SystemAccount {
		return nil
	}
	index, err := b.layout.Index(b.layout.ShardOf(owner))
	if err != nil {
		return err
	}
	s := &b.shards[index]
	k := b.buf[:0]
	switch r := r.(type) {
	case *genesis.AccountRecord:
		k = primitives.AppendAccountKey(k, r.AccountID)
		b.buf = r.Account.AppendBorsh(k)
	case *genesis.DataRecord:
		k = primitives.AppendContractDataKey(k, r.AccountID, r.Key)
		b.buf = append(k, r.Value...)
	case *genesis.ContractRecord:
		k = primitives.AppendCodeKey(k, r.AccountID)
		b.buf = append(k, r.Code...)
	case *genesis.AccessKeyRecord:
		k = primitives.AppendAccessKeyKey(k, r.AccountID, r.PublicKey)
		b.buf = r.AccessKey.AppendBorsh(k)
	case *genesis.GasKeyNonceRecord:
		k = primitives.AppendGasKeyNonceKey(k, r.AccountID, r.PublicKey, r.Index)
		b.buf = borsh.AppendUint64(k, uint64(r.Nonce))
	case *genesis.ReceivedDataRecord:
		k = primitives.AppendAccountHashKey(k, primitives.ColReceivedData, r.AccountID, r.DataID)
		if b.buf = append(k, 0); r.Data != nil {
			b.buf = borsh.AppendBytes(append(k, 1), r.Data)
		}
	case *genesis.PostponedReceiptRecord:
		// Finish stores the postponed receipts, when all data records are known
		s.postponed = append(s.postponed, r.Receipt)
		return nil
	case *genesis.DelayedReceiptRecord:
		k = primitives.AppendDelayedReceiptKey(k, s.delayed)
		b.buf = r.Receipt.AppendBorsh(k) // no metadata: only chunks that delay a receipt write it
		s.delayed++
		if err := b.addLoad(s, r.Receipt, uint64(len(b.buf)-len(k))); err != nil {
			return err
		}
	case *genesis.Removal:
		return &Error{owner, "a genesis removes nothing"}
	case *genesis.ForkRecord:
		return &Error{owner, "a genesis is no fork"}
	default:
		panic(fmt.Sprintf("genesis: no case for %T", r))
	}
	return s.put(b.buf, len(k))
}

// addLoad adds a delayed receipt to the shard's congestion info.
func (b *Builder) addLoad(s *shard, r *primitives.Receipt, size uint64) error {
	gas, err := fees.ReceiptGas(b.config, r)
	if err != nil {
		return err
	}
	account := congestion.Account{Info: &s.load}
	if err := account.AddDelayedGas(gas); err != nil {
		return err
	}
	return account.AddBytes(size)
}

// maxEntries is the largest number of entries of a shard; entry.number must not overflow.
const maxEntries = 1<<32 - 1

// put adds a copy of an entry. keyValue is the key of keyLen bytes, followed by the value.
func (s *shard) put(keyValue []byte, keyLen int) error {
	if len(s.entries) == maxEntries {
		return fmt.Errorf("genesis: a shard has more than %d state entries, the limit", maxEntries)
	}
	kv := s.arena.copy(keyValue)
	s.entries = append(s.entries, entry{key: kv[:keyLen:keyLen], value: kv[keyLen:], number: uint32(len(s.entries))})
	return nil
}

// The arena starts with a small block and doubles the size of each further block, up to arenaBlock.
// A shard has either few or very many small keys and values.
const (
	firstBlock = 16 << 10
	arenaBlock = 1 << 20
)

// arena holds copies of byte slices in large blocks, to relieve the garbage collector.
type arena struct{ block []byte }

func (a *arena) copy(v []byte) []byte {
	if cap(a.block)-len(a.block) < len(v) {
		size := min(max(firstBlock, 2*cap(a.block)), arenaBlock)
		if len(v) > size/8 {
			return slices.Clone(v)
		}
		a.block = make([]byte, 0, size)
	}
	from := len(a.block)
	a.block = append(a.block, v...)
	return a.block[from:len(a.block):len(a.block)]
}
