package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

const root primitives.AccountID = "test.near" // the validator

// patience bounds the waits that ended without an answer after ten seconds in the recording. Other
// waits are not bounded.
const patience = 300 * time.Millisecond

// world is a whole node, from store to HTTP, that makes a block when the test asks for one.
type world struct {
	t *testing.T

	numbering primitives.Numbering

	engine *engine.Engine
	node   *node.Node
	store  *storage.Store
	client Client
	hasty  Client // its waits end after patience
	scene  Scene
	keys   map[primitives.AccountID]primitives.SecretKey
	clock  atomic.Uint64 // ns since 1970
}

func seedKey(seed string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, seed)
}

// newWorld starts a node on a genesis of a recorded chain, at height 1. keep is
// gc_num_epochs_to_keep.
func newWorld(t *testing.T, g *genesis.Config, records []genesis.Record, keep uint64) *world {
	t.Helper()
	return newWorldOf(t, g, records, worldOptions{numbering: primitives.NumberingJune, keep: keep})
}

// worldOptions are the options of a world.
type worldOptions struct {
	numbering primitives.Numbering
	keep      uint64 // gc_num_epochs_to_keep
	// pace is the time between the timestamps of blocks, which makes the chain the same in every
	// run; 0: blocks have the time of the clock.
	pace time.Duration
}

// newWorldOf starts a node on a genesis, at height 1.
func newWorldOf(t *testing.T, g *genesis.Config, records []genesis.Record, o worldOptions) *world {
	t.Helper()
	w := &world{t: t, numbering: o.numbering, keys: map[primitives.AccountID]primitives.SecretKey{}, scene: Scene{Replace: map[string]string{}}}
	w.clock.Store(uint64(g.GenesisTime))
	chain, err := testnode.Spec(g, o.numbering, nil, records)
	w.must(err)
	checker := signature.New()
	machine, err := vm.New(vm.Options{Alarm: func(err error) { t.Errorf("vm: %v", err) }})
	w.must(err)
	t.Cleanup(machine.Close)
	w.engine = testnode.Open(t, testnode.Options{Chain: chain, Engine: func(o *engine.Options) { o.Signature, o.VM = checker.Check, machine }})
	w.store = w.engine.Store()
	views := viewpool.New(viewpool.Options{})
	t.Cleanup(views.Close)
	key := primitives.KeyFile{AccountID: root, SecretKey: seedKey(WireSeeds[0])}
	file := config.Default(true) // as the recorder had it
	file.Set("gc_num_epochs_to_keep", json.Number("100000"))
	file.Set("save_receipt_to_tx", true)
	conf, _, err := config.Parse("config.json", file.Format())
	w.must(err)
	w.keys[root] = key.SecretKey
	w.emptyBlock()
	var begin *messages.Clock
	now := time.Now
	if o.pace > 0 {
		begin = &messages.Clock{Time: w.clock.Load(), Step: uint64(o.pace)}
		now = func() time.Time { return time.Unix(0, int64(w.engine.Head().Header().Timestamp)) }
	}
	w.node, err = node.Start(node.Options{
		Engine: w.engine, Signatures: checker, Keys: map[primitives.AccountID]primitives.SecretKey{root: key.SecretKey},
		Vote: parameters.Newest(o.numbering), Mode: production.Manual, Limits: node.Limits{Wait: time.Minute},
		Delays:  doomslug.Delays{Endorsement: 1e8, Skip: 1e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}},
		Mempool: txpool.Limits{Transactions: 1000, Bytes: 100 << 20, KeyTransactions: 100},
		Clock:   func() uint64 { return w.clock.Add(uint64(120 * time.Millisecond)) }, Begin: begin,
		Exit: func(who string, reason any, stack []byte) {
			panic(fmt.Sprintf("%s failed: %v\n%s", who, reason, stack))
		},
	})
	w.must(err)
	back := backend.New(backend.Options{
		Engine: w.engine, VM: machine, Genesis: g, Submit: w.node, Version: view.Version{Version: "1", Build: "1"}, RPCAddr: "0.0.0.0:3030",
		Validator: &key, NodeKey: seedKey("node").PublicKey(), KeepEpochs: o.keep, Views: views, Now: now,
		Config: conf.Client(g, view.Version{Version: "1", Build: "1"}), Control: sandboxControl{node: w.node},
	})
	serve := func(timeout time.Duration) Client {
		server, err := rpc.New(back, rpc.Options{PollingTimeout: timeout, ViewStateLimit: 50_000, IndexerRequests: 1})
		w.must(err)
		client, stop := InProcess(server.Serve)
		t.Cleanup(stop)
		return client
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.node.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := w.store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w.client, w.hasty = serve(time.Minute), serve(patience)
	return w
}

