package txlog

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// chain makes accepted blocks.
type chain struct{ nonce primitives.Nonce }

func id(name string) primitives.Hash { return primitives.HashBytes([]byte(name)) }

// tx returns a new transaction that calls a method.
func (c *chain) tx(signer, receiver primitives.AccountID, method string) *primitives.SignedTransaction {
	c.nonce++
	return primitives.NewSignedTransaction(primitives.Transaction{
		SignerID: signer, ReceiverID: receiver, Nonce: primitives.TransactionNonce{Nonce: c.nonce},
		PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, string(signer)).PublicKey(),
		Actions:   []primitives.Action{&primitives.FunctionCall{Method: method, Args: []byte(`{"n":1}`)}},
	}, "")
}

// blockOf returns a canonical block of one shard.
func blockOf(name, parent string, height primitives.Height, txs []*primitives.SignedTransaction, outcomes []primitives.OutcomeWithID, created ...*primitives.Receipt) *messages.BlockAccepted {
	b := &primitives.Block{Header: &primitives.BlockHeader{PrevHash: id(parent)}}
	b.Header.Height = height
	s := messages.ShardAccepted{Outcomes: outcomes, Outgoing: created, Chunk: &primitives.Chunk{}}
	s.Chunk.Transactions = txs
	return &messages.BlockAccepted{Block: b, Hash: id(name), IsHead: true, Shards: []messages.ShardAccepted{s}}
}

// ran returns the outcome of a transaction or receipt. Its success is that of the first of its
// receipts, if it has any.
func ran(of primitives.Hash, by primitives.AccountID, receipts ...string) primitives.OutcomeWithID {
	o := primitives.OutcomeWithID{ID: of}
	o.ExecutorID, o.GasBurnt = by, 1e12
	o.Status.Kind = primitives.StatusSuccessValue
	for i, r := range receipts {
		o.ReceiptIDs = append(o.ReceiptIDs, id(r))
		if i == 0 {
			o.Status.Kind, o.Status.ReceiptID = primitives.StatusSuccessReceiptID, id(r)
		}
	}
	return o
}

func failed(o primitives.OutcomeWithID, failure string) primitives.OutcomeWithID {
	o.Status = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: []byte(failure)}
	return o
}

func receipt(name string, from, to primitives.AccountID, method string) *primitives.Receipt {
	return &primitives.Receipt{ID: id(name), PredecessorID: from, ReceiverID: to,
		Body: &primitives.ActionReceipt{Actions: []primitives.Action{&primitives.FunctionCall{Method: method}}}}
}

const panicked = `{"ActionError":{"index":0,"kind":{"FunctionCallError":{"ExecutionError":"Smart contract panicked: no\u001b[2J"}}}}`

// shown returns what a log with these options writes about blocks.
func shown(o Options, blocks ...*messages.BlockAccepted) string {
	var out bytes.Buffer
	o.Out = &out
	l := New(o)
	for _, b := range blocks {
		l.Observe(b)
	}
	l.Close()
	return out.String()
}

func compare(t *testing.T, got string, want ...string) {
	t.Helper()
	if w := strings.Join(append(want, ""), "\n"); got != w {
		t.Errorf("got\n%swant\n%s", got, w)
	}
}

