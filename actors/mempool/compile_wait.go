package mempool

import (
	"math"
	"time"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// This file holds transactions: a held transaction is in the pool but is not offered to chunks for
// a while. Transactions of the same access key with higher nonces are not offered either, so that
// nonces stay in order. Transactions of the key with lower nonces are offered.
//
// # Compile wait
//
// Problem: a block that deploys or calls code that is not compiled yet would have to wait for the
// compiler. For a malicious contract, the compilation can last seconds.
//
// Invariants:
//   - A transaction that deploys or calls code is offered once the code is compiled or its
//     compilation has failed. After a failure it is offered too, because the failure must be
//     the transaction's result on chain.
//   - Held transactions, and those that follow them with the same key, may fill half of the
//     pool (hasRoom).
//   - Signers take turns at the compiler with one code each, so that one signer cannot starve
//     the other ones.
//   - Every wait ends: by the limits of the compiler, or when the actor ends (ended).
//
// Outline:
//
//	check: sets Verdict.Code if the transaction's code is not compiled
//	holdOrOffer: adds a hold for a pooled transaction, and queues a compileSlot for its
//	        code under its signer
//	compile: starts compilations outside the mailbox, at most Compiling at a time
//	holdEnded: offers all transactions that waited for the code and answers their senders
//	evictHold: when the queue is full, drops the newest transaction of the signer that has
//	        most in the queue
//
// Transactions that wait for the same code share one compilation. The compilation starts at the
// first turn of any signer of these transactions. The bytes of the code count once toward the queue
// limits: they count for one of the transactions, the payer. If the payer leaves the pool, another
// transaction becomes the payer (reassignPayer).
//
// Rejected: compiling while the chunk is applied. That would delay every validator. Rejected:
// refusing such transactions. Deployments are ordinary. Rejected: longer turns for larger code.
// Size does not predict the compile time.
//
// # Early nonces
//
// Problem: if a client sends ten transactions of one key over ten connections, they arrive in any
// order. With neard, the next block usually comes after all of them, and the pool sorts the
// transactions by nonce. In instant mode a block would take the first transaction that arrives, and
// that would make all smaller nonces invalid.
//
// So a transaction whose nonce is at most EarlyGap above the key's next nonce is held for
// EarlyWait, or until its predecessors are in the pool. A transaction with the next nonce is not
// held.
const (
	// EarlyWait is how long a transaction is held for smaller nonces. EarlyWait is several times
	// the delay between requests of one client, even on a busy machine, and shorter than neard's
	// block time.
	EarlyWait = 200 * time.Millisecond
	// EarlyGap is the maximum gap above the next nonce for which a transaction is held. Clients
	// that use the time as nonce leave wider gaps, and the pool does not hold such clients'
	// transactions.
	EarlyGap = 1024
	// maxEarly is the maximum number of transactions of a pool that are held for smaller nonces.
	// Transactions beyond this number are offered to chunks at once.
	maxEarly = 10_000
	// Compiling is the maximum number of concurrent compilations of this pool. Codes beyond this
	// number wait in the pool, where signers take turns. The compiler itself works first in, first
	// out.
	Compiling = 2
)

// hold describes why a pooled transaction is not offered to chunks yet.
type hold struct {
	// until is the end of the wait for smaller nonces. Zero: the transaction does not wait for
	// smaller nonces.
	until time.Time
	// compiles the code that the transaction waits for; nil: the transaction waits for no code
	code    func(end <-chan struct{})
	name    primitives.Hash // hash of the code
	brings  int             // number of bytes of the code that the transaction contains
	size    int             // size of the transaction without that code, in bytes
	pays    bool            // the code's bytes count for this transaction (codeWaiters.payer)
	signer  primitives.AccountID
	pending *item // submission to answer when the hold ends; nil: the submission is already answered
}

// counted returns how many bytes the hold adds to Actor.heldBytes.
func (h *hold) counted() int {
	if h.pays {
		return h.size + h.brings
	}
	return h.size
}

// codeWaiters are the transactions that wait for the compilation of the same code.
type codeWaiters struct {
	all map[primitives.Hash]struct{}
	// payer is the transaction for which the code's bytes count. Zero: no transaction contains the
	// code.
	payer     primitives.Hash
	compiling bool // the compilation is running
}

// compileSlot is an entry of the compile queue. A slot is stale if its field pays differs from the
// field pays of the transaction's hold. A transaction that becomes the payer gets a new slot.
type compileSlot struct {
	hash primitives.Hash
	pays bool
}

// holdTimeout is a message from the actor to itself: a compilation or the EarlyWait of a
// transaction has ended.
type holdTimeout struct {
	by   *Actor          // actor that sent the message; messages of a failed actor are ignored
	hash primitives.Hash // hash of the transaction; hash of the code if code is set
	code bool            // a compilation has ended; false: an EarlyWait has ended
}

// holdOrOffer handles a transaction that has just entered the pool. It adds a hold or offers the
// transaction to chunks, and answers the sender. If the transaction is in a batch and waits for a
// compilation, holdOrOffer delays the answer until the hold ends: the client may request a block
// after the answer, and expects the transaction in that block. If there is no memory budget for the
// hold, holdOrOffer removes the transaction from the pool and returns false.
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

// hold adds a hold for a transaction. If there is no memory budget for the hold, method hold
// removes the transaction from the pool and returns false.
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
	if !s.compiling { // the end of a running compilation also ends this hold
		a.enqueue(hash, hash)
	}
	a.publishCounts()
	_, ok := a.holds[hash]
	return ok
}

