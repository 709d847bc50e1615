package mempool

import (
	"math"
	"time"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// A transaction may lie in the pool and be held back for a while: then nothing of its key goes into a chunk behind it, so the
// order of nonces stays what it would be, and what comes before it goes.
//
// One that deploys or calls code which is not compiled is held until it is, so that no block has to wait for that. Compilation
// takes seconds at the worst and has one core, so they wait for it in turns of their signers: Compiling at a time are with the
// compiler. None passes by, but what the compiler has failed on goes into a block, as it must. What is held, and what is behind it
// of its key, may not fill the pool: see room. All that wait for the same code end with one compilation, so they have one turn, the first
// that any of their signers has, and the code that they bring counts once: one of them pays for it with its place in the queue.
//
// The other case is a race. A client that sends ten transactions of one key at once does so over ten connections, and they
// arrive in any order. In neard the next block is far enough away that all of them meet in the pool, which sorts them. In
// instant mode a block would take the first to arrive, and with a higher nonce at its front refuse all others for ever. So a
// transaction whose nonce is a little ahead waits a moment for those before it; one that is next, as a client that waits for
// each of its transactions sends them, loses no time.
const (
	// EarlyWait is how long a transaction waits for the one before it: several times what the requests of one client are
	// apart, also on a machine that is busy with the client itself, and less than a block takes in neard.
	EarlyWait = 200 * time.Millisecond
	// EarlyGap is the widest gap of nonces that is taken for a race; clients that count by the clock leave wider ones.
	EarlyGap = 1024
	// maxEarly bounds the number of those that wait in a pool; beyond it they take what turn they get.
	maxEarly = 10_000
	// Compiling bounds what is handed to the compiler at a time, which takes what comes first; more wait here, in turns.
	Compiling = 2
)

// hold is why a transaction of the pool is held back.
type hold struct {
	until  time.Time                 // of one that is early
	code   func(end <-chan struct{}) // has its code compiled; nil: it is
	name   primitives.Hash           // of the code
	brings int                       // bytes of the code that the transaction brings
	size   int                       // of the transaction, without them
	pays   bool                      // they are counted with it
	signer primitives.AccountID
	pending   *item // a batch's, whose sender is told when it is held no more; nil: the sender was told
}

// publishCounts is what a hold takes of the bytes.
func (h *hold) counted() int {
	if h.pays {
		return h.size + h.brings
	}
	return h.size
}

// codeWaiters are the transactions that wait for the same code.
type codeWaiters struct {
	all   map[primitives.Hash]struct{}
	payer primitives.Hash // zero: none of them brings the code
	compiling  bool            // it is being compiled
}

// compileSlot is a place in the queue for the compiler. A transaction has another one when it comes to pay.
type compileSlot struct {
	hash primitives.Hash
	pays bool
}

// holdEnded is a note to self: a hold may have ended.
type holdTimeout struct {
	by   *Actor          // one that has failed since hears of nothing
	hash primitives.Hash // of a transaction that was early, or the name of code
	code bool            // a place at the compiler is free
}

// holdOrOffer decides whether a transaction that has just come into the pool is held; if not, it is offered. Its sender is told, but for
// that of a batch with code: that one may ask for a block next, and wants it in there. False: there was no room for it after all.
func (a *Actor) holdOrOffer(x item, v *Verdict) bool {
	pooled := messages.Submitted{Pooled: true}
	early := v.Ahead && len(a.holds) < maxEarly && !a.pool.HasPredecessor(x.tx)
	if !early && v.Code == nil {
		a.o.Status.offer()
		a.answer(x, pooled)
		return true
	}
	h := hold{code: v.Code, name: v.CodeName, brings: v.CodeBytes}
	if early {
		h.until = time.Now().Add(EarlyWait)
	}
	if v.Code != nil && x.batch != nil {
		h.pending = &x
	}
	if !a.hold(x.tx, h) {
		a.answer(x, messages.Submitted{Err: noRoom(limitHeld)})
		return false
	}
	if h.pending == nil {
		a.answer(x, pooled)
	}
	if early {
		note := holdTimeout{by: a, hash: x.tx.Hash()}
		time.AfterFunc(EarlyWait, func() { a.self(note) })
	}
	a.compile()
	return true
}

// hold holds a transaction back; false: there is no room for that, and it has left the pool.
func (a *Actor) hold(tx *primitives.SignedTransaction, h hold) bool {
	hash := tx.Hash()
	if h.code == nil {
		a.holds[hash] = h
		return true
	}
	h.signer, h.size = tx.SignerID, tx.Size()-h.brings
	s := a.codes[h.name]
	if s == nil {
		s = &codeWaiters{all: map[primitives.Hash]struct{}{}}
		a.codes[h.name] = s
	}
	s.all[hash] = struct{}{}
	if h.pays = h.brings > 0 && s.payer.IsZero(); h.pays {
		s.payer = hash
	}
	a.holds[hash] = h
	a.held++
	a.heldBytes += h.counted()
	if !s.compiling { // else it ends with those that are with the compiler
		a.enqueue(hash, hash)
	}
	a.publishCounts()
	_, ok := a.holds[hash]
	return ok
}

// enqueue gives a hold a place in the queue for the compiler. newest is the transaction that has come last: if that has no place, its sender
// is told by the caller.
func (a *Actor) enqueue(hash, newest primitives.Hash) {
	h := a.holds[hash]
	if l := a.o.Hold; l.Items > 0 && a.compileQueue.Len() >= l.Items || l.Bytes > 0 && a.compileQueue.Bytes()+h.counted() > l.Bytes {
		a.purgeStaleSlots()
	}
	for _, lost := range a.compileQueue.Put(string(h.signer), h.counted(), compileSlot{hash, h.pays}) {
		a.evictHold(lost, newest)
	}
}

// purgeStaleSlots takes out of the queue the places of what waits no more, or has another, so that nothing is lost for them.
func (a *Actor) purgeStaleSlots() {
	waiting := -1 // what is about to get a place has none
	for _, s := range a.codes {
		if !s.compiling {
			waiting += len(s.all)
		}
	}
	if a.compileQueue.Len() <= waiting {
		return
	}
	old, seen := a.compileQueue, map[primitives.Hash]bool{}
	l := a.o.Hold
	l.Turn = math.MaxInt // as New has it
	a.compileQueue = txpool.NewQueue[compileSlot](l)
	for p, ok := old.Take(); ok; p, ok = old.Take() {
		if h, holds := a.holds[p.hash]; holds && h.code != nil && h.pays == p.pays && !a.codes[h.name].compiling && !seen[p.hash] {
			seen[p.hash] = true
			a.compileQueue.Put(string(h.signer), h.counted(), p) // there was room for it
		}
	}
}

// evictHold drops a transaction that waits for its code, since too many do.
func (a *Actor) evictHold(p compileSlot, newest primitives.Hash) {
	h, ok := a.holds[p.hash]
	if !ok || h.code == nil || h.pays != p.pays || a.codes[h.name].compiling { // the place is of before
		return
	}
	a.o.Tally.HoldsDropped.Add(1)
	a.pool.Remove(p.hash)
	if p.hash == newest {
		a.removeHold(p.hash, h, newest)
		return
	}
	a.removeHold(p.hash, h, newest)
	why := noRoom(limitHeld)
	if h.pending != nil {
		a.answer(*h.pending, messages.Submitted{Err: why})
	}
	a.reportDropped([]messages.DroppedTransaction{{Hash: p.hash, Err: why, Source: string(h.signer)}})
}

// removeHold ends a hold. Where others wait for the code that was counted with it, it counts with one of those from now on.
func (a *Actor) removeHold(hash primitives.Hash, h hold, newest primitives.Hash) {
	delete(a.holds, hash)
	if h.code == nil {
		return
	}
	a.held--
	a.heldBytes -= h.counted()
	s := a.codes[h.name]
	delete(s.all, hash)
	switch {
	case len(s.all) == 0:
		delete(a.codes, h.name)
	case h.pays:
		a.reassignPayer(s, newest)
	}
	a.publishCounts()
}

// detach ends the holds of transactions that go to other shards, together: none of them pays for another.
func (a *Actor) detach(txs []based) (out map[primitives.Hash]hold) {
	out = map[primitives.Hash]hold{}
	orphans := map[*codeWaiters]bool{}
	for i := range txs {
		hash := txs[i].tx.Hash()
		h, ok := a.holds[hash]
		if !ok || h.code == nil {
			continue
		}
		out[hash] = h
		delete(a.holds, hash)
		a.held--
		a.heldBytes -= h.counted()
		s := a.codes[h.name]
		if delete(s.all, hash); len(s.all) == 0 {
			delete(a.codes, h.name)
		}
		orphans[s] = orphans[s] || h.pays
	}
	for s, orphan := range orphans { // which one pays does not matter
		if orphan && len(s.all) > 0 {
			a.reassignPayer(s, primitives.Hash{})
		}
	}
	a.publishCounts()
	return out
}

// reassignPayer has another one that brings the code pay for it.
func (a *Actor) reassignPayer(s *codeWaiters, newest primitives.Hash) {
	s.payer = primitives.Hash{}
	for hash := range s.all { // which of them does not matter
		h := a.holds[hash]
		if h.brings == 0 {
			continue
		}
		h.pays, s.payer = true, hash
		a.holds[hash] = h
		a.heldBytes += h.brings
		if !s.compiling {
			a.enqueue(hash, newest)
		}
		return
	}
}

// compile has code compiled as long as there are places.
func (a *Actor) compile() {
	for a.compiling < Compiling {
		x, ok := a.compileQueue.Take()
		if !ok {
			break
		}
		h, ok := a.holds[x.hash]
		if !ok || h.code == nil || a.codes[h.name].compiling { // it has left the pool, and may have come again; or it is being compiled for another
			continue
		}
		a.codes[h.name].compiling = true
		a.compiling++
		note, code, end := holdTimeout{by: a, hash: h.name, code: true}, h.code, a.ended
		a.runAside(func() {
			code(end)
			a.self(note)
		})
	}
	a.publishCounts()
}

// holdEnded ends holds whose time has come.
func (a *Actor) holdEnded(m holdTimeout) {
	if m.by != a {
		return
	}
	if !m.code {
		if h, ok := a.holds[m.hash]; ok && h.code == nil {
			a.release(m.hash)
		}
		return
	}
	a.compiling--
	if s := a.codes[m.hash]; s != nil && s.compiling {
		for hash := range s.all { // each is told on its own, so the order does not matter
			a.compiled(hash)
		}
	}
	a.compile()
}

// compiled ends a hold whose code is there.
func (a *Actor) compiled(hash primitives.Hash) {
	h := a.holds[hash]
	if !time.Now().Before(h.until) {
		a.release(hash)
		return
	}
	a.removeHold(hash, h, hash) // it is early still, of which there will be a note
	if a.holds[hash] = (hold{until: h.until}); h.pending != nil {
		a.answer(*h.pending, messages.Submitted{Pooled: true})
	}
}

// release ends a hold, and offers what it held.
func (a *Actor) release(hash primitives.Hash) {
	if a.unhold(hash, messages.Submitted{Pooled: true}) && a.pool.Find(hash) != nil {
		a.o.Status.offer()
	}
}

// unhold ends a hold, if there is one, and tells its sender, if that waits for it.
func (a *Actor) unhold(hash primitives.Hash, m messages.Submitted) bool {
	h, ok := a.holds[hash]
	if !ok {
		return false
	}
	a.removeHold(hash, h, hash)
	if h.pending != nil {
		a.answer(*h.pending, m)
	}
	return true
}

// isHeld tells whether a transaction at the front of its group is held back: a predecessor that is in the pool is then in the
// chunk that is being chosen.
func (a *Actor) isHeld(tx *primitives.SignedTransaction) bool {
	if len(a.holds) == 0 {
		return false
	}
	h, ok := a.holds[tx.Hash()]
	if !ok || h.code == nil && !time.Now().Before(h.until) {
		return false
	}
	return h.code != nil || !a.pool.HasPredecessor(tx) && a.o.IsAhead(tx)
}

// hasRoom tells whether a transaction may come into the pool: what is behind one that waits for its code can't leave it before that, and
// may take half of it.
func (a *Actor) hasRoom(tx *primitives.SignedTransaction) bool {
	if a.held == 0 || !a.pool.Crowded() {
		return true
	}
	front := a.pool.Front(tx)
	if front == nil || tx.Nonce.Nonce < front.Nonce.Nonce {
		return true
	}
	return a.holds[front.Hash()].code == nil
}