// TestTransactionIsShownOnceItsReceiptsRan: a transaction is shown with the logs and failures of
// its receipts, without waiting for refunds.
func TestTransactionIsShownOnceItsReceiptsRan(t *testing.T) {
	var c chain
	tx := c.tx("alice.near", "app.near", "go")
	first := ran(id("r1"), "app.near", "r2", "refund")
	first.Logs = []string{"hello", "\x1b[31mred\r\nnext \u202e"}
	blocks := []*messages.BlockAccepted{
		blockOf("1", "0", 1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near", "r1")}, receipt("r1", "alice.near", "app.near", "go")),
		blockOf("2", "1", 2, nil, []primitives.OutcomeWithID{first}, receipt("r2", "app.near", "token.near", "pay"), receipt("refund", "system", "alice.near", "")),
	}
	if got := shown(Options{}, blocks...); got != "" {
		t.Errorf("shown before the last receipt ran:\n%s", got)
	}
	done := blockOf("3", "2", 3, nil, []primitives.OutcomeWithID{failed(ran(id("r2"), "token.near"), panicked), ran(id("refund"), "alice.near")})
	compare(t, shown(Options{}, append(blocks, done)...),
		`#1 alice.near -> app.near  go({"n":1})  failed: Smart contract panicked: no\x1b[2J  3 Tgas  `+tx.Hash().String(),
		"    app.near: hello",
		`    app.near: \x1b[31mred\x0d\nnext \u202e`,
		`    receipt token.near  pay()  failed: Smart contract panicked: no\x1b[2J`)
}

// TestFiltersSelectAccountsAndFailures: by account (signer, receiver, receiver of a receipt) and by
// failure.
func TestFiltersSelectAccountsAndFailures(t *testing.T) {
	var c chain
	good, bad := c.tx("alice.near", "app.near", "good"), c.tx("bob.near", "app.near", "bad")
	blocks := []*messages.BlockAccepted{
		blockOf("1", "0", 1, []*primitives.SignedTransaction{good, bad}, []primitives.OutcomeWithID{ran(good.Hash(), "alice.near", "g"), ran(bad.Hash(), "bob.near", "b")}),
		blockOf("2", "1", 2, nil, []primitives.OutcomeWithID{ran(id("g"), "app.near", "inner"), failed(ran(id("b"), "app.near"), panicked)}, receipt("inner", "app.near", "token.near", "pay")),
		blockOf("3", "2", 3, nil, []primitives.OutcomeWithID{ran(id("inner"), "token.near")}),
	}
	for _, of := range []struct {
		o         Options
		good, bad bool
	}{
		{Options{}, true, true},
		{Options{FailedOnly: true}, false, true},
		{Options{Accounts: []primitives.AccountID{"alice.near"}}, true, false},
		{Options{Accounts: []primitives.AccountID{"carol.near", "bob.near"}}, false, true},
		{Options{Accounts: []primitives.AccountID{"app.near"}}, true, true},
		{Options{Accounts: []primitives.AccountID{"token.near"}}, true, false},
		{Options{Accounts: []primitives.AccountID{"token.near"}, FailedOnly: true}, false, false},
	} {
		got := shown(of.o, blocks...)
		if g, b := strings.Contains(got, "good("), strings.Contains(got, "bad("); g != of.good || b != of.bad {
			t.Errorf("%+v: good %v, bad %v", of.o, g, b)
		}
	}
}

// TestRevertedBlocksAreNamed: a line names the reverted blocks. Receipts that ran in them are
// executed again, and a transaction that they include is dropped.
func TestRevertedBlocksAreNamed(t *testing.T) {
	var c chain
	tx, lost := c.tx("alice.near", "app.near", "stays"), c.tx("bob.near", "app.near", "lost")
	side := blockOf("2b", "1", 2, nil, []primitives.OutcomeWithID{ran(id("r1"), "app.near", "r3")}, receipt("r3", "app.near", "b.near", "other"))
	side.IsHead = false
	compare(t, shown(Options{},
		blockOf("1", "0", 1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near", "r1")}),
		blockOf("2", "1", 2, []*primitives.SignedTransaction{lost}, []primitives.OutcomeWithID{ran(lost.Hash(), "bob.near", "l"), ran(id("r1"), "app.near", "r2")}, receipt("r2", "app.near", "a.near", "gone")),
		side,
		blockOf("3b", "2b", 3, nil, []primitives.OutcomeWithID{ran(id("l"), "app.near"), ran(id("r2"), "a.near"), failed(ran(id("r3"), "b.near"), panicked)}),
	),
		"reverted: block 2 is no longer in the chain, with 1 transaction",
		`#1 alice.near -> app.near  stays({"n":1})  failed: Smart contract panicked: no\x1b[2J  3 Tgas  `+tx.Hash().String(),
		`    receipt b.near  other()  failed: Smart contract panicked: no\x1b[2J`)
	// a chain that is set back
	compare(t, shown(Options{},
		blockOf("1", "0", 1, nil, nil), blockOf("2", "1", 2, nil, nil), blockOf("3", "2", 3, nil, nil), blockOf("9", "1", 9, nil, nil),
	), "reverted: blocks 2 to 3 are no longer in the chain, with 0 transactions")
	// after a jump there is nothing to compare with
	compare(t, shown(Options{},
		blockOf("1", "0", 1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near", "r1")}), blockOf("99", "98", 99, nil, nil),
	), "1 transaction not shown: block 99 does not follow the last one")
}

// TestLongWaitIsShownAsPending: a transaction that waits for long is shown as pending, and once
// more when it has ended.
func TestLongWaitIsShownAsPending(t *testing.T) {
	var c chain
	tx := c.tx("alice.near", "app.near", "yield")
	blocks := []*messages.BlockAccepted{blockOf("1", "0", 1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near", "r1")})}
	for h := 2; h <= 1+maxWait; h++ {
		blocks = append(blocks, blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), nil, nil))
	}
	blocks = append(blocks, blockOf("end", fmt.Sprint(1+maxWait), 2+maxWait, nil, []primitives.OutcomeWithID{ran(id("r1"), "app.near")}))
	compare(t, shown(Options{}, blocks...),
		`#1 alice.near -> app.near  yield({"n":1})  pending, 1 receipt to run  1 Tgas  `+tx.Hash().String(),
		`#1 alice.near -> app.near  yield({"n":1})  ok  2 Tgas  `+tx.Hash().String())
	// memory: nothing is kept for a receipt that never runs
	tr := newTracker(&Options{})
	var out bytes.Buffer
	l := &Log{o: Options{Queue: 1 << 30}, wake: make(chan struct{}, 1)}
	for h := 1; h <= maxWait+maxAge+2; h++ {
		b := blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), nil, nil)
		if h == 1 {
			b = blocks[0]
		}
		l.Observe(b)
	}
	for _, e := range l.queue {
		tr.accept(e.block, &out)
	}
	if len(tr.open)+len(tr.waiting)+len(tr.recent)+len(tr.late)+tr.held != 0 || len(tr.canonical) > 2*maxCanonical {
		t.Errorf("kept: %d open, %d waiting, %d recent, %d late, %d blocks", len(tr.open), len(tr.waiting), len(tr.recent), len(tr.late), len(tr.canonical))
	}
}

// stuck is a terminal that takes nothing until it is released.
type stuck struct {
	free chan struct{}
	once sync.Once
	in   chan struct{} // closed at the first write
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.in) })
	<-s.free
	return s.Buffer.Write(p)
}

