package subscriptions

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// tree is a Chain with branches, in memory.
type tree struct {
	blocks map[primitives.Hash]*stream.Digest
	head   view.At
	first  primitives.Height // lowest stored height
	forget map[primitives.Hash]bool
	made   int
	busy   bool // Past gives no permission
	knows  bool // Step knows the parents of blocks that are no longer stored
}

func newTree() *tree {
	t := &tree{blocks: map[primitives.Hash]*stream.Digest{}, forget: map[primitives.Hash]bool{}}
	t.head = t.add(view.At{}, 0, nil, nil)
	return t
}

// add makes a block on prev and returns it.
func (t *tree) add(prev view.At, height primitives.Height, outcomes []primitives.OutcomeWithID,
	txs []*primitives.SignedTransaction) view.At {
	t.made++
	final := primitives.Height(max(0, int(height)-2))
	header := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	header.Height, header.PrevHeight, header.PrevHash, header.Timestamp = height, prev.Height, prev.Hash, uint64(t.made)
	h := header.Init()
	chunk := &primitives.Chunk{}
	chunk.Transactions = txs
	b := &stream.Block{Author: "a", Block: &primitives.Block{Header: h}, Hash: h.Hash(), Final: final,
		Shards: []stream.Shard{{Chunk: chunk, Outcomes: outcomes}}}
	t.blocks[b.Hash] = stream.NewDigest(b, func() ([]stream.Details,
		error) {
		return make([]stream.Details, len(b.Shards)), nil
	})
	return view.At{Height: height, Hash: b.Hash}
}

func (t *tree) prev(at view.At) view.At {
	h := t.blocks[at.Hash].Block.Block.Header
	return view.At{Height: h.PrevHeight, Hash: h.PrevHash}
}

// chain returns the blocks from the first one to tip.
func (t *tree) chain(tip view.At) (out []view.At) {
	for at := tip; at.Hash != (primitives.Hash{}); at = t.prev(at) {
		out = append(out, at)
	}
	slices.Reverse(out)
	return out
}

func (t *tree) Tip(kind view.RefKind) (view.At, error) {
	if kind == view.RefOptimistic {
		return t.head, nil
	}
	chain := t.chain(t.head)
	for i := len(chain) - 1; ; i-- {
		if chain[i].Height <= t.blocks[t.head.Hash].Final {
			return chain[i], nil
		}
	}
}

func (t *tree) has(at view.At) bool { return slices.Contains(t.chain(t.head), at) }

func (*tree) Ahead() {}

func (*tree) Soon(primitives.Hash) {}

func (t *tree) Past(primitives.Height, func()) (func(), bool) { return func() {}, !t.busy }

func (t *tree) Step(after view.At, kind view.RefKind) (s Step, err error) {
	tip, _ := t.Tip(kind)
	if tip == after {
		return s, nil
	}
	for lost := after; !t.has(lost); lost = s.Fork {
		s.Lost = append(s.Lost, lost)
		if t.blocks[lost.Hash] == nil || t.forget[lost.Hash] && !t.knows {
			return s, &view.CursorError{Earliest: t.first}
		}
		s.Fork = t.prev(lost)
	}
	if len(s.Lost) > 0 {
		return s, nil
	}
	chain := t.chain(tip)
	if i := slices.Index(chain, after); i >= 0 && i+1 < len(chain) {
		s.Next = chain[i+1]
	}
	return s, nil
}

func (t *tree) Digest(at view.At) (*stream.Digest, error) {
	if d := t.blocks[at.Hash]; d != nil && at.Height >= t.first && !t.forget[at.Hash] {
		return d, nil
	}
	return nil, view.UnknownBlock(at.Hash)
}

// Outcome is part of waiter.Ledger.
func (t *tree) Outcome(id primitives.Hash, upto primitives.Height) (messages.Executed, bool, error) {
	for _, at := range t.chain(t.head) {
		if e, ok := t.blocks[at.Hash].Executed(id); ok && at.Height <= upto {
			return messages.Executed{Outcome: e.Outcome, Block: at.Hash, Height: at.Height, Refund: e.Refund}, true, nil
		}
	}
	return messages.Executed{}, false, nil
}

