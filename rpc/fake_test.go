package rpc

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
	"github.com/valyala/fasthttp"
)

var (
	testHash = primitives.HashBytes([]byte("test"))
	testAt   = view.At{Height: 100, Hash: testHash}
	testKey  = primitives.MustParsePublicKey("ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr")
)

// fakeNode answers what a test sets. All else is the nil Node inside, whose methods panic.
type fakeNode struct {
	Node
	mu         sync.Mutex // of recorded requests; those of a batch run concurrently
	state      fakeState
	err        error // of all reads
	origin     error // of ReceiptToTx
	call       func(*view.Call) (*view.CallResult, error)
	sendTx     func(context.Context, *view.SendTx) (*view.FinalOutcome, error)
	tx         func(context.Context, *view.GetTx) (*view.FinalOutcome, error)
	indexed    func(most int) ([]byte, error)
	took       time.Duration // of simulations
	async      int
	asyncErr   error
	patched    []genesis.Record
	forwarded  uint64
	clock      *view.SetClock
	production *view.SetProduction
	dealt      string
	replayed   *view.Case
	mocks      *primitives.Mocks
	exempt     []primitives.AccountID
	exemptAll  bool
	sessions   atomic.Int64
	// subscribed is called with each subscription; nil: not called.
	subscribed func(*fakeSubscriber)
}

// locked records a request, for the test that sent it.
func (n *fakeNode) locked(keep func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	keep()
}

