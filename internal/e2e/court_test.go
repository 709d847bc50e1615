//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// court are three validators that judge what a fourth says, a troupe that makes blocks as any: the test takes them from it, and tells them in another form.
type court struct {
	*panel
	keys    map[primitives.AccountID]primitives.SecretKey
	by      primitives.SecretKey // the liar's
	genesis wire.GenesisID
	made    chan *primitives.Block // of the liar
	late    map[*blockForm]int     // how often a form was told too late

	read [jurors]int               // of each log
	said [jurors]map[string]string // why each has refused a block, by what it calls that

	mu     sync.Mutex
	blocks map[primitives.Hash]*primitives.Block // all that were said
}

// jurors are so many, neards first.
const (
	jurors      = 3
	jurorNeards = 2
)

// judgement is what became of a form.
type judgement struct {
	form   *blockForm
	hash   primitives.Hash
	height primitives.Height
	taken  [jurors]bool
	banned [jurors]bool
	why    [jurors]string
}

// newCourt starts the network. The liar is heard by nobody but through the test.
func newCourt(t *testing.T, shards, epoch int) *court {
	t.Helper()
	program := neardProgram(t)
	c := &court{keys: map[primitives.AccountID]primitives.SecretKey{}, made: make(chan *primitives.Block, 64), blocks: map[primitives.Hash]*primitives.Block{},
		late: map[*blockForm]int{}}
	c.panel = &panel{t: t, program: program, neards: jurorNeards, shards: shards, p: make([]*process, jurors+1), seats: neardNet(t, program, jurors+1, shards, epoch)}
	dealt(t, c.seats, epoch)
	var names, places []string
	for i, s := range c.seats {
		k, err := primitives.ParseKeyFile(mustRead(t, filepath.Join(s.home, "validator_key.json")))
		if err != nil {
			t.Fatal(err)
		}
		c.keys[k.AccountID] = k.SecretKey
		if i == jurors {
			c.by = k.SecretKey
		} else {
			names, places = append(names, keyOf(t, s.home).String()), append(places, s.network)
		}
		change(t, filepath.Join(s.home, "config.json"), func(o object) {
			o.at("consensus")["min_num_peers"] = 1
		})
	}
	veil := newVeil(t, places, c.pass, c.heard)
	var boot []string
	for i, at := range veil {
		boot = append(boot, names[i]+"@"+at)
	}
	change(t, filepath.Join(c.seats[jurors].home, "config.json"), func(o object) {
		n := o.at("network")
		n["boot_nodes"], n["public_addrs"] = strings.Join(boot, ","), []string{}
		n.at("tier1")["enable_outbound"] = false
	})
	t.Setenv("RUST_LOG", "warn,client=debug,stats=info")
	for i := range c.seats {
		if i == jurorNeards { // troupes say what they usually do
			_ = os.Unsetenv("RUST_LOG")
		}
		c.start(i)
	}
	var s struct {
		Chain   string          `json:"chain_id"`
		Genesis primitives.Hash `json:"genesis_hash"`
	}
	c.p[jurors].get("status", []any{}, &s)
	c.genesis = wire.GenesisID{ChainID: s.Chain, Hash: s.Genesis}
	return c
}

// pass lets all pass but the liar's own blocks.
func (c *court) pass(_ int, m wire.Message, _ []byte) bool {
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
		if own {
			select {
			case c.made <- b:
			default:
			}
		}
	}
	return !own
}

// heard keeps what the jurors say.
func (c *court) heard(m wire.Message) {
	if b := blockOf(m); b != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.blocks[b.Hash()] = b
	}
}

func (c *court) block(hash primitives.Hash) *primitives.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocks[hash]
}

// next is the next block of the liar, and its parent.
func (c *court) next(within time.Duration) (b, parent *primitives.Block) {
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
			c.t.Fatal("the liar makes no block")
		}
	}
	return b, parent
}

// knows tells whether a node has taken a block.
func (p *process) knows(hash primitives.Hash) bool {
	r, err := p.call("block", map[string]any{"block_id": hash.String()})
	return err == nil && r.Error == nil
}

// tip is the height of a node's head.
func (p *process) tip() uint64 {
	p.t.Helper()
	return p.place().Sync.Height
}