// TestSlowTerminalDelaysNothing: blocks that exceed the queue are dropped and counted, and later
// blocks are shown again.
func TestSlowTerminalDelaysNothing(t *testing.T) {
	var c chain
	s := &stuck{free: make(chan struct{}), in: make(chan struct{})}
	var l *Log
	next := func(h int) {
		tx := c.tx("alice.near", "app.near", fmt.Sprintf("m%03d", h))
		if l == nil {
			of := shard{transactions: []*primitives.SignedTransaction{tx}, outcomes: []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near")}}
			l = New(Options{Out: s, Queue: 5 * (weightBlock + of.weight())})
		}
		l.Observe(blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near")}))
	}
	next(1)
	<-s.in
	for h := 2; h <= 101; h++ {
		next(h) // would never return if it waited
	}
	l.mu.Lock()
	if len(l.queue) > 11 {
		t.Errorf("%d blocks are queued", len(l.queue))
	}
	l.mu.Unlock()
	close(s.free)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		l.mu.Lock()
		empty := len(l.queue) == 0
		l.mu.Unlock()
		if empty {
			break
		}
	}
	next(102)
	l.Close()
	got := s.String()
	// 2 to 6 are queued
	if strings.Count(got, "alice.near") != 7 || !strings.Contains(got, "m006(") || !strings.Contains(got, "m102(") ||
		!strings.Contains(got, "\n95 transactions not shown: the terminal is slower than the chain\n") {
		t.Errorf("got\n%s", got)
	}
}

type broken struct{ n int }

func (b *broken) Write([]byte) (int, error) {
	b.n++
	return 0, io.ErrClosedPipe
}

func TestFailedWriteKeepsNothing(t *testing.T) {
	var c chain
	b := &broken{}
	failures := 0
	l := New(Options{Out: b, Failed: func() { failures++ }})
	for h := range 50 {
		tx := c.tx("alice.near", "app.near", "m")
		l.Observe(blockOf(fmt.Sprint(h+1), fmt.Sprint(h), primitives.Height(h+1), []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near")}))
	}
	l.Close()
	if b.n != 1 || failures != 1 || len(l.queue) != 0 {
		t.Errorf("%d writes, %d failures, %d blocks queued", b.n, failures, len(l.queue))
	}
}

// TestManyLogsAreCut: a transaction has a bounded number of lines, each of bounded length.
func TestManyLogsAreCut(t *testing.T) {
	var c chain
	tx := c.tx("alice.near", "app.near", "spam")
	o := ran(id("r"), "app.near")
	for range 100 {
		o.Logs = append(o.Logs, strings.Repeat("\x1b", 16<<10))
	}
	got := shown(Options{},
		blockOf("1", "0", 1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near", "r")}),
		blockOf("2", "1", 2, nil, []primitives.OutcomeWithID{o}))
	if n := strings.Count(got, "\n"); n != maxLines+2 || !strings.HasSuffix(got, "    50 more lines not shown\n") || strings.ContainsRune(got, 0x1b) || len(got) > (maxLines+2)*(4*maxLine+100) {
		t.Errorf("%d lines, %d bytes:\n%.600s", n, len(got), got)
	}
}

// TestQueueIsBoundedInBytes: a few blocks with large transactions, logs and receipts fill the
// queue.
func TestQueueIsBoundedInBytes(t *testing.T) {
	const size = 1 << 20
	args := make([]byte, size)
	tx := primitives.NewSignedTransaction(primitives.Transaction{Actions: []primitives.Action{&primitives.DeployContract{Code: args}}}, "")
	logs := ran(id("r"), "a.near")
	logs.Logs = []string{strings.Repeat("x", size)}
	for what, b := range map[string]*messages.BlockAccepted{
		"transaction": blockOf("1", "0", 1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "a.near")}),
		"log":         blockOf("1", "0", 1, nil, []primitives.OutcomeWithID{logs}),
		"failure":     blockOf("1", "0", 1, nil, []primitives.OutcomeWithID{failed(ran(id("f"), "a.near"), string(args))}),
		"receipt": blockOf("1", "0", 1, nil, []primitives.OutcomeWithID{ran(id("x"), "a.near", "r")}, &primitives.Receipt{ID: id("r"),
			Body: &primitives.ActionReceipt{Actions: []primitives.Action{&primitives.FunctionCall{Args: args}}}}),
	} {
		t.Run(what, func(t *testing.T) {
			l := &Log{o: Options{Queue: 10 * size}, wake: make(chan struct{}, 1)}
			for range 100 {
				l.Observe(b)
			}
			if n := len(l.queue); n != 10 { // nine, and the number of the others
				t.Errorf("%d entries are queued", n)
			}
		})
	}
}

// TestEndlessReceiptsAreDropped: a contract that calls itself in each block, and creates receipts
// that wait, holds no more memory than maxHeld, and hides no other transaction.
func TestEndlessReceiptsAreDropped(t *testing.T) {
	var c chain
	var out bytes.Buffer
	tr := newTracker(&Options{})
	accept := func(h int, txs []*primitives.SignedTransaction, outcomes []primitives.OutcomeWithID, created ...*primitives.Receipt) {
		l := &Log{o: Options{Queue: 1 << 30}, wake: make(chan struct{}, 1)}
		l.Observe(blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), txs, outcomes, created...))
		tr.accept(l.queue[0].block, &out)
		if tr.held > maxHeld {
			t.Fatalf("block %d: %d bytes", h, tr.held)
		}
	}
	loop := c.tx("mallory.near", "loop.near", "spin")
	accept(1, []*primitives.SignedTransaction{loop}, []primitives.OutcomeWithID{ran(loop.Hash(), "mallory.near", "1/0")})
	ended := 0
	for h := 2; ended == 0; h++ {
		if h > 1000 {
			t.Fatal("it never reaches the bound")
		}
		var names []string
		var created []*primitives.Receipt
		for i := range 1000 { // each of which but the first waits
			names = append(names, fmt.Sprint(h, "/", i))
			created = append(created, receipt(names[i], "loop.near", "loop.near", strings.Repeat("m", 200)))
		}
		o := ran(id(fmt.Sprint(h-1, "/0")), "loop.near", names...)
		o.Logs = []string{strings.Repeat("x", 16<<10)}
		accept(h, nil, []primitives.OutcomeWithID{o}, created...)
		if len(tr.open) == 0 {
			ended = h
		}
	}
	if tr.held != 0 || len(tr.waiting) != 0 {
		t.Errorf("%d bytes, %d receipts are kept", tr.held, len(tr.waiting))
	}
	tx := c.tx("alice.near", "app.near", "go")
	accept(ended+1, []*primitives.SignedTransaction{tx}, []primitives.OutcomeWithID{ran(tx.Hash(), "alice.near")})
	if got := out.String(); strings.Count(got, "spin(") != 1 || !strings.Contains(got, "pending, ") ||
		!strings.Contains(got, "alice.near -> app.near  go(") {
		t.Errorf("shown\n%s", got)
	}
}

