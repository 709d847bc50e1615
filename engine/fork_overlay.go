package engine

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// RemoteState is the state of the remote chain that a fork is based on. For a given block, a
// RemoteState always returns the same values. If the remote node does not answer, or the answer
// cannot be verified, the error wraps state.ErrAway. The methods may block on the network. Safe for
// concurrent use.
type RemoteState interface {
	// Pinned returns the hash of the remote block that the fork starts from.
	Pinned() primitives.Hash
	// Get returns the value of a key in the state after the block `at`. nil: the key does not
	// exist. primitives.Inherited(key) must be true.
	Get(at primitives.Hash, key []byte) ([]byte, error)
	// Scan returns the keys with a prefix and their values after the block `at`, ascending by key.
	// All these keys must belong to one account.
	Scan(at primitives.Hash, prefix []byte) ([]state.Change, error)
	// Forks returns where other keys branch off from the key's path in the trie after the block
	// `at`, as far as the state proofs received so far show. The bool is false if no proof covers
	// the path.
	Forks(at primitives.Hash, key []byte) (trie.Forks, bool, error)
	// Height returns the height of the block with the given hash. The bool is false if the block is
	// neither the pinned block nor an ancestor of the pinned block.
	Height(hash primitives.Hash) (primitives.Height, bool, error)
	// Again waits before a request that failed with err may be repeated, and returns true. Again
	// returns false if the node is stopping; the caller must then not repeat the request.
	Again(err error) bool
}

// ForkOverlay reads the state of a fork: first the fork's own values, then the values of the remote
// chain.
type ForkOverlay struct {
	Base RemoteState
	Get  func(key []byte) ([]byte, error) // reads the value that the fork wrote; nil: the fork did not write the key
	Scan func(prefix, after []byte, yield func(key, value []byte) bool) error
}

// baseUnder returns the remote block after which the remote value of key is read. ok is false if
// the fork sees no remote value: the fork deleted the key or detached the key's account, or keys of
// this kind are not inherited.
func (o *ForkOverlay) baseUnder(key []byte) (at primitives.Hash, ok bool, err error) {
	if !primitives.Inherited(key) {
		return at, false, nil
	}
	if gone, err := o.Get(primitives.AppendForkGoneKey(nil, key)); gone != nil || err != nil {
		return at, false, err
	}
	return o.baseOf(key)
}

// baseOf does the same as baseUnder, but does not check whether the fork deleted the key. key may
// also be a prefix of keys of one account.
func (o *ForkOverlay) baseOf(key []byte) (at primitives.Hash, ok bool, err error) {
	account, owned, err := primitives.TrieKeyAccount(key)
	if err != nil {
		return at, false, nil // the key belongs to no account, so the remote chain does not have it
	}
	at = o.Base.Pinned()
	if owned {
		moved, err := o.Get(primitives.AppendForkBaseKey(nil, account))
		if err != nil {
			return at, false, err
		}
		if len(moved) == len(at) {
			at = primitives.Hash(moved)
		}
	}
	return at, !at.IsZero(), nil
}

// Value returns the value of a key: the fork's own value or else the remote chain's value. It
// returns nil if neither chain has a value.
func (o *ForkOverlay) Value(key []byte) ([]byte, error) {
	if v, err := o.Get(key); v != nil || err != nil {
		return v, err
	}
	return o.baseValue(key)
}

// baseValue returns the remote chain's value of a key for which the fork has no own value; nil:
// there is none.
func (o *ForkOverlay) baseValue(key []byte) ([]byte, error) {
	at, ok, err := o.baseUnder(key)
	if !ok || err != nil {
		return nil, err
	}
	return o.Base.Get(at, key)
}

