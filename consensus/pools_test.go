package consensus

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// slowState is a Chain whose Prepare takes 30 ms of a clock for each transaction.
type slowState struct {
	engineOf
	now *time.Duration
}

func (s slowState) Prepare(_ primitives.Hash, _ primitives.ShardIndex, c apply.Candidates, stop func() bool) (*apply.Prepared, error) {
	out := new(apply.Prepared)
	for g := c.NextGroup(); g != nil; g = c.NextGroup() {
		if stop != nil && stop() {
			out.Limit = apply.LimitTime
			break
		}
		*s.now += 30 * time.Millisecond
		out.Transactions = append(out.Transactions, g.Peek())
		g.Pop()
	}
	return out, nil
}

// TestChooseTimerBoundsEachChunk: the time limit starts anew for each chunk, and the transactions
// that no longer fit stay in the pool. Without a timer there is no limit.
func TestChooseTimerBoundsEachChunk(t *testing.T) {
	now := time.Hour
	limited := func() func() bool {
		begun := now
		return func() bool { return now-begun >= 200*time.Millisecond }
	}
	for _, c := range []struct {
		name  string
		timer func() func() bool
		want  int
	}{{"limit", limited, 7}, {"no limit", nil, 20}} {
		t.Run(c.name, func(t *testing.T) {
			n := &Node{e: slowState{now: &now}, o: Options{ChooseTimer: c.timer}, head: new(head),
				pools: map[primitives.ShardID]*txpool.Pool{3: txpool.New(txpool.Limits{}, 100, primitives.Hash{})}}
			for i := range 20 {
				tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a", ReceiverID: "b",
					PublicKey: primitives.ZeroED25519Key, Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(i + 1)}},
					primitives.ZeroED25519Signature)
				if added, err := n.pools[3].Add(tx, 0); !added || err != nil {
					t.Fatal(added, err)
				}
			}
			for range 2 {
				if txs, err := n.choose(0, 3); err != nil || len(txs) != c.want || n.pools[3].Len() != 20 {
					t.Errorf("%d transactions, want %d; %d in the pool, error %v", len(txs), c.want, n.pools[3].Len(), err)
				}
			}
		})
	}
}
