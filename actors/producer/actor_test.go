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
)

// cluster is n producers that share one chain. There are no mailboxes: all messages go through one
// queue, in virtual time.
type cluster struct {
	t       *testing.T
	names   []primitives.AccountID
	keys    []primitives.SecretKey
	nodes   []*Actor
	down    map[int]bool
	entries map[primitives.Hash]*engine.BlockNode
	head    *engine.BlockNode
	disk    *engine.BlockNode // newest block on disk
	lag     time.Duration     // from the import of a block until it is on disk
	final   primitives.Height
	queue   chan func()
	made    []messages.MakeBlock
	signed  []int    // number of endorsements in each block
	late    []func() // endorsements of the last validator, sent while the block is being made
	waiting bool
}

const shards = 2

func (c *cluster) Head() *engine.BlockNode                      { return c.disk }
func (c *cluster) Tip() *engine.BlockNode                       { return c.head }
func (c *cluster) Imported(h primitives.Hash) *engine.BlockNode { return c.entries[h] }

func (c *cluster) stake(i int) primitives.ValidatorStake {
	return primitives.ValidatorStake{AccountID: c.names[i], PublicKey: c.keys[i].PublicKey(), Stake: primitives.NEAR(10)}
}

func (c *cluster) Approvers(primitives.Hash) (out []chain.Approver, err error) {
	for i := range c.names {
		out = append(out, chain.Approver{AccountID: c.names[i], PublicKey: c.keys[i].PublicKey(),
			StakeThis: primitives.NEAR(10)})
	}
	return out, nil
}

func (c *cluster) BlockProducer(_ primitives.Hash, h primitives.Height) (primitives.ValidatorStake, error) {
	return c.stake(int(h) % len(c.names)), nil
}

func (c *cluster) ChunkProducer(parent primitives.Hash, s primitives.ShardID) (primitives.ValidatorStake, error) {
	return c.stake((int(c.entries[parent].Height()) + int(s)) % len(c.names)), nil
}

func (c *cluster) ChunkValidators(*engine.BlockNode, primitives.ShardID) (out []chain.Assigned, err error) {
	for i := range c.names {
		out = append(out, chain.Assigned{AccountID: c.names[i], PublicKey: c.keys[i].PublicKey(), Stake: primitives.NEAR(10)})
	}
	return out, nil
}

func (c *cluster) ChildEpoch(primitives.Hash) (primitives.EpochID, primitives.ShardLayout, error) {
	return primitives.EpochID{5}, primitives.NewShardLayoutV0(shards, 0), nil
}

func (c *cluster) Epoch(primitives.Hash) (production.Epoch, error) {
	return production.Epoch{First: 1, Length: 1000}, nil
}

func entry(height primitives.Height, prev primitives.Hash) *engine.BlockNode {
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: prev, Signature: primitives.ZeroED25519Signature}
	h.Height = height
	h.Init()
	return &engine.BlockNode{Block: &primitives.Block{Header: h}, Hash: h.Hash()}
}

func newCluster(t *testing.T, n int, mode production.Mode) *cluster {
	return newClusterOf(t, n, production.Rules{Mode: mode, Interval: 6e8, Validity: 86400})
}

func newClusterOf(t *testing.T, n int, rules production.Rules) *cluster {
	c := &cluster{t: t, entries: map[primitives.Hash]*engine.BlockNode{}, down: map[int]bool{},
		queue: make(chan func(), 1<<16)}
	for i := range n {
		c.names = append(c.names, primitives.AccountID(fmt.Sprintf("v%d.near", i)))
		c.keys = append(c.keys, primitives.SecretKeyFromSeed(primitives.ED25519, string(c.names[i])))
	}
	c.head = entry(0, primitives.Hash{})
	c.entries[c.head.Hash], c.disk = c.head, c.head
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	for i := range n {
		c.nodes = append(c.nodes, New(Options{
			Chain: c, Keys: map[primitives.AccountID]primitives.SecretKey{c.names[i]: c.keys[i]},
			Delays: doomslug.Delays{Endorsement: rules.Interval, Skip: 2e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}},
			Rules:  rules, Final: func() primitives.Height { return c.final },
			Waiting: func() bool { return c.waiting }, Clock: func() uint64 { return uint64(time.Now().UnixNano()) },
			Verify: primitives.Signature.Verify, Log: quiet, Out: Out{
				ProduceChunk: func(m messages.ProduceChunk) { c.post(func() { c.produceChunk(i, m) }) },
				MakeBlock:    func(m messages.MakeBlock) { c.post(func() { c.makeBlock(i, m) }) },
				Approval: func(m messages.ApprovalMade) {
					for k, name := range c.names {
						if name == m.To {
							c.post(func() { c.tell(k, messages.ApprovalReceived{Approval: m.Approval}) })
						}
					}
				},
				Endorsement: func(m messages.EndorsementMade) { c.broadcast(i, messages.ChunkEndorsed(m)) },
			},
		}))
	}
	for i, a := range c.nodes {
		a.self = func(m tick) { c.post(func() { c.tell(i, m) }) }
		c.post(a.Start)
	}
	return c
}

