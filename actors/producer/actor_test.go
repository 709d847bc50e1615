package producer

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// testChain is one producer on a chain in memory. Some of the chain's validators may be absent: the
// producer does not have their keys. There are no mailboxes: all messages go through one queue, in
// virtual time.
type testChain struct {
	t       *testing.T
	names   []primitives.AccountID
	keys    []primitives.SecretKey
	node    *Actor
	entries map[primitives.Hash]*engine.BlockNode
	head    *engine.BlockNode
	disk    *engine.BlockNode // newest block on disk
	lag     time.Duration     // from the import of a block until it is on disk
	final   primitives.Height
	queue   chan func()
	made    []messages.MakeBlock
	waiting bool
	// indifferent means that no client waits for finality.
	indifferent bool
	mocked      []*primitives.Mocks // arguments of Mocked
}

// IsIdle implements Demand: the producer makes the chunks of shard 0 itself.
func (c *testChain) IsIdle(id primitives.ShardID) bool { return id == 0 }

func (c *testChain) HasTransactions() bool { return c.waiting }

func (c *testChain) WantsFinality() bool { return !c.indifferent }

const shards = 2

func (c *testChain) Head() *engine.BlockNode                      { return c.disk }
func (c *testChain) Tip() *engine.BlockNode                       { return c.head }
func (c *testChain) Imported(h primitives.Hash) *engine.BlockNode { return c.entries[h] }

func (c *testChain) stake(i int) primitives.ValidatorStake {
	return primitives.ValidatorStake{AccountID: c.names[i], PublicKey: c.keys[i].PublicKey(), Stake: primitives.NEAR(10)}
}

func (c *testChain) Approvers(primitives.Hash) (out []chain.Approver, err error) {
	for i := range c.names {
		out = append(out, chain.Approver{AccountID: c.names[i], PublicKey: c.keys[i].PublicKey(),
			StakeThis: primitives.NEAR(10)})
	}
	return out, nil
}

func (c *testChain) BlockProducer(_ primitives.Hash, h primitives.Height) (primitives.ValidatorStake, error) {
	return c.stake(int(h) % len(c.names)), nil
}

func (c *testChain) ChunkProducer(parent primitives.Hash, s primitives.ShardID) (primitives.ValidatorStake, error) {
	return c.stake((int(c.entries[parent].Height()) + int(s)) % len(c.names)), nil
}

func (c *testChain) ChunkValidators(*engine.BlockNode, primitives.ShardID) (out []chain.Assigned, err error) {
	for i := range c.names {
		out = append(out, chain.Assigned{AccountID: c.names[i], PublicKey: c.keys[i].PublicKey(), Stake: primitives.NEAR(10)})
	}
	return out, nil
}

func (c *testChain) ChildEpoch(primitives.Hash) (primitives.EpochID, primitives.ShardLayout, error) {
	return primitives.EpochID{5}, primitives.NewShardLayoutV0(shards, 0), nil
}

func (c *testChain) Epoch(primitives.Hash) (production.Epoch, error) {
	return production.Epoch{First: 1, Length: 1000}, nil
}

func entry(height primitives.Height, prev primitives.Hash) *engine.BlockNode {
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: prev, Signature: primitives.ZeroED25519Signature}
	h.Height = height
	h.Init()
	return &engine.BlockNode{Block: &primitives.Block{Header: h}, Hash: h.Hash()}
}

// newChain returns a chain whose validators are all this node's.
func newChain(t *testing.T, mode production.Mode) *testChain {
	return newChainOf(t, 1, 0, production.Rules{Mode: mode, Interval: 6e8, Validity: 86400})
}

// newChainOf returns a chain with n validators, of which the last ones, absent in number, have keys
// that the producer does not have.
func newChainOf(t *testing.T, n, absent int, rules production.Rules) *testChain {
	c := &testChain{t: t, entries: map[primitives.Hash]*engine.BlockNode{}, queue: make(chan func(), 1<<16)}
	own := map[primitives.AccountID]primitives.SecretKey{}
	for i := range n {
		c.names = append(c.names, primitives.AccountID(fmt.Sprintf("v%d.near", i)))
		c.keys = append(c.keys, primitives.SecretKeyFromSeed(primitives.ED25519, string(c.names[i])))
		if i < n-absent {
			own[c.names[i]] = c.keys[i]
		}
	}
	c.head = entry(0, primitives.Hash{})
	c.entries[c.head.Hash], c.disk = c.head, c.head
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	c.node = New(Options{
		Chain: c, Keys: own,
		Delays: doomslug.Delays{Endorsement: rules.Interval, Skip: 2e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}},
		Rules:  rules,
		Demand: c, Clock: func() uint64 { return uint64(time.Now().UnixNano()) },
		Log: quiet, Out: c,
	})
	c.node.self = func(m tick) { c.post(func() { c.send(m) }) }
	c.post(c.node.Start)
	return c
}

