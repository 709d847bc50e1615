package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// Check validates a submitted transaction against the head's state, in nearcore's order
// (chain/client/src/rpc_handler.rs process_tx_internal): reference block, congestion of the
// receiver's shard, stateless checks, then whether the signer can pay. If both results are nil, the
// transaction may enter the mempool. Safe for concurrent use.
func (e *Engine) Check(
	tx *primitives.SignedTransaction,
	signature verify.SignatureFunc,
) (*primitives.InvalidTxError, error) {
	head, err := e.acquireHead()
	if err != nil {
		return nil, err
	}
	defer head.Release()
	return e.checkAt(head, head.trieOf, tx, signature)
}

// checkAt does the same as Check for any block head. tries returns the states after that block, by
// shard index.
func (e *Engine) checkAt(
	head *BlockNode,
	tries func(primitives.ShardIndex) state.Trie,
	tx *primitives.SignedTransaction,
	signature verify.SignatureFunc,
) (*primitives.InvalidTxError, error) {
	// Request the height from the remote chain now, because the checks below cannot return an error
	// of the request. The checks below then find the height in the cache.
	if e.o.Base != nil {
		if _, ok := e.ancestry.height(head, tx.BlockHash); !ok {
			if _, _, err := e.o.Base.Height(tx.BlockHash); err != nil {
				return nil, err
			}
		}
	}
	if err := e.checkBlock(head, tx.BlockHash); err != nil {
		return err, nil
	}
	next, err := e.rulesAfter(head)
	if err != nil {
		return nil, err
	}
	if err := congested(head, next, tx.ReceiverID); err != nil {
		return err, nil
	}
	if err := verify.Transaction(next.config, tx, signature); err != nil {
		return err, nil
	}
	price := head.Header().NextGasPrice
	if _, err := verify.Cost(next.config, &tx.Transaction, price); err != nil {
		return err, nil
	}
	signer, err := readSigner(head.Layout, tries, tx)
	if err != nil {
		return nil, err
	}
	if err := verify.CanCharge(next.config, &tx.Transaction, price, signer); err != nil {
		return err, nil
	}
	return nil, warmReceiver(head.Layout, tries, tx.ReceiverID)
}

// warmReceiver loads the account of a valid transaction's receiver into memory, so that applying
// the transaction in a block need not wait for the disk. The signer's account is loaded by the
// checks.
func warmReceiver(
	layout primitives.ShardLayout,
	tries func(primitives.ShardIndex) state.Trie,
	id primitives.AccountID,
) error {
	i, err := layout.Index(layout.ShardOf(id))
	if err != nil {
		return err
	}
	t, ok := tries(i).(state.Warmer)
	if !ok || !t.Cold() {
		return nil
	}
	_, _, err = t.Lookup(primitives.AppendAccountKey(nil, id), nil)
	return err
}

// ErrDiscarded means that a child engine was discarded, so its states can no longer be read.
var ErrDiscarded = errors.New("engine: this chain does not exist any more: its world (a child chain of a sandbox) has ended")

// acquireHead returns the head and holds the head's states. The caller must release the states.
// Error: ErrDiscarded.
func (e *Engine) acquireHead() (*BlockNode, error) { return e.acquire(e.Head) }

// acquireTip returns the tip and holds the tip's states. The caller must release the states. Error:
// ErrDiscarded.
func (e *Engine) acquireTip() (*BlockNode, error) { return e.acquire(e.Tip) }

func (e *Engine) acquire(which func() *BlockNode) (*BlockNode, error) {
	for {
		if x := which(); x.Acquire() { // fails if a newer block has replaced x
			return x, nil
		}
		if e.gone.Load() {
			return nil, ErrDiscarded
		}
	}
}

func (e *Engine) checkBlock(head *BlockNode, base primitives.Hash) *primitives.InvalidTxError {
	known, height := true, primitives.Height(0)
	if h, ok := e.ancestry.height(head, base); ok {
		return verify.Validity(true, h, head.Height(), e.chain.ValidityPeriod, func() bool { return true })
	}
	if h, err := e.Header(base); err == nil {
		height = h.Height
	} else {
		known = false
	}
	return verify.Validity(known, height, head.Height(), e.chain.ValidityPeriod, func() bool { return false })
}

