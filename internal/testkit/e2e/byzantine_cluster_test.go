//go:build e2e

package e2e

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// byzantineCluster is a network of four validators for tests of invalid blocks. The fourth, the
// byzantine one, is a Troupe node that produces valid blocks. The test intercepts its blocks,
// changes them, and sends them to the other three, the honest nodes. Then it compares which of them
// accept the block.
type byzantineCluster struct {
	*mixedCluster
	keys    map[primitives.AccountID]primitives.SecretKey
	by      primitives.SecretKey // its validator key
	genesis wire.GenesisID
	signer  *signer            // signs transactions of the byzantine validator's account
	shard   primitives.ShardID // the shard of that account
	layout  primitives.ShardLayout
	made    chan *primitives.Block // new blocks of the byzantine validator
	late    map[*blockForm]int     // how often a form was sent too late

	read    [honestNodes]int               // bytes of each honest node's log that were read
	reasons [honestNodes]map[string]string // each honest node's reasons for refusing a block

	proxy  *filterProxy
	open   bool // the byzantine validator's blocks reach the honest nodes unchanged
	firsts bool // only the first block of an epoch is intercepted
	blind  bool // of the honest nodes, only the first tracks shards

	mu     sync.Mutex
	parcel parcel
	blocks map[primitives.Hash]*primitives.Block // all blocks that a validator has sent
}

// honestNodes is the number of honest nodes. The first honestNeards of them are neards, the rest
// Troupe nodes.
const (
	honestNodes  = 3
	honestNeards = 2
)

// blockVerdict is the result of sending a form of a block to the honest nodes.
type blockVerdict struct {
	form   *blockForm
	hash   primitives.Hash
	height primitives.Height
	taken  [honestNodes]bool
	banned [honestNodes]bool
	why    [honestNodes]string
}

// lowerStake changes the home folder dir so that the validators names have too little stake to
// produce chunks, but still produce blocks. If dir belongs to one of them, it also tracks no shard.
// Such validators check chunks by their witnesses alone.
func lowerStake(t *testing.T, dir string, names ...string) {
	t.Helper()
	less, _ := new(big.Int).SetString("40000000000000000000000000000000", 10) // forty million NEAR of fifty
	change(t, filepath.Join(dir, "genesis.json"), func(g object) {
		for _, x := range list(g["validators"]) {
			if slices.Contains(names, fmt.Sprint(x["account_id"])) {
				x["amount"] = less.String()
			}
		}
		for _, x := range list(g["records"]) {
			a, _ := x["Account"].(map[string]any)
			if a == nil || !slices.Contains(names, fmt.Sprint(a["account_id"])) {
				continue
			}
			of := object(a).at("account")
			locked, amount := yocto(t, of["locked"]), yocto(t, of["amount"])
			of["amount"], of["locked"] = amount.Add(amount, locked.Sub(locked, less)).String(), less.String()
		}
	})
	change(t, filepath.Join(dir, "config.json"), func(c object) {
		if slices.Contains(names, filepath.Base(dir)) {
			c["tracked_shards_config"] = "NoShards"
		}
	})
}

// newByzantineCluster starts the network. The byzantine validator is connected to the honest nodes
// only through the test. If blind is set, the first honest node and the byzantine validator produce
// all chunks, and the other honest nodes track no shard.
func newByzantineCluster(t *testing.T, shards, epoch int, blind bool) *byzantineCluster {
	t.Helper()
	program := neardProgram(t)
	c := &byzantineCluster{keys: map[primitives.AccountID]primitives.SecretKey{}, made: make(chan *primitives.Block, 64), blocks: map[primitives.Hash]*primitives.Block{},
		late: map[*blockForm]int{}, blind: blind}
	c.mixedCluster = &mixedCluster{t: t, program: program, neards: honestNeards, shards: shards, p: make([]*process, honestNodes+1), homes: neardNet(t, program, honestNodes+1, shards, epoch)}
	shuffleShards(t, c.homes, epoch)
	var names, places []string
	for i, s := range c.homes {
		rules, err := filepath.Glob(filepath.Join(s.home, "epoch_configs", "*.json"))
		if err != nil || len(rules) != 1 {
			t.Fatal(rules, err)
		}
		makers := honestNodes + 1 // of all shards
		if blind {
			makers = 2
			lowerStake(t, s.home, "node1", "node2")
		}
		change(t, rules[0], func(o object) { o["minimum_validators_per_shard"], o["num_chunk_producer_seats"] = makers, makers })
		k, err := primitives.ParseKeyFile(mustRead(t, filepath.Join(s.home, "validator_key.json")))
		if err != nil {
			t.Fatal(err)
		}
		c.keys[k.AccountID] = k.SecretKey
		if i == honestNodes {
			c.by = k.SecretKey
		} else {
			names, places = append(names, keyOf(t, s.home).String()), append(places, s.network)
		}
		change(t, filepath.Join(s.home, "config.json"), func(o object) {
			o.at("consensus")["min_num_peers"] = 1
		})
	}
	proxy, behind := newFilterProxy(t, places, c.pass, c.record)
	c.proxy, c.parcel.key = proxy, c.nodeKey(honestNodes)
	var boot []string
	for i, at := range behind {
		boot = append(boot, names[i]+"@"+at)
	}
	change(t, filepath.Join(c.homes[honestNodes].home, "config.json"), func(o object) {
		n := o.at("network")
		n["boot_nodes"], n["public_addrs"] = strings.Join(boot, ","), []string{}
		n.at("tier1")["enable_outbound"] = false
	})
	t.Setenv("RUST_LOG", "warn,client=debug,stats=info")
	for i := range c.homes {
		if i == honestNeards { // troupes log at their default level
			_ = os.Unsetenv("RUST_LOG")
		}
		c.start(i)
	}
	var s struct {
		Chain   string          `json:"chain_id"`
		Genesis primitives.Hash `json:"genesis_hash"`
	}
	c.p[honestNodes].get("status", []any{}, &s)
	c.genesis = wire.GenesisID{ChainID: s.Chain, Hash: s.Genesis}
	return c
}