func (c *cluster) post(f func()) { c.queue <- f }

func (c *cluster) tell(i int, m any) {
	if !c.down[i] {
		c.nodes[i].Handle(m)
	}
}

func (c *cluster) broadcast(from int, m any) {
	for i := range c.nodes {
		if i != from {
			c.post(func() { c.tell(i, m) })
		}
	}
}

// run processes the queue for the virtual time d.
func (c *cluster) run(d time.Duration) {
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

// produceChunk makes a chunk and posts the endorsements of all other validators.
func (c *cluster) produceChunk(i int, m messages.ProduceChunk) {
	if c.down[i] {
		return
	}
	h := c.entries[m.Parent].Height()
	chunk := &primitives.Chunk{Hash: primitives.HashBytes(fmt.Appendf(nil, "%v/%d", m.Parent, m.Shard))}
	chunk.Header.PrevBlockHash, chunk.Header.HeightCreated, chunk.Header.ShardID = m.Parent, h+1, m.ShardID
	c.tell(i, messages.ChunkMade{Shard: m.Shard, Chunk: chunk})
	for k := range c.nodes {
		if k == i || c.down[k] {
			continue
		}
		e := &primitives.ChunkEndorsement{ChunkHash: chunk.Hash,
			Signature: c.keys[k].Sign(primitives.ChunkEndorsementBytes(chunk.Hash))}
		e.Metadata = primitives.ChunkEndorsementMetadata{AccountID: c.names[k], ShardID: m.ShardID, HeightCreated: h + 1}
		for to := range c.nodes { // often before the chunk itself is posted
			if come := func() { c.tell(to, messages.ChunkEndorsed{Endorsement: e}) }; k == len(c.nodes)-1 && len(c.down) == 0 {
				c.late = append(c.late, come)
			} else {
				c.post(come)
			}
		}
	}
	c.broadcast(i, messages.ChunkReceived{Shard: m.Shard, Chunk: chunk})
}

func (c *cluster) makeBlock(i int, m messages.MakeBlock) {
	if c.down[i] {
		return
	}
	if len(c.nodes) > 1 && m.Parent != c.disk.Hash {
		c.t.Errorf("block %d on %v, which is not on disk, though others vote", m.Height, m.Parent)
		return
	}
	if m.Parent != c.head.Hash || m.Height <= c.head.Height() {
		c.t.Errorf("block %d on %v, which is not the head", m.Height, m.Parent)
		return
	}
	c.made, c.signed = append(c.made, m), append(c.signed, signatures(&m))
	for _, come := range c.late {
		come()
	}
	c.late = nil
	e := entry(m.Height, m.Parent)
	grand := c.entries[c.head.Header().PrevHash]
	if grand != nil && grand.Height()+2 == m.Height {
		c.final = grand.Height()
	}
	c.entries[e.Hash], c.head = e, e
	told := messages.BlockAccepted{Block: e.Block, Hash: e.Hash, IsHead: true, Final: c.final}
	for k := range c.nodes {
		c.post(func() { c.tell(k, messages.BlockImported{BlockAccepted: &told}) })
	}
	accepted := func() {
		c.disk = e
		for k := range c.nodes {
			c.tell(k, told)
		}
	}
	if c.lag == 0 {
		c.post(accepted)
	} else {
		// The microseconds keep the order: timers that fire at the same time run in any order.
		time.AfterFunc(c.lag+time.Duration(len(c.made))*time.Microsecond, func() { c.post(accepted) })
	}
}

func signatures(b *messages.MakeBlock) (n int) {
	for _, list := range b.Endorsements {
		for _, s := range list {
			if s != "" {
				n++
			}
		}
	}
	return n
}

func (c *cluster) count(b *messages.MakeBlock) (chunks, votes int) {
	for _, x := range b.Chunks {
		if x != nil {
			chunks++
		}
	}
	for _, s := range b.Approvals {
		if s != "" {
			votes++
		}
	}
	return chunks, votes
}

func (c *cluster) stop() {
	for _, a := range c.nodes {
		if a.timer != nil {
			a.timer.Stop()
		}
	}
}

// TestSole: a sole validator makes a complete block in each interval and skips no height.
func TestSole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, production.Interval)
		defer c.stop()
		c.run(6100 * time.Millisecond)
		if c.head.Height() != 10 || len(c.made) != 10 {
			t.Errorf("%d blocks up to height %d in 6.1 s, want 10", len(c.made), c.head.Height())
		}
		for i := range c.made {
			if chunks, votes := c.count(&c.made[i]); chunks != shards || votes != 1 {
				t.Errorf("block %d has %d chunks and %d votes", c.made[i].Height, chunks, votes)
			}
		}
	})
}

