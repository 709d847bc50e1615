package node

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/messages"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// cluster is a chain of several validators. Each is a node with its own host on the loopback
// interface.
type cluster struct {
	t       *testing.T
	chain   *engine.ChainSpec
	shards  int
	members []*member
	disks   []*storage.MemDisk
	files   []string
	infos   []peerwire.PeerInfo
	change  func(i int, o *Options)
	open    func(i int, o *engine.Options) // changes engine options; may be nil
	fold    int                            // final blocks that an advance of the flat head waits for; 0: the default

	mu     sync.Mutex
	seen   map[primitives.Height]primitives.Hash // final blocks
	signed map[signature3]any                    // messages of each validator that it may sign only once
	target map[primitives.AccountID]primitives.Height
	missed int // chunks
	blocks int
}

// voter returns the account of a validator, payer that of an account with tokens.
func voter(i int) primitives.AccountID { return primitives.AccountID(fmt.Sprintf("voter%d", i)) }
func payer(i int) primitives.AccountID {
	return primitives.AccountID(fmt.Sprintf("%c%d", 'a'+byte(i*6), i))
}

func keyOf(id primitives.AccountID) primitives.SecretKey { return testnode.Key(id) }

// validators makes a chain and starts all its nodes.
func validators(t *testing.T, n, shards int, epoch uint64, change func(int, *Options)) *cluster {
	t.Helper()
	c := newCluster(t, n, shards, epoch, change, nil)
	for i := range n {
		c.start(i)
	}
	return c
}

// newCluster makes a chain, with the epoch configs that configs returns if it is set, and starts no
// node.
func newCluster(t *testing.T, n, shards int, epoch uint64, change func(int, *Options),
	configs func(*genesis.Config) map[string][]byte) *cluster {
	t.Helper()
	c := &cluster{t: t, shards: shards, seen: map[primitives.Height]primitives.Hash{}, signed: map[signature3]any{},
		target: map[primitives.AccountID]primitives.Height{}, change: change}
	var accounts []primitives.AccountID
	for i := range n {
		accounts = append(accounts, voter(i))
	}
	for i := range n {
		accounts = append(accounts, payer(i))
	}
	c.chain = testnode.Localnet(t, genesis.LocalnetOptions{ChainID: "test", Time: genesis.Time(time.Now().UnixNano()),
		Accounts: accounts, Validators: n, Shards: shards}, func(g *genesis.Config) map[string][]byte {
		g.EpochLength, g.TransactionValidityPeriod = epoch, 2*epoch
		if configs == nil {
			return nil
		}
		return configs(g)
	})
	dir := t.TempDir()
	for i := range n {
		c.members, c.infos = append(c.members, nil), append(c.infos, peerwire.PeerInfo{})
		c.disks = append(c.disks, storage.NewMemDisk())
		c.files = append(c.files, filepath.Join(dir, fmt.Sprint("signed", i)))
	}
	return c
}

// start starts a node from the content of its disk.
func (c *cluster) start(i int) {
	c.t.Helper()
	checker := signature.New()
	e := c.engineOn(c.disks[i], func(o *engine.Options) {
		o.Signature, o.ProofBytes, o.ProofsFor = checker.Check, 64<<20, voter(i)
		if c.open != nil {
			c.open(i, o)
		}
	})
	o := Options{
		Engine: e, Signatures: checker, Vote: parameters.Newest(primitives.NumberingRelease), Mode: production.Interval,
		Delays: doomslug.Delays{Endorsement: int64(100 * time.Millisecond), Skip: int64(300 * time.Millisecond),
			MaxWait: int64(1 * time.Second), ChunkWait: [2]uint64{1, 3}},
		Mempool:   txpool.Limits{Transactions: 200_000, Bytes: 100 << 20, KeyTransactions: 10_000},
		Validator: &validatoractor.Options{Account: voter(i), Key: keyOf(voter(i)), Journal: c.files[i]},
		Observe:   func(m *messages.BlockAccepted) { c.observe(i, m) },
		hooks:     Hooks{onSend: func(list []consensus.Send) { c.requireNoDoubleSigning(i, list) }},
		Exit: func(who string, reason any, stack []byte) {
			panic(fmt.Sprintf("%s failed: %v\n%s", who, reason, stack))
		},
	}
	var boot []peerwire.PeerInfo
	for k := range c.infos {
		if k != i && c.infos[k].ID != "" {
			boot = append(boot, c.infos[k])
		}
	}
	m := &member{sandbox: &sandbox{e: e, store: e.Store(), key: keyOf(payer(i))}}
	m.front, m.info = networked(c.t, &o, fmt.Sprint("host", i), boot...)
	c.mu.Lock() // other nodes' messages are checked at the same time
	c.members[i], c.infos[i] = m, m.info
	c.mu.Unlock()
	if c.change != nil {
		c.change(i, &o)
	}
	n, err := Start(o)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Node = n
	c.t.Cleanup(func() { c.stop(m) })
}