// sink takes room notices and is full afterwards.
type sink struct {
	room  int
	got   []*view.Notice
	asked func()
}

func (s *sink) Offer(n *view.Notice) bool {
	if s.room == 0 {
		return false
	}
	s.room--
	s.got = append(s.got, n)
	return true
}
func (s *sink) WhenRoom(f func())                { s.asked = f }
func (s *sink) End(view.EndReason, *view.Cursor) {}

// reader is a client that maintains its view of the chain from the notices it gets.
type reader struct {
	t     *testing.T
	holds []string // notices that were not reverted, as "block hash/content"
	last  view.Cursor
}

func (r *reader) take(n *view.Notice) {
	r.t.Helper()
	if r.t.Failed() {
		return
	}
	var m struct {
		Cursor struct {
			Height primitives.Height
			Hash   primitives.Hash `json:"block_hash"`
			Index  *int
		}
		Reverted []struct {
			Hash primitives.Hash `json:"block_hash"`
		}
		Block       json.RawMessage
		Outcome     struct{ ID string }
		Event       struct{ Event string }
		Transaction struct {
			Hash  string `json:"tx_hash"`
			Level string `json:"final_execution_status"`
		}
	}
	if err := json.Unmarshal([]byte("{"+string(n.Body)+"}"), &m); err != nil {
		r.t.Fatalf("%s: %v", n.Body, err)
	}
	c := view.Cursor{At: view.At{Height: m.Cursor.Height, Hash: m.Cursor.Hash}, Index: view.WholeBlock}
	if m.Cursor.Index != nil {
		c.Index = *m.Cursor.Index
	}
	if c != n.Cursor {
		r.t.Fatalf("the cursor is %+v, want %+v", n.Cursor, c)
	}
	r.last = c
	if m.Reverted != nil {
		for _, lost := range m.Reverted {
			r.holds = slices.DeleteFunc(r.holds, func(x string) bool { return strings.HasPrefix(x, lost.Hash.String()) })
		}
		return
	}
	what := fmt.Sprintf("%v/%s%s%s%s", c.Hash, m.Outcome.ID, m.Event.Event, m.Transaction.Hash, m.Transaction.Level)
	if slices.Contains(r.holds, what) {
		r.t.Errorf("reported twice: %s", what)
	}
	r.holds = append(r.holds, what)
}

