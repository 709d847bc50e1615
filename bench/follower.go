package bench

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// follower reads the chain's blocks. It records when a block includes each transfer, and when the
// transfer is FINAL: the transfer and all its receipts, including refunds, are executed in final
// blocks.
type follower struct {
	plan      *plan
	blocks    chan observed
	included  atomic.Int64
	final     atomic.Int64
	made      atomic.Int64 // number of produced blocks
	busy      atomic.Int64 // number of chunks that contain transfers
	failed    atomic.Int64 // number of outcomes with a failure
	following atomic.Bool
	start     time.Time
	sent      []int64 // submission time of each transfer in ns after start; written before the submission

	mu   sync.Mutex // guards cond, which is signalled when there may be space for more transfers
	cond *sync.Cond

	data      sync.Mutex                // protects all fields below
	open      []int32                   // by transfer index: number of receipts that are not executed yet
	receipts  map[primitives.Hash]int32 // index of the transfer by receipt id
	executed  map[primitives.Height][]int32
	measuring bool
	latencies []float64 // ns from submission to FINAL
	inclusion []float64 // ns from submission to the block
	from, to  counts    // counts at the start and the end of the measured time
}

type observed struct {
	block *messages.BlockAccepted
	at    time.Time
}

// counts is a snapshot of a follower's counters.
type counts struct {
	at                                      time.Time
	included, final, blocks, chunks, failed int64
}

func newFollower(p *plan) *follower {
	f := &follower{plan: p, sent: make([]int64, len(p.from)), open: make([]int32, len(p.from)),
		blocks: make(chan observed, 1024), receipts: map[primitives.Hash]int32{}, executed: map[primitives.Height][]int32{}}
	f.cond = sync.NewCond(&f.mu)
	return f
}

// bytes estimates the memory that the follower uses, in bytes.
func (f *follower) bytes() uint64 {
	f.data.Lock()
	defer f.data.Unlock()
	return uint64(8*len(f.sent) + 4*len(f.open) + 8*cap(f.latencies) + 8*cap(f.inclusion) + 40*len(f.receipts))
}

// begin sets the start time and reads blocks until f.blocks is closed.
func (f *follower) begin() time.Time {
	f.start = time.Now()
	f.following.Store(true)
	go func() {
		for b := range f.blocks {
			f.follow(b.block, b.at.Sub(f.start))
		}
	}()
	return f.start
}

// observe passes on a block. The node calls observe on the chain's goroutine.
func (f *follower) observe(m *messages.BlockAccepted) {
	if f.following.Load() {
		f.blocks <- observed{m, time.Now()}
	}
}

// transferOf returns the index of a transfer from its signer and nonce.
func (f *follower) transferOf(tx *primitives.SignedTransaction) (int, bool) {
	name := string(tx.SignerID)
	if len(name) < 4 {
		return 0, false
	}
	account, err := strconv.Atoi(name[1 : len(name)-2])
	if err != nil {
		return 0, false
	}
	return f.plan.find(account, tx.Nonce.Nonce)
}

func (f *follower) follow(m *messages.BlockAccepted, at time.Duration) {
	f.data.Lock()
	defer f.data.Unlock()
	height := m.Height()
	var done []int32
	var n, chunks int64
	for s := range m.Shards {
		x := &m.Shards[s]
		txs := 0
		if x.Chunk != nil {
			txs = len(x.Chunk.Transactions)
			for _, tx := range x.Chunk.Transactions {
				i, ok := f.transferOf(tx)
				if !ok {
					continue
				}
				n++
				if f.measuring {
					f.inclusion = append(f.inclusion, float64(int64(at)-f.sent[i]))
				}
				f.open[i]++
				f.receipts[tx.Hash()] = int32(i)
			}
		}
		if txs > 0 {
			chunks++
		}
	}
	// first collect all chunks: another shard of the same block may execute a receipt only if an
	// earlier block sent it
	for s := range m.Shards {
		for k := range m.Shards[s].Outcomes {
			o := &m.Shards[s].Outcomes[k]
			i, ok := f.receipts[o.ID]
			if !ok {
				continue
			}
			delete(f.receipts, o.ID)
			if o.Outcome.Status.Kind == primitives.StatusFailure {
				f.failed.Add(1)
			}
			for _, id := range o.Outcome.ReceiptIDs {
				f.receipts[id] = i
			}
			if f.open[i] += int32(len(o.Outcome.ReceiptIDs)) - 1; f.open[i] == 0 {
				done = append(done, i)
			}
		}
	}
	f.executed[height] = done
	for h, list := range f.executed {
		if h > m.Final {
			continue
		}
		delete(f.executed, h)
		f.final.Add(int64(len(list)))
		if f.measuring {
			for _, i := range list {
				f.latencies = append(f.latencies, float64(int64(at)-f.sent[i]))
			}
		}
	}
	f.made.Add(1)
	f.busy.Add(chunks)
	f.mu.Lock()
	f.included.Add(n)
	f.mu.Unlock()
	f.cond.Broadcast()
}

// wake makes waiting submitters check again whether they may submit.
func (f *follower) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cond.Broadcast()
}

// room waits until enough returns true. room calls enough again after each signal of cond.
func (f *follower) room(enough func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !enough() {
		f.cond.Wait()
	}
}

func (f *follower) counts() counts {
	return counts{at: time.Now(), included: f.included.Load(), final: f.final.Load(), blocks: f.made.Load(),
		chunks: f.busy.Load(), failed: f.failed.Load()}
}

// measure starts the measured time if on is true. If on is false, measure ends the measured time.
func (f *follower) measure(on bool) {
	f.data.Lock()
	defer f.data.Unlock()
	if f.measuring = on; on {
		f.from = f.counts()
	} else {
		f.to = f.counts()
	}
}

// quantile returns the q-quantile of sorted values; 0 if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// report sets the fields of r from the data of the measured time.
func (f *follower) report(r *NodeResult) {
	f.data.Lock()
	defer f.data.Unlock()
	a, b := &f.from, &f.to
	r.Seconds = b.at.Sub(a.at).Seconds()
	r.Included, r.Final, r.Blocks = int(b.included-a.included), int(b.final-a.final), int(b.blocks-a.blocks)
	r.Failed = int(b.failed - a.failed)
	if n := b.chunks - a.chunks; n > 0 {
		r.PerChunk = float64(r.Included) / float64(n)
	}
	slices.Sort(f.latencies)
	slices.Sort(f.inclusion)
	r.FinalP50, r.FinalP99 = quantile(f.latencies, .5)/1e9, quantile(f.latencies, .99)/1e9
	r.IncludedP50, r.IncludedP99 = quantile(f.inclusion, .5)/1e9, quantile(f.inclusion, .99)/1e9
}
