package node

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// settleTime is the maximum time for which requested blocks wait for submissions that are being
// checked. settleStep is the polling interval of that wait.
const (
	settleTime = time.Second
	settleStep = 100 * time.Microsecond
)

// Mine makes blocks more blocks, in any mode, and returns the new head. Before the first block, the
// mempools check all submissions that the node accepted before the call, so that the block may
// include them.
func (n *Node) Mine(ctx context.Context, blocks uint64) (primitives.Height, primitives.Hash, error) {
	n.awaitChecked(ctx)
	a, err := askProducer[messages.MineBlocks, messages.BlocksMined](ctx, n, messages.MineBlocks{Blocks: blocks})
	return a.Height, a.Hash, err
}

// awaitChecked waits until the mempools have checked all submissions that were sent before the
// call. awaitChecked waits at most settleTime.
func (n *Node) awaitChecked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	type pending struct {
		of     *sessionHandle
		looked uint64
	}
	var all []pending
	n.sessionHandles.m.Range(func(_, v any) bool {
		h := v.(*sessionHandle)
		// Read h.returned before the number of permits. So the wait covers all submissions that
		// were sent before, and possibly one that is sent meanwhile.
		looked := h.returned.Load()
		if k := len(h.slots); k > 0 {
			all = append(all, pending{h, looked + uint64(k)})
		}
		return true
	})
	for _, p := range all {
		for p.of.returned.Load() < p.looked && len(p.of.slots) > 0 && ctx.Err() == nil {
			select {
			case <-n.haltedCh():
				return
			case <-time.After(settleStep):
			}
		}
	}
}

// PatchState writes records into the state with the next block, which is made at once, and returns
// that block. Errors: engine.ErrPatch if the records are not valid for the state,
// producer.ErrShared, producer.ErrMany.
func (n *Node) PatchState(ctx context.Context, records []genesis.Record) (primitives.Height, primitives.Hash, error) {
	if err := n.engine.CheckPatch(records, n.patches.makes); err != nil {
		return 0, primitives.Hash{}, err
	}
	defer n.patches.begin(records)()
	a, err := askProducer[messages.PatchState, messages.StatePatched](ctx, n, messages.PatchState{Records: records})
	return a.Height, a.Hash, err
}

// patches holds the accounts that pending patches create. A patch that is submitted meanwhile may
// contain records of these accounts.
type patches struct {
	mu     sync.Mutex
	making map[primitives.AccountID]int // account -> number of pending patches that create it; never 0
}

// begin adds the accounts that records create. end removes these accounts.
func (p *patches) begin(records []genesis.Record) (end func()) {
	var made []primitives.AccountID
	for _, r := range records {
		if r, ok := r.(*genesis.AccountRecord); ok {
			made = append(made, r.AccountID)
		}
	}
	p.add(made, 1)
	return func() { p.add(made, -1) }
}

func (p *patches) add(made []primitives.AccountID, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.making == nil {
		p.making = map[primitives.AccountID]int{}
	}
	for _, id := range made {
		if p.making[id] += by; p.making[id] == 0 {
			delete(p.making, id)
		}
	}
}

// makes returns whether a pending patch creates the account.
func (p *patches) makes(id primitives.AccountID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.making[id] > 0
}

// FastForward advances the head by heights heights, skipping as many as possible, and returns the
// new head. Errors: producer.ErrShared, producer.ErrForward, producer.ErrMany.
func (n *Node) FastForward(ctx context.Context, heights uint64) (primitives.Height, primitives.Hash, error) {
	a, err := askProducer[messages.FastForward, messages.Forwarded](ctx, n, messages.FastForward{Heights: heights})
	return a.Height, a.Hash, err
}

// MockVerification replaces the signature verification of contracts. nil restores the normal
// verification. Error: producer.ErrShared.
func (n *Node) MockVerification(ctx context.Context, m *primitives.Mocks) error {
	_, err := askProducer[messages.MockVerification, messages.VerificationMocked](ctx, n,
		messages.MockVerification{Mocks: m})
	return err
}

// MissChunks makes the next `blocks` blocks contain no new chunks of the given shards (nil: of all
// shards). The result is, for each shard, how many of the next blocks have no new chunk. Errors:
// producer.ErrShared, producer.ErrMiss.
func (n *Node) MissChunks(ctx context.Context, shards []primitives.ShardID,
	blocks uint64) (map[primitives.ShardID]uint64, error) {
	a, err := askProducer[messages.MissChunks, messages.ChunksMissed](ctx, n,
		messages.MissChunks{Shards: shards, Blocks: blocks})
	return a.Left, err
}

// Reorganise replaces the last `blocks` blocks by another branch. Reorganise returns the new head
// and the replaced blocks. Errors: producer.ErrShared, producer.ErrFork.
func (n *Node) Reorganise(ctx context.Context, blocks uint64) (messages.Reorganised, error) {
	return askProducer[messages.Reorganise, messages.Reorganised](ctx, n, messages.Reorganise{Blocks: blocks})
}

// askProducer sends a request to the producer and waits for the reply until the node halts or ctx
// ends.
func askProducer[Q, A any](ctx context.Context, n *Node, question Q) (none A, err error) {
	if err := n.refuseRequests(); err != nil {
		return none, err
	}
	r := system.NewRequest[Q, A](question)
	n.tell(n.producer, r)
	select {
	case a := <-r.Answer():
		if err := n.refuseRequests(); a.Err != nil && err != nil {
			return none, err
		}
		return a.Value, a.Err
	case <-n.haltedCh():
		return none, n.haltedErr()
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