// sandboxControl implements neard's sandbox_ methods.
type sandboxControl struct {
	backend.SandboxControl // nil: nothing was recorded of methods of our own
	node                   *node.Node
}

func (s sandboxControl) Mine(ctx context.Context, m *view.Mine) (at view.At, err error) {
	at.Height, at.Hash, err = s.node.Mine(ctx, m.Blocks)
	return at, err
}

func (s sandboxControl) PatchState(ctx context.Context, records []genesis.Record) error {
	_, _, err := s.node.PatchState(ctx, records)
	return err
}

func (s sandboxControl) FastForward(ctx context.Context, heights uint64) error {
	_, _, err := s.node.FastForward(ctx, heights)
	return err
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

// emptyBlock makes the first block without new chunks: on the recorded node they were not ready in
// time (wire 119).
func (w *world) emptyBlock() {
	w.t.Helper()
	g := w.engine.Genesis()
	n := len(g.Shards)
	p := &engine.Proposal{Parent: g.Hash, Height: g.Height() + 1, Timestamp: w.clock.Add(1e9), Vote: parameters.Newest(w.numbering),
		Chunks: make([]*primitives.Chunk, n), Endorsements: make([][]primitives.Signature, n)}
	approvers, err := w.engine.Approvers(g.Hash)
	w.must(err)
	inner := primitives.NewApprovalInner(g.Hash, g.Height(), p.Height)
	for range approvers {
		p.Approvals = append(p.Approvals, w.keys[root].Sign(inner.SignedBytes(p.Height)))
	}
	b, err := w.engine.NewBlock(p, w.keys[root])
	w.must(err)
	_, err = w.engine.Process(b, nil, true)
	w.must(err)
}

// mine makes blocks up to a height.
func (w *world) mine(height primitives.Height) {
	w.t.Helper()
	if head := w.engine.Head().Height(); head < height {
		at, _, err := w.node.Mine(w.t.Context(), uint64(height-head))
		if err != nil || at != height {
			w.t.Fatalf("mine to %d: %d, %v", height, at, err)
		}
	}
}

// hash is the hash of the block at a height.
func (w *world) hash(height primitives.Height) string {
	w.t.Helper()
	for e := w.engine.Head(); e != nil && e.Height() >= height; e = w.engine.BlockNode(e.Header().PrevHash) {
		if e.Height() == height {
			return e.Hash.String()
		}
	}
	h, err := w.store.HashAt(height)
	w.must(err)
	return h.String()
}

// chunk is the hash of the first chunk of a block.
func (w *world) chunk(height primitives.Height) primitives.Hash {
	w.t.Helper()
	block, err := primitives.ParseHash(w.hash(height))
	w.must(err)
	at, err := w.engine.StateAt(block)
	w.must(err)
	defer at.Release()
	return at.Block.Body.Chunks[0].ChunkHash()
}

// collect removes the blocks below a height and keeps later ones, even if garbage collection could
// remove them: neard's was late too.
func (w *world) collect(tail primitives.Height) {
	w.t.Helper()
	for at := w.store.Tip().Tail; at < tail; {
		done, err := w.store.CollectGarbage(storage.GCOptions{KeepEpochs: 5, Before: 1 << 63, MaxHeights: int(tail - at)})
		if err != nil || done.Tail == at {
			w.t.Fatalf("collect to %d: tail %d, %v", tail, done.Tail, err)
		}
		at = done.Tail
	}
}

// stand replaces a recorded text by this chain's.
func (w *world) stand(recorded, ours string) { w.scene.Replace[recorded] = ours }

// base is the block hash for a transaction that named a recorded one: its replacement, or the head.
func (w *world) base(recorded primitives.Hash) primitives.Hash {
	text, ok := w.scene.Replace[recorded.String()]
	if !ok {
		return w.engine.Head().Hash
	}
	h, err := primitives.ParseHash(text)
	w.must(err)
	return h
}

// send signs a transaction of an account and submits it.
func (w *world) send(signer, receiver primitives.AccountID, nonce primitives.Nonce, actions ...primitives.Action) primitives.Hash {
	w.t.Helper()
	key := w.keys[signer]
	t := primitives.Transaction{SignerID: signer, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce},
		ReceiverID: receiver, BlockHash: w.engine.Head().Hash, Actions: actions}
	hash := t.Hash()
	w.submit(primitives.NewSignedTransaction(t, key.Sign(hash[:])))
	return hash
}