// TestNoticesArriveOnceAndInOrder: with forks, a sink that is often full, and reconnections at any
// cursor, a client ends with the same notices of the canonical chain, in the same order, as a
// client without interruptions.
func TestNoticesArriveOnceAndInOrder(t *testing.T) {
	queries := map[string]view.Subscription{
		"blocks":       {Topic: view.TopicBlocks},
		"final blocks": {Topic: view.TopicBlocks, Finality: view.RefFinal},
		"outcomes":     {Topic: view.TopicOutcomes, Account: "a"},
		"events":       {Topic: view.TopicEvents, Account: "b", Standard: "nep141"},
		"transactions": {Topic: view.TopicTransactions, Account: "a"},
	}
	for name, q := range queries {
		t.Run(name, func(t *testing.T) {
			forks, resumed := 0, 0
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 7))
				tr := newTree()
				begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
				s := &sink{}
				w := &chainReader{q: &q, chain: tr, ledger: tr, sink: s, at: begin}
				w.q.Lag = 1 << 40
				client := &reader{t: t, last: begin}
				open := map[primitives.Hash][]open{}
				for range 120 {
					switch x := r.IntN(10); {
					case x < 6:
						prev := tr.head
						if x == 0 { // a branch that is longer than the current one from its first block on
							for range r.IntN(3) {
								if before := tr.prev(prev); before.Hash != (primitives.Hash{}) {
									prev = before
									forks++
								}
							}
						}
						tr.head = grow(tr, r, prev, tr.head.Height+1, open)
					case x < 9:
						s.room = r.IntN(6)
						if v, end, err := w.run(); v == over {
							t.Fatalf("ended: %s, %v", end, err)
						}
					default: // the connection breaks; all notices in the sink have arrived
						for _, n := range s.got {
							client.take(n)
						}
						s = &sink{}
						after := client.last
						w = &chainReader{q: &q, chain: tr, ledger: tr, sink: s, at: after}
						resumed++
					}
				}
				s.room = 1 << 30
				for v := again; v != rests; {
					var end view.EndReason
					var err error
					if v, end, err = w.run(); v == over {
						t.Fatalf("seed %d: ended: %s, %v", seed, end, err)
					}
				}
				for _, n := range s.got {
					client.take(n)
				}
				calm, still := &reader{t: t}, &sink{room: 1 << 30}
				u := &chainReader{q: &q, chain: tr, ledger: tr, sink: still, at: begin}
				for v := again; v != rests; {
					v, _, _ = u.run()
				}
				for _, n := range still.got {
					calm.take(n)
				}
				if !slices.Equal(client.holds, calm.holds) {
					i := 0
					for i < min(len(client.holds), len(calm.holds)) && client.holds[i] == calm.holds[i] {
						i++
					}
					t.Fatalf("seed %d: holds %d, an undisturbed reader %d; they differ from number %d on:\n%v\n%v", seed,
						len(client.holds), len(calm.holds), i,
						client.holds[i:min(len(client.holds), i+3)], calm.holds[i:min(len(calm.holds), i+3)])
				}
				if len(calm.holds) == 0 {
					t.Errorf("seed %d: the undisturbed reader got no notice", seed)
				}
			}
			if forks == 0 || resumed == 0 {
				t.Errorf("%d forks, %d reconnections", forks, resumed)
			}
		})
	}
}

// open is a receipt that will be executed on a branch after some more blocks.
type open struct {
	id    primitives.Hash
	after int
}

// grow adds a block with new transactions, and executes pending receipts of its branch.
func grow(tr *tree, r *rand.Rand, prev view.At, height primitives.Height, left map[primitives.Hash][]open) view.At {
	var outcomes []primitives.OutcomeWithID
	var txs []*primitives.SignedTransaction
	var rest []open
	for _, o := range left[prev.Hash] {
		if o.after--; o.after > 0 {
			rest = append(rest, o)
			continue
		}
		x := primitives.OutcomeWithID{ID: o.id}
		x.Outcome.ExecutorID = "b"
		for range r.IntN(3) {
			tr.made++
			x.Outcome.Logs = append(x.Outcome.Logs, fmt.Sprintf(`EVENT_JSON:{"standard":"%s","version":"1","event":"e%d","data":[]}`, []string{"nep141", "nep171"}[r.IntN(2)], tr.made), "no event")
		}
		x.Outcome.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}
		outcomes = append(outcomes, x)
	}
	for range r.IntN(3) {
		tr.made++
		var plain primitives.Transaction
		plain.SignerID, plain.ReceiverID = "a", "b"
		plain.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()
		plain.Nonce.Nonce = primitives.Nonce(tr.made)
		tx := primitives.NewSignedTransaction(plain, primitives.ZeroED25519Signature)
		id := primitives.HashBytes(fmt.Append(nil, "receipt", tr.made))
		x := primitives.OutcomeWithID{ID: tx.Hash()}
		x.Outcome.ExecutorID, x.Outcome.ReceiptIDs = "a", []primitives.Hash{id}
		x.Outcome.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: id}
		outcomes, txs = append(outcomes, x), append(txs, tx)
		rest = append(rest, open{id, 1 + r.IntN(4)})
	}
	at := tr.add(prev, height, outcomes, txs)
	left[at.Hash] = rest
	return at
}

