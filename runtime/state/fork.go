package state

import "github.com/troupe-chain/troupe/primitives"

// forkState is the additional state of a fork: its parent, and what its results depend on.
type forkState struct {
	parent *TrieUpdate
	id     int32
	base   int32 // number of the parent's changes when the fork was made
	start  int32 // number of the fork's changes when the present span began
	reads  []forkRead
	codes  []pendingCode // committed ones, in order
	mine   int32         // number of codes when the present span began
	apart  bool          // the present span depends on state that reads do not describe

	codeReads []codeRead
	touches   []touch
}

// codeRead is a lookup of code that may have another result in the span's turn: of code that this
// chunk brought before the span, or had not brought.
type codeRead struct {
	hash    primitives.Hash
	brought bool
}

// touch is a call of Touch and its result.
type touch struct {
	hash   primitives.Hash
	before bool
	paid   bool
}

// forkRead is a key that a span read: from the parent or the trie (own is 0), or as written by an
// earlier span of the fork (own is the number of that change).
type forkRead struct {
	key []byte
	own int32
}

// Fork returns an update on top of u that leaves u unchanged. Work can run on it before its turn,
// in parallel with other forks. It is adopted later if nothing that it read has changed. u must not
// be written while forks run. A fork cannot be forked. id must be positive and new.
func (u *TrieUpdate) Fork(id int32) *TrieUpdate {
	f := NewUnrecorded(u.trie)
	f.limit = u.limit
	f.values.slab = forkSlab
	f.fork = &forkState{parent: u, id: id, base: int32(len(u.changes))}
	return f
}

// Span is a piece of work on a fork, for example one receipt: its commits, its reads and its
// recording.
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

// Begin starts a span of a fork. The work follows, then End.
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

// End ends the present span. All of its writes must be committed or rolled back.
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

// lookupFork is lookupOverlay of a fork. It notes reads of keys that the same span has not written.
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

// forkCode is broughtCode of a fork. It notes lookups that the same span does not answer.
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

// Adopt takes over the work of a span as if it ran now, if the result would be the same. If it
// returns false, u is unchanged.
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

// Retouched returns the number of the span's paid touches that would now be the first of their node
// and were not when the span ran, minus the number of those with the reverse.
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

// unchanged returns whether all keys still have the values that a span read. Keys read from the
// parent must not have been written since the fork. Keys written by the fork must have the fork's
// last value.
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
