package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// errCrash is the error of disk writes after a crash.
var errCrash = errors.New("sim: crash")

// gate blocks a disk's writes until the world opens it. After a crash the gate is broken: all
// writes fail.
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

// pass waits until writes are allowed. pass is the MemDisk.Fault of the node's disk.
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

// node is a simulated machine with its disk. The machine runs a validator or a node that only
// follows the chain.
type node struct {
	w       *World
	index   int
	name    primitives.AccountID
	account primitives.AccountID // empty: the node is not a validator
	tracks  engine.Track         // tracked shards; nil: all
	held    []primitives.ShardID // only with Scenario.Own: shards that the node tracks
	said    []primitives.ShardID // in eager mode: the shards that the node last announced as tracked
	disk    *storage.MemDisk
	gate    *gate
	key     primitives.SecretKey
	wait    primitives.Height // number of heights for which a new key signs nothing
	retired bool              // the node has stopped for good
	signed  []byte            // encoded consensus.Signatures, as on disk
	life    int               // incremented at each start and stop; events of an earlier life are ignored

	engine    *engine.Engine
	store     *storage.Store
	core      *consensus.Node         // nil: the node is down
	counters  []*consensus.Counters   // counters of the core after each start
	displaced int                     // number of delivered messages that countDisplaced has counted
	schedule  *engine.Schedule        // nil: the tracked shards never change
	offers    *engine.ServedSnapshots // states that the node serves to other nodes
	questions []*question             // requests of schedule to other nodes
	stash     []*engine.Imported      // persisted blocks that the next Stored returns
	failed    error                   // error of the last flush, which Stored returns
	wake      int64                   // virtual time of the next Tick; a past time means that none is scheduled
	folded    primitives.Height       // final height at the last advance of the flat head
	adopts    int                     // number of imported blocks that are not on disk
	// busy is the virtual time until which the disk writes blocks. busyRow is the same for
	// signatures.
	busy, busyRow int64
	// lag is the virtual time for which the machine was suspended since the start of the core. The
	// core's monotonic clock is behind by it.
	lag int64
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

// prompt wraps the engine for a consensus core. The world decides when blocks are persisted.
type prompt struct {
	*engine.Engine
	n *node
}

// FinishImport imports a block. The write of the block waits at the gate.
func (p prompt) FinishImport(x *engine.BlockImport, _ func()) (*engine.Imported, error) {
	acc, err := p.Engine.FinishImport(x, nil)
	if err == nil {
		p.n.adopts++
	}
	return acc, err
}

// witnessChecks are the engine's checks of witnesses. The world may change how chunks are checked.
type witnessChecks struct{ n *node }

// CheckHeld implements consensus.Witnesses. With Scenario.Splits, every second node reports that it
// does not hold the shard, so that it checks the witness without its own state.
func (p witnessChecks) CheckHeld(w *primitives.ChunkStateWitness, whole *primitives.Chunk) (held bool, err error) {
	if judge := p.n.w.o.Bug.witness; judge != nil {
		if err := judge(p.n, w); err != nil {
			return true, err
		}
	}
	if p.n.w.s.Splits && p.n.index%2 == 1 {
		return false, nil
	}
	return p.n.engine.Witnesses().CheckHeld(w, whole)
}

// CheckWitness implements consensus.Witnesses.
func (p witnessChecks) CheckWitness(w *primitives.ChunkStateWitness, codes [][]byte) error {
	return p.n.engine.Witnesses().CheckWitness(w, codes)
}

// CheckChunk implements consensus.Witnesses. With Scenario.Splits, every second node reports that it
// does not hold the shard.
func (p witnessChecks) CheckChunk(c *primitives.Chunk) (held bool, err error) {
	if p.n.w.s.Splits && p.n.index%2 == 1 {
		return false, nil
	}
	return p.n.engine.Witnesses().CheckChunk(c)
}

// Stored returns the blocks that flush has persisted since the last call.
func (p prompt) Stored() ([]*engine.Imported, error) {
	list := p.n.stash
	p.n.stash = nil
	return list, p.n.failed
}

// start opens the node's store, engine and consensus core, and handles the core's first output.
func (n *node) start() error {
	w := n.w
	n.gate = newGate()
	n.disk.Fault = n.gate.pass
	var err error
	n.store, err = storage.OpenMemory(n.disk, storage.Options{
		FlatHeadBlocks: 1 << 30, FlatHeadBytes: 1 << 40, WriteBuffer: 1 << 20, BlockCache: 1 << 18, NoCompression: true,
		Identity: storage.Identity{ChainID: w.chain.ID, Numbering: primitives.NumberingRelease}})
	if err != nil {
		return err
	}
	o := engine.Options{Chain: w.chain, Store: n.store, MaxHeightJump: 20 * w.s.Epoch,
		Verify: verify, VRF: verifyVRF, Signature: verifyTransaction,
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
	w.check.changed = true
	n.offers = n.engine.Snapshots().Served()
	n.folded, n.adopts, n.stash, n.failed, n.wake = n.engine.Final().Height, 0, nil, nil, 0
	draws := rand.New(rand.NewPCG(w.o.Seed, uint64(n.index)<<32|uint64(n.life)))
	planted := w.o.Bug.Bit
	if n.misbehaves() && !w.s.Anchors && w.chance(500) {
		planted |= consensus.PlantedEndorse // the node endorses chunks without checking them
	}
	signed, wait := n.signed, consensus.KeyWait{Blocks: n.wait}
	if w.o.Bug.Bit&consensus.PlantedNoWait != 0 {
		wait = consensus.KeyWait{}
	}
	if w.o.Bug.Bit&consensus.PlantedForget != 0 {
		signed = nil
	}
	n.counters, n.lag = append(n.counters, new(consensus.Counters)), 0
	n.core, err = consensus.New(consensus.Options{
		Engine: prompt{n.engine, n}, HeaderChain: n.engine.HeaderChain(), Witnesses: witnessChecks{n},
		Account: n.account, Key: n.key, KeyWait: wait,
		Delays: delays, Signed: signed, Verifier: cachedVerifier{}, Random: draws.IntN,
		Hooks: consensus.Hooks{Planted: planted}, Wall: func() uint64 { return uint64(w.now) },
		NoOptimisticBlocks: w.s.NoOptimistic, Eager: w.s.Eager, Holds: w.holds(), Counters: n.counters[len(n.counters)-1],
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

// stop stops the node at once. Data that is not on disk is lost.
func (n *node) stop() {
	if n.core == nil {
		return
	}
	n.core = nil
	n.life++
	n.w.check.changed = true
	n.gate.set(false, true)
	if n.schedule != nil {
		for _, q := range n.questions { // end all requests; Close would wait for them, and other nodes no longer answer
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

// crash stops the node. With a probability of 30 % its imported blocks reach the disk before that.
func (n *node) crash() {
	n.w.result.Crashes++
	n.w.say(n.name, "crashes at %d, final %d, with %d blocks not on disk", n.engine.Head().Height(), n.engine.Final().Height, n.adopts)
	if n.adopts > 0 && n.w.chance(300) { // the write completed before the crash
		n.flush()
	}
	n.stop()
}

// flush persists all imported blocks. It advances the flat head if the final block is far enough
// above.
func (n *node) flush() {
	w := n.w
	w.check.changed = true
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

// collect runs garbage collection if the scenario asks for it (Scenario.Keep).
func (n *node) collect() error {
	if n.w.s.Keep == 0 {
		return nil
	}
	from, err := n.engine.KeepFrom()
	if err == nil {
		_, err = n.store.CollectGarbage(storage.GCOptions{KeepEpochs: n.w.s.Keep, From: from, Before: uint64(n.w.now),
			MaxHeights: int(n.w.s.Epoch)})
	}
	return err
}

// step passes an event to the core and handles the output. It ignores the event if the node was
// stopped or restarted after life.
func (n *node) step(life int, ev consensus.Event) {
	if n.core != nil && n.life == life {
		n.do(n.core.Step(n.w.now-n.lag, ev))
	}
}

// later handles an event after d ns of virtual time, unless the node was stopped or restarted by
// then.
func (n *node) later(d int64, ev consensus.Event) {
	life := n.life
	n.w.after(d, func() { n.step(life, ev) })
}

// do handles the output of the core: jobs, disk writes and messages. Each takes effect after a
// delay.
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
		w.check.fail("%s: the consensus core failed: %v", n.name, out.Fatal)
		return
	}
	for _, err := range out.Refused {
		w.say(n.name, "refuses: %v", err)
		if !w.s.Byzantine || w.check.signs.made(err) {
			w.check.fail("%s refused a block, chunk or witness of an honest node: %v", n.name, err)
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
			} else if n.life == life+1 && w.chance(300) { // the write completed right before the crash
				n.signed = row
			}
		})
	} else {
		send()
	}
	if t := max(out.Wake+n.lag, w.now+ms/10); out.Wake > 0 && (n.wake <= w.now || t < n.wake) {
		n.wake = t
		w.at(t, func() { n.step(life, consensus.Tick{}) })
	}
}

// diskTime returns the time in ns until a write completes. Writes of the same kind (busy or
// busyRow) are done one after another.
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