// congested returns an error if the receiver's shard refuses new transactions because of
// congestion. The children of a split shard accept transactions right after the split, because no
// chunk header contains their congestion info yet.
func congested(head *BlockNode, next *nextRules, receiver primitives.AccountID) *primitives.InvalidTxError {
	id := next.layout.ShardOf(receiver)
	i, err := head.Layout.Index(id)
	if err != nil {
		return nil
	}
	c := head.Block.Body.Chunks[i]
	if c.ShardID != id { // the header is of the chunk of the parent shard, which was split
		return nil
	}
	control := congestion.Control{
		Config: &next.config.CongestionControl,
		Info:   c.CongestionInfo,
		Missed: uint64(head.Height() - c.HeightIncluded),
	}
	r := control.RefusesTransactions()
	switch {
	case !r.Refused:
		return nil
	case r.Stuck:
		return &primitives.InvalidTxError{Tag: primitives.TxShardStuck, ShardID: uint32(c.ShardID), MissedChunks: r.Missed}
	}
	level := strconv.FormatFloat(r.Level, 'f', -1, 64)
	if !strings.Contains(level, ".") {
		level += ".0" // serde prints floats with a fraction
	}
	return &primitives.InvalidTxError{
		Tag:             primitives.TxShardCongested,
		ShardID:         uint32(c.ShardID),
		CongestionLevel: json.Number(level),
	}
}

// KeyNonce returns the nonce, at the tip, of the transaction's access key or gas key index. If the
// account is uninitialized, it has no keys, and KeyNonce returns the account's nonce. The bool is
// false if the account has no such key. Use the nonce only to order pending transactions: the tip
// may not be on disk yet, so the nonce must not be shown to clients.
func (e *Engine) KeyNonce(tx *primitives.SignedTransaction) (primitives.Nonce, bool, error) {
	return e.keyNonce(e.acquireTip, tx)
}

func (e *Engine) keyNonce(
	acquire func() (*BlockNode, error),
	tx *primitives.SignedTransaction,
) (primitives.Nonce, bool, error) {
	head, err := acquire()
	if err != nil {
		return 0, false, err
	}
	defer head.Release()
	i, err := head.Layout.Index(head.Layout.ShardOf(tx.SignerID))
	if err != nil {
		return 0, false, err
	}
	u, handle := readerOf(head.trieOf(i)), tx.PublicKey.Handle()
	defer doneReading(u)
	if tx.Nonce.HasIndex {
		return u.GasKeyNonce(tx.SignerID, handle, tx.Nonce.Index)
	}
	var key primitives.AccessKey
	if ok, err := u.AccessKey(tx.SignerID, handle, &key); ok || err != nil {
		return key.Nonce, ok, err
	}
	var account primitives.Account
	ok, err := u.Account(tx.SignerID, &account)
	return account.BootstrapNonce, ok && !account.IsInitialized(), err
}

// NonceKey returns the trie key of the value that contains KeyNonce's nonce. The value is the
// access key or the nonce of a gas key. If the account is uninitialized at the tip, the value is
// the account.
func (e *Engine) NonceKey(tx *primitives.SignedTransaction) []byte {
	handle := tx.PublicKey.Handle()
	switch {
	case tx.Nonce.HasIndex:
		return primitives.AppendGasKeyNonceKey(nil, tx.SignerID, handle, tx.Nonce.Index)
	case tx.SignerID.IsUniversal() && e.isUninitialized(tx.SignerID):
		return primitives.AppendAccountKey(nil, tx.SignerID)
	}
	return primitives.AppendAccessKeyKey(nil, tx.SignerID, handle)
}

// isUninitialized returns whether the account exists at the tip and is uninitialized. It returns
// false if the account cannot be read.
func (e *Engine) isUninitialized(id primitives.AccountID) bool {
	tip, err := e.acquireTip()
	if err != nil {
		return false
	}
	defer tip.Release()
	i, err := tip.Layout.Index(tip.Layout.ShardOf(id))
	if err != nil {
		return false
	}
	u := readerOf(tip.trieOf(i))
	defer doneReading(u)
	var account primitives.Account
	ok, err := u.Account(id, &account)
	return ok && err == nil && !account.IsInitialized()
}

// Unused returns whether the transaction's nonce is above the nonce of its key at the tip. If true,
// no block of the tip's chain contains the transaction, so callers need not search for the
// transaction. If false, a block may or may not contain the transaction.
func (e *Engine) Unused(tx *primitives.SignedTransaction) bool { return e.unused(e.acquireTip, tx) }

