package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// checks collects reports of the nodes and checks the invariants of the chain against these
// reports. For example: final blocks never change, all nodes compute equal states, receipts are
// applied once, and the supply of tokens is conserved.
type checks struct {
	w         *World
	violation error
	chain     map[primitives.Height]primitives.Hash     // hashes of blocks that are final on any node, by height
	top       storage.BlockRef                          // highest final block
	finals    map[primitives.AccountID]storage.BlockRef // last final block, by node
	roots     map[place]primitives.Hash                 // state roots that the first node computed
	did       map[place]*deeds
	applied   map[primitives.Hash]primitives.Height // id of an outcome -> height of the final block with it
	// owed maps the id of a receipt that was not applied yet to the height of the block that sent it.
	owed  map[primitives.Hash]primitives.Height
	moved int64 // virtual time at which top last advanced
	// changed means that a node was started, was stopped or has persisted blocks since the last
	// complete check of ended.
	changed bool
	// settled is the height of the last head at which some transaction pool was not empty.
	settled  primitives.Height
	ending   primitives.Height // highest head when the load stopped; 0: it has not stopped
	epochs   map[primitives.EpochID]bool
	versions []primitives.ProtocolVersion // protocol versions of final blocks, in order, without repeats
	missed   int
	gaps     int
	lastGap  primitives.Height
	behind   int // number of final blocks above height ending
	late     int // number of missing chunks above height ending, not counting the first four blocks there
	supplies int
	unread   []unread // final blocks whose effects are not checked yet
	out      bool     // the validator of Scenario.Leaver was kicked out
	// the validator of Scenario.Leaver is a validator again, or the node of Scenario.Joiner has
	// become one
	returned  bool
	rekeyed   int // number of validators that sign with their second key
	signs     signs
	verdicts  verdicts
	producers producers
	endorsed  map[primitives.AccountID]Share
}

// place identifies the chunk of a shard in a block.
type place struct {
	block primitives.Hash
	shard primitives.ShardID
}

// deeds are the effects of a chunk, as reported by the first node that applied it.
type deeds struct {
	outcomes []primitives.Hash
	sent     []primitives.Hash
}

func (c *checks) init(w *World) {
	*c = checks{w: w, chain: map[primitives.Height]primitives.Hash{}, finals: map[primitives.AccountID]storage.BlockRef{},
		roots: map[place]primitives.Hash{},
		did:   map[place]*deeds{}, applied: map[primitives.Hash]primitives.Height{}, owed: map[primitives.Hash]primitives.Height{}, moved: begin,
		epochs: map[primitives.EpochID]bool{}, endorsed: map[primitives.AccountID]Share{}}
	c.signs.init(c)
	c.verdicts.init(c)
	c.producers.init(c)
}

// fail records a violation. Violations after the first are ignored.
func (c *checks) fail(format string, args ...any) {
	if c.violation == nil {
		c.violation = fmt.Errorf(format, args...)
		c.w.say("CHECK", "%v", c.violation)
	}
}

// started checks that a restarted node still has its last final block.
func (c *checks) started(n *node) {
	was, now := c.finals[n.name], n.engine.Final()
	if now.Height < was.Height {
		c.fail("%s: the final head was at %d before a restart and is at %d after it", n.name, was.Height, now.Height)
		return
	}
	if was.Hash.IsZero() {
		return
	}
	if hash, err := n.store.HashAt(was.Height); err != nil || hash != was.Hash {
		c.fail("%s: block %d (%v) was final before a restart; after it the block of that height is %v (error %v)",
			n.name, was.Height, was.Hash, hash, err)
	}
}

// adopted checks a block that a node has imported. The state roots in the block must equal the
// roots that all other nodes computed.
func (c *checks) adopted(n *node, acc *engine.Imported) {
	at := acc.Entry
	c.verdicts.taken(n, at.Block)
	c.producers.adopted(n, at)
	c.w.move.note(at.Header())
	for i := range at.Shards {
		s := &at.Shards[i]
		if !s.Held() {
			continue
		}
		p := place{at.Hash, s.ID}
		if root, ok := c.roots[p]; ok && root != s.Extra.StateRoot {
			c.fail("%s: the state root of shard %d after block %d differs from that of other nodes", n.name, s.ID, at.Height())
		}
		c.roots[p] = s.Extra.StateRoot
		if r := s.Result; r != nil && c.did[p] == nil {
			d := new(deeds)
			for k := range r.Outcomes {
				if rejected(&r.Outcomes[k].Outcome) {
					continue
				}
				d.outcomes = append(d.outcomes, r.Outcomes[k].ID)
				d.sent = append(d.sent, r.Outcomes[k].Outcome.ReceiptIDs...)
			}
			c.did[p] = d
		}
	}
	c.read()
}

