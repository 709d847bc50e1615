package state

import (
	"bytes"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// removalCharge is added to the bound of the recorded size for every removal of a contract's entry,
// since removing may record siblings at the end (nearcore trie_recording.rs record_key_removal).
const removalCharge = 2000

// TrieUpdate is the state of a shard while a chunk is applied: a Trie, what was committed over it
// with the causes, and what is prospective, which Commit keeps and Rollback drops. It is for one
// goroutine, but for reads by forks (see Fork).
type TrieUpdate struct {
	trie     Trie
	rec      Recording
	limit    uint64 // of the recorded size
	removals uint64 // of contract entries

	index       map[string]int32 // key -> entries
	entries     []entry
	changes     []change
	causes      []primitives.StateChangeCause
	prospective []pending
	values      arena
	key         []byte // scratch for building keys

	codes        map[primitives.Hash][]byte // brought in this chunk, committed
	pendingCodes []pendingCode
	accesses     []CodeAccess             // each hash once
	accessed     map[primitives.Hash]bool // their hashes, once they are more than fewAccesses

	touched map[primitives.Hash]bool // nodes and values that contracts looked at in this chunk

	// Noted at every write: 0, or the fork whose writes are being adopted, and which of its
	// changes.
	owner, ownerChange int32
	fork               *forkState

	rebased map[primitives.AccountID]bool // accounts of a Forked trie whose removed keys show through again
}

// entry is one key that was ever written, or read by Get. References are indices plus one; 0 is
// none.
type entry struct {
	key         string
	first, last int32 // in changes
	pending     int32 // in prospective
	owner       int32 // of the last write, see TrieUpdate
	ownerChange int32
	known       bool   // it was read from the trie, and its path recorded
	old         []byte // if known: what the trie has
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

// New returns an update of t that records what is read, up to a soft limit of bytes.
func New(t Trie, limit uint64) *TrieUpdate { return NewRecorded(t, nil, limit) }

// NewRecorded is New with an empty recording of t's, if rec is not nil.
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

// mostReused is how many keys an update may have had whose memory is used again.
const mostReused = 64

// Reset makes u an update of t that records nothing, as NewUnrecorded, in the memory that it has; t
// nil: of none yet. What came of u is not to be used any more.
func (u *TrieUpdate) Reset(t Trie) {
	index, entries, key := u.index, u.entries, u.key
	if clear(index); index == nil || len(entries) > mostReused {
		index, entries, key = make(map[string]int32), nil, make([]byte, 0, 256)
	}
	clear(entries)
	*u = TrieUpdate{trie: t, limit: ^uint64(0), index: index, entries: entries[:0], key: key[:0]}
}

// Grow makes room for n more keys, each written about once.
func (u *TrieUpdate) Grow(n int) {
	if len(u.index) == 0 {
		u.index = make(map[string]int32, n)
	}
	u.entries = slices.Grow(u.entries, n)
	u.changes = slices.Grow(u.changes, n+n/2)
	u.causes = slices.Grow(u.causes, n+n/2)
}

// Trie returns the trie below, which the update does not change.
func (u *TrieUpdate) Trie() Trie { return u.trie }

// Recording returns what was recorded so far, nil if nothing is.
func (u *TrieUpdate) Recording() Recording { return u.rec }

// RecordedSize is the length of all that was recorded.
func (u *TrieUpdate) RecordedSize() uint64 {
	if u.rec == nil {
		return 0
	}
	return u.rec.Size()
}

// UpperBound is the recorded size and the charge for removals.
func (u *TrieUpdate) UpperBound() uint64 { return u.RecordedSize() + removalCharge*u.removals }

// LimitExceeded tells whether no further receipt may be started.
func (u *TrieUpdate) LimitExceeded() bool { return u.rec != nil && u.UpperBound() > u.limit }

// Accesses returns the code that was looked for and found below the update, in the order of first
// looking: a proof lacks it, so that whoever checks the chunk is told (nearcore function_call.rs
// record_contract_call). None on a proof.
func (u *TrieUpdate) Accesses() []CodeAccess { return u.accesses }

// fewAccesses is how many are looked through one by one.
const fewAccesses = 8

func (u *TrieUpdate) access(a CodeAccess) {
	if u.fork != nil { // counts with the span that is adopted
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

// overlaid returns the newest value in the overlay: ok is false if the key was never written.
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
	return nil, false // only read, or written and rolled back
}

// lookupOverlay is overlaid of the update and, for a fork, of what its parent has.
func (u *TrieUpdate) lookupOverlay(key []byte) (value []byte, ok bool) {
	if u.fork != nil {
		return u.lookupFork(key)
	}
	return u.overlaid(key)
}

// Get returns the value of a key and records the read; nil if there is none. The value is read
// only.
func (u *TrieUpdate) Get(key []byte) ([]byte, error) { return u.get(key, u.rec) }

// GetPure is Get that records nothing.
func (u *TrieUpdate) GetPure(key []byte) ([]byte, error) { return u.get(key, nil) }

func (u *TrieUpdate) get(key []byte, rec Recording) ([]byte, error) {
	if u.fork != nil { // its spans record apart
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
		// What is read is mostly written next, so the key's entry is made now.
		if !found {
			i = u.enter(string(key))
		}
		u.entries[i].known, u.entries[i].old = true, value
	}
	return value, err
}

// Contains tells whether a key has a value, and records the path to it.
func (u *TrieUpdate) Contains(key []byte) (bool, error) {
	if value, ok := u.lookupOverlay(key); ok {
		return value != nil, nil
	}
	_, found, err := u.trie.Lookup(key, u.rec)
	return found, err
}

// Ref is a value that was found, in an overlay or in the trie.
type Ref struct {
	overlay []byte // not nil: there
	trie    ValueRef
}

// InOverlay tells whether the value was written in this chunk: reading it records and costs
// nothing.
func (r *Ref) InOverlay() bool { return r.overlay != nil }

// Len is the value's length in bytes.
func (r *Ref) Len() uint32 {
	if r.overlay != nil {
		return uint32(len(r.overlay))
	}
	return r.trie.Len
}

// Hash is the value's hash.
func (r *Ref) Hash() primitives.Hash {
	if r.overlay != nil {
		return primitives.HashBytes(r.overlay)
	}
	return r.trie.Hash
}

// Find looks a key up without reading its value; Get reads it.
func (u *TrieUpdate) Find(key []byte) (ref Ref, found bool, err error) {
	if value, ok := u.lookupOverlay(key); ok {
		return Ref{overlay: value}, value != nil, nil
	}
	ref.trie, found, err = u.trie.Lookup(key, u.rec)
	return ref, found, err
}

// FindPath is Find that appends the nodes on the way; none for a key of an overlay. Such a key,
// also one that was removed there, costs nothing to look at.
func (u *TrieUpdate) FindPath(key []byte, path []Visit) (_ []Visit, ref Ref, found bool, err error) {
	if value, ok := u.lookupOverlay(key); ok {
		return path, Ref{overlay: value}, value != nil, nil
	}
	path, ref.trie, found, err = u.trie.Path(key, u.rec, path)
	return path, ref, found, err
}

// Touch notes that a contract looks at a node or value, and tells whether one has before in this
// chunk: then it costs no more than a look into a cache (nearcore ext.rs AccountingState). Since 84
// both prices are the same, so only gas profiles show it, and only if the look is paid for, which
// that of storage_read is not.
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

// Set writes a key, prospectively. The key is copied; the update keeps the value, which must not
// change and not be nil.
func (u *TrieUpdate) Set(key, value []byte) { u.put(key, value) }

// Remove removes a key, prospectively. Removals of contract entries raise the bound, also if they
// are rolled back.
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

// enter adds a key that was never written.
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

// Commit keeps what is prospective, as done for the cause.
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

// Rollback drops what is prospective.
func (u *TrieUpdate) Rollback() {
	for i := range u.prospective {
		u.entries[u.prospective[i].entry].pending = 0
		u.prospective[i].value = nil
	}
	u.prospective = u.prospective[:0]
	u.pendingCodes = u.pendingCodes[:0]
}

// Finalized is the end of an update.
type Finalized struct {
	Trie    Trie
	Changes []primitives.KeyChanges // by key, ascending
	Olds    []OldValue              // of the same keys
}

// OldValue is what the trie below had at a key, as far as the update came to know it: valid as long
// as that trie is held.
type OldValue struct {
	Value []byte // nil: nothing
	Known bool
}

// Finalize updates the trie with the committed changes, recording what that reads. Nothing may be
// prospective.
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
		if !forked { // else what was read may be the other chain's
			olds[i] = OldValue{e.old, e.known}
		}
	}
	t, err := u.trie.Update(updates, u.rec)
	return Finalized{Trie: t, Changes: out, Olds: olds}, err
}

// Keys calls yield for each key with the prefix that has a value, ascending. The whole range of the
// trie is recorded with its values, also under keys that are overwritten (nearcore
// update/iterator.rs). The key is read only and valid for long.
func (u *TrieUpdate) Keys(prefix []byte, yield func(key []byte) error) error {
	return u.keysOf(u.trie, prefix, yield)
}

// keysOf is Keys of the update over another trie: its own, or a part of that.
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

// overlayKeys returns the newest overlay values under a prefix, in no particular order.
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
