package state

import (
	"bytes"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// removalCharge is added to UpperBound for every removal of a contract entry, in bytes. Finalize
// may record sibling nodes for a removal (nearcore trie_recording.rs record_key_removal).
const removalCharge = 2000

// TrieUpdate is the state of a shard while a chunk is applied. A TrieUpdate consists of the Trie
// before the chunk and two overlays. The first overlay has the committed changes with their causes.
// The second overlay has the prospective changes of the current transaction or receipt. Commit
// moves the prospective changes to the committed changes; Rollback discards the prospective
// changes. Not safe for concurrent use, except for reads by forks (see Fork).
type TrieUpdate struct {
	trie     Trie
	rec      Recording
	limit    uint64 // soft limit of the state proof's UpperBound in bytes
	removals uint64 // number of removed entries of contract state

	index       map[string]int32 // indices in entries by trie key
	entries     []entry
	changes     []change
	causes      []primitives.StateChangeCause
	prospective []pending
	values      arena
	key         []byte // scratch buffer for keys

	// code by hash that committed receipts of this chunk deployed or distributed
	codes        map[primitives.Hash][]byte
	pendingCodes []pendingCode
	accesses     []CodeAccess             // code that function calls looked up; only a fork's list may have duplicates
	accessed     map[primitives.Hash]bool // set of the hashes in accesses; nil if there are at most fewAccesses

	touched map[primitives.Hash]bool // hashes of trie nodes and values that contracts touched in this chunk

	// A fork runs receipts ahead of their turn; a Span is the work of one receipt on a fork (see
	// Fork). While Adopt applies a Span, owner is the id of the fork, and ownerChange is the number
	// of the fork's change that is being applied (index in its changes plus one). At all other
	// times both are 0. Each write copies both to its entry, which so names the change's source.
	owner, ownerChange int32
	fork               *forkState

	rebased map[primitives.AccountID]bool // accounts for which Rebase was called in this chunk
}

// entry is a key that was written, or that Get read. first, last and pending are indices plus one;
// 0: there is no such change.
type entry struct {
	key         string
	first, last int32 // first and last committed change of the key in TrieUpdate.changes
	pending     int32 // prospective change of the key in TrieUpdate.prospective
	owner       int32 // values of TrieUpdate.owner and ownerChange at the last write of the key
	ownerChange int32
	known       bool   // true: the key was read from the trie with its path recorded, and old is valid
	old         []byte // value in the trie before the chunk; nil: absent
}

type change struct {
	value []byte
	next  int32
	cause int32
	entry int32
}

type pending struct {
	entry int32
	value []byte
}

type pendingCode struct {
	hash primitives.Hash
	code []byte
}

// New returns an update of t that records reads. LimitExceeded returns true once the size of the
// recording, in bytes, is above limit.
func New(t Trie, limit uint64) *TrieUpdate { return NewRecorded(t, nil, limit) }

// NewRecorded is New with an empty recording of t. A nil rec means a new recording.
func NewRecorded(t Trie, rec Recording, limit uint64) *TrieUpdate {
	u := NewUnrecorded(t)
	if rec == nil {
		rec = t.NewRecording()
	}
	u.rec, u.limit = rec, limit
	return u
}

// NewUnrecorded returns an update of t that records nothing.
func NewUnrecorded(t Trie) *TrieUpdate {
	return &TrieUpdate{trie: t, limit: ^uint64(0), index: make(map[string]int32), key: make([]byte, 0, 256)}
}

// mostReused is the number of keys above which Reset frees the memory of an update instead of
// reusing it.
const mostReused = 64

// Reset makes u an update of t that records nothing, like the result of NewUnrecorded, and reuses
// u's memory. t may be nil if the trie is not known yet. Results of the previous use of u become
// invalid.
func (u *TrieUpdate) Reset(t Trie) {
	index, entries, key := u.index, u.entries, u.key
	if clear(index); index == nil || len(entries) > mostReused {
		index, entries, key = make(map[string]int32), nil, make([]byte, 0, 256)
	}
	clear(entries)
	*u = TrieUpdate{trie: t, limit: ^uint64(0), index: index, entries: entries[:0], key: key[:0]}
}

// Grow reserves memory for n more keys, each of which is written about once.
func (u *TrieUpdate) Grow(n int) {
	if len(u.index) == 0 {
		u.index = make(map[string]int32, n)
	}
	u.entries = slices.Grow(u.entries, n)
	u.changes = slices.Grow(u.changes, n+n/2)
	u.causes = slices.Grow(u.causes, n+n/2)
}

// Trie returns the underlying trie. The update does not change that trie.
func (u *TrieUpdate) Trie() Trie { return u.trie }

// Recording returns the recording so far; nil if the update does not record.
func (u *TrieUpdate) Recording() Recording { return u.rec }

// RecordedSize returns the recorded size in bytes.
func (u *TrieUpdate) RecordedSize() uint64 {
	if u.rec == nil {
		return 0
	}
	return u.rec.Size()
}

// UpperBound returns the recorded size plus the charge for removals.
func (u *TrieUpdate) UpperBound() uint64 { return u.RecordedSize() + removalCharge*u.removals }

// LimitExceeded returns whether UpperBound exceeds the limit in bytes that was passed to New. If
// so, the chunk must not start another receipt. LimitExceeded returns false if u records nothing.
func (u *TrieUpdate) LimitExceeded() bool { return u.rec != nil && u.UpperBound() > u.limit }

// Accesses returns the code that calls looked up and that was in the trie before the chunk, in the
// order of the first lookup. State proofs do not contain code, so the chunk producer sends the
// hashes to the chunk validators (nearcore function_call.rs record_contract_call). For a Proven
// trie it returns nil.
func (u *TrieUpdate) Accesses() []CodeAccess { return u.accesses }

// fewAccesses is the length of accesses above which access uses a map instead of searching the
// list.
const fewAccesses = 8

func (u *TrieUpdate) access(a CodeAccess) {
	if u.fork != nil { // a fork's accesses are counted when Adopt applies them
		u.accesses = append(u.accesses, a)
		return
	}
	if u.accessed == nil && len(u.accesses) < fewAccesses {
		if !slices.ContainsFunc(u.accesses, func(b CodeAccess) bool { return b.Hash == a.Hash }) {
			u.accesses = append(u.accesses, a)
		}
		return
	}
	if u.accessed == nil {
		u.accessed = make(map[primitives.Hash]bool)
		for _, b := range u.accesses {
			u.accessed[b.Hash] = true
		}
	}
	if !u.accessed[a.Hash] {
		u.accessed[a.Hash] = true
		u.accesses = append(u.accesses, a)
	}
}

// overlaid returns the newest value of a key in the overlays; nil if the chunk removed the key. ok
// is false if no overlay contains the key.
func (u *TrieUpdate) overlaid(key []byte) (value []byte, ok bool) {
	i, found := u.index[string(key)]
	if !found {
		return nil, false
	}
	e := &u.entries[i]
	if e.pending != 0 {
		return u.prospective[e.pending-1].value, true
	}
	if e.last != 0 {
		return u.changes[e.last-1].value, true
	}
	return nil, false // the entry only caches a read, or the entry's write was rolled back
}

// lookupOverlay does the same as overlaid, for u and, if u is a fork, for the parent of u too.
func (u *TrieUpdate) lookupOverlay(key []byte) (value []byte, ok bool) {
	if u.fork != nil {
		return u.lookupFork(key)
	}
	return u.overlaid(key)
}

// Get returns the value of a key and records the read. The value is nil if the key is absent. The
// caller must not change the value.
func (u *TrieUpdate) Get(key []byte) ([]byte, error) { return u.get(key, u.rec) }

// GetPure is Get without recording.
func (u *TrieUpdate) GetPure(key []byte) ([]byte, error) { return u.get(key, nil) }

func (u *TrieUpdate) get(key []byte, rec Recording) ([]byte, error) {
	// A fork caches no values that it reads, because each span records its reads separately.
	if u.fork != nil {
		if value, ok := u.lookupFork(key); ok {
			return value, nil
		}
		return u.trie.Get(key, rec)
	}
	i, found := u.index[string(key)]
	if found {
		switch e := &u.entries[i]; {
		case e.pending != 0:
			return u.prospective[e.pending-1].value, nil
		case e.last != 0:
			return u.changes[e.last-1].value, nil
		case e.known:
			return e.old, nil
		}
	}
	value, err := u.trie.Get(key, rec)
	if err == nil && rec != nil {
		// Most keys that are read are written next, so the entry is added now.
		if !found {
			i = u.enter(string(key))
		}
		u.entries[i].known, u.entries[i].old = true, value
	}
	return value, err
}

// Contains returns whether a key has a value, and records the path to the key.
func (u *TrieUpdate) Contains(key []byte) (bool, error) {
	if value, ok := u.lookupOverlay(key); ok {
		return value != nil, nil
	}
	_, found, err := u.trie.Lookup(key, u.rec)
	return found, err
}

// Ref refers to a value in an overlay or in the trie. A Ref has the value's length and hash, so
// callers need not read the value for these.
type Ref struct {
	overlay []byte // value in the overlay; nil: the value is in the trie
	trie    ValueRef
}

// InOverlay returns whether the value was written in this chunk. Reading such a value records
// nothing and costs nothing.
func (r *Ref) InOverlay() bool { return r.overlay != nil }

// Len returns the value's length in bytes.
func (r *Ref) Len() uint32 {
	if r.overlay != nil {
		return uint32(len(r.overlay))
	}
	return r.trie.Len
}

// Hash returns the value's hash.
func (r *Ref) Hash() primitives.Hash {
	if r.overlay != nil {
		return primitives.HashBytes(r.overlay)
	}
	return r.trie.Hash
}

// Find looks up a key without reading its value. Find records the path to the key, unless the key
// is in an overlay.
func (u *TrieUpdate) Find(key []byte) (ref Ref, found bool, err error) {
	if value, ok := u.lookupOverlay(key); ok {
		return Ref{overlay: value}, value != nil, nil
	}
	ref.trie, found, err = u.trie.Lookup(key, u.rec)
	return ref, found, err
}

// FindPath does the same as Find, and also appends the trie nodes on the path of the key to path.
// FindPath appends no nodes if an overlay contains the key.
func (u *TrieUpdate) FindPath(key []byte, path []Visit) (_ []Visit, ref Ref, found bool, err error) {
	if value, ok := u.lookupOverlay(key); ok {
		return path, Ref{overlay: value}, value != nil, nil
	}
	path, ref.trie, found, err = u.trie.Path(key, u.rec, path)
	return path, ref, found, err
}

// Touch records that a contract accesses the trie node or value with hash h. Touch returns whether
// a contract has accessed the node or value before in this chunk. A repeated access has the price
// of a cache hit (nearcore ext.rs AccountingState). Since version 84 first and repeated accesses
// have equal prices, and the difference is visible only in gas profiles. paid is whether the access
// costs gas; accesses by storage_read do not.
func (u *TrieUpdate) Touch(h primitives.Hash, paid bool) (before bool) {
	before = u.touched[h]
	if f := u.fork; f != nil {
		before = before || f.parent.touched[h]
		f.touches = append(f.touches, touch{h, before, paid})
	}
	if !before {
		if u.touched == nil {
			u.touched = make(map[primitives.Hash]bool)
		}
		u.touched[h] = true
	}
	return before
}

// Set adds a prospective write of a key. Set copies the key. Set keeps a reference to the value,
// which must not be nil and which the caller must not change afterwards.
func (u *TrieUpdate) Set(key, value []byte) { u.put(key, value) }

// Remove adds a prospective removal of a key. The removal of a contract entry raises UpperBound,
// even if Rollback discards the removal.
func (u *TrieUpdate) Remove(key []byte) {
	if primitives.TrieColumn(key[0]) == primitives.ColContractData {
		u.removals++
	}
	u.put(key, nil)
}

func (u *TrieUpdate) put(key, value []byte) {
	i, found := u.index[string(key)]
	if !found {
		i = u.enter(string(key))
	}
	u.write(i, value)
}

// enter adds an entry for a key.
func (u *TrieUpdate) enter(key string) int32 {
	i := int32(len(u.entries))
	u.entries = append(u.entries, entry{key: key})
	u.index[key] = i
	return i
}

func (u *TrieUpdate) write(i int32, value []byte) {
	e := &u.entries[i]
	e.owner, e.ownerChange = u.owner, u.ownerChange
	if e.pending != 0 {
		u.prospective[e.pending-1].value = value
		return
	}
	u.prospective = append(u.prospective, pending{i, value})
	e.pending = int32(len(u.prospective))
}

// Commit moves the prospective changes to the committed ones, with the given cause.
func (u *TrieUpdate) Commit(kind primitives.CauseKind, hash primitives.Hash) {
	for i := range u.pendingCodes {
		if u.codes == nil {
			u.codes = make(map[primitives.Hash][]byte)
		}
		u.codes[u.pendingCodes[i].hash] = u.pendingCodes[i].code
		if u.fork != nil {
			u.fork.codes = append(u.fork.codes, u.pendingCodes[i])
		}
	}
	u.pendingCodes = u.pendingCodes[:0]
	u.causes = append(u.causes, primitives.StateChangeCause{Kind: kind, Hash: hash})
	cause := int32(len(u.causes) - 1)
	for i := range u.prospective {
		p := &u.prospective[i]
		e := &u.entries[p.entry]
		u.changes = append(u.changes, change{value: p.value, cause: cause, entry: p.entry})
		n := int32(len(u.changes))
		if e.last == 0 {
			e.first = n
		} else {
			u.changes[e.last-1].next = n
		}
		e.last, e.pending = n, 0
		p.value = nil
	}
	u.prospective = u.prospective[:0]
}

// Rollback discards the prospective changes.
func (u *TrieUpdate) Rollback() {
	for i := range u.prospective {
		u.entries[u.prospective[i].entry].pending = 0
		u.prospective[i].value = nil
	}
	u.prospective = u.prospective[:0]
	u.pendingCodes = u.pendingCodes[:0]
}

// Finalized is the result of Finalize.
type Finalized struct {
	Trie    Trie
	Changes []primitives.KeyChanges // changes of the chunk in ascending order of keys
	Olds    []OldValue              // Olds[i] is the value of Changes[i].Key before the chunk
}

// OldValue is the value of a key before the chunk. Known is set if the update has read the key.
// Value is valid as long as the trie before the chunk is.
type OldValue struct {
	Value []byte // value before the chunk; nil: the key was absent
	Known bool
}

// Finalize applies the committed changes to the trie. Finalize records the nodes that the trie
// reads for the changes. Finalize panics if there are prospective changes.
func (u *TrieUpdate) Finalize() (Finalized, error) {
	if len(u.prospective) != 0 {
		panic("state: Finalize with uncommitted changes")
	}
	_, forked := u.trie.(Forked)
	if forked {
		u.markGone()
	}
	order := make([]int32, 0, len(u.entries))
	for i := range u.entries {
		if u.entries[i].last != 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(u.entries[a].key, u.entries[b].key) })
	all := make([]primitives.StateChange, 0, len(u.changes))
	out := make([]primitives.KeyChanges, len(order))
	updates := make([]Change, len(order))
	olds := make([]OldValue, len(order))
	for i, at := range order {
		e, from := &u.entries[at], len(all)
		for c := e.first; c != 0; c = u.changes[c-1].next {
			all = append(all, primitives.StateChange{Cause: u.causes[u.changes[c-1].cause], Value: u.changes[c-1].value})
		}
		key := u.values.copyString(e.key)
		out[i] = primitives.KeyChanges{Key: key, Changes: all[from:len(all):len(all)]}
		updates[i] = Change{Key: key, Value: u.changes[e.last-1].value, Known: e.known}
		if !forked { // the old value in a Forked trie may belong to the forked chain
			olds[i] = OldValue{e.old, e.known}
		}
	}
	t, err := u.trie.Update(updates, u.rec)
	return Finalized{Trie: t, Changes: out, Olds: olds}, err
}