// engineOn opens an engine of the chain.
func (c *cluster) engineOn(disk *storage.MemDisk, change func(*engine.Options)) *engine.Engine {
	c.t.Helper()
	return testnode.Open(c.t, testnode.Options{Chain: c.chain, Disk: disk, Store: storage.Options{FlatHeadBlocks: c.fold}, Engine: change})
}

// stop stops a node regularly.
func (c *cluster) stop(m *member) {
	if m.ended.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		c.t.Errorf("stop: %v", err)
	}
	if err := m.e.Close(); err != nil {
		c.t.Errorf("close: %v", err)
	}
	if err := m.store.Close(); err != nil {
		c.t.Errorf("close: %v", err)
	}
}

// observe requires that all nodes have the same final block at each height.
func (c *cluster) observe(i int, m *messages.BlockAccepted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i == 0 && m.IsHead {
		c.blocks++
		for k := range m.Shards {
			if m.Shards[k].Chunk == nil {
				c.missed++
			}
		}
	}
	if m.FinalHash.IsZero() {
		return
	}
	if was, ok := c.seen[m.Final]; ok && was != m.FinalHash {
		c.t.Errorf("height %d: node %d has %v final, another one %v", m.Final, i, m.FinalHash, was)
	}
	c.seen[m.Final] = m.FinalHash
}

// signature3 identifies what a validator may sign only once: a block, a chunk, or an endorsement of
// a chunk, at a height.
type signature3 struct {
	by     primitives.AccountID
	kind   string
	shard  primitives.ShardID
	height primitives.Height
}

// requireNoDoubleSigning requires that a validator, across restarts, signs at most one block, chunk
// and endorsement for each height, and endorses no block for a height that it has approved or
// skipped before.
func (c *cluster) requireNoDoubleSigning(i int, list []consensus.Send) {
	c.mu.Lock()
	defer c.mu.Unlock()
	me := voter(i)
	once := func(kind string, shard primitives.ShardID, h primitives.Height, what any) {
		k := signature3{me, kind, shard, h}
		if was, ok := c.signed[k]; ok && was != what {
			c.t.Errorf("%s signs two: %v: %v and %v", me, k, was, what)
		}
		c.signed[k] = what
	}
	for _, s := range list {
		switch m := s.Message.(type) {
		case *primitives.Block:
			if p, err := c.members[0].e.Header(m.Header.PrevHash); err == nil && p != nil {
				if by, err := c.members[0].e.BlockProducer(m.Header.PrevHash, m.Header.Height); err != nil || by.AccountID != me {
					continue // relayed, not signed
				}
			}
			once("block", 0, m.Header.Height, m.Hash())
		case *primitives.PartialChunk:
			once("chunk", m.Header.ShardID, m.Header.HeightCreated, m.Header.ChunkHash())
		case *primitives.ChunkEndorsement:
			once("endorsement", m.Metadata.ShardID, m.Metadata.HeightCreated, m.ChunkHash)
		case *primitives.Approval:
			if m.Inner.Skip {
				c.target[me] = max(c.target[me], m.Target)
				continue
			}
			if was, ok := c.signed[signature3{me, "vote", 0, m.Target}]; ok && was == any(m.Inner.Endorsement) {
				continue // the same approval again
			}
			if m.Target <= c.target[me] {
				c.t.Errorf("%s endorses for %d, and has voted for %d", me, m.Target, c.target[me])
			}
			c.target[me] = m.Target
			once("vote", 0, m.Target, m.Inner.Endorsement)
		}
	}
}

