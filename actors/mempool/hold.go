package mempool

import (
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// A transaction may lie in the pool and be held back for a while: then nothing of its key goes into a chunk behind it, so the
// order of nonces stays what it would be, and what comes before it goes.
//
// One that deploys or calls code which is not compiled is held until it is, so that no block has to wait for that. Compilation
// takes seconds at the worst and has one core, so they wait for it in turns of their signers: Compiling at a time are with the
// compiler. None passes by, but what the compiler has failed on goes into a block, as it must. What is held, and what is behind it
// of its key, may not fill the pool: see room.
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
	until time.Time                 // of one that is early
	code  func(end <-chan struct{}) // has its code compiled; nil: it is
	size  int                       // of the transaction, with code
	turn  bool                      // it is being compiled
	item  *item                     // a batch's, whose sender is told when it is held no more; nil: he was told
}

// unready is what waits for its code to be compiled.
type unready struct{ hash primitives.Hash }

// over is a note to self: a hold may have ended.
type over struct {
	by   *Actor // one that has failed since hears of nothing
	hash primitives.Hash
	code bool // a place at the compiler is free
}

// keep decides whether a transaction that has just come into the pool is held; if not, it is offered. Its sender is told, but for
// that of a batch with code: that one may ask for a block next, and wants it in there.
func (a *Actor) keep(x item, v *Verdict) {
	pooled := messages.Submitted{Pooled: true}
	early := v.Ahead && len(a.holds) < maxEarly && !a.pool.HasPredecessor(x.tx)
	if !early && v.Code == nil {
		a.o.Front.offer()
		a.answer(x, pooled)
		return
	}
	var h hold
	if early {
		h.until = time.Now().Add(EarlyWait)
	}
	if v.Code != nil && x.batch != nil {
		h.item = &x
	}
	if !a.hold(x.tx, h, v.Code) {
		a.answer(x, messages.Submitted{}) // as where the pool is full
		return
	}
	if h.item == nil {
		a.answer(x, pooled)
	}
	if early {
		note := over{by: a, hash: x.tx.Hash()}
		time.AfterFunc(EarlyWait, func() { a.self(note) })
	}
	a.compile()
}

// hold holds a transaction back; false: there is no room for that, and it has left the pool.
func (a *Actor) hold(tx *primitives.SignedTransaction, h hold, code func(<-chan struct{})) bool {
	hash := tx.Hash()
	if code == nil {
		a.holds[hash] = h
		return true
	}
	h.code, h.size = code, tx.Size()
	a.holds[hash] = h
	a.held++
	a.heldBytes += h.size
	for _, lost := range a.unready.Put(string(tx.SignerID), h.size, unready{hash}) {
		a.lose(lost.hash, hash)
	}
	a.counted()
	_, ok := a.holds[hash]
	return ok
}

// lose drops a transaction that waits for its code, since too many do. newest is the one that has come last.
func (a *Actor) lose(hash, newest primitives.Hash) {
	h, ok := a.holds[hash]
	if !ok || h.turn { // it has left the pool
		return
	}
	a.o.Tally.Unheld.Add(1)
	a.pool.Remove(hash)
	a.forget(hash, h)
	a.counted()
	if hash == newest {
		return
	}
	if h.item != nil {
		a.answer(*h.item, messages.Submitted{})
	}
	a.drop([]primitives.Hash{hash})
}

// forget ends a hold.
func (a *Actor) forget(hash primitives.Hash, h hold) {
	delete(a.holds, hash)
	if h.code != nil {
		a.held--
		a.heldBytes -= h.size
		a.counted()
	}
}

// compile has code compiled as long as there are places.
func (a *Actor) compile() {
	for a.compiling < Compiling {
		x, ok := a.unready.Take()
		if !ok {
			break
		}
		h, ok := a.holds[x.hash]
		if !ok || h.turn || h.code == nil { // it has left the pool, and may have come again
			continue
		}
		h.turn = true
		a.holds[x.hash] = h
		a.compiling++
		note, code, end := over{by: a, hash: x.hash, code: true}, h.code, a.ended
		a.aside(func() {
			code(end)
			a.self(note)
		})
	}
	a.counted()
}

// over ends a hold whose time has come.
func (a *Actor) over(m over) {
	if m.by != a {
		return
	}
	if m.code {
		a.compiling--
	}
	h, ok := a.holds[m.hash]
	switch {
	case !ok:
	case !m.code:
		if h.code == nil {
			a.release(m.hash)
		}
	default:
		if time.Now().Before(h.until) { // it is early still, of which there will be a note
			a.forget(m.hash, h)
			if a.holds[m.hash] = (hold{until: h.until}); h.item != nil {
				a.answer(*h.item, messages.Submitted{Pooled: true})
			}
			break
		}
		a.release(m.hash)
	}
	if m.code {
		a.compile()
	}
}

// release ends a hold, and offers what it held.
func (a *Actor) release(hash primitives.Hash) {
	h, ok := a.holds[hash]
	if !ok {
		return
	}
	a.forget(hash, h)
	if h.item != nil {
		a.answer(*h.item, messages.Submitted{Pooled: true})
	}
	if a.pool.Find(hash) != nil {
		a.o.Front.offer()
	}
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
	return h.code != nil || !a.pool.HasPredecessor(tx) && a.o.Overtook(tx)
}

// room tells whether a transaction may come into the pool: what is behind one that waits for its code can't leave it before that, and
// may take half of it.
func (a *Actor) room(tx *primitives.SignedTransaction) bool {
	if a.unready.Len() == 0 && a.compiling == 0 || !a.pool.Crowded() {
		return true
	}
	front := a.pool.Front(tx)
	if front == nil || tx.Nonce.Nonce < front.Nonce.Nonce {
		return true
	}
	return a.holds[front.Hash()].code == nil
}