func (n *fakeNode) Head() view.At { return testAt }
func (n *fakeNode) Health() error { return n.err }
func (n *fakeNode) State(ref view.BlockRef, _ primitives.AccountID) (State, error) {
	if n.err != nil {
		return nil, n.err
	}
	return &n.state, nil
}
func (n *fakeNode) CallFunction(_ primitives.Hash, c *view.Call) (*view.CallResult, error) {
	if n.call == nil {
		return &view.CallResult{}, nil
	}
	return n.call(c)
}
func (n *fakeNode) Block(context.Context, view.BlockRef) (primitives.AccountID, *primitives.Block, error) {
	if n.err != nil {
		return "", nil, n.err
	}
	return "a.near", &primitives.Block{Header: (&primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}).Init()}, nil
}
func (n *fakeNode) Chunk(context.Context, view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error) {
	return "", nil, n.err
}
func (n *fakeNode) GasPrice(context.Context, *view.BlockRef) (primitives.Balance, error) {
	return primitives.Yocto(5), n.err
}
func (n *fakeNode) Changes(view.BlockRef, *view.ChangesRequest) (primitives.Hash, []view.Change, error) {
	return testHash, nil, n.err
}
func (n *fakeNode) Effects(view.BlockRef) (primitives.Hash, []view.Effect, error) {
	return testHash, nil, n.err
}
func (n *fakeNode) StreamerMessage(view.BlockRef) ([]byte, error) { return []byte("{}"), n.err }
func (n *fakeNode) IndexerBlock(hash primitives.Hash, most int) ([]byte, error) {
	if n.indexed != nil {
		return n.indexed(most)
	}
	return []byte(`{"block":"` + hash.String() + `"}`), n.err
}
func (n *fakeNode) AwaitHeight(_ context.Context, _ bool, h primitives.Height) (primitives.Height, error) {
	return h, n.err
}
func (n *fakeNode) BlockDocument(context.Context, primitives.Height, view.DocumentPart) ([]byte, error) {
	return []byte("{}"), n.err
}
func (n *fakeNode) Transactions(context.Context, *view.ListQuery) (*view.TransactionList, error) {
	return &view.TransactionList{}, n.err
}
func (n *fakeNode) Accounts(context.Context, string, string, int) ([]primitives.AccountID, bool, error) {
	return []primitives.AccountID{"a.near"}, false, n.err
}
func (n *fakeNode) Validators(view.EpochRef) (*view.Validators, error) {
	return &view.Validators{}, n.err
}
func (n *fakeNode) Status() (*view.Status, error) {
	return &view.Status{ChainID: "test", Validators: []primitives.AccountID{"a.near"}, NodePublicKey: testKey, ValidatorPublicKey: testKey}, n.err
}
func (n *fakeNode) NetworkInfo() (*view.NetworkInfo, error) { return &view.NetworkInfo{}, n.err }
func (n *fakeNode) GenesisConfig() ([]byte, error)          { return []byte(`{"a":1}`), n.err }
func (n *fakeNode) Receipt(context.Context, primitives.Hash) (*primitives.Receipt, error) {
	return &primitives.Receipt{PredecessorID: "a.near", ReceiverID: "b.near", Body: &primitives.DataReceipt{}}, n.err
}
func (n *fakeNode) ProtocolConfig(view.BlockRef) (*view.ProtocolConfig, error) {
	return &view.ProtocolConfig{RuntimeConfig: rawJSON("{}"), ShardLayout: primitives.SingleShardLayout()}, n.err
}
func (n *fakeNode) NextLightClientBlock(primitives.Hash) (*primitives.LightClientBlock, error) {
	return nil, n.err
}
func (n *fakeNode) LightClientProof(*view.OutcomeRef) (*view.LightClientProof, error) {
	return &view.LightClientProof{}, n.err
}
func (n *fakeNode) LightClientBlockProof(_, _ primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error) {
	return &primitives.LiteHeader{}, nil, n.err
}
func (n *fakeNode) CongestionLevel(context.Context, view.ChunkRef) (float64, error) {
	return 0.25, n.err
}
func (n *fakeNode) ValidatorsOrdered(*view.BlockRef) ([]primitives.ValidatorStake, error) {
	return []primitives.ValidatorStake{{AccountID: "a.near", PublicKey: testKey}}, n.err
}
func (n *fakeNode) MaintenanceWindows(primitives.AccountID) ([]view.Window, error) {
	return []view.Window{{Start: 3, End: 5}}, n.err
}
func (n *fakeNode) ClientConfig() ([]byte, error) { return []byte(`{"archive":false}`), n.err }
func (n *fakeNode) SplitStorage() (*view.SplitStorage, error) {
	return &view.SplitStorage{Head: 100, Final: 98, Kind: "RPC"}, n.err
}
func (n *fakeNode) ReceiptToTx(context.Context, *view.OriginQuery) (*view.Origin, error) {
	return &view.Origin{Transaction: testHash, Sender: "a.near"}, cmp.Or(n.origin, n.err)
}
func (n *fakeNode) OpenSession(ctx context.Context) (context.Context, func(), error) {
	n.sessions.Add(1)
	return ctx, func() { n.sessions.Add(-1) }, nil
}
func (n *fakeNode) SendTxAsync(context.Context, *primitives.SignedTransaction) error {
	n.locked(func() { n.async++ })
	return n.asyncErr
}
func (n *fakeNode) SendTx(ctx context.Context, q *view.SendTx) (*view.FinalOutcome, error) {
	if n.sendTx != nil {
		return n.sendTx(ctx, q)
	}
	return &view.FinalOutcome{Level: q.WaitUntil}, n.err
}
func (n *fakeNode) Tx(ctx context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
	if n.tx != nil {
		return n.tx(ctx, q)
	}
	return &view.FinalOutcome{Level: q.WaitUntil}, n.err
}
func (n *fakeNode) Simulate(_ context.Context, q *view.Simulate) (*view.Simulation, error) {
	q.Took = int64(n.took)
	return &view.Simulation{FinalOutcome: view.FinalOutcome{Level: view.LevelFinal}, At: testAt, Blocks: 3, Complete: true}, n.err
}
func (n *fakeNode) Trace(_ context.Context, q *view.Trace) ([]byte, error) {
	q.Took = int64(n.took)
	return []byte(`{}`), n.err
}

func (n *fakeNode) PatchState(_ context.Context, records []genesis.Record) error {
	n.locked(func() { n.patched = records })
	return n.err
}

func (n *fakeNode) FastForward(_ context.Context, heights uint64) error {
	n.locked(func() { n.forwarded = heights })
	return n.err
}

func (n *fakeNode) Subscribe(q *view.Subscription, sink view.Sink) (view.Subscriber, error) {
	if n.err != nil {
		return nil, n.err
	}
	s := &fakeSubscriber{q: q, sink: sink}
	if n.subscribed != nil {
		n.subscribed(s)
	}
	return s, nil
}

// fakeSubscriber is controlled by a test.
type fakeSubscriber struct {
	q         *view.Subscription
	sink      view.Sink
	start     func()
	cancelled atomic.Bool
}