// TestLargeTransactionsAreKeptAsText: pending transactions do not keep their code and arguments in
// memory.
func TestLargeTransactionsAreKeptAsText(t *testing.T) {
	tr := newTracker(&Options{})
	var out bytes.Buffer
	for h := 1; h <= 10; h++ {
		tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near",
			Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(h)},
			Actions: []primitives.Action{&primitives.DeployContract{Code: make([]byte, 1<<20)},
				&primitives.FunctionCall{Method: "init", Args: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}}}, "")
		l := &Log{o: Options{Queue: 1 << 30}, wake: make(chan struct{}, 1)}
		l.Observe(blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), []*primitives.SignedTransaction{tx},
			[]primitives.OutcomeWithID{ran(tx.Hash(), "a.near", fmt.Sprint("r", h))}))
		tr.accept(l.queue[0].block, &out)
	}
	if len(tr.open) != 10 || tr.held > 20_000 {
		t.Errorf("%d open transactions hold %d bytes", len(tr.open), tr.held)
	}
	for h := 11; h <= 10+maxWait; h++ {
		l := &Log{o: Options{Queue: 1 << 30}, wake: make(chan struct{}, 1)}
		l.Observe(blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), nil, nil))
		tr.accept(l.queue[0].block, &out)
	}
	if n := strings.Count(out.String(), `DeployContract of 1048576 bytes, init("xxx`); n != 10 {
		t.Errorf("%d are shown:\n%.2000s", n, out.String())
	}
}

