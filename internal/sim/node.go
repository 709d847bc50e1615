package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// errCrash is what a disk says whose machine is gone.
var errCrash = errors.New("sim: crash")

// gate is a disk's way for writes: open while the world lets blocks come to the disk.
type gate struct {
	mu     sync.Mutex
	change *sync.Cond
	open   bool
	broken bool
}

func newGate() *gate {
	g := &gate{open: true}
	g.change = sync.NewCond(&g.mu)
	return g
}

func (g *gate) set(open, broken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.broken = open, broken
	g.change.Broadcast()
}

// pass is MemDisk.Fault.
func (g *gate) pass(int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.open && !g.broken {
		g.change.Wait()
	}
	if g.broken {
		return errCrash
	}
	return nil
}

// node is a validator with its machine, or one that only follows.
type node struct {
	w       *World
	index   int
	name    primitives.AccountID
	account primitives.AccountID // none: it follows
	tracks  engine.Track         // nil: it holds all shards
	held    []primitives.ShardID // where it holds those that it makes chunks of
	said    []primitives.ShardID // what others know that it holds, where all hurry
	disk    *storage.MemDisk
	gate    *gate
	key     primitives.SecretKey
	signed  []byte // what is on disk of consensus.Signatures
	life    int    // counts starts: what was under way in another one is gone

	engine        *engine.Engine
	store         *storage.Store
	core          *consensus.Node         // nil: it is down
	counters      []*consensus.Counters   // of each life
	schedule      *engine.Schedule        // nil: its shards stay the same
	offers        *engine.ServedSnapshots // what it gives of states
	questions     []*question             // of the schedule, not answered yet
	stash         []*engine.Accepted
	failed        error
	wake          int64
	folded        primitives.Height
	adopts        int   // blocks adopted and not on disk
	busy, busyRow int64 // until when blocks are being written, and what was signed
}

func newNode(w *World, i int, name, account primitives.AccountID) *node {
	n := &node{w: w, index: i, name: name, account: account, key: secretOf(name), disk: storage.NewMemDisk()}
	switch s := &w.s; {
	case account == "":
	case i >= s.Nodes-s.Blind && i < s.Nodes:
		n.tracks = func(primitives.ShardLayout, primitives.ShardID) bool { return false }
	case s.Own:
		n.tracks = func(_ primitives.ShardLayout, id primitives.ShardID) bool { return slices.Contains(n.held, id) }
	}
	return n
}

// prompt is the engine as its core sees it: Stored tells what the world has let come to the disk.
type prompt struct {
	*engine.Engine
	n *node
}

// Adopt leaves the block's write at the gate.
func (p prompt) FinishImport(x *engine.BlockImport, _ func()) (*engine.Accepted, error) {
	acc, err := p.Engine.FinishImport(x, nil)
	if err == nil {
		p.n.adopts++
	}
	return acc, err
}

// CheckHeld has some nodes judge by what witnesses show, though they hold the shard.
func (p prompt) CheckHeld(w *primitives.ChunkStateWitness, whole *primitives.Chunk) (held bool, err error) {
	if judge := p.n.w.o.Bug.witness; judge != nil {
		if err := judge(p.n, w); err != nil {
			return true, err
		}
	}
	if p.n.w.s.Splits && p.n.index%2 == 1 {
		return false, nil
	}
	return p.Engine.CheckHeld(w, whole)
}

// CheckChunk is as CheckHeld.
func (p prompt) CheckChunk(c *primitives.Chunk) (held bool, err error) {
	if p.n.w.s.Splits && p.n.index%2 == 1 {
		return false, nil
	}
	return p.Engine.CheckChunk(c)
}

// Stored gives what has come.
func (p prompt) Stored() ([]*engine.Accepted, error) {
	list := p.n.stash
	p.n.stash = nil
	return list, p.n.failed
}