// TestEachTransactionLevelIsReportedOnce: each level that a transaction reaches is reported once,
// with the block that reaches it, even if one block reaches several. A subscription by hash ends
// after the last level.
func TestEachTransactionLevelIsReportedOnce(t *testing.T) {
	tr := newTree()
	r := rand.New(rand.NewPCG(1, 1))
	left := map[primitives.Hash][]open{}
	for len(left[tr.head.Hash]) == 0 {
		tr.head = grow(tr, r, tr.head, tr.head.Height+1, left)
	}
	d, _ := tr.Digest(tr.head)
	tx := d.Transactions("b")[0].Hash()
	at := tr.head.Height
	id := left[tr.head.Hash][0].id
	for i := range 5 {
		var outcomes []primitives.OutcomeWithID
		if i == 2 {
			x := primitives.OutcomeWithID{ID: id}
			x.Outcome.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: []byte("7")}
			outcomes = append(outcomes, x)
		}
		tr.head = tr.add(tr.head, tr.head.Height+1, outcomes, nil)
	}
	s := &sink{room: 100}
	w := &chainReader{q: &view.Subscription{Topic: view.TopicTransactions, Hashes: []primitives.Hash{tx}}, chain: tr,
		ledger: tr, sink: s}
	wanted := []bool{}
	w.wants = func(yes bool) { wanted = append(wanted, yes) }
	w.at = view.Cursor{At: tr.chain(tr.head)[0], Index: view.WholeBlock}
	if v, end, err := w.run(); v != over || end != view.EndDone {
		t.Fatalf("verdict %d, %q, %v; want the end", v, end, err)
	}
	var got []string
	for _, n := range s.got {
		var m struct {
			Transaction struct {
				Level  string `json:"final_execution_status"`
				Status any
			}
		}
		_ = json.Unmarshal([]byte("{"+string(n.Body)+"}"), &m)
		got = append(got, fmt.Sprintf("+%d %s %v", n.Cursor.Height-at, m.Transaction.Level, m.Transaction.Status))
	}
	want := []string{"+0 INCLUDED Started", "+2 INCLUDED_FINAL Started",
		"+3 EXECUTED_OPTIMISTIC map[SuccessValue:Nw==]", "+3 EXECUTED map[SuccessValue:Nw==]",
		"+5 FINAL map[SuccessValue:Nw==]"}
	if !slices.Equal(got, want) {
		t.Errorf("milestones:\n got %q\nwant %q", got, want)
	}
	if !slices.Equal(wanted, []bool{true, false}) {
		t.Errorf("final blocks were wanted: %v", wanted)
	}
}

// TestReaderBeyondLagIsEnded: a client without room is not ended while it reads old blocks. After
// it has reached the head, it is ended if it falls more than the lag behind.
func TestReaderBeyondLagIsEnded(t *testing.T) {
	tr := newTree()
	begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
	more := func(n int) {
		for range n {
			tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
		}
	}
	more(40)
	s := &sink{}
	w := &chainReader{q: &view.Subscription{Topic: view.TopicBlocks, Lag: 4}, chain: tr, ledger: tr, sink: s, at: begin}
	for range 3 {
		if v, _, _ := w.run(); v != full {
			t.Fatalf("below the head, without room: verdict %d, want %d", v, full)
		}
		if w.pending != nil {
			t.Fatal("a reader of old blocks keeps a block while it has no room")
		}
	}
	s.room = 100
	for v := again; v == again; {
		if v, _, _ = w.run(); v == over {
			t.Fatal("ended while reading")
		}
	}
	s.room = 0
	more(5) // one block is in the sink's way, four are the allowed lag
	if v, _, _ := w.run(); v != full {
		t.Fatalf("four blocks late: verdict %d, want %d", v, full)
	}
	more(1)
	if v, end, _ := w.run(); v != over || end != view.EndSlow {
		t.Fatalf("five blocks late: verdict %d, %q, want the end", v, end)
	}
	if w.at.Height != 41 || w.at.Index != view.NothingYet || len(s.got) != 40 {
		t.Errorf("the reader continues at %+v, and got %d blocks", w.at, len(s.got))
	}
}

