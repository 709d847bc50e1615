package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// shardTarget applies chunks without a node. Waiting transactions go into the next chunks, up to
// the chunks' capacity. An operation is complete when its chunk is applied. Signatures are not
// checked, no data is written to disk, and chunks follow each other without a pause.
type shardTarget struct {
	net   *shardNet
	rng   *rand.Rand
	par   apply.Par
	size  int // maximum number of transactions in a chunk
	cross float64
	calls bool
	lanes int

	mu      sync.Mutex
	waits   []chan error
	wake    chan struct{}
	stopped error
	ended   chan struct{}
	stop    context.CancelFunc
	blocks  primitives.Height
	done    int
}

func openShard(o *LoadOptions) (*loaded, error) {
	so := ShardOptions{Accounts: o.Accounts, Skew: 1, Shards: o.Shards, Blocks: 1, Cores: 1, Seed: o.Seed, Contracts: 1}
	switch o.Workload {
	case "native":
	case "ft":
		so.Tokens = true
	case "cross-shard":
		if so.Cross = 1; o.Shards < 2 {
			return nil, errors.New("bench: the workload cross-shard needs at least --shards 2")
		}
	default:
		return nil, fmt.Errorf("bench: target shard supports the workloads native, ft and cross-shard, not %s", o.Workload)
	}
	if err := so.check(); err != nil {
		return nil, err
	}
	o.Progress(0, "accounts")
	t := &shardTarget{rng: rand.New(rand.NewPCG(o.Seed, 1)), size: so.most() * 9 / 10, cross: so.Cross, calls: so.Tokens,
		lanes: o.Connections, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	var err error
	if t.net, err = newShardNet(&so, t.rng); err != nil {
		return nil, err
	}
	if o.Shards > 1 {
		t.par = workload.Goroutines
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	go t.run(ctx)
	return &loaded{Target: t, subject: load.Subject{Kind: "shard",
		Name: fmt.Sprintf("executor alone, %d accounts, %d shards, chunks of at most %d", o.Accounts, o.Shards, t.size)},
		notes: []string{"signatures count as checked, nothing is written to a disk, and chunks follow each other without a pause"},
		close: func() error { t.stop(); <-t.ended; t.net.close(); return nil },
		stats: func(context.Context) (int, primitives.Height, bool) {
			t.mu.Lock()
			defer t.mu.Unlock()
			return t.done, t.blocks, true
		}}, nil
}

func (t *shardTarget) Lanes() int { return t.lanes }

func (t *shardTarget) Do(ctx context.Context, _ int, _ uint64) error {
	done := make(chan error, 1)
	t.mu.Lock()
	err := t.stopped
	t.waits = append(t.waits, done)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run applies chunk after chunk until ctx ends.
func (t *shardTarget) run(ctx context.Context) {
	defer close(t.ended)
	for ctx.Err() == nil {
		t.mu.Lock()
		n := min(len(t.waits), t.size*len(t.net.shards))
		now := t.waits[:n:n]
		t.waits = t.waits[n:]
		t.mu.Unlock()
		if n == 0 {
			select {
			case <-t.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := t.apply(n)
		t.mu.Lock()
		t.blocks++
		t.done += n
		if err != nil && t.stopped == nil {
			t.stopped = err
		}
		t.mu.Unlock()
		for _, done := range now {
			done <- err
		}
	}
}

// apply applies one block of n transactions, distributed equally over all shards.
func (t *shardTarget) apply(n int) error {
	txs := make([][]apply.Transaction, len(t.net.shards))
	for i := range txs {
		part := n / len(txs)
		if i < n%len(txs) {
			part++
		}
		txs[i] = t.net.chunk(t.rng, i, part, t.cross)
	}
	results, err := t.net.step(txs, t.par)
	if err == nil && t.calls {
		err = failed(results)
	}
	return err
}
