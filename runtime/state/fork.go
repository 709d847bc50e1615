package state

import "github.com/troupe-chain/troupe/primitives"

// A fork is a TrieUpdate on which receipts run ahead of their turn, in parallel with other forks. Its
// work consists of spans, one for each receipt for example. When the turn of a span comes, Adopt
// applies its results to the parent, but only if everything that the span read is still the same.

// forkState is the part of a TrieUpdate that only a fork has: the parent, and a log of what its spans
// read. The current span is the one between Begin and End.
type forkState struct {
	parent *TrieUpdate
	id     int32 // positive, unique among the forks of the parent
	base   int32 // number of the parent's changes when the fork was made
	start  int32 // number of the fork's changes when the current span began
	reads  []forkRead
	codes  []pendingCode // contract code that spans deployed or distributed, committed, in order
	mine   int32         // number of codes when the current span began
	apart  bool          // the current span read state that reads does not contain; it cannot be adopted

	codeReads []codeRead
	touches   []touch
}

// codeRead is a lookup of contract code whose result may differ when the span's turn comes, because it
// depends on whether an earlier receipt of the chunk deployed or distributed the code.
type codeRead struct {
	hash    primitives.Hash
	brought bool // such a receipt had done so when the span ran
}

// touch is a call of TrieUpdate.Touch, with its arguments and its result before.
type touch struct {
	hash   primitives.Hash
	before bool
	paid   bool
}

// forkRead is a key that a span read and had not written itself.
type forkRead struct {
	key []byte
	own int32 // number of the change of an earlier span of the fork; 0: read from the parent or the trie
}

// Fork returns a fork of u: an update that reads through to u and leaves u unchanged. Several forks of u
// may be used in parallel, as long as u is not written. Adopt applies their results to u. id must be
// positive and unique among the forks of u. A fork cannot be forked.
func (u *TrieUpdate) Fork(id int32) *TrieUpdate {
	f := NewUnrecorded(u.trie)
	f.limit = u.limit
	f.values.slab = forkSlab
	f.fork = &forkState{parent: u, id: id, base: int32(len(u.changes))}
	return f
}

// Span is a unit of work on a fork that is adopted as a whole, for example one receipt. It has the
// recording of the work, and the ranges of the fork's logs that belong to it (from, to).
type Span struct {
	fork                         *TrieUpdate
	rec                          Recording
	removals                     uint64
	changesFrom, causesFrom      int32
	changesTo, causesTo          int32
	readsFrom, codesFrom         int32
	readsTo, codesTo             int32
	codeReadsFrom, codeReadsTo   int32
	touchesFrom, touchesTo       int32
	accessesFrom, accessesTo     int32
	overLimit, apart, unfinished bool
}

// Begin starts a span of a fork. The previous span must have ended.
func (u *TrieUpdate) Begin() (s Span) {
	f := u.fork
	u.rec, u.removals = u.trie.NewRecording(), 0
	f.start, f.mine, f.apart = int32(len(u.changes)), int32(len(f.codes)), false
	return Span{
		fork: u, rec: u.rec, changesFrom: f.start, causesFrom: int32(len(u.causes)),
		readsFrom: int32(len(f.reads)), codesFrom: f.mine, codeReadsFrom: int32(len(f.codeReads)), touchesFrom: int32(len(f.touches)),
		accessesFrom: int32(len(u.accesses)),
	}
}

// End ends the span. If a write was neither committed nor rolled back, Adopt later refuses the
// span.
func (s *Span) End() {
	u, f := s.fork, s.fork.fork
	s.removals, s.apart, s.unfinished = u.removals, f.apart, len(u.prospective) > 0
	s.changesTo, s.causesTo = int32(len(u.changes)), int32(len(u.causes))
	s.readsTo, s.codesTo, s.touchesTo = int32(len(f.reads)), int32(len(f.codes)), int32(len(f.touches))
	s.codeReadsTo, s.accessesTo = int32(len(f.codeReads)), int32(len(u.accesses))
	// The span alone recorded at least what it would have added in its turn. If that is below the
	// limit, every check of a limit in the span has the same result in its turn.
	s.overLimit = u.LimitExceeded()
}

