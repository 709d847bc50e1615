// Package subscriptions tells subscribers what happens on the chain: an actor for each of them, which walks along the chain behind its
// cursor, and one above all.
//
//	in      Request from the node; ChainMoved when there is a new head, room at a sink, Unsubscribe
//	out     notices to the sink of each; its end, once
//	state   walk: a cursor, and of transactions those that are not final; nothing is kept for a reader: what he has not been told
//	        yet is read from the chain when he has room
//	units   heights in blocks
//	bound   step blocks for each message; the subscriptions that the RPC admits; maxTracked transactions of one
//	errors  a cursor behind which nothing is stored any more ends with EndGone; a failure of the node's with EndFailed and the cursor
//	source  our own
//
// A notice is told exactly once and in the order of blocks. Where the chain leaves blocks of which was told, that is told, and then
// what came in their place. All this follows from the chain and the cursor alone, so who resumes at a cursor is told what he would
// have been told.
package subscriptions

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// Chain is what subscribers follow. Its methods are safe for concurrent use.
type Chain interface {
	// Tip is the last block of a finality.
	Tip(view.RefKind) (view.At, error)
	// Step says how the chain of a finality goes on behind a block: *view.CursorError. Of blocks that it has dropped, and of which nothing is
	// stored any more, it knows the last ones.
	Step(after view.At, finality view.RefKind) (Step, error)
	// Past gives a place to who reads the chain from a height on, until back is called. false: there is none now; wake is called once when it is worth
	// asking again, and back says that nobody will. It never waits.
	Past(from primitives.Height, wake func()) (back func(), ok bool)
	// Ahead is told that somebody will want the text of the head's message when that is final: it may be made now. It never waits.
	Ahead()
	// Soon is told of a block that is on its way to the disk, and that somebody waits for the text of the next head: that of the block may be made now.
	// It never waits.
	Soon(primitives.Hash)
	// Digest returns what is told of a block: a *view.LookupError if it is not stored any more.
	Digest(view.At) (*stream.Digest, error)
}

// Step is how a chain goes on behind a block.
type Step struct {
	Next view.At   // the block that follows; zero: there is none yet
	Lost []view.At // if the block is no part of the chain any more: it and those before it which are none either, the last first
	Fork view.At   // with Lost: the block behind which the chain has gone another way
}

// Of one subscription.
const (
	blocksPerRun       = 16     // blocks that are looked at for one message
	resumeReach      = 256    // blocks before a cursor in which transactions are looked for that were not final there
	maxTracked = 20_000 // transactions that are not final
)

// errTracked ends a subscription.
var errTracked = fmt.Errorf("more than %d transactions of the account are not final", maxTracked)

// readState says how a walk goes on.
type readState byte

const (
	rests readState = iota // until the chain moves
	again                // there is more to do
	full                 // until there is room
	later                // until there is a place for who reads the past
	over                 // it has ended
)

// chainReader is one subscription.
type chainReader struct {
	q      *view.Subscription
	chain  Chain
	ledger waiter.Ledger
	sink   view.Sink
	wants  func(bool) // told when it begins and ends to wait for final blocks
	wake   func()     // has it run again, by any goroutine
	leave  func()     // it waits for a place no more; nil: it does not

	at      view.Cursor
	ready   bool // the transactions at the cursor are known
	live    bool // it has been at the tip
	pending *stream.Digest
	tracks  openTxs
	waits   bool // wants(true) was the last
}

// run goes on as far as it may.
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
		if w.at.Index != view.NothingYet { // else it is this step's
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
			if w.q.Topic == view.TopicTransactions { // that reads the past, for which there has to be a place
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

// wantsTexts tells whether the text of each message is asked for.
func wantsTexts(q *view.Subscription) bool {
	return q.Topic == view.TopicMessages && (!q.Inside || q.Texts.Load())
}

// dropped tells whether the chain has left the block at the cursor, of which nothing is stored any more. If nothing was told of it, the walk
// goes on behind the one before.
func (w *chainReader) dropped() bool {
	s, err := w.chain.Step(w.at.At, w.q.Finality)
	if err != nil || len(s.Lost) == 0 {
		return false
	}
	if w.at.Index == view.NothingYet {
		w.at, w.pending = view.Cursor{At: s.Fork, Index: view.WholeBlock}, nil
		if len(s.Lost) > 1 {
			w.at.At = s.Lost[1]
		} else if w.q.Topic == view.TopicTransactions { // what is known may be that block's
			w.ready = false
		}
	}
	return true
}

// noRoom waits for room; one that was at the tip and has fallen too far behind ends. Who reads the past keeps no block meanwhile: there may be
// many, each at another.
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

// tell offers what is left of the block at the cursor; false: there is no room for all of it.
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

// tellTransactions offers the milestones of a block. They are numbered by their place among those of this subscription.
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

// want says whether final blocks are waited for.
func (w *chainReader) want() {
	if waits := len(w.tracks.open) > 0; waits != w.waits {
		w.waits = waits
		if w.wants != nil {
			w.wants(waits)
		}
	}
}

// end forgets all.
func (w *chainReader) end() {
	if w.leave != nil {
		w.leave()
	}
	w.tracks = openTxs{}
	w.want()
}

// resume finds the transactions that were not final at the cursor: before its block, if that is not told to its end.
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

// absent tells whether a block is not stored.
func absent(err error) bool {
	var e *view.LookupError
	return errors.As(err, &e)
}

// position is how far the chain was with a block.
func position(d *stream.Digest) (head, final primitives.Height) { return d.At().Height, d.Final }