// enqueue adds a hold to the compile queue. newest is the transaction that was added last. If
// enqueue evicts newest, the caller answers the sender of newest.
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

// purgeStaleSlots removes stale slots from the compile queue, so that stale slots do not cause
// evictions.
func (a *Actor) purgeStaleSlots() {
	waiting := -1 // not counted: the hold that is about to be queued has no slot yet
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
	l.Turn = math.MaxInt // a signer's turn ends with each Take, as in New
	a.compileQueue = txpool.NewQueue[compileSlot](l)
	for p, ok := old.Take(); ok; p, ok = old.Take() {
		if h, holds := a.holds[p.hash]; holds && h.code != nil && h.pays == p.pays && !a.codes[h.name].compiling &&
			!seen[p.hash] {
			seen[p.hash] = true
			// Put evicts nothing here, because the queue held these slots before.
			a.compileQueue.Put(string(h.signer), h.counted(), p)
		}
	}
}

// evictHold drops a transaction that waits for code, because the compile queue is full.
func (a *Actor) evictHold(p compileSlot, newest primitives.Hash) {
	h, ok := a.holds[p.hash]
	if !ok || h.code == nil || h.pays != p.pays || a.codes[h.name].compiling { // the slot is outdated
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

// removeHold removes a hold. If the hold's transaction was the payer of a code, another transaction
// that waits for the code becomes the payer.
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

// detach removes the holds of transactions that move to the pools of other shards. The result has
// the holds by transaction hash. detach assigns new payers only after it has removed all these
// holds. So no moving transaction becomes a payer.
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
	for s, orphan := range orphans { // choose another payer among the waiting transactions
		if orphan && len(s.all) > 0 {
			a.reassignPayer(s, primitives.Hash{})
		}
	}
	a.publishCounts()
	return out
}

// reassignPayer makes another transaction that waits for the code of s the payer of that code, if
// there is such a transaction.
func (a *Actor) reassignPayer(s *codeWaiters, newest primitives.Hash) {
	s.payer = primitives.Hash{}
	for hash := range s.all { // any transaction will do
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

// compile starts compilations while fewer than Compiling run.
func (a *Actor) compile() {
	for a.compiling < Compiling {
		x, ok := a.compileQueue.Take()
		if !ok {
			break
		}
		h, ok := a.holds[x.hash]
		// The slot is outdated, or the code is already being compiled.
		if !ok || h.code == nil || a.codes[h.name].compiling {
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

// holdEnded handles a holdTimeout. After the EarlyWait of a transaction, the transaction is offered
// to chunks unless it also waits for a compilation. After a compilation, all transactions that
// waited for the code are offered unless they also wait for smaller nonces. Then the next
// compilation starts.
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
		for hash := range s.all { // the order does not matter, because the holds are independent
			a.compiled(hash)
		}
	}
	a.compile()
}

// compiled ends a transaction's wait for code. If the transaction also waits for smaller nonces, it
// stays held.
func (a *Actor) compiled(hash primitives.Hash) {
	h := a.holds[hash]
	if !time.Now().Before(h.until) {
		a.release(hash)
		return
	}
	a.removeHold(hash, h, hash) // the EarlyWait continues; its timer ends the hold
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

// unhold ends a hold and returns whether there was one. If a sender waits for an answer, unhold
// sends m.
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

// isHeld returns whether tx, at the front of its group, is held. An early transaction whose
// predecessor is in the pool is not held, because the chunk takes the predecessor too.
func (a *Actor) isHeld(tx *primitives.SignedTransaction) bool {
	if len(a.holds) == 0 {
		return false
	}
	h, ok := a.holds[tx.Hash()]
	if !ok || h.code == nil && !time.Now().Before(h.until) {
		return false
	}
	return h.code != nil || !a.pool.HasPredecessor(tx) && a.o.Chain.IsAhead(tx)
}

// hasRoom returns whether a transaction may enter the pool. While a transaction of the same key
// with a lower nonce waits for code, a chunk cannot take tx. In that case tx may enter only if the
// pool is at most half full.
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