// TestReaderLearnsOfRemovedBlocks: a reader at removed blocks is informed of the removal even if
// only their parents are still known. A cursor at an unknown block ends the subscription.
func TestReaderLearnsOfRemovedBlocks(t *testing.T) {
	tr := newTree()
	root := tr.head
	for range 3 {
		tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
	}
	s := &sink{room: 100}
	w := &chainReader{q: &view.Subscription{Topic: view.TopicBlocks}, chain: tr, ledger: tr, sink: s,
		at: view.Cursor{At: root, Index: view.WholeBlock}}
	if v, _, _ := w.run(); v != rests {
		t.Fatal("not at the head")
	}
	lost := tr.chain(tr.head)[2:]
	for _, at := range lost {
		tr.forget[at.Hash] = true
	}
	at := view.Cursor{At: tr.head, Index: view.WholeBlock}
	tr.head = tr.add(tr.chain(tr.head)[1], 2, nil, nil)
	tr.knows = true
	if v, end, err := w.run(); v != rests {
		t.Fatalf("verdict %d, %q, %v", v, end, err)
	}
	if n := len(s.got); n != 5 || !strings.Contains(string(s.got[3].Body), `"reverted":[{"block_hash":"`+lost[1].Hash.String()) || s.got[4].Cursor.Height != 2 {
		t.Errorf("%d notices, the last %s", n, s.got[n-1].Body)
	}
	tr.knows = false
	u := &chainReader{q: w.q, chain: tr, ledger: tr, sink: s, at: at}
	if v, end, _ := u.run(); v != over || end != view.EndGone {
		t.Errorf("a cursor in a removed block: verdict %d, %q", v, end)
	}
}

// TestOnlyReportedBlocksAreReportedRemoved: the sink has no room for a block that is then removed
// and no longer stored. The reader continues with the block that replaces it. It reports the
// removal of those blocks that it has reported, and of no others.
func TestOnlyReportedBlocksAreReportedRemoved(t *testing.T) {
	for _, topic := range []view.Topic{view.TopicBlocks, view.TopicTransactions} {
		for told := range 3 { // how many of the removed blocks were reported
			tr := newTree()
			tr.knows = true
			r := rand.New(rand.NewPCG(1, uint64(told)))
			left := map[primitives.Hash][]open{}
			for range 4 {
				tr.head = grow(tr, r, tr.head, tr.head.Height+1, left)
			}
			begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
			s := &sink{}
			w := &chainReader{q: &view.Subscription{Topic: topic, Account: "a", Lag: 1 << 40}, chain: tr, ledger: tr,
				sink: s, at: begin}
			for range 3 {
				tr.head = grow(tr, r, tr.head, tr.head.Height+1, left)
			}
			for w.at.Height < begin.Height+primitives.Height(told)+1 || w.at.Index != view.NothingYet {
				if v, _, err := w.run(); v != full {
					t.Fatalf("verdict %d, %v", v, err)
				}
				if w.at.Height > begin.Height+primitives.Height(told) {
					break
				}
				s.room++
			}
			for _, at := range tr.chain(tr.head)[begin.Height+1:] {
				tr.forget[at.Hash] = true
			}
			tr.head = begin.At
			for range 4 {
				tr.head = grow(tr, r, tr.head, tr.head.Height+1, left)
			}
			s.room = 1 << 30
			for v := again; v != rests; {
				var end view.EndReason
				var err error
				if v, end, err = w.run(); v == over {
					t.Fatalf("topic %v, %d notices: ended: %s, %v", topic, told, end, err)
				}
			}
			client, calm, still := &reader{t: t}, &reader{t: t}, &sink{room: 1 << 30}
			for _, n := range s.got {
				client.take(n)
			}
			u := &chainReader{q: w.q, chain: tr, ledger: tr, sink: still, at: begin}
			for v := again; v != rests; {
				v, _, _ = u.run()
			}
			for _, n := range still.got {
				calm.take(n)
			}
			if !slices.Equal(client.holds, calm.holds) || len(calm.holds) == 0 {
				t.Errorf("topic %v, %d notices: holds %v, an undisturbed reader %v", topic, told, client.holds, calm.holds)
			}
			if topic != view.TopicBlocks {
				continue
			}
			reverted := 0
			for _, n := range s.got {
				reverted += strings.Count(string(n.Body), `"block_hash"`) * strings.Count(string(n.Body), `"reverted"`)
			}
			if told == 0 && reverted > 0 || told > 0 && reverted != told+1 { // plus the block at the cursor
				t.Errorf("%d notices: %d blocks are reported as removed", told, reverted-1)
			}
		}
	}
}

