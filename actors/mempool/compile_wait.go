package mempool

import (
	"math"
	"time"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// A pooled transaction may be held back for a while. Nothing of its key goes into a chunk after
// it, so the order of nonces is kept; what comes before it goes.
//
// # Compile wait
//
// Problem: a block that calls or deploys code which is not compiled would wait for the
// compiler, up to seconds for one malicious contract.
//
// Invariants:
//   - A transaction that deploys or calls code is offered only when the code is compiled or the
//     compiler has failed on it. A failure must go into a block, so that its result is the
//     chain's.
//   - Held transactions and those after them of the same key may fill half of the pool
//     (hasRoom).
//   - Signers take turns at the compiler, one code a turn, so that one client cannot starve
//     the others.
//   - Each wait ends: by the compiler's own limits, or with the actor (ended).
//
// Outline:
//
//	check: Verdict.Code is set if the code is not compiled
//	holdOrOffer: the transaction enters the pool and holds; its code gets one compileSlot,
//	        queued by signer
//	compile: at most Compiling codes are with the compiler, outside the mailbox
//	holdEnded: all transactions that wait for the code are offered, and their senders answered
//	full: the signer with most in the queue loses its newest transaction (evictHold)
//
// All transactions that wait for the same code share one compilation, at the first turn of any
// of their signers. The code's bytes count once: one transaction, the payer, counts them. If
// the payer leaves, another one takes its place (reassignPayer).
//
// Rejected: compiling while the chunk is applied, which delays every validator; refusing such
// transactions, since deploys are ordinary; charging turns by code size, since the cost of
// compilation does not follow from it.
//
// # Early nonces
//
// A client that sends ten transactions of one key over ten connections has them arrive in any
// order. In neard the next block is far enough away that they meet in the pool, which sorts
// them. In instant mode a block would take the first to arrive and then reject smaller nonces
// forever. So a transaction with a nonce that is a little ahead waits a moment for those before it.
// The next nonce is not delayed.
const (
	// EarlyWait is how long a transaction waits for the one before it: several times the distance
	// between requests of one client, even on a busy machine, and less than the time of a block in
	// neard.
	EarlyWait = 200 * time.Millisecond
	// EarlyGap is the widest gap of nonces that counts as a race. Clients that use the time as
	// nonce leave wider gaps.
	EarlyGap = 1024
	// maxEarly bounds the early transactions of a pool. Beyond it they are offered as they come.
	maxEarly = 10_000
	// Compiling bounds the codes with the compiler, which is first in, first out. Further ones
	// wait here, in turns.
	Compiling = 2
)

// hold is why a transaction in the pool is held back.
type hold struct {
	until   time.Time                 // end of the wait for an earlier nonce; zero: none
	code    func(end <-chan struct{}) // compiles its code; nil: the code is compiled
	name    primitives.Hash           // of the code
	brings  int                       // bytes of code in the transaction
	size    int                       // of the transaction without that code
	pays    bool                      // the code's bytes count with this transaction
	signer  primitives.AccountID
	pending *item // of a batch, answered when the hold ends; nil: the sender was answered
}

// counted is what a hold adds to heldBytes.
func (h *hold) counted() int {
	if h.pays {
		return h.size + h.brings
	}
	return h.size
}

// codeWaiters are the transactions that wait for the same code.
type codeWaiters struct {
	all       map[primitives.Hash]struct{}
	payer     primitives.Hash // counts the code's bytes; zero: none of them brings the code
	compiling bool            // the code is with the compiler
}

// compileSlot is an entry of the compile queue. A transaction that becomes the payer gets a new
// one; the old one is stale.
type compileSlot struct {
	hash primitives.Hash
	pays bool
}

// holdTimeout is a message to self: a hold may have ended.
type holdTimeout struct {
	by   *Actor          // messages of a failed actor are ignored
	hash primitives.Hash // of a transaction that was early, or the name of the code
	code bool            // the compiler is done with the code
}

// holdOrOffer holds or offers a transaction that has just entered the pool, and answers its
// sender. The sender of a batch with pending code is answered when the hold ends: it may
// request a block next and expects the transaction in it. It returns false if there was no room
// to hold the transaction; then it has left the pool.
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

// hold holds a transaction back. It returns false if there was no room; then the transaction
// has left the pool.
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
	if !s.compiling { // else it ends with the compilation in progress
		a.enqueue(hash, hash)
	}
	a.publishCounts()
	_, ok := a.holds[hash]
	return ok
}