// Each yields the keys with a prefix and their values, ascending by key, until yield returns false.
// Each skips keys up to and including `after`; nil: it skips none.
func (o *ForkOverlay) Each(prefix, after []byte, yield func(key, value []byte) bool) error {
	at, ok := primitives.Hash{}, false
	if primitives.Inherited(prefix) {
		var err error
		if at, ok, err = o.baseOf(prefix); err != nil {
			return err
		}
	}
	if !ok {
		return o.Scan(prefix, after, yield)
	}
	pairs, err := o.Base.Scan(at, prefix)
	if err != nil {
		return err
	}
	var all []state.Change
	for _, p := range pairs {
		if after != nil && bytes.Compare(p.Key, after) <= 0 {
			continue
		}
		gone, err := o.Get(primitives.AppendForkGoneKey(nil, p.Key))
		if err != nil {
			return err
		}
		if gone == nil {
			all = append(all, p)
		}
	}
	err = o.Scan(prefix, after, func(key, value []byte) bool {
		c := state.Change{Key: bytes.Clone(key), Value: bytes.Clone(value)}
		i, found := slices.BinarySearchFunc(
			all,
			key,
			func(x state.Change, key []byte) int { return bytes.Compare(x.Key, key) },
		)
		if found {
			all[i] = c
		} else {
			all = slices.Insert(all, i, c)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, p := range all {
		if !yield(p.Key, p.Value) {
			break
		}
	}
	return nil
}

// forkTrie is a shard's state on a fork: the fork's own trie in front of the remote state. The root
// and the recordings of a forkTrie cover only the fork's own trie.
type forkTrie struct {
	local state.Trie
	base  RemoteState
}

// overBase returns a trie that reads t first and then the remote state base. If base is nil,
// overBase returns t itself.
func overBase(t state.Trie, base RemoteState) state.Trie {
	if base == nil {
		return t
	}
	return forkTrie{t, base}
}

// rooted returns the trie of r as the runtime's state.Trie; on a fork, in front of the remote
// state.
func rooted(r *trie.Root) state.Trie {
	base, _ := r.Forest().UserData().(RemoteState)
	return overBase(stateTrie{r}, base)
}

// rootOf returns the root of t's own trie, without the remote state. t must come from rooted, or
// from an Update of such a trie.
func rootOf(t state.Trie) *trie.Root {
	if f, ok := t.(forkTrie); ok {
		t = f.local
	}
	return t.(stateTrie).root
}

func (t forkTrie) over() *ForkOverlay {
	return &ForkOverlay{
		Base: t.base,
		Get:  func(key []byte) ([]byte, error) { return t.local.Get(key, nil) },
		Scan: func(prefix, after []byte, yield func(key, value []byte) bool) error {
			return t.local.Scan(prefix, after, nil, yield)
		},
	}
}

// Local implements state.Forked.
func (t forkTrie) Local() state.Trie             { return t.local }
func (t forkTrie) Root() primitives.Hash         { return t.local.Root() }
func (t forkTrie) NewRecording() state.Recording { return t.local.NewRecording() }
func (t forkTrie) MemoryUsage() uint64           { return t.local.MemoryUsage() }
func (t forkTrie) FindSplit(state.Recording) (primitives.TrieSplit, error) {
	return primitives.TrieSplit{}, state.ErrNoSplit
}

func (t forkTrie) Update(changes []state.Change, rec state.Recording) (state.Trie, error) {
	local, err := t.local.Update(changes, rec)
	if err != nil {
		return nil, err
	}
	return forkTrie{local, t.base}, nil
}

func (t forkTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	if v, err := t.local.Get(key, rec); v != nil || err != nil {
		return v, err
	}
	return t.over().baseValue(key)
}

func (t forkTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	if ref, found, err := t.local.Lookup(key, rec); found || err != nil {
		return ref, found, err
	}
	v, err := t.over().baseValue(key)
	if v == nil || err != nil {
		return state.ValueRef{}, false, err
	}
	return state.ValueRef{Hash: primitives.HashBytes(v), Len: uint32(len(v))}, true, nil
}

func (t forkTrie) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	if !primitives.Inherited(prefix) {
		return t.local.Scan(prefix, after, rec, yield)
	}
	return t.over().Each(prefix, after, yield)
}

// Path returns as many nodes as the key's path would have in a trie that contained the entries of
// the fork and of the remote chain, because contracts pay gas for each node. The contents of the
// nodes are placeholders, as in historicalTrie. If no proof has covered the remote path, only the
// fork's own nodes are counted.
func (t forkTrie) Path(
	key []byte,
	rec state.Recording,
	path []state.Visit,
) ([]state.Visit, state.ValueRef, bool, error) {
	if !primitives.Inherited(key) {
		return t.local.Path(key, rec, path)
	}
	_, own, err := t.local.Lookup(key, rec)
	if err != nil {
		return path, state.ValueRef{}, false, err
	}
	ref, found, err := t.Lookup(key, nil)
	if err != nil {
		return path, ref, false, err
	}
	depths, alone, err := t.forks(key, own, found)
	if err != nil {
		return path, ref, false, err
	}
	return madeVisits(key, depths, alone, found, path), ref, found, nil
}

// forks returns the depths, in nibbles, at which other keys branch off from key in a trie that
// contains the entries of the fork and of the remote chain. own means that the fork has a value of
// the key. found means that the fork or the remote chain has a value. alone has the meaning of part
// in historicalTrie.forks.
func (t forkTrie) forks(key []byte, own, found bool) (depths []int, alone bool, err error) {
	local := &historicalTrie{base: ownValues{t.local}}
	depths, alone, err = local.forks(key, own)
	if err != nil {
		return nil, false, err
	}
	at, ok, err := t.over().baseOf(key)
	if !ok || err != nil {
		return depths, alone && !found, err
	}
	base, proven, err := t.base.Forks(at, key)
	if !proven || err != nil || len(base.Depths) == 0 {
		return depths, alone && !found, err
	}
	if found || len(depths) == 0 {
		depths = append(depths, base.Depths...)
		slices.Sort(depths)
		return slices.Compact(depths), base.Alone && !found, nil
	}
	mine, theirs := depths[len(depths)-1], base.Depths[len(base.Depths)-1]
	switch {
	case mine < theirs:
		alone = base.Alone
	case mine == theirs && alone && base.Alone:
		next, err := local.nextNibble(key, mine)
		if err != nil {
			return nil, false, err
		}
		alone = next == base.Next // if the two next nibbles differ, the keys of the two chains branch at this depth
	case mine == theirs:
		alone = false
	}
	depths = append(depths, base.Depths...)
	slices.Sort(depths)
	return slices.Compact(depths), alone, nil
}

// nextNibble returns the nibble at depth of the first key that shares its first depth nibbles with
// key. It returns trie.EndNibble if the first such key ends at depth.
func (t *historicalTrie) nextNibble(key []byte, depth int) (byte, error) {
	from, to := nibbleRange(key, depth)
	one, err := t.first(from, to)
	if err != nil || 2*len(one) <= depth {
		return trie.EndNibble, err
	}
	if depth%2 == 0 {
		return one[depth/2] >> 4, nil
	}
	return one[depth/2] & 15, nil
}

// ownValues are the values of a fork's own trie, without the columns that only forks use.
type ownValues struct{ t state.Trie }

func (v ownValues) get(key []byte) ([]byte, error) { return v.t.Get(key, nil) }

func (v ownValues) scan(from, to []byte, yield func(key, value []byte) bool) error {
	end := func(key []byte) bool {
		return to != nil && bytes.Compare(key, to) >= 0 ||
			len(key) > 0 && primitives.TrieColumn(key[0]) >= primitives.ColForkGone
	}
	if len(from) > 0 {
		if end(from) {
			return nil
		}
		value, err := v.t.Get(from, nil)
		if err != nil || value != nil && !yield(from, value) {
			return err
		}
	}
	return v.t.Scan(
		nil,
		append([]byte{}, from...),
		nil,
		func(key, value []byte) bool { return !end(key) && yield(key, value) },
	)
}

// forkedValues reads a shard's values after a stored block of a fork: first the fork's own values,
// then the values of the remote chain.
type forkedValues struct{ over ForkOverlay }

func (v forkedValues) get(key []byte) ([]byte, error) { return v.over.Value(key) }

// scan includes values of the remote chain only if the range is exactly the keys with one prefix.
func (v forkedValues) scan(from, to []byte, yield func(key, value []byte) bool) error {
	if bytes.Equal(to, storage.PrefixEnd(from)) {
		return v.over.Each(from, nil, yield)
	}
	return v.over.Scan(from, nil, yield)
}

// overStored puts the stored values of a fork in front of the remote state. It returns s if this
// chain is not a fork.
func overStored(s storedValues) historicalValues {
	base := s.e.o.Base
	if base == nil {
		return s
	}
	return forkedValues{
		ForkOverlay{Base: base, Get: s.get, Scan: func(prefix, after []byte, yield func(key, value []byte) bool) error {
			from := prefix
			if after != nil {
				from = append(bytes.Clone(after), 0)
			}
			return s.scan(from, storage.PrefixEnd(prefix), yield)
		}},
	}
}

// CutOff returns, in ascending order, the accounts that the fork has detached from the remote chain
// as of the head. The remote values of these accounts are no longer visible. CutOff returns nil if
// this chain is no fork.
func (e *Engine) CutOff() (out []primitives.AccountID, err error) {
	if e.o.Base == nil {
		return nil, nil
	}
	head, err := e.acquireHead()
	if err != nil {
		return nil, err
	}
	defer head.Release()
	for i := range head.Shards {
		f, ok := head.trieOf(primitives.ShardIndex(i)).(forkTrie)
		if !ok {
			continue
		}
		err := f.local.Scan([]byte{byte(primitives.ColForkBase)}, nil, nil, func(key, value []byte) bool {
			if primitives.Hash(value).IsZero() {
				out = append(out, primitives.AccountID(key[1:]))
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Fork returns the state of the remote chain that this chain is a fork of; nil: this chain is no
// fork.
func (e *Engine) Fork() RemoteState { return e.o.Base }