// stored checks a block that a node has persisted. The node's final head may only move to
// descendants.
func (c *checks) stored(n *node, acc *engine.Imported) {
	was, now := c.finals[n.name], acc.Final
	if now.Height < was.Height || now.Height == was.Height && now.Hash != was.Hash && !was.Hash.IsZero() {
		c.fail("%s: the final head went back from %d to %d", n.name, was.Height, now.Height)
		return
	}
	if now == was {
		return
	}
	var path []*engine.BlockNode
	for hash := now.Hash; ; {
		at, err := n.engine.Block(hash)
		if err != nil {
			c.fail("%s: a final block is missing: %v", n.name, err)
			return
		}
		if at.Height() <= was.Height || at.Header().PrevHash.IsZero() {
			if at.Height() != was.Height || !was.Hash.IsZero() && at.Hash != was.Hash {
				if !at.Header().PrevHash.IsZero() {
					c.fail("%s: final block %d is not a descendant of block %d, which was final", n.name, now.Height, was.Height)
				}
			}
			break
		}
		path = append(path, at)
		hash = at.Header().PrevHash
	}
	c.finals[n.name] = now
	for i := len(path) - 1; i >= 0; i-- {
		at := path[i]
		// With Scenario.Own, the first node that reports a final block hardly ever tracks all shards.
		if c.w.s.Own && n.tracks == nil && at.Height()%4 == 0 {
			c.supply(n, at)
		}
		if hash, ok := c.chain[at.Height()]; ok {
			if hash != at.Hash {
				c.fail("two blocks of height %d are final: %v, and %v at %s", at.Height(), hash, at.Hash, n.name)
			}
			continue
		}
		if at.Height() <= c.top.Height {
			c.fail("%s: a block of height %d is final, but other nodes finalized a chain without that height", n.name, at.Height())
			return
		}
		c.final(n, at)
	}
}

// final records a block when the first node reports it as final.
func (c *checks) final(n *node, at *engine.BlockNode) {
	if c.top.Height > 0 {
		c.missed += int(at.Height() - c.top.Height - 1)
	}
	c.chain[at.Height()] = at.Hash
	c.top = storage.BlockRef{Height: at.Height(), Hash: at.Hash}
	c.moved = c.w.now
	c.epochs[at.Header().EpochID] = true
	var version primitives.ProtocolVersion
	err := n.engine.Epochs(func(m *epoch.Manager) (err error) {
		version, err = m.ProtocolVersion(at.Header().EpochID)
		return err
	})
	if err != nil {
		c.fail("%s: protocol version of block %d: %v", n.name, at.Height(), err)
	} else if k := len(c.versions); k == 0 || c.versions[k-1] != version {
		c.versions = append(c.versions, version)
	}
	if c.ending != 0 && at.Height() > c.ending {
		c.behind++
	}
	for i, h := range at.Block.Body.Chunks {
		if h.HeightIncluded == at.Height() {
			continue
		}
		if c.w.s.Anchors {
			c.gap(n, at, at.Layout.ShardIDs()[i])
		}
		c.gaps++
		c.lastGap = at.Height()
		if c.behind > 4 {
			c.late++
		}
	}
	c.endorsements(n, at)
	c.verdicts.final(at.Block)
	c.unread = append(c.unread, unread{n, n.life, at})
	c.read()
}