// lookupFork is lookupOverlay for a fork. It appends to reads each key that the current span has not
// written itself.
func (u *TrieUpdate) lookupFork(key []byte) (value []byte, ok bool) {
	f := u.fork
	if i, found := u.index[string(key)]; found {
		e := &u.entries[i]
		if e.pending != 0 {
			return u.prospective[e.pending-1].value, true
		}
		if e.last != 0 {
			if e.last <= f.start {
				f.reads = append(f.reads, forkRead{u.values.copy(key), e.last})
			}
			return u.changes[e.last-1].value, true
		}
	}
	f.reads = append(f.reads, forkRead{u.values.copy(key), 0})
	return f.parent.overlaid(key)
}

// forkCode is broughtCode for a fork. It appends to codeReads each code that it finds and that the
// current span did not deploy or distribute itself.
func (u *TrieUpdate) forkCode(hash primitives.Hash) (code []byte, ok bool) {
	f := u.fork
	for i := len(u.pendingCodes) - 1; i >= 0; i-- {
		if u.pendingCodes[i].hash == hash {
			return u.pendingCodes[i].code, true
		}
	}
	for i := len(f.codes) - 1; i >= int(f.mine); i-- {
		if f.codes[i].hash == hash {
			return f.codes[i].code, true
		}
	}
	if code, ok = u.codes[hash]; !ok {
		code, ok = f.parent.codes[hash]
	}
	if ok {
		f.codeReads = append(f.codeReads, codeRead{hash, true})
	}
	return code, ok
}

// Adopt applies the results of a span to u if the span would have the same results when it ran on u
// now. Otherwise it returns false and leaves u unchanged; the caller then runs the work on u.
func (u *TrieUpdate) Adopt(s *Span) bool {
	from := s.fork
	f := from.fork
	if s.overLimit || s.apart || s.unfinished || !u.unchanged(f, f.reads[s.readsFrom:s.readsTo]) {
		return false
	}
	for _, r := range f.codeReads[s.codeReadsFrom:s.codeReadsTo] {
		if _, brought := u.codes[r.hash]; brought != r.brought {
			return false
		}
	}
	u.owner = f.id
	at := s.changesFrom
	for cause := s.causesFrom; cause < s.causesTo; cause++ {
		for ; at < s.changesTo && from.changes[at].cause == cause; at++ {
			c := &from.changes[at]
			key := from.entries[c.entry].key
			i, found := u.index[key]
			if !found {
				i = u.enter(key)
			}
			u.ownerChange = at + 1
			u.write(i, c.value)
		}
		u.Commit(from.causes[cause].Kind, from.causes[cause].Hash)
	}
	u.owner, u.ownerChange = 0, 0
	for _, c := range f.codes[s.codesFrom:s.codesTo] {
		if u.codes == nil {
			u.codes = make(map[primitives.Hash][]byte)
		}
		u.codes[c.hash] = c.code
	}
	for _, t := range f.touches[s.touchesFrom:s.touchesTo] {
		u.Touch(t.hash, t.paid)
	}
	for _, a := range from.accesses[s.accessesFrom:s.accessesTo] {
		u.access(a)
	}
	u.removals += s.removals
	if u.rec != nil {
		u.rec.Merge(s.rec)
	}
	return true
}

// Retouched returns how many more of the span's paid touches would be the first touch of their
// node in the chunk if the span ran now. It is negative if fewer would be. See Touch.
func (u *TrieUpdate) Retouched(s *Span) (more int64) {
	touches := s.fork.fork.touches[s.touchesFrom:s.touchesTo]
	if len(touches) == 0 {
		return 0
	}
	seen := make(map[primitives.Hash]bool, len(touches))
	for _, t := range touches {
		switch before := u.touched[t.hash] || seen[t.hash]; {
		case !t.paid:
		case before && !t.before:
			more--
		case !before && t.before:
			more++
		}
		seen[t.hash] = true
	}
	return more
}

// unchanged returns whether all keys still have the values that a span read. Keys that it read from the
// parent must not have been written since the fork was made. Keys that an earlier span of the fork wrote
// must have exactly the change that the span read, which requires that the earlier span was adopted.
func (u *TrieUpdate) unchanged(f *forkState, reads []forkRead) bool {
	for i := range reads {
		at, found := u.index[string(reads[i].key)]
		if !found {
			if reads[i].own != 0 {
				return false // the span that wrote it was not adopted
			}
			continue
		}
		e := &u.entries[at]
		switch {
		case e.pending != 0:
			return false
		case reads[i].own == 0 && e.last > f.base:
			return false
		case reads[i].own != 0 && (e.owner != f.id || e.ownerChange != reads[i].own):
			return false
		}
	}
	return true
}