// enqueue adds a hold to the compile queue. newest is the transaction that came last. If newest
// is evicted, the caller answers its sender.
func (a *Actor) enqueue(hash, newest primitives.Hash) {
	h := a.holds[hash]
	if l := a.o.Hold; l.Items > 0 && a.compileQueue.Len() >= l.Items || l.Bytes > 0 &&
		a.compileQueue.Bytes()+h.counted() > l.Bytes {
		a.purgeStaleSlots()
	}
	for _, lost := range a.compileQueue.Put(string(h.signer), h.counted(), compileSlot{hash, h.pays}) {
		a.evictHold(lost, newest)
	}
}

// purgeStaleSlots removes stale entries from the compile queue, so that nothing is evicted for
// them.
func (a *Actor) purgeStaleSlots() {
	waiting := -1 // the hold about to be queued has no entry yet
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
	l.Turn = math.MaxInt // as in New
	a.compileQueue = txpool.NewQueue[compileSlot](l)
	for p, ok := old.Take(); ok; p, ok = old.Take() {
		if h, holds := a.holds[p.hash]; holds && h.code != nil && h.pays == p.pays && !a.codes[h.name].compiling &&
			!seen[p.hash] {
			seen[p.hash] = true
			a.compileQueue.Put(string(h.signer), h.counted(), p) // there was room for it
		}
	}
}

// evictHold drops a transaction that waits for its code, since too many do.
func (a *Actor) evictHold(p compileSlot, newest primitives.Hash) {
	h, ok := a.holds[p.hash]
	if !ok || h.code == nil || h.pays != p.pays || a.codes[h.name].compiling { // the entry is stale
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

// removeHold removes a hold. If it paid for its code and others wait for the same code, one of
// them pays from now on.
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

// detach removes the holds of transactions that move to other shards, all at once, so that none
// of them becomes the payer for another.
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
	for s, orphan := range orphans { // which waiter pays does not matter
		if orphan && len(s.all) > 0 {
			a.reassignPayer(s, primitives.Hash{})
		}
	}
	a.publishCounts()
	return out
}

// reassignPayer makes another transaction that brings the code pay for it.
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

// compile starts compilations while there are places at the compiler.
func (a *Actor) compile() {
	for a.compiling < Compiling {
		x, ok := a.compileQueue.Take()
		if !ok {
			break
		}
		h, ok := a.holds[x.hash]
		if !ok || h.code == nil || a.codes[h.name].compiling { // stale, or compiled for another transaction
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

// holdEnded ends holds after their time or the compilation of their code.
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
		for hash := range s.all { // independent of each other, so the order does not matter
			a.compiled(hash)
		}
	}
	a.compile()
}

// compiled ends the wait for code. A wait for an earlier nonce goes on.
func (a *Actor) compiled(hash primitives.Hash) {
	h := a.holds[hash]
	if !time.Now().Before(h.until) {
		a.release(hash)
		return
	}
	a.removeHold(hash, h, hash) // still early; its timer will end it
	if a.holds[hash] = (hold{until: h.until}); h.pending != nil {
		a.answer(*h.pending, messages.Submitted{Pooled: true})
	}
}

// release ends a hold, and offers the transaction.
func (a *Actor) release(hash primitives.Hash) {
	if a.unhold(hash, messages.Submitted{Pooled: true}) && a.pool.Find(hash) != nil {
		a.o.Status.offer()
	}
}

// unhold ends a hold, answers its sender if that is pending, and returns whether there was a
// hold.
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

// isHeld returns whether a transaction at the front of its group is held back. A predecessor
// that is in the pool is in the chunk being chosen, so the transaction is not early.
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

// hasRoom returns whether a transaction may enter the pool. One that follows a transaction
// which waits for its code cannot leave the pool before that, so such ones may fill only half
// of it.
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