func (w *world) submit(tx *primitives.SignedTransaction) {
	w.t.Helper()
	if pooled, err := w.node.Submit(tx); err != nil || !pooled {
		w.t.Fatalf("transaction %v of %s: pooled %v, %v", tx.Hash(), tx.SignerID, pooled, err)
	}
}

// succeeded fails the test unless a transaction has succeeded.
func (w *world) succeeded(hash primitives.Hash) view.FinalOutcome {
	w.t.Helper()
	out, err := w.engine.Transactions().FullStatus(hash)
	if err != nil || out.Status.Kind != view.FinalSuccessValue {
		w.t.Fatalf("transaction %v: %+v, %v", hash, out.Status, err)
	}
	return out
}

// recorded returns the recorded transaction of a line.
func recorded(t *testing.T, l *Line) *primitives.SignedTransaction {
	t.Helper()
	for _, text := range signedTexts(l.Request().Body) {
		raw, err := base64.StdEncoding.DecodeString(text)
		tx := new(primitives.SignedTransaction)
		if err == nil && borsh.Unmarshal(raw, tx) == nil {
			return tx
		}
	}
	t.Fatalf("%v sends no transaction", l)
	return nil
}

// maxBlocksWaited bounds the blocks that are made while a request waits.
const maxBlocksWaited = 8