// endorsements counts the endorsements in a final block by validator, as the epoch manager does. It
// skips the first block after the genesis, because no validator endorses that block's chunks.
func (c *checks) endorsements(n *node, at *engine.BlockNode) {
	prev, err := n.engine.Header(at.Header().PrevHash)
	if err != nil {
		c.fail("%s: %v", n.name, err)
		return
	}
	if prev.PrevHash.IsZero() {
		return
	}
	for i, h := range at.Block.Body.Chunks {
		list, err := n.engine.Validation().Validators(primitives.ChunkKey{ShardID: at.Layout.ShardIDs()[i],
			EpochID: at.Header().EpochID, HeightCreated: prev.Height + 1})
		if err != nil {
			c.fail("%s: %v", n.name, err)
			return
		}
		for k, a := range list {
			s := c.endorsed[a.AccountID]
			if s.Due++; h.HeightIncluded == at.Height() && k < len(at.Block.Body.ChunkEndorsements[i]) &&
				at.Block.Body.ChunkEndorsements[i][k] != "" {
				s.Made++
			} else {
				c.w.say(a.AccountID, "has no endorsement of shard %d in final block %d", at.Layout.ShardIDs()[i], at.Height())
			}
			c.endorsed[a.AccountID] = s
		}
	}
}

// unread is a final block whose effects are not checked yet. n is the node that first reported it.
type unread struct {
	n    *node
	life int
	at   *engine.BlockNode
}

// read checks the effects of final blocks, in order, up to a block with a chunk that no node has
// applied yet. No transaction or receipt may be applied twice.
func (c *checks) read() {
	for len(c.unread) > 0 && c.violation == nil {
		n, at := c.unread[0].n, c.unread[0].at
		var all []*deeds
		for i, h := range at.Block.Body.Chunks {
			if h.HeightIncluded != at.Height() {
				continue
			}
			d := c.did[place{at.Hash, at.Layout.ShardIDs()[i]}]
			if d == nil {
				return
			}
			all = append(all, d)
		}
		for _, d := range all {
			c.deeds(at.Height(), d)
		}
		if n.life == c.unread[0].life && n.tracks == nil && at.Height()%4 == 0 && !c.w.s.Own {
			c.supply(n, at)
		}
		c.unread = c.unread[1:]
	}
}

// rejected returns whether an outcome is that of an invalid transaction in a chunk. Such a
// transaction changes no state and charges no account, so a chunk producer may include it again.
func rejected(o *primitives.Outcome) bool {
	return o.GasBurnt == 0 && o.Status.Kind == primitives.StatusFailure && bytes.HasPrefix(o.Status.Failure, []byte(`{"InvalidTxError"`))
}

func (c *checks) deeds(h primitives.Height, d *deeds) {
	for _, id := range d.outcomes {
		if before, twice := c.applied[id]; twice {
			c.fail("transaction or receipt %v was applied in block %d and again in %d", id, before, h)
		}
		c.applied[id] = h
		delete(c.owed, id)
	}
	for _, id := range d.sent {
		if _, done := c.applied[id]; !done {
			c.owed[id] = h
		}
	}
}

// supply checks that all tokens after a block add up to the total supply.
func (c *checks) supply(n *node, at *engine.BlockNode) {
	find := func(hash primitives.Hash) *engine.BlockNode {
		if hash.IsZero() { // this is the hash of the genesis block's parent
			return nil
		}
		x, err := n.engine.Block(hash)
		if err != nil {
			c.fail("%s: %v", n.name, err)
		}
		return x
	}
	has, err := workload.Held(n.store, at, find)
	want, werr := workload.Supply(at)
	if c.w.s.Splits && err == nil && werr == nil {
		more, err := workload.Uncounted(n.engine, at, find)
		if err != nil {
			werr = err
		}
		want = want.SaturatingAdd(more)
	}
	if err := errors.Join(err, werr); err != nil {
		c.fail("%s: adding up the tokens after block %d: %v", n.name, at.Height(), err)
		return
	}
	c.supplies++
	if has != want {
		c.fail("all accounts and receipts together have %v yoctoNEAR after block %d, want %v", has, at.Height(), want)
	}
}