// TestReaderWithoutPermissionWaits: a reader without permission to read old blocks reads nothing.
// Once it has permission, it continues where it was.
func TestReaderWithoutPermissionWaits(t *testing.T) {
	tr := newTree()
	begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
	for range 3 {
		tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
	}
	s := &sink{room: 100}
	w := &chainReader{q: &view.Subscription{Topic: view.TopicBlocks}, chain: tr, ledger: tr, sink: s, at: begin}
	tr.busy = true
	if v, _, _ := w.run(); v != later || len(s.got) != 0 {
		t.Fatalf("verdict %d, %d notices", v, len(s.got))
	}
	tr.busy = false
	if v, _, _ := w.run(); v != rests || len(s.got) != 3 {
		t.Fatalf("verdict %d, %d notices", v, len(s.got))
	}
}

// gatedChain is a Chain that gives permission only to readers near its head, unless open is set. It
// counts reads.
type gatedChain struct {
	*tree
	open bool
	read int
}

func (g *gatedChain) Past(from primitives.Height, _ func()) (func(), bool) {
	return func() {}, g.open || from+8 >= g.head.Height
}

func (g *gatedChain) Digest(at view.At) (*stream.Digest, error) {
	g.read++
	return g.tree.Digest(at)
}

// TestSearchAfterForkNeedsPermission: after a reorganisation, a reader searches old blocks for
// transactions that are not final. It needs permission for that.
func TestSearchAfterForkNeedsPermission(t *testing.T) {
	tr := newTree()
	for range 2 * resumeReach {
		tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
	}
	g := &gatedChain{tree: tr, open: true}
	s := &sink{room: 100}
	w := &chainReader{q: &view.Subscription{Topic: view.TopicTransactions, Account: "a", Lag: 1 << 40}, chain: g,
		ledger: g, sink: s,
		at: view.Cursor{At: tr.head, Index: view.WholeBlock}}
	if v, _, _ := w.run(); v != rests {
		t.Fatal("not at the head")
	}
	g.open, g.read = false, 0
	before := tr.prev(tr.head)
	tr.head = tr.add(tr.add(before, before.Height+1, nil, nil), before.Height+2, nil, nil)
	if v, _, _ := w.run(); v != again || len(s.got) != 1 {
		t.Fatalf("verdict %d, %d notices; want one notice of the fork, and no end", v, len(s.got))
	}
	for range 3 {
		if v, _, _ := w.run(); v != later {
			t.Fatalf("verdict %d, want %d: there is no place", v, later)
		}
	}
	if g.read > 1 {
		t.Errorf("it has read %d blocks without a place", g.read)
	}
	g.open = true
	v, end, err := w.run()
	if v != rests || w.at.At != tr.head || g.read < resumeReach {
		t.Errorf("verdict %d %s %v at %v, want the head %v; %d blocks were read", v, end, err, w.at, tr.head, g.read)
	}
}