// UnusedAtHead does the same as Unused at the head instead of the tip. Readers use UnusedAtHead,
// because readers do not see the blocks between head and tip, and one of these blocks may have used
// the nonce.
func (e *Engine) UnusedAtHead(tx *primitives.SignedTransaction) bool {
	return e.unused(e.acquireHead, tx)
}

func (e *Engine) unused(acquire func() (*BlockNode, error), tx *primitives.SignedTransaction) bool {
	if tx.PublicKey.IsZero() { // the transaction is not parsed yet
		return false
	}
	nonce, ok, err := e.keyNonce(acquire, tx)
	return err == nil && ok && tx.Nonce.Nonce > nonce
}

// readers is a pool of readers for a few values of a state. The check of a submitted transaction
// needs one reader.
var readers = sync.Pool{New: func() any { return new(state.TrieUpdate) }}

// readerOf returns a reader of t. The caller must pass it to doneReading.
func readerOf(t state.Trie) *state.TrieUpdate {
	u := readers.Get().(*state.TrieUpdate)
	u.Reset(t)
	return u
}

func doneReading(u *state.TrieUpdate) {
	u.Reset(nil)
	readers.Put(u)
}

// readSigner reads the signer's account, access key and gas key nonce. Fields of absent values stay
// nil.
func readSigner(
	layout primitives.ShardLayout,
	tries func(primitives.ShardIndex) state.Trie,
	tx *primitives.SignedTransaction,
) (s verify.Signer, err error) {
	i, err := layout.Index(layout.ShardOf(tx.SignerID))
	if err != nil {
		return s, err
	}
	u := readerOf(tries(i))
	defer doneReading(u)
	var account primitives.Account
	if ok, err := u.Account(tx.SignerID, &account); err != nil {
		return s, err
	} else if ok {
		s.Account = &account
	}
	handle := tx.PublicKey.Handle()
	var key primitives.AccessKey
	if ok, err := u.AccessKey(tx.SignerID, handle, &key); err != nil {
		return s, err
	} else if ok {
		s.Key = &key
	}
	if tx.Nonce.HasIndex {
		nonce, ok, err := u.GasKeyNonce(tx.SignerID, handle, tx.Nonce.Index)
		if err != nil {
			return s, err
		}
		if ok {
			s.RowNonce = &nonce
		}
	}
	return s, nil
}

// Prepare chooses transactions from waiting for a shard's next chunk on parent. Prepare ends early
// if stop returns true. Errors: ErrOrphan if parent is not in memory; ErrUntracked if the shard is
// not held.
func (e *Engine) Prepare(
	parent primitives.Hash,
	shard primitives.ShardIndex,
	waiting apply.Candidates,
	stop func() bool,
) (*apply.Prepared, error) {
	p := e.Imported(parent)
	if p == nil || !p.Acquire() {
		return nil, ErrOrphan
	}
	defer p.Release()
	next, err := e.rulesAfter(p)
	if err != nil && e.Imported(parent) == nil { // the parent was dropped during the call
		err = ErrOrphan
	}
	if err != nil {
		return nil, err
	}
	inherited, err := e.inherited(p, next.layout)
	if err != nil {
		return nil, err
	}
	s := &inherited[shard]
	if !s.Held() {
		return nil, fmt.Errorf("%w: shard %d", ErrUntracked, s.ID)
	}
	in := &apply.PrepareInput{
		Trie: rooted(s.root), Config: next.config, Layout: next.layout, ShardID: s.ID, PrevHeight: p.Height(),
		GasPrice: p.Header().NextGasPrice, Candidates: waiting, Stop: stop,
		Valid: func(tx *primitives.SignedTransaction) bool { return e.ancestry.valid(p, tx.BlockHash) },
		Fresh: func(tx *primitives.SignedTransaction) bool {
			h, ok := e.ancestry.height(p, tx.BlockHash)
			return ok && p.Height() <= h+min(cmp.Or(e.o.GapBlocks, DefaultGapBlocks), e.chain.ValidityPeriod)
		},
	}
	for _, c := range p.Block.Body.Chunks {
		in.Congestion = append(
			in.Congestion,
			apply.ShardCongestion{Shard: c.ShardID, Info: c.CongestionInfo, Missed: uint64(p.Height() - c.HeightIncluded)},
		)
	}
	out, err := apply.Prepare(in)
	if err == nil {
		e.times.Choices.add(s.ID, out.Limit)
		e.times.Applied.prepared(s.ID, out)
	}
	return out, err
}
