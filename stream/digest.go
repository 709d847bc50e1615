package stream

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Digest creates the notices of one block. Each part is created on first use and then shared. Safe
// for concurrent use.
type Digest struct {
	*Block
	details  func() ([]Details, error)
	text     lazy[*text]
	message  lazy[*message]
	size     atomic.Int64 // size of message in bytes
	block    lazy[*view.Notice]
	outcomes lazy[*items]
	events   lazy[*items]
	txs      lazy[map[primitives.AccountID][]*primitives.SignedTransaction]
	executed lazy[map[primitives.Hash]Executed]
}

// NewDigest returns the Digest of a block. details returns data that only the block's message
// needs. The Digest calls details at most once.
func NewDigest(b *Block, details func() ([]Details, error)) *Digest {
	return &Digest{Block: b, details: details}
}

type lazy[T any] struct {
	once  sync.Once
	value T
}

func (l *lazy[T]) get(build func() T) T {
	l.once.Do(func() { l.value = build() })
	return l.value
}

// items are numbered within the block, so that a cursor means the same for every subscriber.
type items struct {
	list []item
	of   map[primitives.AccountID][]int
}

type item struct {
	view.Notice
	standard, event string
}

func (x *items) add(account primitives.AccountID, it item) {
	if x.of == nil {
		x.of = map[primitives.AccountID][]int{}
	}
	x.of[account] = append(x.of[account], len(x.list))
	x.list = append(x.list, it)
}

// At returns the block's height and hash.
func (d *Digest) At() view.At { return view.At{Height: d.Block.Block.Header.Height, Hash: d.Hash} }

// Notices yields notices of a subscription to blocks, outcomes or events, in order, until yield
// returns false. The first yielded notice is that of the item after item number `after`.
func (d *Digest) Notices(q *view.Subscription, after int, yield func(*view.Notice) bool) {
	var all *items
	switch q.Topic {
	case view.TopicBlocks:
		yield(d.block.get(d.makeBlock))
		return
	case view.TopicOutcomes:
		all = d.outcomes.get(d.makeOutcomes)
	case view.TopicEvents:
		all = d.events.get(d.makeEvents)
	default:
		return
	}
	for _, i := range all.of[q.Account] {
		it := &all.list[i]
		if i <= after || q.Standard != "" && q.Standard != it.standard || q.Event != "" && q.Event != it.event {
			continue
		}
		if !yield(&it.Notice) {
			return
		}
	}
}

func (d *Digest) notice(index int, name string) view.Notice {
	c := view.Cursor{At: d.At(), Index: index}
	b := view.AppendCursor([]byte(`"cursor":`), &c)
	b = append(append(append(b, `,"`...), name...), `":`...)
	return view.Notice{Cursor: c, Body: b}
}

func (d *Digest) makeBlock() *view.Notice {
	n := d.notice(view.WholeBlock, "block")
	n.Body = view.AppendBlock(n.Body, d.Author, d.Block.Block)
	return &n
}

func (d *Digest) makeOutcomes() *items {
	x := new(items)
	for i := range d.Shards {
		proven := Proven(d.Block, &d.Shards[i])
		for k := range proven {
			n := d.notice(len(x.list), "outcome")
			n.Body = view.AppendOutcomeProof(n.Body, &proven[k])
			x.add(proven[k].Outcome.ExecutorID, item{Notice: n})
		}
	}
	return x
}

// eventPrefix is the prefix of a log that is an event (NEP-297).
const eventPrefix = "EVENT_JSON:"

// makeEvents parses the events of receipts that did not fail. The effects of failed receipts were
// discarded, so their events are void.
func (d *Digest) makeEvents() *items {
	x := new(items)
	for i := range d.Shards {
		outcomes := d.Shards[i].Outcomes
		for k := range outcomes {
			o := &outcomes[k]
			if o.Outcome.Status.Kind == primitives.StatusFailure {
				continue
			}
			for at, log := range o.Outcome.Logs {
				it, ok := d.event(o, at, log, len(x.list))
				if ok {
					x.add(o.Outcome.ExecutorID, it)
				}
			}
		}
	}
	return x
}

