package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Door checks transactions against one block, as if the next one were to hold them (rpc.md 5.3). It is safe for concurrent
// use; the caller makes a new one for each head.
type Door struct {
	e       *Engine
	at      *Entry
	config  *config.RuntimeConfig // of the next block's epoch
	layout  primitives.ShardLayout
	refused map[primitives.ShardID]*primitives.InvalidTxError // shards that take no transactions

	mu    sync.RWMutex
	bases map[primitives.Hash]base
}

// base is what a Door found out about a block that transactions refer to.
type base struct {
	height          primitives.Height
	known, ancestor bool
}

// maxBases bounds a Door's memory of blocks; beyond it the engine is asked again.
const maxBases = 4096

// ChildEpoch returns the epoch of the children of a block, and their shards.
func (e *Engine) ChildEpoch(parent primitives.Hash) (id primitives.EpochID, layout primitives.ShardLayout, err error) {
	err = e.Epochs(func(m *epoch.Manager) (err error) {
		if id, err = m.EpochIDFromPrev(parent); err == nil {
			layout, err = m.ShardLayout(id)
		}
		return err
	})
	return id, layout, err
}

// childConfig returns the rules of the children of a block.
func (e *Engine) childConfig(parent primitives.Hash) (c *config.RuntimeConfig, layout primitives.ShardLayout, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(parent)
		if err != nil {
			return err
		}
		if layout, err = m.ShardLayout(id); err != nil {
			return err
		}
		c, err = e.version(id)
		return err
	})
	return c, layout, err
}

// NewDoor returns a Door at an entry.
func (e *Engine) NewDoor(at *Entry) (*Door, error) {
	c, layout, err := e.childConfig(at.Hash)
	if err != nil {
		return nil, fmt.Errorf("engine: rules after block %d: %w", at.Height(), err)
	}
	d := &Door{e: e, at: at, config: c, layout: layout, refused: map[primitives.ShardID]*primitives.InvalidTxError{}, bases: map[primitives.Hash]base{}}
	for _, s := range congestionOf(at) {
		control := congestion.Control{Config: &c.CongestionControl, Info: s.Info, Missed: s.Missed}
		r := control.RefusesTransactions()
		switch {
		case r.Refused && r.Stuck:
			d.refused[s.Shard] = &primitives.InvalidTxError{Tag: primitives.TxShardStuck, ShardID: uint32(s.Shard), MissedChunks: r.Missed}
		case r.Refused:
			d.refused[s.Shard] = &primitives.InvalidTxError{Tag: primitives.TxShardCongested, ShardID: uint32(s.Shard), CongestionLevel: r.Level}
		}
	}
	return d, nil
}

// At is the block that the Door checks against.
func (d *Door) At() *Entry { return d.at }

// Layout is that of the next block.
func (d *Door) Layout() primitives.ShardLayout { return d.layout }

// BaseHeight returns the height of a block that transactions refer to; false if it is no ancestor of the next block.
func (d *Door) BaseHeight(hash primitives.Hash) (primitives.Height, bool) {
	b := d.base(hash)
	return b.height, b.ancestor
}

func (d *Door) base(hash primitives.Hash) base {
	d.mu.RLock()
	b, ok := d.bases[hash]
	d.mu.RUnlock()
	if ok {
		return b
	}
	b = d.e.baseOf(d.at, hash)
	d.mu.Lock()
	if len(d.bases) < maxBases {
		d.bases[hash] = b
	}
	d.mu.Unlock()
	return b
}

// baseOf finds out whether a block is known and at or below an entry in its chain. It may be called from any goroutine.
func (e *Engine) baseOf(at *Entry, hash primitives.Hash) base {
	if x := e.Entry(hash); x != nil {
		for at != nil && at.Height() > x.Height() {
			at = e.Entry(at.Header().PrevHash)
		}
		return base{height: x.Height(), known: true, ancestor: at == x}
	}
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return base{}
	}
	canonical, err := e.store.IsCanonical(rec.Ref()) // what is folded is common to all branches
	return base{height: rec.Ref().Height, known: true, ancestor: err == nil && canonical}
}