func (c *testChain) Final() storage.BlockRef { return storage.BlockRef{Height: c.final} }

func (c *testChain) ProduceChunk(m messages.ProduceChunk) { c.post(func() { c.produceChunk(m) }) }
func (c *testChain) MakeBlock(m messages.MakeBlock)       { c.post(func() { c.makeBlock(m) }) }
func (c *testChain) Mocked(m *primitives.Mocks)           { c.mocked = append(c.mocked, m) }

func (c *testChain) post(f func()) { c.queue <- f }

func (c *testChain) send(m any) { c.node.Handle(m) }

// run processes the queue for the virtual time d.
func (c *testChain) run(d time.Duration) {
	end := time.After(d)
	for {
		select {
		case f := <-c.queue:
			f()
		case <-end:
			return
		}
	}
}

func (c *testChain) NewChunk(parent primitives.Hash, shard primitives.ShardIndex, _ []*primitives.SignedTransaction,
	_ primitives.SecretKey) (*primitives.Chunk, error) {
	chunk := &primitives.Chunk{Hash: primitives.HashBytes(fmt.Appendf(nil, "%v/%d", parent, shard))}
	chunk.Header.PrevBlockHash, chunk.Header.ShardID = parent, primitives.ShardID(shard)
	chunk.Header.HeightCreated = c.entries[parent].Height() + 1
	return chunk, nil
}

func (c *testChain) produceChunk(m messages.ProduceChunk) {
	if m.ShardID == 0 {
		c.t.Errorf("a chunk of an idle shard is requested")
	}
	chunk, _ := c.NewChunk(m.Parent, m.Shard, nil, primitives.SecretKey{})
	c.send(messages.ChunkMade{Shard: m.Shard, Chunk: chunk})
}

func (c *testChain) makeBlock(m messages.MakeBlock) {
	if len(c.node.o.Keys) < len(c.names) && m.Parent != c.disk.Hash {
		c.t.Errorf("block %d on %v, which is not on disk, though validators are absent", m.Height, m.Parent)
		return
	}
	if m.Parent != c.head.Hash || m.Height <= c.head.Height() {
		c.t.Errorf("block %d on %v, which is not the head", m.Height, m.Parent)
		return
	}
	c.made = append(c.made, m)
	e := entry(m.Height, m.Parent)
	grand := c.entries[c.head.Header().PrevHash]
	if grand != nil && grand.Height()+2 == m.Height {
		c.final = grand.Height()
	}
	c.entries[e.Hash], c.head = e, e
	told := messages.BlockAccepted{Block: e.Block, Hash: e.Hash, IsHead: true, Final: c.final}
	c.post(func() { c.send(messages.BlockImported{BlockAccepted: &told}) })
	accepted := func() {
		c.disk = e
		c.send(told)
	}
	if c.lag == 0 {
		c.post(accepted)
	} else {
		// The microseconds keep the order: timers that fire at the same time run in any order.
		time.AfterFunc(c.lag+time.Duration(len(c.made))*time.Microsecond, func() { c.post(accepted) })
	}
}

// counts returns how many chunks, endorsements and approvals a block has.
func counts(b *messages.MakeBlock) (chunks, endorsements, approvals int) {
	for i, x := range b.Chunks {
		if x == nil {
			continue
		}
		chunks++
		for _, s := range b.Endorsements[i] {
			if s != "" {
				endorsements++
			}
		}
	}
	for _, s := range b.Approvals {
		if s != "" {
			approvals++
		}
	}
	return chunks, endorsements, approvals
}

func (c *testChain) stop() {
	if c.node.timer != nil {
		c.node.timer.Stop()
	}
}

