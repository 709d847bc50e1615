// Package subscriptions tells subscribers what happens on the chain: one actor for each, which
// reads along the chain from its cursor, and a supervisor of all.
//
//	in      Request from the node; ChainMoved at a new head, room at a sink, Unsubscribe
//	out     notices to each sink, and its end, once
//	state   chainReader: a cursor, and the transactions that are not final; nothing is queued
//	        for a slow subscriber: it is read from the chain when there is room
//	units   heights in blocks
//	bound   blocksPerRun blocks for each message; the subscriptions that the RPC server
//	        admits; maxTracked transactions of one
//	errors  EndGone if nothing is stored after the cursor any more; EndFailed with the cursor
//	        for a failure of the node
//	source  our own
//
// Each notice comes exactly once, in the order of blocks. If the chain drops blocks that were
// reported, that is reported, then the blocks that replace them. Notices follow from chain and
// cursor alone, so a subscriber that resumes at a cursor gets what it would have got without
// the interruption.
package subscriptions

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// Chain is what subscribers read. Safe for concurrent use.
type Chain interface {
	// Tip returns the last block of a finality.
	Tip(view.RefKind) (view.At, error)
	// Step returns how the chain of a finality continues after a block. Error: *view.CursorError.
	// It knows the last dropped blocks even if nothing is stored of them any more.
	Step(after view.At, finality view.RefKind) (Step, error)
	// Past admits a reader of the chain from a height on, until back is called. ok is false if
	// there is no room now; then wake is called once when it is worth trying again, and back
	// cancels that. It never waits.
	Past(from primitives.Height, wake func()) (back func(), ok bool)
	// Ahead hints that the text of the head's message will be needed when it is final. It never
	// waits.
	Ahead()
	// Soon hints that the text of a block that is on its way to disk will be needed as the next
	// head's. It never waits.
	Soon(primitives.Hash)
	// Digest returns what is reported of a block. Error: *view.LookupError if it is not stored any
	// more.
	Digest(view.At) (*stream.Digest, error)
}

// Step is how a chain continues after a block.
type Step struct {
	Next view.At // the next block; zero: none yet
	// set if the block is no longer part of the chain: it and its ancestors that are not either,
	// newest first
	Lost []view.At
	Fork view.At // with Lost: the block after which the chain continues differently
}

// Bounds of one subscription.
const (
	blocksPerRun = 16     // blocks for each message
	resumeReach  = 256    // blocks before a cursor that are searched for transactions that were not final there
	maxTracked   = 20_000 // transactions that are not final
)

// errTracked ends a subscription with too many open transactions.
var errTracked = fmt.Errorf("more than %d transactions of the account are not final", maxTracked)

// readState is how a reader goes on.
type readState byte

const (
	rests readState = iota // until the chain has a new head
	again                  // there is more to do
	full                   // until the sink has room
	later                  // until the past may be read
	over                   // it has ended
)

// chainReader reads the chain for one subscription. Not safe for concurrent use.
type chainReader struct {
	q      *view.Subscription
	chain  Chain
	ledger waiter.Ledger
	sink   view.Sink
	wants  func(bool) // called when it begins and ends to need final blocks
	wake   func()     // runs it again, from any goroutine
	leave  func()     // cancels its wait for Chain.Past; nil: it does not wait

	at      view.Cursor
	ready   bool // the transactions at the cursor are known
	live    bool // it has been at the tip
	pending *stream.Digest
	tracks  openTxs
	waits   bool // the last value of wants
}

// run reads as far as it may.
func (w *chainReader) run() (v readState, end view.EndReason, err error) {
	from := w.at.Height
	if !w.ready && w.q.Topic == view.TopicTransactions {
		from -= min(from, resumeReach)
	}
	back, ok := w.chain.Past(from, w.wake)
	if !ok {
		w.leave = back
		return later, "", nil
	}
	w.leave = nil
	defer back()
	if !w.ready {
		if err := w.resume(); err != nil {
			return w.failed(err)
		}
		w.ready = true
	}
	for range blocksPerRun {
		s := Step{}
		if w.at.Index != view.NothingYet { // else the block is this run's
			var err error
			if s, err = w.chain.Step(w.at.At, w.q.Finality); err != nil {
				return w.failed(err)
			}
		}
		if w.at.Index != view.WholeBlock && len(s.Lost) == 0 {
			done, err := w.tell()
			if absent(err) && w.dropped() {
				if !w.ready {
					return again, "", nil
				}
				continue
			}
			if err != nil {
				return w.failed(err)
			}
			if !done {
				return w.noRoom()
			}
			if w.q.Hashes != nil && w.tracks.finished() {
				return over, view.EndDone, nil
			}
			if s, err = w.chain.Step(w.at.At, w.q.Finality); err != nil {
				return w.failed(err)
			}
		}
		switch {
		case len(s.Lost) > 0:
			if !w.sink.Offer(stream.Reverted(s.Lost, s.Fork)) {
				return w.noRoom()
			}
			w.at, w.pending = view.Cursor{At: s.Fork, Index: view.WholeBlock}, nil
			if w.q.Topic == view.TopicTransactions { // it reads the past again, which needs an admission
				w.ready = false
				return again, "", nil
			}
		case s.Next == view.At{}:
			w.live = true
			if w.q.Finality != view.RefOptimistic && wantsTexts(w.q) {
				w.chain.Ahead()
			}
			return rests, "", nil
		default:
			w.at = view.Cursor{At: s.Next, Index: view.NothingYet}
		}
	}
	return again, "", nil
}

