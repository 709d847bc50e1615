package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/historyimport"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// failurePlan decides before and after each message whether its actor fails or dawdles.
type failurePlan struct {
	mu    sync.Mutex
	rng   *rand.Rand
	on    bool
	left  map[string]int // remaining failures of a kind
	fell  map[string]int
	where []string
}

func (f *failurePlan) trip(kind string, m any, after bool) {
	switch m.(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting: // are no message of ours
		return
	}
	f.mu.Lock()
	if !f.on {
		f.mu.Unlock()
		return
	}
	dice := f.rng.IntN(400)
	fails := dice < 12 && f.left[kind] > 0
	if fails {
		f.left[kind]--
		f.fell[kind]++
		f.where = append(f.where, fmt.Sprintf("%s %s %T after=%v", time.Now().Format("05.000000"), kind, m, after))
	}
	f.mu.Unlock()
	switch {
	case fails:
		panic("failed on purpose")
	case dice > 380:
		time.Sleep(time.Duration(dice-380) * 50 * time.Microsecond)
	}
}

// clientAnswers contains the answers that a client got for a submission.
type clientAnswers struct {
	tx    *primitives.SignedTransaction
	level view.ExecutionLevel
	out   *view.FinalOutcome
	err   error
	took  time.Duration
	begin time.Time
}

// history is the positions of the chain, as blocks were accepted.
type history struct {
	mu   sync.Mutex
	list []messages.Position
}

func (h *history) observe(m *messages.BlockAccepted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, messages.Position{Head: m.Height(), Final: m.Final})
}

// first returns how far a transaction had come with the first block that satisfies a wait.
func (h *history) first(t *testing.T, e *engine.Engine, tx primitives.Hash,
	until view.ExecutionLevel) (view.ExecutionLevel, bool) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.list {
		out, err := e.Transactions().FullStatusAt(tx, p.Head, p.Final)
		if errors.Is(err, engine.ErrUnknown) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if txstatus.Meets(out.Level, until) {
			return out.Level, true
		}
	}
	return 0, false
}

// TestEveryClientIsAnsweredDespiteFailures: clients submit and wait for every level while actors
// that restart or stop alone fail or are slow between messages. Every client gets one answer in
// time, which agrees with the chain.
func TestEveryClientIsAnsweredDespiteFailures(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4 // the least with which each kind fails
	}
	fell := map[string]int{}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { failAnywhere(t, seed, fell) })
	}
	t.Logf("failures: %v", fell)
	for kind, rule := range failures {
		if rule != halts && kind != "meter" && kind != "validator" && fell[kind] == 0 { // TestFailingValidatorContinuesFromDisk
			t.Errorf("no %s has failed", kind)
		}
	}
}