// ended returns whether the scenario is over. All nodes must have finalized Scenario.Blocks blocks,
// and another Scenario.Settle blocks after the load has stopped. ended fails if no block became
// final for too long.
func (c *checks) ended() bool {
	w := c.w
	if w.faulty() {
		return false
	}
	if quiet := w.now - max(c.moved, w.faultsEnd()); quiet > w.s.Patience {
		c.fail("no block became final for %d s: %s", quiet/second, w.where())
		return true
	}
	if !c.changed && !w.s.Leaver && !w.s.Joiner && !w.s.Keys && !w.s.Universal {
		return false // the result depends on nothing else that can have changed
	}
	c.changed = false
	low := ^primitives.Height(0)
	for _, n := range w.nodes {
		if n.retired {
			continue
		}
		if n.core == nil {
			return false
		}
		low = min(low, n.engine.Final().Height)
	}
	if c.ending == 0 {
		if low >= w.s.Blocks && (!w.s.Leaver && !w.s.Joiner || c.returned) && (!w.s.Keys || c.rekeyed >= w.s.Nodes) &&
			(!w.s.Twin || c.signs.twin) {
			for _, n := range w.nodes { // blocks up to the highest head may lack chunks because of the last fault
				if n.retired {
					continue
				}
				c.ending = max(c.ending, n.engine.Head().Height())
			}
			w.load.stopped = true
			w.say("", "the load ends at %d", c.ending)
		}
		return false
	}
	// A transaction may wait in a pool for transactions with lower nonces, until it expires.
	for _, n := range w.nodes {
		if w.s.Universal && n.core.Pooled() > 0 && low < c.ending+2*w.s.Epoch+w.s.settle() {
			c.settled = max(c.settled, n.engine.Head().Height())
		}
	}
	return low >= max(c.ending, c.settled)+w.s.settle()
}

// settle returns the number of final blocks after the load within which all transactions and
// receipts must be applied.
func (s *Scenario) settle() primitives.Height {
	if s.Settle > 0 {
		return s.Settle
	}
	return 14
}

func (c *checks) atEnd() {
	if c.violation != nil {
		return
	}
	if len(c.unread) > 0 {
		c.fail("no node applied all chunks of final block %d", c.unread[0].at.Height())
	}
	if len(c.owed) > 0 {
		id := slices.MinFunc(slices.Collect(maps.Keys(c.owed)), primitives.Hash.Compare)
		c.fail("%d receipts are not applied at final block %d, the first is %v of block %d", len(c.owed), c.top.Height, id, c.owed[id])
	}
	if c.late > 0 && c.w.s.Dead+c.w.s.Slow == 0 {
		c.fail("%d chunks are missing in final blocks above %d, although all faults ended long before", c.late, c.ending)
	}
	if c.w.s.Faults == 0 && c.w.s.Dead+c.w.s.Slow == 0 && c.missed+c.gaps > 0 {
		c.fail("%d heights and %d chunks were missed in a scenario without faults", c.missed, c.gaps)
	}
	if c.w.s.Universal {
		c.w.result.Universal = c.countUniversal()
	}
	if newest := parameters.Newest(primitives.NumberingRelease); c.w.s.Upgrades && c.versions[len(c.versions)-1] != newest {
		c.fail("the validators voted for the versions %v, not up to %d", c.versions, newest)
	}
	if c.w.s.Load > 0 && len(c.applied) == 0 {
		c.fail("none of the %d transactions was applied", c.w.load.sent)
	}
}

// countUniversal counts the universal accounts in the state after the highest final block.
func (c *checks) countUniversal() (count int) {
	for _, n := range c.w.nodes {
		if n.core == nil || n.engine.Final().Height < c.top.Height {
			continue
		}
		err := n.engine.EachAccount(context.Background(), c.top.Hash, nil, func(r *genesis.AccountRecord) error {
			if r.AccountID.IsUniversal() {
				count++
			}
			return nil
		})
		if err != nil {
			c.fail("%s: accounts after block %d: %v", n.name, c.top.Height, err)
		}
		break
	}
	return count
}

func (c *checks) measure(r *Result) {
	r.Supplies = c.supplies
	if c.signs.waits > 0 {
		r.ToEndorsement = c.signs.waited / c.signs.waits
	}
	r.Receipts, r.Epochs, r.Missed, r.Gaps, r.LastGap = len(c.applied), len(c.epochs), c.missed, c.gaps, c.lastGap
	r.Endorsed, r.Forms = c.endorsed, c.verdicts.tally
	r.Lists, r.Versions = c.producers.lists, c.versions
	r.Anchored = c.countAnchored()
}

// said checks a message from an honest node. The signature must not contradict earlier signatures
// of the same signer. A message about a chunk must have the correct anchor.
func (c *checks) said(n *node, m consensus.Message) {
	c.signs.said(n, m)
	c.anchored(n, m)
}