func (s *fakeSubscriber) At() view.Cursor { return view.Cursor{At: testAt, Index: view.WholeBlock} }
func (s *fakeSubscriber) Start() {
	if s.start != nil {
		s.start()
	}
}
func (s *fakeSubscriber) Cancel() { s.cancelled.Store(true) }
func (s *fakeSubscriber) Stop() {
	at := s.At()
	s.sink.End(view.EndStopping, &at)
}

func (n *fakeNode) Mine(_ context.Context, m *view.Mine) (view.At, error) {
	if m.Until != nil {
		return view.At{Height: 7, Hash: *m.Until}, n.err
	}
	return view.At{Height: 100 + primitives.Height(m.Blocks), Hash: testHash}, n.err
}
func (n *fakeNode) DumpState(_ context.Context, accounts []primitives.AccountID, _ *uint64, each func(genesis.Record) error) (view.At, error) {
	for _, a := range append([]primitives.AccountID{"a"}, accounts...) {
		if err := each(&genesis.ContractRecord{AccountID: a, Code: n.state.code}); err != nil {
			return testAt, err
		}
	}
	return testAt, n.err
}
func (n *fakeNode) LoadState(_ context.Context, records []genesis.Record) error {
	n.locked(func() { n.patched = records })
	return n.err
}
func (n *fakeNode) Deal(_ context.Context, token, account primitives.AccountID, amount primitives.Balance) error {
	n.locked(func() { n.dealt = string(token) + " " + string(account) + " " + amount.String() })
	return n.err
}
func (n *fakeNode) Impersonate(accounts []primitives.AccountID, all bool) error {
	n.locked(func() { n.exempt, n.exemptAll = accounts, all })
	return n.err
}
func (n *fakeNode) DumpTransaction(_ context.Context, r *view.Trace) (*view.Case, error) {
	d := view.Deed{Executor: "a.near", Status: []byte(`{"SuccessValue":""}`), Gas: 7, Nodes: 2, Logs: []string{"l"}}
	return &view.Case{Records: []genesis.Record{&genesis.ContractRecord{AccountID: "a.near"}, &genesis.ContractRecord{AccountID: "b.near"}}, Tx: signedTx(),
		Absent: []primitives.AccountID{"c.near"}, At: testAt, Timestamp: 5, Outcomes: []view.Deed{d, d}, Alone: "odd"}, n.err
}
func (n *fakeNode) ReplayTransaction(_ context.Context, c *view.Case) (view.Replayed, error) {
	n.locked(func() { n.replayed = c })
	return view.Replayed{Hash: testHash}, n.err
}
func (n *fakeNode) MissChunks(_ context.Context, m *view.MissChunks) (view.ChunksMissed, error) {
	return view.ChunksMissed{3: m.Blocks, 1: uint64(len(m.Shards))}, n.err
}
func (n *fakeNode) Reorganise(_ context.Context, blocks uint64) (view.Reorganised, error) {
	return view.Reorganised{At: testAt, Gone: []view.At{{Height: primitives.Height(blocks)}, testAt}}, n.err
}
func (n *fakeNode) MockVerification(_ context.Context, m *primitives.Mocks) error {
	n.locked(func() { n.mocks = m })
	return n.err
}
func (n *fakeNode) Tag(name string, hashes []primitives.Hash) (view.Tag, error) {
	return view.Tag{Name: name, Transactions: len(hashes), Open: hashes == nil}, n.err
}
func (n *fakeNode) Tags() ([]view.Tag, error) {
	return []view.Tag{{Name: "x", Transactions: 4, Omitted: 5}, {Name: "y", Open: true}}, n.err
}
func (n *fakeNode) DropTag(string) error { return n.err }
func (n *fakeNode) ProfileTag(_ context.Context, name string, _ *view.Simulate) ([]byte, error) {
	return append(view.AppendString([]byte(`{"of":`), name), '}'), n.err
}
func (n *fakeNode) Fork(_ context.Context, f *view.ForkControl) (view.Fork, error) {
	return view.Fork{URL: "http://other", ChainID: "other", At: testAt, Live: f.Live, Cut: f.Cut}, n.err
}
func (n *fakeNode) NextEpoch(context.Context) (view.At, error) { return testAt, n.err }
func (n *fakeNode) TakeSnapshot(_ context.Context, name string) (view.Snapshot, error) {
	return view.Snapshot{ID: "of " + name, At: testAt}, n.err
}
func (n *fakeNode) Revert(context.Context, string) (view.At, error) { return testAt, n.err }
func (n *fakeNode) DropSnapshot(string) error                       { return n.err }
func (n *fakeNode) NewWorld(_ context.Context, w *view.NewWorld) (view.World, error) {
	return view.World{ID: "7", Parent: w.Snapshot, Begin: testAt, Head: testAt}, n.err
}
func (n *fakeNode) DropWorld(context.Context, string) error { return n.err }
func (n *fakeNode) Worlds() ([]view.World, error) {
	return []view.World{{ID: "7", Begin: testAt, Head: testAt, Addr: "127.0.0.1:1", Bytes: 5}}, n.err
}
func (n *fakeNode) Snapshots() ([]view.Snapshot, error) {
	return []view.Snapshot{{ID: "a", At: testAt}, {ID: "b", At: testAt}}, n.err
}
func (n *fakeNode) SetClock(_ context.Context, c *view.SetClock) (view.Clock, error) {
	n.locked(func() { n.clock = c })
	return view.Clock{Time: 1, Frozen: true, Next: 2, Interval: 3}, n.err
}
func (n *fakeNode) SetProduction(_ context.Context, p *view.SetProduction) (view.Production, error) {
	n.locked(func() { n.production = p })
	return view.Production{Mode: "manual", Quiet: true, Interval: 5}, n.err
}

