package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// nodeTarget is a complete node in this process. nodeTarget calls the functions that the node's RPC
// calls, without HTTP.
type nodeTarget struct {
	n     *fullNode
	lanes int
	mix   load.Workload
	until view.ExecutionLevel
	// last nonce by account; only the worker that took the account from free uses the account's
	// entry
	nonces []atomic.Uint64
	free   chan int
	shard  []int
	far    [][]int // by shard index: indices of the accounts that are not in that shard
	limit  func(context.Context) (context.Context, context.CancelFunc)
}

// openNode starts a node on a new chain.
func openNode(o *LoadOptions) (_ *loaded, err error) {
	until, err := levelOf(o.Until)
	if err != nil {
		return nil, err
	}
	mix, err := load.WorkloadOf(o.Workload)
	if err != nil {
		return nil, err
	}
	switch {
	case mix.Reads():
		return nil, errors.New("bench: the workload \"reads\" is measured over HTTP only: use --target rpc")
	case o.Accounts < 2 || o.Accounts > 10_000_000 || o.Connections < 1 || o.Connections > 1<<16:
		return nil, fmt.Errorf("bench: there are %d accounts and %d connections, must be 2 to 10,000,000 and 1 to 65,536",
			o.Accounts, o.Connections)
	}
	dir, err := os.MkdirTemp(o.Dir, "troupe-bench-*")
	if err != nil {
		return nil, err
	}
	o.Progress(0, "accounts")
	n, err := startNode(dir, o.Accounts, o.Shards, "127.0.0.1:0", nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	end := func() error { return errors.Join(n.stop(), os.RemoveAll(dir)) }
	t := &nodeTarget{n: n, lanes: min(o.Connections, o.Accounts), mix: mix, until: until,
		nonces: make([]atomic.Uint64, o.Accounts), free: make(chan int, o.Accounts),
		limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, o.Timeout)
		}}
	for i := range o.Accounts {
		t.free <- i
	}
	if err := t.settle(o.Shards); err != nil {
		return nil, errors.Join(err, end())
	}
	return &loaded{Target: t, subject: load.Subject{Kind: "node",
		Name: fmt.Sprintf("in this process, %d accounts, %d shards", o.Accounts, o.Shards), ChainID: n.Engine.Chain().ID},
		notes: []string{"the node and the load share this process and its cores"}, close: end,
		stats: func(context.Context) (int, primitives.Height, bool) {
			return int(n.Node.Stats().Transactions), n.Engine.Head().Height(), true
		}}, nil
}

func levelOf(name string) (view.ExecutionLevel, error) {
	for i, n := range view.LevelNames {
		if n == name {
			return view.ExecutionLevel(i), nil
		}
	}
	return 0, fmt.Errorf("bench: the execution level %q is unknown, must be one of %v", name, view.LevelNames)
}

// settle computes the shard of each account in a layout of the given number of shards.
func (t *nodeTarget) settle(shards int) error {
	layout, err := workload.Layout(shards)
	if err != nil {
		return err
	}
	t.shard, t.far = make([]int, t.n.accounts), make([][]int, shards)
	for i := range t.shard {
		at, err := layout.Index(layout.ShardOf(t.n.name(i)))
		if err != nil {
			return err
		}
		t.shard[i] = int(at)
	}
	if t.mix.Far() {
		for s := range t.far {
			for i, at := range t.shard {
				if at != s {
					t.far[s] = append(t.far[s], i)
				}
			}
			if len(t.far[s]) == 0 {
				return errors.New("bench: the workload cross-shard needs at least --shards 2, with accounts in both")
			}
		}
	}
	return nil
}

func (t *nodeTarget) Lanes() int { return t.lanes }

// base returns the block hash that transactions name: the hash of the final block. If blocks are
// produced as fast as possible, the genesis would be too old after little more than a minute.
func (t *nodeTarget) base() primitives.Hash { return t.n.Engine.Final().Hash }

func (t *nodeTarget) Do(ctx context.Context, _ int, number uint64) error {
	i := <-t.free // never blocks, because there are as many accounts as workers
	defer func() { t.free <- i }()
	n := t.n
	tx := primitives.Transaction{SignerID: n.name(i), PublicKey: n.keys[i].PublicKey(),
		Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(t.nonces[i].Add(1))}, BlockHash: t.base()}
	other := func() int { return (i + 1 + int(scatter(number)%uint64(n.accounts-1))) % n.accounts }
	tx.ReceiverID, tx.Actions = t.mix.Act(number, load.Actors{Sender: i, Token: n.token(), Hog: n.hog(),
		Near: func() primitives.AccountID { return n.name(other()) },
		Far: func() primitives.AccountID {
			far := t.far[t.shard[i]]
			return n.name(far[scatter(number)%uint64(len(far))])
		}})
	hash := tx.Hash()
	ctx, cancel := t.limit(ctx)
	defer cancel()
	out, err := n.Backend().SendTx(ctx, &view.SendTx{Tx: primitives.NewSignedTransaction(tx, n.keys[i].Sign(hash[:])), WaitUntil: t.until})
	if err == nil && out.Status.Kind == view.FinalFailure {
		return fmt.Errorf("the transaction failed: %s", out.Status.Failure)
	}
	return err
}