// TestSoleValidatorMakesBlockEachInterval: a sole validator makes a complete block in each interval
// and skips no height.
func TestSoleValidatorMakesBlockEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Interval)
		defer c.stop()
		c.run(6100 * time.Millisecond)
		if c.head.Height() != 10 || len(c.made) != 10 {
			t.Errorf("%d blocks up to height %d in 6.1 s, want 10", len(c.made), c.head.Height())
		}
		for i := range c.made {
			if chunks, signed, votes := counts(&c.made[i]); chunks != shards || signed != shards || votes != 1 {
				t.Errorf("block %d has %d chunks, %d endorsements and %d votes", c.made[i].Height, chunks, signed, votes)
			}
		}
	})
}

// TestBlocksAreMadeAheadOfTheDisk: a sole validator makes further blocks while the disk is slow,
// and answers requests once their blocks are on disk. If a validator is absent, the producer waits
// for the disk.
func TestBlocksAreMadeAheadOfTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Manual)
		defer c.stop()
		c.lag = time.Second
		answers := 0
		for range 2 { // the second request comes when the blocks of the first are made but not on disk
			req := system.NewRequest[messages.MineBlocks, messages.BlocksMined](messages.MineBlocks{Blocks: 3})
			c.post(func() { c.send(req) })
			go func() {
				r := <-req.Answer()
				got, err := r.Value, r.Err
				c.post(func() {
					if answers++; err != nil || got.Height != c.disk.Height() || got.Height != primitives.Height(3*answers) {
						t.Errorf("answer %d: %+v, %v, with block %d on disk", answers, got, err, c.disk.Height())
					}
				})
			}()
			c.run(500 * time.Millisecond)
		}
		if len(c.made) != 6 || answers != 0 {
			t.Errorf("%d blocks and %d answers before the disk has any, want 6 and 0", len(c.made), answers)
		}
		c.run(200 * time.Millisecond)
		req := system.NewRequest[messages.MineBlocks, messages.BlocksMined](messages.MineBlocks{})
		c.send(req)
		if r := <-req.Answer(); r.Err != nil || r.Value.Height != 3 || r.Value.Hash != c.disk.Hash {
			t.Errorf("a request for no block: got %+v, with block %d on disk", r, c.disk.Height())
		}
		if c.run(time.Second); answers != 2 {
			t.Errorf("%d answers, want 2", answers)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newChainOf(t, 4, 1, production.Rules{Mode: production.Interval, Interval: 6e8, Validity: 86400})
		defer c.stop()
		c.lag = 100 * time.Millisecond
		if c.run(20 * time.Second); len(c.made) < 12 { // each fourth height is skipped after 2 s
			t.Errorf("%d blocks in 20 s", len(c.made))
		}
	})
}

