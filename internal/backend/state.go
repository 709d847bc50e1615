package backend

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// reader reads one shard's state after a block. For a recent block it reads from the trie, for an
// older block from stored values.
type reader interface {
	get(key []byte) ([]byte, error) // returns the value of a key; nil: the key is absent
	scan(prefix, after []byte, each func(key, value []byte) bool) error
	prove(prefix []byte) ([][]byte, error)
	proveKey(key []byte) ([][]byte, error)
	release()
}

// snapshot implements view.State. It is not safe for concurrent use.
type snapshot struct {
	at  view.At
	r   reader
	buf []byte
}

// State returns the state of an account's shard after a block. The caller must release that state.
func (b *Backend) State(r view.BlockRef, account primitives.AccountID) (view.State, error) {
	if r.Kind == view.RefHeight && b.isCollected(r.Height) {
		return nil, b.collected(r.Height)
	}
	tail := b.Engine.StateTail()
	k, err := b.find(r)
	if err != nil {
		return nil, err
	}
	layout, err := b.layoutOf(k)
	if err != nil {
		return nil, err
	}
	shard := layout.ShardIDs()[0]
	if account != "" {
		shard = layout.ShardOf(account)
	}
	return b.stateOf(k, tail, layout, shard)
}

// stateOf returns the state of a shard after a block. tail is the engine's StateTail, read before
// the block was found. Below it, as in neard, the shard is unavailable: after a state sync, the
// earliest block is below the blocks with states.
func (b *Backend) stateOf(k *block, tail primitives.Height, layout primitives.ShardLayout, shard primitives.ShardID) (*snapshot, error) {
	s := &snapshot{at: view.At{Height: k.ref.Height, Hash: k.ref.Hash}}
	if k.entry != nil && k.entry.Acquire() {
		i, err := layout.Index(shard)
		if err != nil {
			k.entry.Release()
			return nil, err
		}
		if !k.entry.Shards[i].Held() {
			k.entry.Release()
			return nil, unavailable(shard)
		}
		s.r = b.over(trieReader{k.entry, k.entry.Root(i), b.Engine.Store(), shard})
		return s, nil
	}
	if k.ref.Height < tail {
		return nil, unavailable(shard)
	}
	if held, err := b.holds(k, shard); err != nil || !held {
		return nil, cmp.Or(err, unavailable(shard))
	}
	accounts, err := engine.Accounts(layout, shard)
	if err != nil {
		return nil, err
	}
	s.r = b.over(storeReader{b.Engine, k.ref, shard, accounts})
	return s, nil
}

// unavailable returns the error for a shard whose state this node does not have (nearcore
// view_client_actor.rs:413).
func unavailable(shard primitives.ShardID) error {
	return &view.LookupError{Kind: view.ErrUnavailableShard, ShardID: shard}
}