// BenchmarkObserve measures the cost of a transaction on the chain's goroutine (part=observe), and
// its total cost.
func BenchmarkObserve(b *testing.B) {
	const size = 100
	var c chain
	blocks := func(n int) (out []*messages.BlockAccepted) {
		for h := 1; h <= n; h++ {
			var txs []*primitives.SignedTransaction
			var outcomes []primitives.OutcomeWithID
			for range size {
				tx := c.tx("alice.near", "app.near", "method")
				txs, outcomes = append(txs, tx), append(outcomes, ran(tx.Hash(), "alice.near"))
			}
			out = append(out, blockOf(fmt.Sprint(h), fmt.Sprint(h-1), primitives.Height(h), txs, outcomes))
		}
		return out
	}
	b.Run("part=observe", func(b *testing.B) {
		l := &Log{o: Options{Queue: 1 << 40}, wake: make(chan struct{}, 1)}
		block := blocks(1)[0]
		for range b.N {
			l.Observe(block)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/tx")
	})
	b.Run("part=all", func(b *testing.B) {
		l, list := New(Options{Out: io.Discard, Queue: 1 << 40}), blocks(b.N)
		b.ResetTimer()
		for _, block := range list {
			l.Observe(block)
		}
		l.Close()
		<-l.done
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/tx")
	})
}