type rawJSON string

func (r rawJSON) AppendJSON(b []byte) []byte { return append(b, r...) }

// fakeState holds one account.
type fakeState struct {
	at       *view.At // nil: testAt
	account  *primitives.Account
	key      *primitives.AccessKey
	code     []byte
	items    []view.StateItem
	keys     []view.KeyInfo
	proof    error
	err      error
	released atomic.Int64
}

func (s *fakeState) At() view.At {
	if s.at != nil {
		return *s.at
	}
	return testAt
}
func (s *fakeState) Account(_ primitives.AccountID, a *primitives.Account) (bool, error) {
	if s.account != nil {
		*a = *s.account
	}
	return s.account != nil, s.err
}
func (s *fakeState) AccessKey(_ primitives.AccountID, _ primitives.PublicKeyHandle, k *primitives.AccessKey) (bool, error) {
	if s.key != nil {
		*k = *s.key
	}
	return s.key != nil, s.err
}
func (s *fakeState) AccessKeys(_ primitives.AccountID, after primitives.PublicKeyHandle, limit int) (keys []view.KeyInfo, more bool, err error) {
	for _, k := range s.keys {
		if k.Handle > after {
			keys = append(keys, k)
		}
	}
	if more = limit > 0 && len(keys) > limit; more {
		keys = keys[:limit]
	}
	return keys, more, s.err
}
func (s *fakeState) GasKeyNonce(_ primitives.AccountID, _ primitives.PublicKeyHandle, i uint16) (primitives.Nonce, bool, error) {
	return primitives.Nonce(i), true, s.err
}
func (s *fakeState) Code(primitives.AccountID) ([]byte, error)               { return s.code, s.err }
func (s *fakeState) GlobalCode(*primitives.GlobalContractID) ([]byte, error) { return s.code, s.err }
func (s *fakeState) Data(_ primitives.AccountID, prefix, after []byte, each func(k, v []byte) bool) error {
	for _, x := range s.items {
		if string(x.Key) > string(after) && len(x.Key) >= len(prefix) && string(x.Key[:len(prefix)]) == string(prefix) && !each(x.Key, x.Value) {
			break
		}
	}
	return s.err
}
func (s *fakeState) DataProof(primitives.AccountID, []byte) ([][]byte, error) {
	if s.proof != nil {
		return nil, s.proof
	}
	return [][]byte{{1}}, s.err
}
func (s *fakeState) KeyProof([]byte) ([][]byte, error) { return s.DataProof("", nil) }
func (s *fakeState) Release()                          { s.released.Add(1) }

func newServer(tb testing.TB, n *fakeNode, opts Options) *Server {
	tb.Helper()
	s, err := New(n, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// limited are the default limits with a change.
func limited(change func(*limits.Limits)) limits.Limits {
	l := limits.Default()
	change(&l)
	return l
}

// post answers a POST without a network.
func post(s *Server, path, body string) (status int, reply string) {
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI(path)
	ctx.Request.SetBodyString(body)
	s.Handle(&ctx)
	return ctx.Response.StatusCode(), string(ctx.Response.Body())
}

// callMethod answers a call of a method.
func callMethod(s *Server, method, params string) (status int, reply string) {
	return post(s, "/", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
}