// TestHeightsOfAbsentValidatorAreSkipped: the producer has the keys of three of four validators. It
// makes blocks with the approvals and endorsements of these three, skips the heights of the fourth,
// and leaves out the fourth's chunks. With the keys of two it makes no block.
func TestHeightsOfAbsentValidatorAreSkipped(t *testing.T) {
	rules := production.Rules{Mode: production.Interval, Interval: 6e8, Validity: 86400}
	synctest.Test(t, func(t *testing.T) {
		c := newChainOf(t, 4, 1, rules)
		defer c.stop()
		c.run(time.Minute)
		if c.head.Height() < 40 {
			t.Errorf("height %d after a minute", c.head.Height())
		}
		skipped, missed := 0, 0
		for i := range c.made {
			m := &c.made[i]
			if want := c.names[int(m.Height)%4]; m.Producer != want || m.Height%4 == 3 {
				t.Errorf("block %d by %s, want %s, and none by the absent one", m.Height, m.Producer, want)
			}
			chunks, signed, votes := counts(m)
			if signed != 3*chunks || votes != 3 {
				t.Errorf("block %d has %d chunks, %d endorsements and %d votes", m.Height, chunks, signed, votes)
			}
			missed += shards - chunks
			if i > 0 {
				skipped += int(m.Height - c.made[i-1].Height - 1)
			}
		}
		if skipped < 5 || missed < 5 {
			t.Errorf("%d heights skipped and %d chunks missed, want some", skipped, missed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newChainOf(t, 4, 2, rules)
		defer c.stop()
		if c.run(time.Minute); len(c.made) != 0 {
			t.Errorf("a block with %d votes of 4", len(c.made[0].Approvals))
		}
	})
}

// TestInstantIsNeverSlowerThanInterval: in instant mode a sole validator makes its n-th block no
// later than in interval mode, whatever the validity period, when idle, under full load and under
// sparse load.
func TestInstantIsNeverSlowerThanInterval(t *testing.T) {
	for _, validity := range []primitives.Height{10, 100} {
		for load, waits := range map[string]func(at time.Duration) bool{
			"idle":         func(time.Duration) bool { return false },
			"loaded":       func(time.Duration) bool { return true },
			"now and then": func(at time.Duration) bool { return at%(7*time.Second) < 2*time.Second },
		} {
			t.Run(fmt.Sprint(load, " ", validity), func(t *testing.T) {
				const blocks = 120
				var at [2][]time.Duration
				for i, mode := range []production.Mode{production.Instant, production.Interval} {
					synctest.Test(t, func(t *testing.T) {
						c, begun := newChainOf(t, 1, 0, production.Rules{Mode: mode, Interval: 12e7, Validity: validity,
							Linger: 2e8}), time.Now()
						defer c.stop()
						for len(c.made) < blocks {
							if time.Since(begun) > time.Minute {
								t.Fatalf("%v: %d blocks in a minute", mode, len(c.made))
							}
							if c.waiting = waits(time.Since(begun)); c.waiting {
								c.post(func() { c.send(messages.TransactionsWaiting{}) })
							}
							c.run(5 * time.Millisecond)
						}
						for _, b := range c.made[:blocks] {
							at[i] = append(at[i], time.Duration(b.Timestamp-uint64(begun.UnixNano())))
						}
					})
				}
				for n := range blocks {
					if at[0][n] > at[1][n] {
						t.Fatalf("block %d of instant mode is made at %v, of interval mode at %v", n+1, at[0][n], at[1][n])
					}
				}
				if early := at[1][blocks-1] - at[0][blocks-1]; load != "idle" && early < 4*12e7 {
					t.Errorf("instant mode is ahead by %v after %d blocks", early, blocks)
				}
			})
		}
	}
}

// TestInstantAndManualModesMakeBlocks: in instant mode a block is made as soon as a transaction
// waits, followed by more until it is final. In manual mode only requested blocks are made.
func TestInstantAndManualModesMakeBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Instant)
		defer c.stop()
		c.run(100 * time.Millisecond)
		if len(c.made) != 0 {
			t.Fatalf("%d blocks before the interval", len(c.made))
		}
		c.post(func() { c.send(messages.TransactionsWaiting{}) })
		c.run(time.Millisecond)
		if len(c.made) != 1 {
			t.Errorf("%d blocks at once, want 1 (nothing waits any more)", len(c.made))
		}
		c.run(599 * time.Millisecond)
		if len(c.made) != 1 {
			t.Errorf("%d blocks before the interval is over, want 1", len(c.made))
		}
		c.run(20 * time.Millisecond)
		if len(c.made) != 2 {
			t.Errorf("%d blocks after the interval, want 2", len(c.made))
		}
		c.waiting = true // from here on, transactions always wait
		c.post(func() { c.send(messages.TransactionsWaiting{}) })
		c.run(time.Millisecond)
		if len(c.made) < 50 {
			t.Errorf("%d blocks in a millisecond while transactions wait", len(c.made))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, production.Manual)
		defer c.stop()
		c.run(time.Hour)
		if len(c.made) != 0 {
			t.Fatalf("%d blocks were made without a request", len(c.made))
		}
		answers := 0
		for _, n := range []uint64{3, 2, 0} {
			req := system.NewRequest[messages.MineBlocks, messages.BlocksMined](messages.MineBlocks{Blocks: n})
			c.post(func() { c.send(req) })
			go func() {
				if r := <-req.Answer(); r.Err == nil {
					c.post(func() { answers++ })
				}
			}()
		}
		c.run(time.Second)
		if len(c.made) != 5 || c.head.Height() != 5 || answers != 3 {
			t.Errorf("%d blocks up to height %d, %d answers, want 5, 5 and 3", len(c.made), c.head.Height(), answers)
		}
		c.run(time.Hour)
		if len(c.made) != 5 {
			t.Errorf("%d blocks were made, want the 5 requested", len(c.made))
		}
	})
}