// holds returns whether this node has executed a stored block's chunk of a shard. Most nodes track
// all shards.
func (b *Backend) holds(k *block, shard primitives.ShardID) (bool, error) {
	if b.Engine.HoldsAll() {
		return true, nil
	}
	rec, err := b.record(k)
	if err != nil {
		return false, err
	}
	_, err = rec.Extra(shard)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// layoutOf returns the shard layout of a block.
func (b *Backend) layoutOf(k *block) (primitives.ShardLayout, error) {
	if k.entry != nil {
		return k.entry.Layout, nil
	}
	h, err := b.header(k)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return b.layout(h)
}

// isCollected returns whether garbage collection has removed the states at a height. neard refuses
// a query by height as soon as the height may be collected, and answers a query by hash as long as
// the state is stored (chain/client/src/view_client_actor.rs:360, is_block_gc). Troupe answers
// queries by height and by hash as long as the state is stored.
func (b *Backend) isCollected(height primitives.Height) bool {
	return b.KeepEpochs > 0 && height < b.Engine.Store().Tip().Tail
}

// collected returns the error for a height whose state was collected.
func (b *Backend) collected(height primitives.Height) error {
	e := &view.LookupError{Kind: view.ErrGarbageCollected, Height: height}
	var gone *view.LookupError
	k, err := b.find(view.BlockRef{Kind: view.RefHeight, Height: height})
	switch {
	case err == nil:
		e.Hash = k.ref.Hash
	case errors.As(err, &gone):
		e.Hash = gone.Hash // zero for a height without a block
	default:
		return err
	}
	return e
}

type trieReader struct {
	entry *engine.BlockNode
	root  *trie.Root
	store *storage.Store
	shard primitives.ShardID
}

func (t trieReader) release() { t.entry.Release() }

// get reads a value without loading trie nodes into memory. For one value, the flat state is
// cheaper. Also, queries must not influence which nodes stay resident.
func (t trieReader) get(key []byte) ([]byte, error) {
	if v, known := t.root.Peek(key); known {
		return v, nil
	}
	v, err := t.store.ValueAt(storage.BlockRef{Height: t.entry.Height(), Hash: t.entry.Hash}, t.shard, key)
	switch {
	case err == nil:
		return v, nil
	case err == storage.ErrNotFound: // an unwrapped ErrNotFound means that the key is absent
		return nil, nil
	}
	// The block is not stored any more: it is on an abandoned branch, or the store belongs to
	// another chain instance.
	return t.root.Get(key, nil)
}

func (t trieReader) scan(prefix, after []byte, each func(key, value []byte) bool) error {
	s := t.root.Scan(prefix, after, nil)
	for s.Next() {
		if !each(s.Key(), s.Value()) {
			return nil
		}
	}
	return s.Err()
}

func (t trieReader) prove(prefix []byte) ([][]byte, error) {
	s := t.root.ScanProven(prefix)
	for s.Next() {
		_ = s.Value()
	}
	return s.Proof(), s.Err()
}

func (t trieReader) proveKey(key []byte) ([][]byte, error) {
	out, err := t.root.Prove(key)
	if err != nil {
		return nil, err
	}
	value, err := t.root.Get(key, nil)
	if value != nil {
		out = append(out, value)
	}
	return out, err
}

type storeReader struct {
	e        *engine.Engine
	at       storage.BlockRef
	shard    primitives.ShardID
	accounts storage.AccountRange
}

func (s storeReader) release() {}

func (s storeReader) get(key []byte) ([]byte, error) {
	v, err := s.e.Store().ValueAt(s.at, s.shard, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if errors.Is(err, storage.ErrGone) {
		return nil, unavailable(s.shard)
	}
	return v, err
}

func (s storeReader) scan(prefix, after []byte, each func(key, value []byte) bool) error {
	from := prefix
	if after != nil {
		from = append(append([]byte{}, after...), 0)
	}
	to := storage.PrefixEnd(prefix)
	err := s.e.Store().Scan(s.at, s.shard, s.accounts, from, to, each)
	if errors.Is(err, storage.ErrGone) {
		return unavailable(s.shard)
	}
	return err
}

// prove returns an error, because this reader has no trie. The error names the oldest height whose
// tries are in memory, so that proofs are possible from that height on.
func (s storeReader) prove([]byte) ([][]byte, error) {
	e := &view.LookupError{Kind: view.ErrNoProof}
	for x := s.e.Head(); x != nil && x.Acquire(); x = s.e.BlockNode(x.Header().PrevHash) {
		e.Height = x.Height()
		x.Release()
	}
	return nil, e
}

func (s storeReader) proveKey(key []byte) ([][]byte, error) { return s.prove(key) }

// At returns the block of the state.
func (s *snapshot) At() view.At { return s.at }

// Release frees the state. The caller must not use the snapshot after Release.
func (s *snapshot) Release() { s.r.release() }

// read decodes the value of the key in s.buf. read returns false if the key has no value.
func (s *snapshot) read(v borsh.Decoder) (bool, error) {
	raw, err := s.r.get(s.buf)
	if err != nil || raw == nil {
		return false, err
	}
	return true, borsh.Unmarshal(raw, v)
}

// Account reads an account. Account returns false if the account does not exist.
func (s *snapshot) Account(id primitives.AccountID, a *primitives.Account) (bool, error) {
	s.buf = primitives.AppendAccountKey(s.buf[:0], id)
	return s.read(a)
}

// AccessKey reads an access key of an account. AccessKey returns false if the account has no such
// key.
func (s *snapshot) AccessKey(id primitives.AccountID, h primitives.PublicKeyHandle, k *primitives.AccessKey) (bool, error) {
	s.buf = primitives.AppendAccessKeyKey(s.buf[:0], id, h)
	return s.read(k)
}

// If a gas key has more than manyNonces nonces, AccessKeys seeks to the next key instead of reading
// the nonces. A gas key has up to 1024 nonces.
const manyNonces = 8

// AccessKeys returns at most limit access keys of an account, in trie order. The list begins after
// the key `after`. more says whether there are further keys. A limit of 0 means no limit.
func (s *snapshot) AccessKeys(id primitives.AccountID, after primitives.PublicKeyHandle, limit int) (out []view.KeyInfo, more bool, err error) {
	prefix := primitives.AppendAccessKeyPrefix(nil, id)
	// The trie keys of a gas key's nonces are the gas key's trie key plus two bytes.
	behind := func(key []byte) []byte { return append(key, 0xff, 0xff, 0xff) }
	var from []byte
	if after != "" {
		from = behind(primitives.AppendAccessKeyKey(nil, id, after))
	}
	for again := true; again; {
		again = false
		var bad error
		err = s.r.scan(prefix, from, func(key, value []byte) bool {
			var k view.KeyInfo
			r := borsh.NewReader(key[len(prefix):])
			k.Handle.DecodeBorsh(r)
			if r.Err() == nil && r.Remaining() > 0 { // such a record is a nonce of a gas key, not an access key
				return true
			}
			if more = limit > 0 && len(out) == limit; more {
				return false
			}
			if bad = r.Close(); bad == nil {
				bad = borsh.Unmarshal(value, &k.AccessKey)
			}
			out = append(out, k)
			if bad == nil && k.AccessKey.GasKey != nil && k.AccessKey.GasKey.NumNonces > manyNonces {
				from, again = behind(bytes.Clone(key)), true
				return false
			}
			return bad == nil
		})
		if err = errors.Join(err, bad); err != nil {
			return nil, false, err
		}
	}
	return out, more, nil
}

// GasKeyNonce reads one nonce of a gas key. GasKeyNonce returns false if there is no such nonce.
func (s *snapshot) GasKeyNonce(id primitives.AccountID, h primitives.PublicKeyHandle, index uint16) (primitives.Nonce, bool, error) {
	s.buf = primitives.AppendGasKeyNonceKey(s.buf[:0], id, h, index)
	raw, err := s.r.get(s.buf)
	if err != nil || raw == nil {
		return 0, false, err
	}
	r := borsh.NewReader(raw)
	n := r.Uint64()
	return primitives.Nonce(n), true, r.Close()
}

// Code returns an account's own code.
func (s *snapshot) Code(id primitives.AccountID) ([]byte, error) {
	s.buf = primitives.AppendCodeKey(s.buf[:0], id)
	return s.r.get(s.buf)
}

// GlobalCode returns the code of a global contract.
func (s *snapshot) GlobalCode(id *primitives.GlobalContractID) ([]byte, error) {
	s.buf = primitives.AppendGlobalCodeKey(s.buf[:0], id)
	return s.r.get(s.buf)
}

// Data calls each for the contract's key-value pairs with a prefix, until each returns false. Data
// begins after the key `after`.
func (s *snapshot) Data(id primitives.AccountID, prefix, after []byte, each func(key, value []byte) bool) error {
	base := len(primitives.AppendContractDataKey(nil, id, nil))
	var from []byte
	if after != nil {
		from = primitives.AppendContractDataKey(nil, id, after)
	}
	return s.r.scan(primitives.AppendContractDataKey(nil, id, prefix), from, func(key, value []byte) bool {
		return each(key[base:], value)
	})
}

// KeyProof returns the trie nodes on the path to a key, and the value of that key.
func (s *snapshot) KeyProof(key []byte) ([][]byte, error) {
	return s.r.proveKey(key)
}

// DataProof returns the trie nodes that prove the pairs that Data finds under a prefix.
func (s *snapshot) DataProof(id primitives.AccountID, prefix []byte) ([][]byte, error) {
	return s.r.prove(primitives.AppendContractDataKey(nil, id, prefix))
}