// Keys calls yield for each key that begins with prefix and has a value, in ascending order. Keys
// records the trie nodes under the prefix and all values under the prefix, even of keys that this
// chunk has overwritten (nearcore update/iterator.rs). yield may retain the key but must not change
// the key.
func (u *TrieUpdate) Keys(prefix []byte, yield func(key []byte) error) error {
	return u.keysOf(u.trie, prefix, yield)
}

// keysOf is Keys for the trie t, which is u.trie or the local part of a Forked trie.
func (u *TrieUpdate) keysOf(t Trie, prefix []byte, yield func(key []byte) error) error {
	if u.fork != nil {
		u.fork.apart = true
	}
	over := u.overlayKeys(prefix)
	keys := make([][]byte, 0, 8)
	err := t.Scan(prefix, nil, u.rec, func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	if err != nil {
		return err
	}
	for _, o := range over {
		at, in := slices.BinarySearchFunc(keys, o.Key, bytes.Compare)
		switch {
		case in && o.Value == nil:
			keys = slices.Delete(keys, at, at+1)
		case !in && o.Value != nil:
			keys = slices.Insert(keys, at, o.Key)
		}
	}
	for _, k := range keys {
		if err := yield(k); err != nil {
			return err
		}
	}
	return nil
}

// overlayKeys returns the keys under a prefix with their newest overlay values, in no particular
// order.
func (u *TrieUpdate) overlayKeys(prefix []byte) []Change {
	var out []Change
	if u.fork != nil {
		out = u.fork.parent.overlayKeys(prefix)
	}
	for i := range u.entries {
		if key := u.entries[i].key; strings.HasPrefix(key, string(prefix)) {
			if value, ok := u.overlaid([]byte(key)); ok {
				out = append(out, Change{Key: []byte(key), Value: value})
			}
		}
	}
	return out
}