// crossed makes two transactions that both become final with one block, and returns its height. The
// second one is included in an earlier block than the first.
func crossed(t *testing.T, tr *tree) (first, second primitives.Hash, done primitives.Height) {
	t.Helper()
	var txs [2]*primitives.SignedTransaction
	var ids [2]primitives.Hash
	outcome := func(i int) []primitives.OutcomeWithID {
		x := primitives.OutcomeWithID{ID: txs[i].Hash()}
		x.Outcome.ReceiptIDs, x.Outcome.Status = []primitives.Hash{ids[i]}, primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: ids[i]}
		return []primitives.OutcomeWithID{x}
	}
	for i := range txs {
		var plain primitives.Transaction
		plain.SignerID, plain.ReceiverID, plain.Nonce.Nonce = "a", "b", primitives.Nonce(i+1)
		plain.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()
		txs[i] = primitives.NewSignedTransaction(plain, primitives.ZeroED25519Signature)
		ids[i] = primitives.HashBytes([]byte{byte(i)})
	}
	for _, i := range []int{1, 0} {
		tr.head = tr.add(tr.head, tr.head.Height+1, outcome(i), txs[i:i+1])
	}
	var both []primitives.OutcomeWithID
	for i := range ids {
		x := primitives.OutcomeWithID{ID: ids[i]}
		x.Outcome.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}
		both = append(both, x)
	}
	tr.head = tr.add(tr.head, tr.head.Height+1, both, nil)
	done = tr.head.Height
	for range 4 {
		tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
	}
	return txs[0].Hash(), txs[1].Hash(), done
}

// TestNumberingSurvivesReconnection: if one block reaches levels of several transactions, they are
// numbered in the order of inclusion. The numbers are the same after a reconnection.
func TestNumberingSurvivesReconnection(t *testing.T) {
	tr := newTree()
	root := tr.head
	first, second, done := crossed(t, tr)
	q := &view.Subscription{Topic: view.TopicTransactions, Hashes: []primitives.Hash{first, second}, Lag: 1 << 40}
	all := func(after view.Cursor) (got []string) {
		s := &sink{room: 100}
		w := &chainReader{q: q, chain: tr, ledger: tr, sink: s, at: after}
		for v := again; v != over; {
			var err error
			if v, _, err = w.run(); v == rests || err != nil {
				t.Fatalf("verdict %d, %v", v, err)
			}
		}
		for _, n := range s.got {
			got = append(got, string(n.Body))
		}
		return got
	}
	whole := all(view.Cursor{At: root, Index: view.WholeBlock})
	if len(whole) != 10 {
		t.Fatalf("%d milestones, want 10: %q", len(whole), whole)
	}
	chain := tr.chain(tr.head)
	for h := range done {
		resumed := all(view.Cursor{At: chain[h], Index: view.WholeBlock})
		if !slices.Equal(resumed, whole[len(whole)-len(resumed):]) {
			t.Errorf("resumed after block %d:\n got %q\nwant %q", h, resumed, whole[len(whole)-len(resumed):])
		}
	}
}

// TestExpiredTransactionIsNotReported: a transaction that a chunk includes but that was no longer
// valid is not reported, and not tracked.
func TestExpiredTransactionIsNotReported(t *testing.T) {
	tr := newTree()
	begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
	var plain primitives.Transaction
	plain.SignerID, plain.ReceiverID = "a", "b"
	plain.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()
	tx := primitives.NewSignedTransaction(plain, primitives.ZeroED25519Signature)
	tr.head = tr.add(tr.head, tr.head.Height+1, nil, []*primitives.SignedTransaction{tx})
	crossed(t, tr)
	for _, after := range []view.Cursor{begin, {At: tr.chain(tr.head)[1], Index: view.WholeBlock}} {
		s := &sink{room: 100}
		w := &chainReader{q: &view.Subscription{Topic: view.TopicTransactions, Account: "b"}, chain: tr, ledger: tr,
			sink: s, at: after}
		if v, end, err := w.run(); v != rests || len(s.got) != 10 {
			t.Errorf("verdict %d, %s, %v; %d notices, want 10", v, end, err, len(s.got))
		}
		if n := len(w.tracks.open) + len(w.tracks.await); n != 0 || w.waits {
			t.Errorf("%d transactions are waited for, of which none is under way", n)
		}
	}
}

// aheadCounter is a Chain that counts calls of Ahead.
type aheadCounter struct {
	*tree
	n int
}

func (a *aheadCounter) Ahead() { a.n++ }

