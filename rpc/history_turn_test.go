package rpc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// oldNode is a node whose blocks are large to read. It reports how many turns of the heavy limit are
// free while it reads.
type oldNode struct {
	*fakeNode
	s    *Server
	free int
}

func (n *oldNode) read(ctx context.Context) error {
	if err := messages.TakeLarge(ctx); err != nil {
		return err
	}
	n.s.limiter.heavy.mu.Lock()
	defer n.s.limiter.heavy.mu.Unlock()
	n.free = n.s.limiter.heavy.free
	return nil
}

func (n *oldNode) Block(ctx context.Context, r view.BlockRef) (primitives.AccountID, *primitives.Block, error) {
	if err := n.read(ctx); err != nil {
		return "", nil, err
	}
	return n.fakeNode.Block(ctx, r)
}

func (n *oldNode) Chunk(ctx context.Context, r view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error) {
	c := &primitives.Chunk{Header: primitives.ChunkHeader{Signature: primitives.ZeroED25519Signature}}
	return "a.near", c, n.read(ctx)
}

func (n *oldNode) GasPrice(ctx context.Context, r *view.BlockRef) (primitives.Balance, error) {
	return primitives.Yocto(5), n.read(ctx)
}

func (n *oldNode) CongestionLevel(ctx context.Context, r view.ChunkRef) (float64, error) {
	return 0, n.read(ctx)
}

func (n *oldNode) Receipt(ctx context.Context, id primitives.Hash) (*primitives.Receipt, error) {
	if err := n.read(ctx); err != nil {
		return nil, err
	}
	return n.fakeNode.Receipt(ctx, id)
}

// ReceiptToTx waits for another request's read, without its turn, and then takes one again.
func (n *oldNode) ReceiptToTx(ctx context.Context, q *view.OriginQuery) (*view.Origin, error) {
	messages.LeaveTurn(ctx)
	n.s.limiter.heavy.mu.Lock()
	free := n.s.limiter.heavy.free
	n.s.limiter.heavy.mu.Unlock()
	if free != 3 {
		return nil, fmt.Errorf("%d turns are free while it waits", free)
	}
	return &view.Origin{Sender: "a.near"}, n.read(ctx)
}

// TestReadsOfLargeOldBlocksTakeTurns: a request whose data are large to read takes a turn of the heavy
// limit before it reads, and gives the turn back. If no turn comes, the reply names the limit.
func TestReadsOfLargeOldBlocksTakeTurns(t *testing.T) {
	n := &oldNode{fakeNode: &fakeNode{}}
	var err error
	if n.s, err = New(n, Options{Limits: limited(func(l *limits.Limits) { l.HeavyWaiting = 1 })}); err != nil {
		t.Fatal(err)
	}
	heavy := &n.s.limiter.heavy
	for method, params := range map[string]string{
		"block":                         fmt.Sprintf(`{"block_id":%q}`, testHash),
		"chunk":                         fmt.Sprintf(`{"chunk_id":%q}`, testHash),
		"gas_price":                     fmt.Sprintf(`[%q]`, testHash),
		"EXPERIMENTAL_congestion_level": fmt.Sprintf(`{"chunk_id":%q}`, testHash),
		"EXPERIMENTAL_receipt_to_tx":    fmt.Sprintf(`{"receipt_id":%q}`, testHash),
		"EXPERIMENTAL_receipt":          fmt.Sprintf(`{"receipt_id":%q}`, testHash),
	} {
		heavy.free, n.free = 3, -1
		if status, got := callMethod(n.s, method, params); status != 200 || !strings.Contains(got, `"result":`) || n.free != 2 || heavy.free != 3 {
			t.Errorf("%s: %d turns are free while it reads, %d after it: %d %.300s", method, n.free, heavy.free, status, got)
		}
		heavy.free, heavy.queue.Limit, n.free = 0, 0, -1 // no turn, and no room to wait
		if _, got := callMethod(n.s, method, params); !strings.Contains(got, "max_heavy_waiting") || n.free != -1 {
			t.Errorf("%s without a turn: %.300s", method, got)
		}
	}
}