// wantsTexts returns whether the text of each message is needed.
func wantsTexts(q *view.Subscription) bool {
	return q.Topic == view.TopicMessages && (!q.Inside || q.Texts.Load())
}

// dropped returns whether the chain has dropped the block at the cursor, of which nothing is
// stored any more. If nothing was reported of it, the reader goes on after the block before.
func (w *chainReader) dropped() bool {
	s, err := w.chain.Step(w.at.At, w.q.Finality)
	if err != nil || len(s.Lost) == 0 {
		return false
	}
	if w.at.Index == view.NothingYet {
		w.at, w.pending = view.Cursor{At: s.Fork, Index: view.WholeBlock}, nil
		if len(s.Lost) > 1 {
			w.at.At = s.Lost[1]
		} else if w.q.Topic == view.TopicTransactions { // the known transactions may be of that block
			w.ready = false
		}
	}
	return true
}

// noRoom waits for room. A reader that was at the tip and is too far behind ends. A reader of
// the past keeps no block meanwhile, since there may be many.
func (w *chainReader) noRoom() (readState, view.EndReason, error) {
	if w.live {
		tip, err := w.chain.Tip(w.q.Finality)
		if err != nil {
			return w.failed(err)
		}
		if uint64(tip.Height) > uint64(w.at.Height)+w.q.Lag {
			return over, view.EndSlow, nil
		}
	} else {
		w.pending = nil
	}
	return full, "", nil
}

func (w *chainReader) failed(err error) (readState, view.EndReason, error) {
	var lost *view.CursorError
	if errors.As(err, &lost) || absent(err) {
		return over, view.EndGone, nil
	}
	return over, view.EndFailed, err
}

// tell offers what is left of the block at the cursor, and returns false if there is no room
// for all of it.
func (w *chainReader) tell() (done bool, err error) {
	d := w.pending
	if d == nil || d.Hash != w.at.Hash {
		if d, err = w.chain.Digest(w.at.At); err != nil {
			return false, err
		}
		w.pending = d
	}
	done = true
	switch w.q.Topic {
	case view.TopicTransactions:
		if done, err = w.tellTransactions(d); err != nil {
			return false, err
		}
	case view.TopicMessages:
		n, err := d.Message(w.q)
		if err != nil {
			return false, err
		}
		done = w.sink.Offer(n)
	default:
		d.Notices(w.q, w.at.Index, func(n *view.Notice) bool {
			if done = w.sink.Offer(n); done {
				w.at = n.Cursor
			}
			return done
		})
	}
	if done {
		w.at, w.pending = view.Cursor{At: d.At(), Index: view.WholeBlock}, nil
	}
	return done, nil
}

// tellTransactions offers the milestones of a block. They are numbered by their place among
// those of the subscription.
func (w *chainReader) tellTransactions(d *stream.Digest) (bool, error) {
	t := &w.tracks
	if t.at != d.At() {
		if err := t.advance(w.q, d); err != nil {
			return false, err
		}
		w.want()
	}
	for w.at.Index+1 < len(t.news) {
		n := t.notice(w.at.Index + 1)
		if !w.sink.Offer(n) {
			return false, nil
		}
		w.at = n.Cursor
	}
	return true, nil
}

// want updates whether final blocks are needed.
func (w *chainReader) want() {
	if waits := len(w.tracks.open) > 0; waits != w.waits {
		w.waits = waits
		if w.wants != nil {
			w.wants(waits)
		}
	}
}

// end releases everything.
func (w *chainReader) end() {
	if w.leave != nil {
		w.leave()
	}
	w.tracks = openTxs{}
	w.want()
}

// resume finds the transactions that were not final at the cursor, or before its block if that
// was not reported completely.
func (w *chainReader) resume() error {
	if w.q.Topic != view.TopicTransactions {
		return nil
	}
	w.tracks = openTxs{}
	at, err := w.chain.Digest(w.at.At)
	if err != nil {
		return err
	}
	if w.at.Index != view.WholeBlock {
		h := at.Block.Block.Header
		before, err := w.chain.Digest(view.At{Height: h.PrevHeight, Hash: h.PrevHash})
		if err == nil {
			at = before
		} else if !absent(err) {
			return err
		}
	}
	if err := w.tracks.resume(w.q, w.chain, w.ledger, at); err != nil {
		return err
	}
	w.want()
	return nil
}

// absent returns whether an error means that a block is not stored.
func absent(err error) bool {
	var e *view.LookupError
	return errors.As(err, &e)
}

// position returns the position of the chain with a block.
func position(d *stream.Digest) (head, final primitives.Height) { return d.At().Height, d.Final }
