// Package subscriptions sends clients a stream of notices about the chain. Each subscription has an
// actor that reads the chain from the subscription's cursor on. A supervisor is the parent of these
// actors.
//
//	in      Request from the node; ChainMoved at a new head, room when a sink has room,
//	        Unsubscribe
//	out     notices to each sink, and its end, once
//	state   chainReader: a cursor, and the transactions that are not final. Nothing is queued
//	        for a slow client: its reader continues from the cursor when there is room
//	units   heights in blocks
//	bound   blocksPerRun blocks for each message; the RPC server limits the subscriptions;
//	        maxTracked transactions of each
//	errors  EndGone if blocks after the cursor are no longer stored; EndFailed, with the
//	        cursor, for a failure of the node
//	source  our own
//
// Each notice is sent exactly once, in the order of blocks. If reported blocks are no longer
// canonical, a notice reports that, and notices about the replacing blocks follow. Notices depend
// only on chain and cursor. So a client that resumes at a cursor gets the same notices as without
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

// Chain is what readers need from the chain. Safe for concurrent use.
type Chain interface {
	// Tip returns the newest block of the given finality.
	Tip(view.RefKind) (view.At, error)
	// Step returns how the chain of a finality continues after a block. Error: *view.CursorError if
	// the block is unknown. Step still knows recently removed blocks, even if the store no longer
	// has them.
	Step(after view.At, finality view.RefKind) (Step, error)
	// Past requests permission to read old blocks from a height on. Past does not block. If ok is
	// true, the reader must call back when it has finished. If ok is false, there are too many
	// readers of old blocks. In that case Past calls wake once when the reader should call Past
	// again, unless the reader has called back before.
	Past(from primitives.Height, wake func()) (back func(), ok bool)
	// Ahead is a hint that a reader will need the message text of the current head once the head is
	// final. Ahead does not block.
	Ahead()
	// Soon is a hint about a block that is not on disk yet: a reader will need the block's message
	// text as soon as the block is the head. Soon does not block.
	Soon(primitives.Hash)
	// Digest returns the content of a block. Error: *view.LookupError if the block is not stored.
	Digest(view.At) (*stream.Digest, error)
}

// Step describes how a chain continues after a block.
type Step struct {
	Next view.At // next block of the chain; zero: none yet
	// Lost is set if the block is no longer canonical. Lost contains the block and those of its
	// ancestors that are not canonical either, newest first.
	Lost []view.At
	Fork view.At // newest canonical ancestor of the block; only if Lost is set
}

// the reader waits for nothing: it can read more blocks now
const (
	blocksPerRun = 16 // number of blocks that are read per message to the actor
	// blocks before a cursor that are searched for transactions that were not final at the cursor
	resumeReach = 256
	maxTracked  = 20_000 // maximum number of transactions of one subscription that are not final
)

// errTracked ends a subscription in which more than maxTracked transactions are not final.
var errTracked = fmt.Errorf("more than %d transactions of the account are not final", maxTracked)

// readState is what a reader waits for.
type readState byte

const (
	rests readState = iota // the reader waits for the next head
	again                  // the reader waits for nothing, as it can read more blocks
	full                   // the reader waits for space in the sink
	later                  // the reader waits for permission to read old blocks
	over                   // the subscription has ended
)

// chainReader reads the chain for one subscription. Not safe for concurrent use.
type chainReader struct {
	q      *view.Subscription
	chain  Chain
	ledger waiter.Ledger
	sink   view.Sink
	wants  func(bool) // called with true if the reader needs final blocks from now on, with false if not
	wake   func()     // runs the reader again; called from any goroutine
	leave  func()     // cancels the pending request to Chain.Past; nil: none is pending

	at      view.Cursor
	ready   bool // true: tracks holds the transactions that are not final at the cursor
	live    bool // true: the reader has reached the tip at least once
	pending *stream.Digest
	tracks  openTxs
	waits   bool // argument of the last call of wants
}

// run reads blocks until the reader must wait or blocksPerRun blocks are read. end and err are set
// only if the result is over.
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
		if w.at.Index != view.NothingYet { // NothingYet: the block at the cursor was not reported yet
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
			// The transactions are searched in old blocks again, which needs permission.
			if w.q.Topic == view.TopicTransactions {
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

// wantsTexts returns whether the subscription needs the text of each block's message.
func wantsTexts(q *view.Subscription) bool {
	return q.Topic == view.TopicMessages && (!q.Inside || q.Texts.Load())
}

// dropped handles a block at the cursor that is not stored. The result is whether the block was
// removed from the chain. If the reader has reported nothing of the block, dropped moves the cursor
// to the block before.
func (w *chainReader) dropped() bool {
	s, err := w.chain.Step(w.at.At, w.q.Finality)
	if err != nil || len(s.Lost) == 0 {
		return false
	}
	if w.at.Index == view.NothingYet {
		w.at, w.pending = view.Cursor{At: s.Fork, Index: view.WholeBlock}, nil
		if len(s.Lost) > 1 {
			w.at.At = s.Lost[1]
		} else if w.q.Topic == view.TopicTransactions { // the removed block may include known transactions
			w.ready = false
		}
	}
	return true
}

// noRoom decides what happens when the sink is full. A reader that had already reached the tip ends
// if it is now farther behind than the allowed lag. A reader of old blocks releases the block at
// its cursor while it waits, because there may be many such readers.
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

// tell offers the unsent notices of the block at the cursor. It returns false if the sink has no
// space for all these notices.
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

// tellTransactions offers notices about the levels that transactions have reached with the block d.
// The cursor's index is the number of these notices of the block that were already sent.
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

// want calls wants if the need for final blocks has changed.
func (w *chainReader) want() {
	if waits := len(w.tracks.open) > 0; waits != w.waits {
		w.waits = waits
		if w.wants != nil {
			w.wants(waits)
		}
	}
}

// end releases the reader's data and cancels its request to Chain.Past.
func (w *chainReader) end() {
	if w.leave != nil {
		w.leave()
	}
	w.tracks = openTxs{}
	w.want()
}

// resume finds the transactions that were not final at the cursor. If the cursor's block was only
// partly reported, resume finds the transactions that were not final at the block before.
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

// position returns the heights of a block and of the block that is final according to that block.
func position(d *stream.Digest) (head, final primitives.Height) { return d.At().Height, d.Final }