// start opens the node's folder and begins.
func (n *node) start() error {
	w := n.w
	n.gate = newGate()
	n.disk.Fault = n.gate.pass
	var err error
	n.store, err = storage.OpenMemory(n.disk, storage.Options{FlatHeadBlocks: 1 << 30, FlatHeadBytes: 1 << 40, WriteBuffer: 1 << 20, BlockCache: 1 << 18, NoCompression: true,
		Identity: storage.Identity{ChainID: w.chain.ID, Numbering: primitives.NumberingRelease}})
	if err != nil {
		return err
	}
	o := engine.Options{Chain: w.chain, Store: n.store, MaxHeightJump: 20 * w.s.Epoch, Verify: verify, VRF: verifyVRF, Signature: verifyTransaction,
		Tracks: n.tracks, ProofsFor: n.account, Now: func() uint64 { return uint64(w.now) },
		Scheduled: n.changes(), Snapshots: w.s.Own}
	if n.account != "" {
		o.ProofBytes = 64 << 20
	}
	if w.upgrades != nil {
		o.Upgrades = w.upgrades
	}
	if w.s.Calls || w.s.Universal {
		o.VM = still{}
	}
	if spoil := w.o.Bug.spoil; spoil != nil {
		o.CorruptInput = func(in *apply.Input) { spoil(n, in) }
	}
	n.engine, err = engine.Open(o)
	if err != nil {
		return err
	}
	n.life++
	n.offers = n.engine.ServedSnapshots()
	n.folded, n.adopts, n.stash, n.failed, n.wake = n.engine.Final().Height, 0, nil, nil, 0
	draws := rand.New(rand.NewPCG(w.o.Seed, uint64(n.index)<<32|uint64(n.life)))
	planted := w.o.Bug.Bit
	if n.lies() && !w.s.Anchors && w.chance(500) {
		planted |= consensus.PlantedEndorse // its chunks are wrong, and it endorses anything
	}
	signed := n.signed
	if w.o.Bug.Bit&consensus.PlantedForget != 0 {
		signed = nil
	}
	n.counters = append(n.counters, new(consensus.Counters))
	n.core, err = consensus.New(consensus.Options{
		Engine: prompt{n.engine, n}, Account: n.account, Key: n.key, Delays: delays, Signed: signed, Verify: verify,
		Random: draws.IntN, Planted: planted, Eager: w.s.Eager, Holds: w.holds(), Counters: n.counters[len(n.counters)-1],
	}, w.now)
	if err != nil {
		return err
	}
	if n.changes() {
		n.schedule = engine.NewSchedule(n.engine, n.engine.PlanOf(n.account), source{n})
		n.schedule.Go, n.schedule.WaitRemovals = n.ask, true
	}
	n.gate.set(false, false)
	w.say(n.name, "starts at %d, final %d, with shards %v", n.engine.Head().Height(), n.engine.Final().Height, n.held)
	w.check.started(n)
	n.do(n.core.Start(w.now))
	return nil
}

// stop ends the node as a crash does: what is not on disk is lost.
func (n *node) stop() {
	if n.core == nil {
		return
	}
	n.core = nil
	n.life++
	n.gate.set(false, true)
	if n.schedule != nil {
		for _, q := range n.questions { // they stay unanswered
			q.run()
		}
		n.schedule.Close()
		n.schedule, n.questions = nil, nil
	}
	_, _ = n.engine.Flush()
	_ = n.engine.Close()
	_ = n.store.Close()
	n.engine, n.store = nil, nil
}

// crash is a stop with what may have been under way to the disk.
func (n *node) crash() {
	n.w.result.Crashes++
	n.w.say(n.name, "crashes at %d, final %d, with %d blocks not on disk", n.engine.Head().Height(), n.engine.Final().Height, n.adopts)
	if n.adopts > 0 && n.w.chance(300) { // the write was done, but not reported
		n.flush()
	}
	n.stop()
}