// signerOf returns a signer of transactions for the validator whose home folder is home.
func (p *process) signerOf(home string) *signer {
	p.t.Helper()
	other := &process{t: p.t, addr: p.addr, home: home}
	return other.signer()
}

// shardOf returns the shard of an account. It reads the shard layout from the first node.
func (c *byzantineCluster) shardOf(id primitives.AccountID) primitives.ShardID {
	c.t.Helper()
	var r struct {
		Layout primitives.ShardLayout `json:"shard_layout"`
	}
	c.p[0].get("EXPERIMENTAL_protocol_config", map[string]any{"finality": "final"}, &r)
	c.layout = r.Layout
	return r.Layout.ShardOf(id)
}

// pass returns whether a message of the byzantine validator is forwarded to a honest node. It
// intercepts the validator's own blocks, and what c.hold holds back.
func (c *byzantineCluster) pass(to int, m wire.Message, _ []byte) bool {
	if r, ok := m.(*wire.Routed); ok && r.Author == c.parcel.key.PublicKey() && c.hold(to, r) {
		return false
	}
	b := blockOf(m)
	if b == nil {
		return true
	}
	hash := b.Hash()
	own := b.Header.Signature == c.by.Sign(hash[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.blocks[hash]; known == nil {
		c.blocks[hash] = b
		if own && (!c.firsts || c.isFirst(b)) {
			select {
			case c.made <- b:
			default:
			}
		}
	}
	return !own || c.open && !(c.firsts && c.isFirst(b))
}

// isFirst returns whether a block is the first of its epoch. It returns false if the parent is
// unknown. The caller holds c.mu.
func (c *byzantineCluster) isFirst(b *primitives.Block) bool {
	parent := c.blocks[b.Header.PrevHash]
	return parent != nil && parent.Header.EpochID != b.Header.EpochID
}

// record records the blocks and endorsements that the honest nodes send.
func (c *byzantineCluster) record(m wire.Message) {
	if r, ok := m.(*wire.Routed); ok {
		if e, ok := r.Body.(*wire.ChunkEndorsement); ok {
			c.endorsed(&e.ChunkEndorsement)
		}
	}
	if b := blockOf(m); b != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.blocks[b.Hash()] = b
	}
}

// block returns a block that a validator has sent; nil: none has this hash.
func (c *byzantineCluster) block(hash primitives.Hash) *primitives.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocks[hash]
}

// next waits up to within for the next block that the byzantine validator produces, and returns it
// with its parent. It skips blocks that the validator made before the call, and blocks with an
// unknown parent. After that time it fails the test.
func (c *byzantineCluster) next(within time.Duration) (b, parent *primitives.Block) {
	c.t.Helper()
	for len(c.made) > 0 {
		<-c.made
	}
	limit := time.After(within)
	for parent == nil {
		select {
		case b = <-c.made:
			parent = c.block(b.Header.PrevHash)
		case <-limit:
			c.t.Fatal("the byzantine validator produces no block")
		}
	}
	return b, parent
}

// hasBlock returns whether a node returns a block over JSON-RPC.
func (p *process) hasBlock(hash primitives.Hash) bool {
	r, err := p.call("block", map[string]any{"block_id": hash.String()})
	return err == nil && r.Error == nil
}

// tip returns the height of a node's head.
func (p *process) tip() uint64 {
	p.t.Helper()
	return p.place().Sync.Height
}