// TestReaderOfFinalTextsCallsAheadAtTip: a reader that needs the texts of final blocks calls Ahead
// when it reaches the tip. Other readers do not.
func TestReaderOfFinalTextsCallsAheadAtTip(t *testing.T) {
	wants := new(atomic.Bool)
	wants.Store(true)
	for name, c := range map[string]struct {
		q    view.Subscription
		want bool
	}{
		"final": {view.Subscription{Topic: view.TopicMessages, Finality: view.RefFinal}, true},
		"head":  {view.Subscription{Topic: view.TopicMessages, Finality: view.RefOptimistic}, false},
		"without text": {view.Subscription{Topic: view.TopicMessages, Finality: view.RefFinal, Inside: true,
			Texts: new(atomic.Bool)}, false},
		"with text": {view.Subscription{Topic: view.TopicMessages, Finality: view.RefFinal, Inside: true,
			Texts: wants}, true},
		"blocks": {view.Subscription{Topic: view.TopicBlocks, Finality: view.RefFinal}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &aheadCounter{tree: newTree()}
			w := &chainReader{q: &c.q, chain: a, ledger: a, sink: &sink{room: 100},
				at: view.Cursor{At: a.head, Index: view.WholeBlock}}
			if v, _, _ := w.run(); v != rests || a.n > 0 != c.want {
				t.Errorf("verdict %d after %d calls of Ahead, want calls: %v", v, a.n, c.want)
			}
		})
	}
}

// soonCounter is a Chain that counts calls of Soon.
type soonCounter struct {
	*tree
	n atomic.Int64
}

func (s *soonCounter) Soon(primitives.Hash) { s.n.Add(1) }

// TestSoonIsCalledForOptimisticTexts: Soon is called once for a new head that is not on disk, if a
// reader is at the tip and needs the texts of optimistic blocks.
func TestSoonIsCalledForOptimisticTexts(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	for name, c := range map[string]struct {
		q     view.Subscription
		moves bool // a block was not reported, and the sink has no room for it
		want  bool
	}{
		"head":   {view.Subscription{Topic: view.TopicMessages, Finality: view.RefOptimistic}, false, true},
		"behind": {view.Subscription{Topic: view.TopicMessages, Finality: view.RefOptimistic}, true, false},
		"final":  {view.Subscription{Topic: view.TopicMessages, Finality: view.RefFinal}, false, false},
		"without text": {view.Subscription{Topic: view.TopicMessages, Finality: view.RefOptimistic, Inside: true,
			Texts: new(atomic.Bool)}, false, false},
		"blocks": {view.Subscription{Topic: view.TopicBlocks, Finality: view.RefOptimistic}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			chain := &soonCounter{tree: newTree()}
			c.q.Lag = 1 << 40
			begin := view.Cursor{At: chain.head, Index: view.WholeBlock}
			if c.moves {
				chain.head = chain.add(chain.head, chain.head.Height+1, nil, nil)
			}
			system := actor.NewActorSystem()
			pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
				return New(Options{Subscriber: func(r *Request) *actor.Props {
					return actor.PropsFromProducer(func() actor.Actor { return NewSubscriber(r, log) })
				}})
			}))
			for id := range messages.SubscriberID(3) {
				system.Root.Send(pid, &Request{ID: id, Query: &c.q, Begin: begin, Chain: chain, Ledger: chain, Sink: &lockedSink{}})
			}
			for range 200 {
				system.Root.Send(pid, messages.BlockImported{BlockAccepted: &messages.BlockAccepted{IsHead: true}})
				system.Root.Send(pid, messages.BlockImported{BlockAccepted: &messages.BlockAccepted{}})
				time.Sleep(time.Millisecond)
				if chain.n.Load() > 0 {
					break
				}
			}
			before := chain.n.Load()
			for range 10 {
				system.Root.Send(pid, messages.BlockImported{BlockAccepted: &messages.BlockAccepted{IsHead: true}})
			}
			_ = system.Root.PoisonFuture(pid).Wait() // after the messages above
			if got := chain.n.Load() - before; got != 0 && !c.want || c.want && got != 10 {
				t.Errorf("Soon was called for %d of ten blocks, want all: %v", got, c.want)
			}
			system.Shutdown()
		})
	}
}