// flush lets the adopted blocks come to the disk.
func (n *node) flush() {
	w := n.w
	n.gate.set(true, false)
	list, err := n.engine.Flush()
	n.stash, n.adopts = append(n.stash, list...), 0
	if final := n.engine.Final().Height; err == nil && final >= n.folded+w.s.Fold {
		err = n.engine.AdvanceFlatHead()
		n.folded = final
		if err == nil {
			err = n.collect()
		}
	}
	n.gate.set(false, false)
	n.failed = err
}

// collect removes what is older than the scenario says.
func (n *node) collect() error {
	if n.w.s.Keep == 0 {
		return nil
	}
	from, err := n.engine.KeepFrom()
	if err == nil {
		_, err = n.store.CollectGarbage(storage.GCOptions{KeepEpochs: n.w.s.Keep, From: from, Before: uint64(n.w.now), MaxHeights: int(n.w.s.Epoch)})
	}
	return err
}

// step gives the core an event, unless it has been started anew since.
func (n *node) step(life int, ev consensus.Event) {
	if n.core != nil && n.life == life {
		n.do(n.core.Step(n.w.now, ev))
	}
}

// later gives the core an event after a time.
func (n *node) later(d int64, ev consensus.Event) {
	life := n.life
	n.w.after(d, func() { n.step(life, ev) })
}

// do does what the core wants done.
func (n *node) do(out consensus.Out) {
	w := n.w
	for _, x := range out.Notes {
		if x.Err != nil {
			w.say(n.name, "%s: %v", x.What, x.Err)
		} else {
			w.say(n.name, "%s", x.What)
		}
	}
	if out.Fatal != nil {
		w.check.fail("%s cannot go on: %v", n.name, out.Fatal)
		return
	}
	for _, err := range out.Refused {
		w.say(n.name, "refuses: %v", err)
		if !w.s.Liar || w.check.signs.made(err) {
			w.check.fail("%s refuses what honest nodes have made: %v", n.name, err)
		}
		w.check.verdicts.refused(n, err)
	}
	life := n.life
	for _, j := range out.Jobs {
		j.Run()
		n.later(w.between(0, w.s.JobTime), consensus.Done{Job: j.ID})
	}
	if len(out.Imported) > 0 {
		for _, acc := range out.Imported {
			w.check.adopted(n, acc)
		}
		w.after(n.diskTime(&n.busy), func() {
			if n.core == nil || n.life != life || n.adopts == 0 {
				return
			}
			n.flush()
			n.step(life, consensus.Persisted{})
			n.reshuffle(life)
		})
	}
	for _, acc := range out.Persisted {
		w.check.stored(n, acc)
	}
	send := func() {
		for i := range out.Send {
			w.net.send(n, &out.Send[i])
		}
	}
	if out.Save != nil {
		row := out.Save
		if w.faulty() && w.chance(w.s.Saves) {
			if w.chance(500) {
				n.signed = row
			}
			w.crash(n)
			return
		}
		w.after(n.diskTime(&n.busyRow), func() {
			if n.life == life {
				n.signed = row
				send()
			} else if n.life == life+1 && w.chance(300) { // it came to the disk just before
				n.signed = row
			}
		})
	} else {
		send()
	}
	if t := max(out.Wake, w.now+ms/10); out.Wake > 0 && (n.wake <= w.now || t < n.wake) {
		n.wake = t
		w.at(t, func() { n.step(life, consensus.Tick{}) })
	}
}

// diskTime draws how long a write takes; writes of blocks come one after the other, and so do those
// of what was signed.
func (n *node) diskTime(busy *int64) int64 {
	w := n.w
	d := w.between(w.s.Disk/4, w.s.Disk)
	if w.faulty() && w.chance(w.s.SlowDisk) {
		d *= 100
	}
	if busy == &n.busy {
		*busy = max(*busy, w.stalled)
	}
	*busy = max(*busy, w.now) + d
	return *busy - w.now
}