// event parses a log line as an event (NEP-297). ok is false if it is not an event. at is the index
// of the outcome, index that of the line in the outcome.
func (d *Digest) event(o *primitives.OutcomeWithID, at int, log string, index int) (it item, ok bool) {
	log = strings.TrimSpace(log)
	if !strings.HasPrefix(log, eventPrefix) {
		return it, false
	}
	var e struct {
		Standard, Version, Event string
		Data                     json.RawMessage
	}
	if json.Unmarshal([]byte(log[len(eventPrefix):]), &e) != nil || e.Standard == "" || e.Event == "" {
		return it, false
	}
	n := d.notice(index, "event")
	b := view.AppendAccountID(append(n.Body, `{"contract_id":`...), o.Outcome.ExecutorID)
	b = append(b, `,"data":`...)
	if len(e.Data) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, e.Data...)
	}
	b = view.AppendString(append(b, `,"event":`...), e.Event)
	b = appendInt(append(b, `,"log_index":`...), at)
	b = view.AppendHash(append(b, `,"receipt_id":`...), &o.ID)
	b = view.AppendString(append(b, `,"standard":`...), e.Standard)
	n.Body = append(view.AppendString(append(b, `,"version":`...), e.Version), '}')
	return item{Notice: n, standard: e.Standard, event: e.Event}, true
}

// Transactions returns the block's transactions whose signer or receiver is the account, in order.
func (d *Digest) Transactions(account primitives.AccountID) []*primitives.SignedTransaction {
	return d.txs.get(func() map[primitives.AccountID][]*primitives.SignedTransaction {
		out := map[primitives.AccountID][]*primitives.SignedTransaction{}
		for i := range d.Shards {
			if d.Shards[i].Chunk == nil {
				continue
			}
			for _, tx := range d.Shards[i].Chunk.Transactions {
				out[tx.SignerID] = append(out[tx.SignerID], tx)
				if tx.ReceiverID != tx.SignerID {
					out[tx.ReceiverID] = append(out[tx.ReceiverID], tx)
				}
			}
		}
		return out
	})[account]
}

// Executed is the outcome of a transaction or receipt in the block.
type Executed struct {
	Outcome *primitives.OutcomeWithID
	Refund  primitives.Hash // id of the outcome's last receipt if that is a refund; zero: it is not
}

// Executed returns the block's outcome of a transaction or receipt.
func (d *Digest) Executed(id primitives.Hash) (Executed, bool) {
	e, ok := d.executed.get(func() map[primitives.Hash]Executed {
		out := map[primitives.Hash]Executed{}
		for i := range d.Shards {
			s := &d.Shards[i]
			for k := range s.Outcomes {
				e := Executed{Outcome: &s.Outcomes[k]}
				if ids := e.Outcome.Outcome.ReceiptIDs; len(ids) > 0 && s.Refunds[ids[len(ids)-1]] {
					e.Refund = ids[len(ids)-1]
				}
				out[e.Outcome.ID] = e
			}
		}
		return out
	})[id]
	return e, ok
}

// Reverted returns the notice that blocks are no longer on the chain, so that all notices of these
// blocks are void. The next notice is about the block after to.
func Reverted(lost []view.At, to view.At) *view.Notice {
	c := view.Cursor{At: to, Index: view.WholeBlock}
	b := append(view.AppendCursor([]byte(`"cursor":`), &c), `,"reverted":[`...)
	for i := range lost {
		b = append(b, comma(i)...)
		b = view.AppendHash(append(b, `{"block_hash":`...), &lost[i].Hash)
		b = append(appendInt(append(b, `,"height":`...), int(lost[i].Height)), '}')
	}
	return &view.Notice{Cursor: c, Body: append(b, ']')}
}
