package mempool

import (
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// A transaction may lie in the pool and be held back for a while: then nothing of its key goes into a chunk behind it, so the
// order of nonces stays what it would be, and what comes before it goes.
//
// One that deploys code is held until the code is compiled, so that a block that calls it does not have to wait; at most
// MaxCode of them, and at most CodeWait.
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
	// MaxCode bounds the deployments that are held at a time; beyond it they take what turn they get.
	MaxCode = 64
	// CodeWait is the longest that one is held.
	CodeWait = 2 * time.Second
)

// hold is why a transaction of the pool is held back.
type hold struct {
	until time.Time
	code  bool
	item  *item // a batch's, whose sender is told when it is held no more; nil: he was told
}

// over is a note to self: a hold has ended.
type over struct{ hash primitives.Hash }

// keep decides whether a transaction that has just come into the pool is held; if not, it is offered. Its sender is told, but for
// that of a batch with code: that one may ask for a block next, and wants it in there.
func (a *Actor) keep(x item, v *Verdict) {
	tx, hash := x.tx, x.tx.Hash()
	pooled := messages.Submitted{Pooled: true}
	switch {
	case v.Code != nil && a.codes < MaxCode:
		select {
		case <-v.Code: // it was known
			a.o.Front.offer()
			a.answer(x, pooled)
			return
		default:
		}
		a.codes++
		h := hold{until: time.Now().Add(CodeWait), code: true}
		if x.batch != nil {
			h.item = &x
		} else {
			a.answer(x, pooled)
		}
		a.holds[hash] = h
		done := v.Code
		a.aside(func() {
			limit := time.NewTimer(CodeWait)
			defer limit.Stop()
			select {
			case <-done:
			case <-limit.C:
			}
			a.self(over{hash})
		})
	case v.Ahead && len(a.holds) < maxEarly && !a.pool.HasPredecessor(tx):
		a.holds[hash] = hold{until: time.Now().Add(EarlyWait)}
		time.AfterFunc(EarlyWait, func() { a.self(over{hash}) })
		a.answer(x, pooled)
	default:
		a.o.Front.offer()
		a.answer(x, pooled)
	}
}

// release ends a hold.
func (a *Actor) release(hash primitives.Hash) {
	h, ok := a.holds[hash]
	if !ok {
		return
	}
	delete(a.holds, hash)
	if h.code {
		a.codes--
	}
	if h.item != nil {
		a.answer(*h.item, messages.Submitted{Pooled: true})
	}
	if a.pool.Find(hash) != nil {
		a.o.Front.offer()
	}
}

// held tells whether a transaction at the front of its group is held back: a predecessor that is in the pool is then in the
// chunk that is being chosen.
func (a *Actor) held(tx *primitives.SignedTransaction) bool {
	if len(a.holds) == 0 {
		return false
	}
	h, ok := a.holds[tx.Hash()]
	if !ok || !time.Now().Before(h.until) {
		return false
	}
	return h.code || !a.pool.HasPredecessor(tx) && a.o.Overtook(tx)
}