func failAnywhere(t *testing.T, seed uint64, fell map[string]int) {
	const clients, each = 6, 14
	// Fewer than halt the node.
	f := &failurePlan{rng: rand.New(rand.NewPCG(seed, 1)), left: map[string]int{}, fell: fell}
	for _, kind := range []string{"mempool", "txtracker", "network", "rpc", "streams"} {
		f.left[kind] = f.rng.IntN(maxRestarts + 1)
	}
	f.left["session"], f.left["waiter"], f.left["subscriber"] = f.rng.IntN(6), f.rng.IntN(6), f.rng.IntN(6)
	f.left[historyimport.Name] = 1
	had := map[string]int{}
	for k, n := range f.left {
		had[k] = n
	}
	var past history
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	s := start(t, 1, func(o *Options) {
		o.Log, o.hooks.trip, o.Observe = log, f.trip, past.observe
		o.Limits.Wait, o.History = 30*time.Second, pausingJob{}
		networked(t, o, "alone")
	})
	keys := make([]primitives.SecretKey, clients)
	for i := range keys {
		keys[i] = primitives.SecretKeyFromSeed(primitives.ED25519, fmt.Sprint("client ", i))
		add := s.tx(validator, &primitives.AddKey{PublicKey: keys[i].PublicKey()})
		if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: add, WaitUntil: view.LevelFinal}); err != nil {
			t.Fatal(err)
		}
	}
	faithful := &resumingReader{back: serve(t, s).back, begin: s.e.Head().Height()}
	faithful.follow(t, &view.Cursor{At: view.At{Height: faithful.begin, Hash: s.e.Head().Hash}, Index: view.WholeBlock})
	f.mu.Lock()
	f.on = true
	f.mu.Unlock()
	levels := []view.ExecutionLevel{view.LevelNone, view.LevelIncluded, view.LevelExecutedOptimistic,
		view.LevelIncludedFinal, view.LevelExecuted, view.LevelFinal}
	results := make([][]clientAnswers, clients)
	var all sync.WaitGroup
	for i := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(i)+2))
		all.Go(func() {
			ctx, done, err := s.OpenSession(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { done() }()
			base, ok, err := s.e.KeyNonce(&primitives.SignedTransaction{Transaction: primitives.Transaction{SignerID: validator, PublicKey: keys[i].PublicKey()}})
			if err != nil || !ok {
				t.Error(ok, err)
				return
			}
			for n := range primitives.Nonce(each) {
				x := primitives.Transaction{SignerID: validator, ReceiverID: "near",
					Nonce:     primitives.TransactionNonce{Nonce: base + n + 1},
					BlockHash: s.e.Head().Hash, Actions: []primitives.Action{transfer(1)}, PublicKey: keys[i].PublicKey()}
				h := x.Hash()
				r := clientAnswers{tx: primitives.NewSignedTransaction(x, keys[i].Sign(h[:])), level: levels[rng.IntN(len(levels))]}
				begin := time.Now()
				r.out, r.err = s.SendTx(ctx, &view.SendTx{Tx: r.tx, WaitUntil: r.level})
				r.took, r.begin = time.Since(begin), begin
				results[i] = append(results[i], r)
				if rng.IntN(8) == 0 { // it disconnects and returns
					done()
					if ctx, done, err = s.OpenSession(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	f.mu.Lock()
	f.on = false
	where := f.where
	f.mu.Unlock()
	s.waitIdle(t)
	if h, ok := s.Halted(); ok {
		t.Fatalf("halted: %+v", h)
	}
	failed := func(kinds ...string) bool {
		for _, k := range kinds {
			if had[k] > f.left[k] {
				return true
			}
		}
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := s.Mine(ctx, 5); err != nil {
		t.Fatal(err)
	}
	faithful.check(t, s.e)
	for i := range results {
		for k := range results[i] {
			check(t, s, &past, failed, &results[i][k], fmt.Sprintf("client %d, submission %d", i, k))
		}
	}
	until(t, func() bool { return s.alive("session") <= 1 && s.alive("waiter") == 0 }) // the default session's
	if t.Failed() {
		t.Logf("failed: %q", where)
	}
}

// check compares the answers that a client got with the chain.
func check(t *testing.T, s *sandbox, past *history, failed func(...string) bool, r *clientAnswers, who string) {
	t.Helper()
	hash := r.tx.Hash()
	_, _, err := s.e.Transactions().Transaction(hash)
	if err != nil && !errors.Is(err, engine.ErrUnknown) {
		t.Fatal(err)
	}
	there := err == nil
	if r.took > 40*time.Second {
		t.Errorf("%s: the answer took %v", who, r.took)
	}
	var invalid *primitives.InvalidTxError
	switch {
	case r.err == nil && r.level == view.LevelNone:
		if !there && !failed("mempool", "session", "rpc") {
			t.Errorf("%s: taken, and in no block", who)
		}
	case r.err == nil:
		want, ok := past.first(t, s.e, hash, r.level)
		switch {
		case !there || !ok:
			t.Errorf("%s: answered with %v, but no block includes the transaction (%v)", who, r.out.Level, there)
		case r.out.Level != want && !failed("txtracker", "mempool"):
			t.Errorf("%s: waited for %v and got %v; the first block that satisfies the wait gives %v", who, r.level,
				r.out.Level, want)
		case !txstatus.Meets(r.out.Level, r.level):
			t.Errorf("%s: waited for %v and got %v", who, r.level, r.out.Level)
		}
	case errors.As(r.err, &invalid):
		if there {
			t.Errorf("%s: refused, and in a block: %v", who, r.err)
		}
	case errors.Is(r.err, session.ErrFailed):
		if !failed("session", "rpc", "waiter") {
			t.Errorf("%s: %v, and nothing of it failed", who, r.err)
		}
	case errors.Is(r.err, mempool.ErrRestarted), errors.Is(r.err, system.ErrFailed):
		if !failed("mempool") {
			t.Errorf("%s: %v, and nothing of it failed", who, r.err)
		}
	default:
		t.Errorf("%s: waited for %v: %v after %v; in a block: %v, from %v", who, r.level, r.err, r.took, there,
			r.begin.Format("05.000000"))
	}
}

// resumingReader follows blocks, and resumes at the cursor when a failure ends its subscription.
type resumingReader struct {
	back  *backend.Backend
	begin primitives.Height
	mu    sync.Mutex
	told  []view.At
	ended int
	over  bool
}

func (x *resumingReader) follow(t *testing.T, after *view.Cursor) {
	sub, err := x.back.Subscribe(&view.Subscription{Topic: view.TopicBlocks, After: after}, &resumingSink{x, t})
	if err != nil {
		t.Error(err)
		return
	}
	sub.Start()
}

type resumingSink struct {
	*resumingReader
	t *testing.T
}

func (x *resumingSink) Offer(n *view.Notice) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told = append(x.told, n.Cursor.At)
	return true
}

func (x *resumingSink) WhenRoom(f func()) { f() }

func (x *resumingSink) End(why view.EndReason, at *view.Cursor) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended++
	if why != view.EndFailed {
		x.t.Errorf("the subscription ended: %s", why)
	}
	if !x.over {
		next := *at
		go x.follow(x.t, &next)
	}
}

// check waits until all events have arrived, and compares them with the chain.
func (x *resumingReader) check(t *testing.T, e *engine.Engine) {
	t.Helper()
	head := e.Head()
	until(t, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return len(x.told) > 0 && x.told[len(x.told)-1].Hash == head.Hash
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	i := 0
	for height := x.begin; height < head.Height(); i++ {
		ref, err := e.Store().NextBlock(height + 1)
		if err != nil {
			t.Fatal(err)
		}
		if height = ref.Height; i >= len(x.told) || x.told[i].Hash != ref.Hash {
			t.Fatalf("block %d was not reported in order (after %d ends)", height, x.ended)
		}
	}
	if i != len(x.told) {
		t.Errorf("%d blocks were reported, want %d (after %d ends)", len(x.told), i, x.ended)
	}
}