// TestAhead: a sole validator makes further blocks while the disk is slow, and answers requests
// once their blocks are on disk. With other validators it waits for the disk.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, production.Manual)
		defer c.stop()
		c.lag = time.Second
		answers := 0
		for range 2 { // the second request comes when the blocks of the first are made but not on disk
			req := system.NewRequest[messages.MineBlocks, messages.BlocksMined](messages.MineBlocks{Blocks: 3})
			c.post(func() { c.tell(0, req) })
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
		c.tell(0, req)
		if r := <-req.Answer(); r.Err != nil || r.Value.Height != 3 || r.Value.Hash != c.disk.Hash {
			t.Errorf("asked for no block: %+v, with block %d on disk", r, c.disk.Height())
		}
		if c.run(time.Second); answers != 2 {
			t.Errorf("%d answers, want 2", answers)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, production.Interval)
		defer c.stop()
		c.lag = 100 * time.Millisecond
		if c.run(20 * time.Second); len(c.made) < 20 {
			t.Errorf("%d blocks in 20 s", len(c.made))
		}
	})
}

// TestFour: four validators make blocks in turn. Each block has approvals and endorsements of more
// than two thirds.
func TestFour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, production.Interval)
		defer c.stop()
		c.run(12100 * time.Millisecond)
		// A validator that has not endorsed the tip when the next block arrives endorses that one
		// at once: its delay runs from its last approval. So a few blocks come early.
		if len(c.made) < 19 || len(c.made) > 30 || int(c.head.Height()) != len(c.made) {
			t.Errorf("%d blocks up to height %d in 12.1 s, want about one each 600 ms", len(c.made), c.head.Height())
		}
		for i := range c.made {
			m := &c.made[i]
			if want := c.names[int(m.Height)%4]; m.Producer != want {
				t.Errorf("block %d by %s, want %s", m.Height, m.Producer, want)
			}
			if chunks, votes := c.count(m); chunks != shards || votes < 3 {
				t.Errorf("block %d has %d chunks and %d votes, want %d and at least 3", m.Height, chunks, votes, shards)
			}
			if now := signatures(m); now != c.signed[i] {
				t.Errorf("block %d had %d endorsements when it was asked for, and has %d", m.Height, c.signed[i], now)
			}
		}
	})
}