// reach waits until all running nodes have a final block at h.
func (c *cluster) reach(h primitives.Height, within time.Duration) {
	c.t.Helper()
	limit := time.Now().Add(within)
	for _, m := range c.members {
		for !m.ended.Load() && m.e.Final().Height < h {
			if time.Now().After(limit) {
				c.t.Fatalf("not at %d: %s", h, c.where())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (c *cluster) where() (out string) {
	for i, m := range c.members {
		if m.ended.Load() {
			out += fmt.Sprintf(" %d: down;", i)
			continue
		}
		h, halted := m.Halted()
		out += fmt.Sprintf(" %d: tip %d, head %d, final %d, peers %d, halted %v %s;", i, m.e.Tip().Height(),
			m.e.Head().Height(), m.e.Final().Height, m.front.Peers(), halted, h.Reason)
	}
	return out
}

// pay submits a payer's transfer to a node, waits until it is final there, and returns the time
// that took.
func (c *cluster) pay(i int, to primitives.AccountID) time.Duration {
	c.t.Helper()
	m := c.members[i]
	m.mu.Lock()
	m.nonce++
	tx := m.sign(primitives.Transaction{SignerID: payer(i), ReceiverID: to,
		Nonce:     primitives.TransactionNonce{Nonce: m.nonce},
		BlockHash: m.e.Final().Hash, Actions: []primitives.Action{transfer(1000)}})
	m.mu.Unlock()
	begun := time.Now()
	out, err := m.SendTx(c.t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
	if err != nil || out.Level != view.LevelFinal {
		c.t.Errorf("node %d: %v, %+v", i, err, out)
	}
	return time.Since(begun)
}

// TestValidatorsFinalizeEachHeight: four validators make blocks of four shards over several epochs.
// There is one final block for each height, and transactions of clients become final soon.
func TestValidatorsFinalizeEachHeight(t *testing.T) {
	t.Parallel()
	c := validators(t, 4, 4, 40, nil)
	c.reach(10, 120*time.Second)
	begun, from := time.Now(), c.members[0].e.Final().Height
	var group sync.WaitGroup
	for i := range c.members {
		group.Go(func() {
			for k := range 3 {
				t.Logf("node %d: FINAL in %v", i, c.pay(i, payer((i+k+1)%4)))
			}
		})
	}
	group.Wait()
	c.reach(60, 240*time.Second)
	took := time.Since(begun)
	c.mu.Lock()
	t.Logf("%d heights in %v; %d blocks with %d chunks missed", 60-from, took, c.blocks, c.missed)
	few := c.blocks >= 40 && c.missed <= c.blocks*c.shards/4
	c.mu.Unlock()
	if !few {
		c.requireFewMissingChunks()
	}
}

// requireFewMissingChunks requires few missing chunks while 30 heights become final, within five
// tries: on a busy machine many chunks may be late once.
func (c *cluster) requireFewMissingChunks() {
	c.t.Helper()
	for tries := 5; ; tries-- {
		c.mu.Lock()
		c.blocks, c.missed = 0, 0
		c.mu.Unlock()
		c.reach(c.members[0].e.Final().Height+30, 240*time.Second)
		c.mu.Lock()
		blocks, missed := c.blocks, c.missed
		c.mu.Unlock()
		c.t.Logf("%d blocks with %d chunks missed", blocks, missed)
		if blocks >= 20 && missed <= blocks*c.shards/4 {
			return
		}
		if tries == 0 {
			c.t.Fatalf("%d blocks, %d chunks missed", blocks, missed)
		}
	}
}

// TestRestartedValidatorsResumePace: a validator knows its signatures after a restart. With two of
// four validators nothing becomes final. With three the chain continues; with four it has its
// former pace.
func TestRestartedValidatorsResumePace(t *testing.T) {
	t.Parallel()
	c := validators(t, 4, 4, 1000, nil) // with short epochs, a stopped validator would be kicked out
	c.reach(10, 120*time.Second)
	for _, i := range []int{1, 2} {
		c.stop(c.members[i])
	}
	was := c.members[0].e.Final().Height
	for { // wait until messages that are on their way have no more effect
		time.Sleep(time.Second)
		now := c.members[0].e.Final().Height
		if now == was {
			break
		}
		was = now
	}
	time.Sleep(2 * time.Second)
	if now := c.members[0].e.Final().Height; now > was {
		t.Errorf("two of four have %d final, it was %d", now, was)
	}
	c.start(1)
	c.reach(c.members[0].e.Head().Height()+10, 120*time.Second)
	c.start(2)
	c.reach(c.members[0].e.Head().Height()+10, 120*time.Second)
	begun, from := time.Now(), c.members[0].e.Head().Height()
	c.reach(from+30, 120*time.Second)
	t.Logf("30 heights in %v: %s", time.Since(begun), c.where())
	for i := range c.members {
		t.Logf("node %d: FINAL in %v", i, c.pay(i, payer((i+1)%4)))
	}
}

// TestFailingValidatorContinuesFromDisk: a validator whose actor fails again and again continues
// from the disk each time. It signs nothing contradictory, and serves its clients.
func TestFailingValidatorContinuesFromDisk(t *testing.T) {
	var armed atomic.Bool
	var fell atomic.Int64
	c := validators(t, 4, 2, 1000, func(i int, o *Options) {
		if i != 2 {
			return
		}
		o.hooks.trip = func(kind string, m any, after bool) {
			if kind != validatoractor.Name || after != (fell.Load()%2 == 1) {
				return
			}
			if _, ok := m.(actor.SystemMessage); !ok && armed.CompareAndSwap(true, false) {
				fell.Add(1)
				panic("tripped on purpose")
			}
		}
	})
	c.reach(5, 120*time.Second)
	for k := range 4 {
		armed.Store(true)
		until(t, func() bool { return !armed.Load() })
		t.Logf("node 2: FINAL in %v", c.pay(2, payer(k)))
	}
	c.reach(c.members[0].e.Head().Height()+5, 120*time.Second)
	if h, is := c.members[2].Halted(); is || fell.Load() != 4 {
		t.Errorf("%d failures, halted %v %+v", fell.Load(), is, h)
	}
}

// TestEagerValidatorsFinalizeInThreeBlocks: in eager mode a transaction becomes final in less than
// the time of three blocks. All validators track all shards and announce that, so chunks are
// endorsed without witnesses.
func TestEagerValidatorsFinalizeInThreeBlocks(t *testing.T) {
	t.Parallel()
	const pace = 2 * time.Second
	var mu sync.Mutex
	shown, endorsed := map[primitives.ChunkKey]bool{}, map[primitives.ChunkKey]int{}
	c := validators(t, 4, 2, 1000, func(_ int, o *Options) {
		o.Delays = doomslug.Delays{Endorsement: int64(pace), Skip: int64(3 * pace), MaxWait: int64(6 * pace),
			ChunkWait: [2]uint64{1, 3}}
		o.Validator.Eager, o.Network.Eager = true, true
		before := o.hooks.onSend
		o.hooks.onSend = func(list []consensus.Send) {
			before(list)
			mu.Lock()
			defer mu.Unlock()
			for i := range list {
				switch m := list[i].Message.(type) {
				case *primitives.PartialWitness:
					shown[m.Key()] = true
				case *primitives.ChunkEndorsement:
					endorsed[primitives.ChunkKey{ShardID: m.Metadata.ShardID, EpochID: m.Metadata.EpochID,
						HeightCreated: m.Metadata.HeightCreated}]++
				}
			}
		}
	})
	c.reach(2, 120*time.Second)
	for i := range 2 {
		testutil.Soon(t, fmt.Sprintf("FINAL, at a pace of %v,", pace), 5*pace/2, 10, func() time.Duration {
			took := c.pay(i, payer(3))
			t.Logf("FINAL in %v", took)
			return took
		})
	}
	mu.Lock()
	defer mu.Unlock()
	spared := 0
	for key, times := range endorsed {
		if !shown[key] && times >= 3 { // two thirds of four
			spared++
		}
	}
	if t.Logf("%d chunks were endorsed, %d of them without a witness", len(endorsed), spared); spared == 0 {
		t.Error("each chunk that was endorsed had a witness")
	}
}
