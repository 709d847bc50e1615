package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/mempool"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/messages"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// cluster is a chain of several validators, each a node with a host of its own on the loopback.
type cluster struct {
	t       *testing.T
	chain   *engine.Chain
	shards  int
	members []*member
	disks   []*storage.MemDisk
	files   []string
	infos   []peerwire.PeerInfo
	change  func(i int, o *Options)

	mu     sync.Mutex
	seen   map[primitives.Height]primitives.Hash // final blocks
	missed int                                   // chunks
	blocks int
}

// voter is the account of a validator, payer that of somebody with money.
func voter(i int) primitives.AccountID { return primitives.AccountID(fmt.Sprintf("voter%d", i)) }
func payer(i int) primitives.AccountID {
	return primitives.AccountID(fmt.Sprintf("%c%d", 'a'+byte(i*6), i))
}

func keyOf(id primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, string(id))
}

// validators makes a chain, and starts all of its nodes.
func validators(t *testing.T, n, shards int, epoch uint64, change func(int, *Options)) *cluster {
	t.Helper()
	c := &cluster{t: t, shards: shards, seen: map[primitives.Height]primitives.Hash{}, change: change}
	var accounts []primitives.AccountID
	for i := range n {
		accounts = append(accounts, voter(i))
	}
	for i := range n {
		accounts = append(accounts, payer(i))
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{ChainID: "test", Time: genesis.Time(time.Now().UnixNano()), Accounts: accounts, Validators: n, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	g.Config.EpochLength, g.Config.TransactionValidityPeriod = epoch, 2*epoch
	records := []byte{'['}
	for i, r := range g.Records {
		if i > 0 {
			records = append(records, ',')
		}
		records = genesis.AppendRecord(records, r)
	}
	records = append(records, ']')
	if c.chain, err = engine.NewChain(&g.Config, primitives.NumberingJune, nil, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(records)), nil }); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i := range n {
		c.members, c.infos = append(c.members, nil), append(c.infos, peerwire.PeerInfo{})
		c.disks = append(c.disks, storage.NewMemDisk())
		c.files = append(c.files, filepath.Join(dir, fmt.Sprint("signed", i)))
		c.start(i)
	}
	return c
}

// start starts a node on what its disk has.
func (c *cluster) start(i int) {
	c.t.Helper()
	store, err := storage.OpenMemory(c.disks[i], storage.Options{Identity: storage.Identity{ChainID: "test"}})
	if err != nil {
		c.t.Fatal(err)
	}
	checker := signature.New()
	e, err := engine.Open(engine.Options{Chain: c.chain, Store: store, Signature: checker.Check, Proofs: 64 << 20, ProofsOf: voter(i)})
	if err != nil {
		c.t.Fatal(err)
	}
	o := Options{
		Engine: e, Signatures: checker, Vote: 86, Mode: production.Interval,
		Delays:    doomslug.Delays{Endorsement: int64(100 * time.Millisecond), Skip: int64(300 * time.Millisecond), MaxWait: int64(1 * time.Second), ChunkWait: [2]uint64{1, 3}},
		Mempool:   mempool.Limits{Transactions: 200_000, Bytes: 100 << 20, KeyTransactions: 10_000},
		Validator: &validatoractor.Options{Account: voter(i), Key: keyOf(voter(i)), File: c.files[i]},
		Observe:   func(m *messages.BlockAccepted) { c.observe(i, m) },
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
	m := &member{sandbox: &sandbox{e: e, store: store, key: keyOf(payer(i))}}
	m.front, m.info = networked(c.t, &o, fmt.Sprint("host", i), boot...)
	if c.change != nil {
		c.change(i, &o)
	}
	if m.Node, err = Start(o); err != nil {
		c.t.Fatal(err)
	}
	c.members[i], c.infos[i] = m, m.info
	c.t.Cleanup(func() { c.stop(m) })
}

// stop ends a node as a stop does.
func (c *cluster) stop(m *member) {
	if m.ended {
		return
	}
	m.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

// observe wants each height to have one final block, on all nodes.
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

// reach waits until all that run have a final block of a height.
func (c *cluster) reach(h primitives.Height, within time.Duration) {
	c.t.Helper()
	limit := time.Now().Add(within)
	for _, m := range c.members {
		for !m.ended && m.e.Final().Height < h {
			if time.Now().After(limit) {
				c.t.Fatalf("not at %d: %s", h, c.where())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (c *cluster) where() (out string) {
	for i, m := range c.members {
		if m.ended {
			out += fmt.Sprintf(" %d: down;", i)
			continue
		}
		h, halted := m.Halted()
		out += fmt.Sprintf(" %d: head %d, final %d, peers %d, halted %v %s;", i, m.e.Head().Height(), m.e.Final().Height, m.front.Peers(), halted, h.Reason)
	}
	return out
}

// pay has a node take a transfer of its payer, and waits until it is final there.
func (c *cluster) pay(i int, to primitives.AccountID) time.Duration {
	c.t.Helper()
	m := c.members[i]
	m.mu.Lock()
	m.nonce++
	tx := m.sign(primitives.Transaction{SignerID: payer(i), ReceiverID: to, Nonce: primitives.TransactionNonce{Nonce: m.nonce},
		BlockHash: m.e.Head().Hash, Actions: []primitives.Action{transfer(1000)}})
	m.mu.Unlock()
	begun := time.Now()
	out, err := m.SendTx(c.t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
	if err != nil || out.Level != view.LevelFinal {
		c.t.Errorf("node %d: %v, %+v", i, err, out)
	}
	return time.Since(begun)
}

// TestValidators: four validators with their hosts make blocks of four shards together, over epochs, with one final block a height, and what a client
// gives to any of them is final there soon.
func TestValidators(t *testing.T) {
	c := validators(t, 4, 4, 25, nil)
	c.reach(10, 60*time.Second)
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
	c.reach(60, 120*time.Second)
	took := time.Since(begun)
	c.mu.Lock()
	t.Logf("%d heights in %v; %d blocks with %d chunks missed", 60-from, took, c.blocks, c.missed)
	if c.blocks < 50 || c.missed > c.blocks*c.shards/4 {
		t.Errorf("%d blocks, %d chunks missed", c.blocks, c.missed)
	}
	c.mu.Unlock()
}

// TestValidatorsBack: what one signs it knows after a restart; with two of four nothing becomes final, and as soon as three are there the chain goes on,
// at the pace of before when all are.
func TestValidatorsBack(t *testing.T) {
	c := validators(t, 4, 4, 25, nil)
	c.reach(10, 60*time.Second)
	for _, i := range []int{1, 2} {
		c.stop(c.members[i])
	}
	time.Sleep(time.Second)
	was := c.members[0].e.Final().Height
	time.Sleep(2 * time.Second)
	if now := c.members[0].e.Final().Height; now > was {
		t.Errorf("two of four have %d final, it was %d", now, was)
	}
	c.start(1)
	c.reach(c.members[0].e.Head().Height()+10, 60*time.Second)
	c.start(2)
	c.reach(c.members[0].e.Head().Height()+10, 60*time.Second)
	begun, from := time.Now(), c.members[0].e.Head().Height()
	c.reach(from+30, 60*time.Second)
	t.Logf("30 heights in %v: %s", time.Since(begun), c.where())
	for i := range c.members {
		t.Logf("node %d: FINAL in %v", i, c.pay(i, payer((i+1)%4)))
	}
}