// Check makes the checks of a submitted transaction, in the order that decides which error is told. The second error is the
// node's own.
func (d *Door) Check(tx *primitives.SignedTransaction, signature verify.SignatureFunc) (*primitives.InvalidTxError, error) {
	b := d.base(tx.BlockHash)
	period := d.e.chain.ValidityPeriod
	if err := verify.Validity(b.known, b.height, d.at.Height(), period, func() bool { return b.ancestor }); err != nil {
		return err, nil
	}
	if err := d.refused[d.layout.ShardOf(tx.ReceiverID)]; err != nil {
		return err, nil
	}
	if err := verify.Transaction(d.config, tx, signature); err != nil {
		return err, nil
	}
	if !d.at.Acquire() {
		return nil, fmt.Errorf("%w: the state of block %d is gone", ErrOrphan, d.at.Height())
	}
	defer d.at.Release()
	shard, err := d.at.Layout.Index(d.at.Layout.ShardOf(tx.SignerID))
	if err != nil {
		return nil, err
	}
	s, err := readSigner(d.at.Shards[shard].root, &tx.Transaction)
	if err != nil {
		return nil, err
	}
	return verify.CanCharge(d.config, &tx.Transaction, d.at.Header().NextGasPrice, s), nil
}

// readSigner reads what a state holds of a transaction's signer.
func readSigner(root *trie.Root, tx *primitives.Transaction) (s verify.Signer, err error) {
	var buf [192]byte
	read := func(key []byte, into borsh.Decoder) (bool, error) {
		raw, err := root.Get(key, nil)
		if err != nil || raw == nil {
			return false, err
		}
		return true, borsh.Unmarshal(raw, into)
	}
	handle := tx.PublicKey.Handle()
	account, key := new(primitives.Account), new(primitives.AccessKey)
	found, err := read(primitives.AppendAccountKey(buf[:0], tx.SignerID), account)
	if err != nil {
		return s, err
	}
	if found {
		s.Account = account
	}
	if found, err = read(primitives.AppendAccessKeyKey(buf[:0], tx.SignerID, handle), key); err != nil {
		return s, err
	}
	if found {
		s.Key = key
	}
	if tx.Nonce.HasIndex {
		nonce := new(storage.Uint64)
		if found, err = read(primitives.AppendGasKeyNonceKey(buf[:0], tx.SignerID, handle, tx.Nonce.Index), nonce); err != nil {
			return s, err
		}
		if found {
			n := primitives.Nonce(*nonce)
			s.RowNonce = &n
		}
	}
	return s, nil
}

// congestionOf lists what the chunk headers in a block say of their shards' load.
func congestionOf(e *Entry) []apply.ShardCongestion {
	out := make([]apply.ShardCongestion, len(e.Block.Body.Chunks))
	for i, c := range e.Block.Body.Chunks {
		out[i] = apply.ShardCongestion{Shard: c.ShardID, Info: c.CongestionInfo, Missed: uint64(e.Height() - c.HeightIncluded)}
	}
	return out
}

// Choose chooses the transactions of a shard's next chunk on parent. stop says when time is up. It may be called from any
// goroutine; ErrOrphan: the parent is gone.
func (e *Engine) Choose(parent primitives.Hash, shard primitives.ShardIndex, c apply.Candidates, stop func() bool) (*apply.Prepared, error) {
	p := e.Entry(parent)
	if p == nil || !p.Acquire() {
		return nil, fmt.Errorf("%w: %v", ErrOrphan, parent)
	}
	defer p.Release()
	cfg, layout, err := e.childConfig(parent)
	if err != nil {
		return nil, err
	}
	id, err := layout.IDAt(shard)
	if err != nil {
		return nil, err
	}
	var index primitives.ShardIndex
	err = e.Epochs(func(m *epoch.Manager) (err error) { _, _, index, err = m.PrevShard(parent, id); return err })
	if err != nil {
		return nil, err
	}
	bases := map[primitives.Hash]base{}
	find := func(tx *primitives.SignedTransaction) base {
		b, ok := bases[tx.BlockHash]
		if !ok {
			b = e.baseOf(p, tx.BlockHash)
			bases[tx.BlockHash] = b
		}
		return b
	}
	fresh := func(tx *primitives.SignedTransaction) bool {
		b := find(tx)
		return b.known && p.Height() <= b.height+e.chain.ValidityPeriod
	}
	out, err := apply.Prepare(&apply.PrepareInput{
		Trie: stateTrie{p.Shards[index].root}, Config: cfg, Layout: layout, ShardID: id, PrevHeight: p.Height(),
		GasPrice: p.Header().NextGasPrice, Congestion: congestionOf(p), Candidates: c,
		Valid: func(tx *primitives.SignedTransaction) bool { return fresh(tx) && find(tx).ancestor }, Fresh: fresh, Stop: stop,
	})
	if err != nil {
		err = errors.Join(fmt.Errorf("engine: choose transactions of shard %d after block %d", id, p.Height()), err)
	}
	return out, err
}
