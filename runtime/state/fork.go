package state

import "github.com/troupe-chain/troupe/primitives"

// A fork is a TrieUpdate on which receipts run before their turn, in parallel with other forks. The
// work on a fork is divided into spans, for example one span per receipt. When the turn of a span
// comes, Adopt applies the span's results to the parent, if everything that the span read is still
// unchanged.

// forkState holds what only a fork has: the parent, and a log of what its spans read. The current
// span is the span between Begin and End.
type forkState struct {
	parent *TrieUpdate
	id     int32 // number of the fork, positive and unique among the forks of the parent
	base   int32 // value of len(parent.changes) when the fork was created
	start  int32 // value of len(changes) of the fork when the current span began
	reads  []forkRead
	codes  []pendingCode // contract code that committed spans deployed or distributed, in order
	mine   int32         // length of codes when the current span (between Begin and End) began
	apart  bool          // the current span cannot be adopted, because it read state that is not in reads

	codeReads []codeRead
	touches   []touch
}

// codeRead is a lookup of contract code. A lookup at the span's turn may have a different result,
// because a receipt before the span may have deployed or distributed the code by then.
type codeRead struct {
	hash    primitives.Hash
	brought bool // true: the lookup found code that a receipt before the span had deployed or distributed
}

// touch is a call of TrieUpdate.Touch with its arguments and result.
type touch struct {
	hash   primitives.Hash
	before bool
	paid   bool
}

// forkRead is a key that a span read and had not written itself.
type forkRead struct {
	key []byte
	// own is the number of the fork's change that was read, if a previous span of the same fork had
	// changed the key. 0 means that the value came from the parent or the trie.
	own int32
}

// Fork returns a fork of u. The fork reads u's state and leaves u unchanged. Several forks of u may
// be used in parallel, as long as u is not written. Adopt applies the results of a fork's spans to
// u. id must be positive and unique among the forks of u. A fork cannot be forked.
func (u *TrieUpdate) Fork(id int32) *TrieUpdate {
	f := NewUnrecorded(u.trie)
	f.limit = u.limit
	f.values.slab = forkSlab
	f.fork = &forkState{parent: u, id: id, base: int32(len(u.changes))}
	return f
}

// Span is a unit of work on a fork, for example one receipt. Adopt takes over a span as a whole. A
// Span has the recording of the work. The fields from and to delimit the parts of the fork's logs
// that belong to the span.
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

// Begin starts a Span, the next unit of work on a fork. The previous span must have ended.
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

// End ends the span. If the span has a write that was neither committed nor rolled back, Adopt will
// return false.
func (s *Span) End() {
	u, f := s.fork, s.fork.fork
	s.removals, s.apart, s.unfinished = u.removals, f.apart, len(u.prospective) > 0
	s.changesTo, s.causesTo = int32(len(u.changes)), int32(len(u.causes))
	s.readsTo, s.codesTo, s.touchesTo = int32(len(f.reads)), int32(len(f.codes)), int32(len(f.touches))
	s.codeReadsTo, s.accessesTo = int32(len(f.codeReads)), int32(len(u.accesses))
	// In its turn, the span would add at most the bytes that it has recorded alone. If these bytes
	// are below the limit, every check of the limit in the span has the same result in its turn.
	s.overLimit = u.LimitExceeded()
}

// lookupFork does the same as lookupOverlay for a fork. It logs in reads each key that the current
// span has not written itself.
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

// forkCode does the same as broughtCode for a fork. It logs in codeReads each code that it finds,
// unless the current span has deployed or distributed the code itself.
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

// Adopt applies the results of a span to u if a run on the current u would have the same results.
// Otherwise Adopt returns false and leaves u unchanged; the caller then runs the work on u.
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

// Retouched compares the span's paid touches of trie nodes with the same touches on the current u.
// It returns how many more of these touches would be the first touch of their node in the chunk;
// negative if fewer would be. See Touch.
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

// unchanged returns whether all keys still have the values that a span read. A key that the span
// read from the parent must not have been written since the fork was made. A key that a previous
// span of the fork wrote must still have that change, so the previous span must have been adopted.
func (u *TrieUpdate) unchanged(f *forkState, reads []forkRead) bool {
	for i := range reads {
		at, found := u.index[string(reads[i].key)]
		if !found {
			if reads[i].own != 0 {
				return false // the previous span from which this span read was not adopted
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