// ask sends a line's request. While it waits for its transaction, blocks are made, each once it is
// clear that the previous one did not suffice, so that the reply is that of the first block that
// satisfies the wait.
func (w *world) ask(l *Line) (Reply, error) {
	type answer struct {
		Reply
		err error
	}
	r := w.scene.Request(l)
	got := make(chan answer, 1)
	client := w.client
	if l.Status == http.StatusRequestTimeout {
		client = w.hasty
	}
	go func() {
		reply, err := client(r)
		got <- answer{reply, err}
	}()
	var q struct {
		Method string
		Params struct {
			Signed string `json:"signed_tx_base64"`
			Level  string `json:"wait_until"`
		}
	}
	if json.Unmarshal([]byte(r.Body), &q) != nil || q.Params.Signed == "" || q.Params.Level == "NONE" ||
		strings.Contains(l.Body, "INVALID_TRANSACTION") { // which needs no block
		a := <-got
		return a.Reply, a.err
	}
	until := view.LevelExecutedOptimistic
	for level := view.LevelNone; level <= view.LevelFinal; level++ {
		if level.String() == q.Params.Level {
			until = level
		}
	}
	raw, err := base64.StdEncoding.DecodeString(q.Params.Signed)
	tx := new(primitives.SignedTransaction)
	if err == nil {
		err = borsh.Unmarshal(raw, tx)
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for mined := 0; ; {
		select {
		case a := <-got:
			return a.Reply, a.err
		case <-look.C:
		}
		if err != nil || mined == maxBlocksWaited || w.node.Stats().Parked == 0 {
			continue
		}
		out, unknown := w.engine.Transactions().FullStatus(tx.Hash())
		if unknown == nil && txstatus.Meets(out.Level, until) {
			continue // the reply has arrived
		}
		if unknown != nil && w.node.Stats().Pooled == 0 {
			continue // it is not in the pool yet: a block would lack it
		}
		w.mine(w.engine.Head().Height() + 1)
		mined++
	}
}

// play sends the lines in order and compares the replies, also with the OpenAPI document. before is
// called before each line.
func (w *world) play(lines []Line, plan Plan, before func(n int)) (passed map[Kind]int) {
	w.t.Helper()
	passed = map[Kind]int{}
	document := newChecker(w.t, w.client)
	for i := range lines {
		l := &lines[i]
		kind := plan[l.File][l.N].Kind
		before(l.N)
		got, err := w.ask(l)
		if err != nil {
			w.t.Errorf("%v: error %v", l, err)
			continue
		}
		if why := document.reply(w.scene.Request(l), got); why != "" {
			w.t.Errorf("%v: the reply violates /openapi.json: %s", l, why)
		}
		if l.Method == "HEAD" {
			got.Body = ""
		}
		if kind == Differs {
			if w.differs(l, got) {
				passed[kind]++
			}
			continue
		}
		if diff := Compare(l, got, true); diff != "" {
			w.t.Errorf("%v: %s\nrequest %.300s", l, diff, w.scene.Request(l).Body)
			continue
		}
		passed[kind]++
	}
	w.t.Logf("%d methods, or faults of them, were held to /openapi.json", len(document.seen))
	return passed
}

// differs checks a line of the plan's deliberate differences and returns whether it differs as
// expected.
func (w *world) differs(l *Line, got Reply) bool {
	w.t.Helper()
	for _, d := range differences {
		for _, n := range d.lines {
			if d.file != l.File || n != l.N {
				continue
			}
			return w.t.Run(fmt.Sprintf("%s-%d", d.file, n), func(t *testing.T) { d.check(t, l, got) })
		}
	}
	return false // TestEachWireDifferenceIsChecked reports it
}

// recordedGenesis is the configuration in a recorded genesis_config, with changes.
func recordedGenesis(t *testing.T, l *Line, change func(map[string]json.RawMessage)) *genesis.Config {
	t.Helper()
	var reply struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(l.Body), &reply); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(reply.Result)
	}
	reply.Result["records"] = json.RawMessage("[]")
	text, err := json.Marshal(reply.Result)
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := genesis.ReadConfig(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// resultOf returns a member of a recorded result.
func resultOf(t *testing.T, l *Line, member string, into any) {
	t.Helper()
	var reply struct{ Result map[string]json.RawMessage }
	err := json.Unmarshal([]byte(l.Body), &reply)
	if err == nil {
		err = json.NewDecoder(strings.NewReader(string(reply.Result[member]))).Decode(into)
	}
	if err != nil {
		t.Fatalf("%v: member %s, error %v", l, member, err)
	}
}

// withCode sets an account's code.
func withCode(a *genesis.AccountRecord, code []byte) (*genesis.AccountRecord, *genesis.ContractRecord) {
	a.Account.Contract = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(code)}
	return a, &genesis.ContractRecord{AccountID: a.AccountID, Code: code}
}

func account(id primitives.AccountID, amount, locked primitives.Balance) *genesis.AccountRecord {
	return &genesis.AccountRecord{AccountID: id, Account: primitives.Account{Version: primitives.AccountV1, Amount: amount, Locked: locked}}
}