// TestOneDown: one of four validators is down. Its heights are skipped, its chunks are missing, and
// the chain continues.
func TestOneDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, production.Interval)
		defer c.stop()
		c.run(3 * time.Second)
		c.down[2] = true
		before := c.head.Height()
		c.run(60 * time.Second)
		if c.head.Height() < before+40 {
			t.Errorf("height %d after a minute with one down, was %d", c.head.Height(), before)
		}
		skipped, missed := 0, 0
		for i := 1; i < len(c.made); i++ {
			m := &c.made[i]
			if c.made[i-1].Height > before && m.Height%4 == 2 {
				t.Errorf("block %d by a validator that is down", m.Height)
			}
			skipped += int(m.Height - c.made[i-1].Height - 1)
			if chunks, _ := c.count(m); chunks < shards {
				missed++
			}
		}
		if skipped < 5 || missed < 5 {
			t.Errorf("%d heights skipped and %d blocks with missed chunks, want some", skipped, missed)
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
						c, begun := newClusterOf(t, 1, production.Rules{Mode: mode, Interval: 12e7, Validity: validity,
							Linger: 2e8}), time.Now()
						defer c.stop()
						for len(c.made) < blocks {
							if time.Since(begun) > time.Minute {
								t.Fatalf("%v: %d blocks in a minute", mode, len(c.made))
							}
							if c.waiting = waits(time.Since(begun)); c.waiting {
								c.post(func() { c.tell(0, messages.TransactionsWaiting{}) })
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
						t.Fatalf("block %d of instant mode comes after %v, of interval mode after %v", n+1, at[0][n], at[1][n])
					}
				}
				if early := at[1][blocks-1] - at[0][blocks-1]; load != "idle" && early < 4*12e7 {
					t.Errorf("instant mode is ahead by %v after %d blocks", early, blocks)
				}
			})
		}
	}
}

// TestInstantAndManual: in instant mode a block is made as soon as a transaction waits, followed by
// more until it is final. In manual mode only requested blocks are made.
func TestInstantAndManual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, production.Instant)
		defer c.stop()
		c.run(100 * time.Millisecond)
		if len(c.made) != 0 {
			t.Fatalf("%d blocks before the interval", len(c.made))
		}
		c.post(func() { c.tell(0, messages.TransactionsWaiting{}) })
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
		c.post(func() { c.tell(0, messages.TransactionsWaiting{}) })
		c.run(time.Millisecond)
		if len(c.made) < 50 {
			t.Errorf("%d blocks in a millisecond while transactions wait", len(c.made))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, production.Manual)
		defer c.stop()
		c.run(time.Hour)
		if len(c.made) != 0 {
			t.Fatalf("%d blocks that nobody asked for", len(c.made))
		}
		answers := 0
		for _, n := range []uint64{3, 2, 0} {
			req := system.NewRequest[messages.MineBlocks, messages.BlocksMined](messages.MineBlocks{Blocks: n})
			c.post(func() { c.tell(0, req) })
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
			t.Errorf("%d blocks after those that were asked for", len(c.made))
		}
	})
}

// TestBadVotes: approvals and endorsements have no effect if they are forged, come from accounts
// that are not validators, or name a block of another chain.
func TestBadVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, production.Interval)
		defer c.stop()
		c.down[0], c.down[2], c.down[3] = true, true, true
		a := c.nodes[1]
		a.Start()
		vote := func(k int, signer int, target primitives.Height) messages.ApprovalReceived {
			inner := primitives.NewApprovalInner(c.head.Hash, 0, target)
			return messages.ApprovalReceived{Approval: &primitives.Approval{Inner: inner, Target: target, AccountID: c.names[k],
				Signature: c.keys[signer].Sign(inner.SignedBytes(target))}}
		}
		stranger := vote(0, 0, 1)
		stranger.Approval.AccountID = "stranger.near"
		for _, m := range []messages.ApprovalReceived{vote(0, 2, 1), vote(3, 2, 1), stranger, vote(2, 2, 1), vote(2, 2, 1)} {
			a.Handle(m)
		}
		c.run(time.Second)
		if len(c.made) != 0 {
			t.Fatalf("a block with the votes of two of four: %+v", c.made[0].Approvals)
		}
		a.Handle(vote(3, 3, 1))
		c.run(2 * time.Second) // would be enough time for chunks, but none arrive
		if len(c.made) != 1 {
			t.Fatalf("%d blocks with the votes of three of four, want 1", len(c.made))
		}
		if chunks, votes := c.count(&c.made[0]); votes != 3 || chunks != 0 {
			t.Errorf("%d votes, %d chunks, want 3 and no chunk that has too few endorsements", votes, chunks)
		}
	})
}
