package network

import (
	"errors"
	"fmt"
	"maps"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// StateSyncs manages a second store, in which a state sync at start builds the new chain. Its
// methods may block. The actor calls them from any goroutine, one at a time.
type StateSyncs interface {
	// Begin starts a state sync, or continues one whose data is in the second store.
	Begin(*engine.BootstrapInput) (*engine.BootstrapSync, error)
	// Ready is called when the state sync is complete. The node then restarts with the second
	// store. The argument is the result of the last Begin.
	Ready(*engine.BootstrapSync) error
}

// Limits and times of state sync at start.
const (
	// headersHorizon is the maximum gap between the headers and the best peer at which a sync block
	// is searched (block_header_fetch_horizon).
	headersHorizon = primitives.Height(50)
	// maxWaitingParts is the maximum number of bytes of state parts that have arrived and are not verified yet.
	maxWaitingParts = 512 << 20
	// If the verified headers are this many heights above the end of the sync block's next epoch,
	// the actor chooses another sync block (nearcore sync/handler.rs).
	staleAfter     = primitives.Height(100)
	findSyncPeriod = 1000   // ms between searches for a sync block
	blockRequests  = 32     // maximum number of blocks requested in one tick
	blockTimeout   = 2000   // ms until a block is requested again
	maxWholeBlocks = 2048   // maximum number of full blocks that are needed before the sync block
	progressPeriod = 10_000 // ms between logs of the progress
	endPeriod      = 60_000 // ms between logs while the index is compacted
)

// bootstrap is a state sync at start. It fetches the sync block, then the full blocks before the
// sync block, then the state headers, then the state parts.
type bootstrap struct {
	at       *engine.SyncBlock
	proof    *headerchain.EpochProof
	blocks   map[primitives.Hash]*primitives.Block
	wanted   map[primitives.Hash]int64 // hash of a needed block -> time of the last request in ms; 0: not requested yet
	hosts    stateHosts
	machine  *statesync.Machine // nil: some blocks have not arrived yet
	headers  map[primitives.ShardID]*primitives.StateHeader
	parts    *engine.BootstrapSync // nil: some state headers have not arrived yet
	busy     bool                  // a step of the state sync runs in another goroutine
	finished bool                  // all parts are stored
	unusable bool                  // the sync block cannot be used: the actor waits for that of the next epoch
	logAt    int64                 // ms; when the next line of progress is due
	endedAt  int64                 // ms; when all parts were stored
}

// bootstrapDone is a message to self: a background step has ended. The actor then calls then,
// unless the bootstrap was abandoned.
type bootstrapDone struct {
	of   *bootstrap
	then func()
}

// inBackground runs do outside the mailbox. do returns a function, which then runs on the actor's
// goroutine unless the bootstrap was abandoned. A panic in do abandons the bootstrap.
func (a *Actor) inBackground(x *bootstrap, what string, do func() (then func())) {
	self := a.self
	go func() {
		then := a.abandonBootstrap
		defer func() {
			if p := recover(); p != nil {
				a.o.Status.note(what, p)
			}
			self(bootstrapDone{x, then})
		}()
		then = do()
	}()
}

// abandonBootstrap drops the bootstrap. The next bootstrap continues from the stored data.
func (a *Actor) abandonBootstrap() { a.bootstrap, a.nextBootstrap = nil, a.now()+progressPeriod }

func (a *Actor) bootstrapDone(m *bootstrapDone) {
	if m.of == a.bootstrap {
		m.then()
	}
}

// advanceBootstrap starts or continues the state sync, as far as possible without waiting.
func (a *Actor) advanceBootstrap(now int64, info *near.Info) {
	if a.o.StateSyncs == nil || !a.headersApart {
		a.bootstrap = nil
		return
	}
	x := a.bootstrap
	if x == nil {
		x = &bootstrap{blocks: map[primitives.Hash]*primitives.Block{}, wanted: map[primitives.Hash]int64{},
			headers: map[primitives.ShardID]*primitives.StateHeader{}}
		a.bootstrap = x
	}
	switch {
	case x.finished:
		a.logEnd(x, now)
		return
	case x.busy && x.machine == nil:
		return
	case x.at == nil:
		if now >= a.nextBootstrap {
			a.nextBootstrap = now + findSyncPeriod
			a.findSync(x)
		}
		a.logProgress(x, now, 0)
		return
	case a.headersAt() > x.at.Sync.Height+x.length()+staleAfter: // headersAt counts only verified headers
		a.o.Log.Info("state sync starts over with another epoch: hosts no longer serve the previous one")
		a.bootstrap = nil
		return
	}
	if x.machine == nil {
		a.wantBlocks(x, now)
		a.logProgress(x, now, 0)
		return
	}
	hosts := a.stateHosts(x, info)
	a.stateStep(x, statesync.Hosts{List: hosts})
	a.logProgress(x, now, len(hosts))
}

// headersAt returns the height of the highest verified header, or 0 if the header cannot be read.
func (a *Actor) headersAt() primitives.Height {
	at, err := a.o.Engine.HeaderChain().Head()
	if err != nil {
		return 0
	}
	return at.Height
}

// length returns the length of an epoch, in heights.
func (x *bootstrap) length() primitives.Height {
	return x.at.Length
}

// findSync looks for the sync block once the headers are near the best peer, or once no peer sends
// more headers. If the headers lead to a protocol version that this program does not know, it looks
// for none, since the node would soon halt: the log says each minute that an upgrade is needed.
func (a *Actor) findSync(x *bootstrap) {
	at, err := a.o.Engine.HeaderChain().Head()
	if best := a.sync.Best(); err != nil || best == 0 || at.Height+headersHorizon < best && !a.sync.Still(a.now()) {
		return
	}
	x.busy = true
	begun := a.now()
	a.inBackground(x, "a sync block", func() func() {
		u, err := a.o.Engine.Upgrade()
		if err == nil && u.IsNeeded() {
			return func() {
				x.busy = false
				a.logNewer("state sync does not begin before this program is upgraded", u.Needed())
			}
		}
		var point *engine.SyncBlock
		if err == nil {
			point, err = a.o.Engine.HeaderChain().SyncBlock()
		}
		var proof *headerchain.EpochProof
		if err == nil && point != nil {
			proof, err = a.o.Engine.HeaderChain().Proof()
		}
		if err == nil && point != nil && point.Length == 0 {
			point.Length, err = epochLength(a.o.Engine)
		}
		return func() {
			x.busy = false
			// The search is expensive, because it reads all headers.
			a.nextBootstrap = a.now() + max(findSyncPeriod, 10*(a.now()-begun))
			switch {
			case err != nil:
				a.o.Log.WithError(err).Error("network: look up the sync block")
			case point == nil || proof == nil:
			default:
				x.at, x.proof = point, proof
				x.wanted[point.Point.Hash], x.wanted[point.Before.Hash] = 0, 0
				a.o.Log.WithField("height", point.Before.Height).Infof("state sync started: shards %v", x.shards())
			}
		}
	})
}

// oldestNeeded returns the lowest height of a full block that is needed: the block with the oldest
// of the shards' last chunks but one, as of the sync point. The blocks from there on have the
// receipts of each shard's last chunk. This holds for all shards, because witnesses of all of them
// may have to be validated. The bool is false if more blocks have to arrive first.
func (x *bootstrap) oldestNeeded() (primitives.Height, bool) {
	point := x.blocks[x.at.Point.Hash]
	if point == nil || x.blocks[x.at.Before.Hash] == nil {
		return 0, false
	}
	least, known := x.at.Before.Height, true
	for i, c := range point.Body.Chunks {
		before := x.blocks[c.PrevBlockHash] // below Before if point has no new chunk of the shard
		switch {
		case before == nil:
			if known = false; !x.asksFor(c.PrevBlockHash) {
				x.wanted[c.PrevBlockHash] = 0
			}
		case i < len(before.Body.Chunks):
			least = min(least, before.Body.Chunks[i].HeightIncluded)
		}
	}
	return least, known
}

// asksFor returns whether a block has been requested and has not arrived.
func (x *bootstrap) asksFor(hash primitives.Hash) bool {
	_, is := x.wanted[hash]
	return is
}

// wantBlocks requests the full blocks that are needed: the two before the sync block, and all
// blocks from oldestNeeded on. When all these blocks are present, wantBlocks starts the requests for
// state. If some of the blocks are unknown, or if there are more than maxWholeBlocks, wantBlocks
// requests nothing more. The actor then waits until it may choose the sync block of another epoch.
func (a *Actor) wantBlocks(x *bootstrap, now int64) {
	if x.unusable {
		return
	}
	if least, known := x.oldestNeeded(); known {
		enough := true
		path := x.at.Path
		if len(path) == 0 || least < path[0].Height ||
			len(path) > maxWholeBlocks && path[len(path)-1-maxWholeBlocks].Height >= least {
			log := a.o.Log.WithField("height", x.at.Sync.Height)
			log.Warnf("network: a shard had no chunk from block %d to the sync block. "+
				"State sync needs each block in between, but at most %d. It waits for the next epoch", least, maxWholeBlocks)
			x.unusable, x.wanted = true, map[primitives.Hash]int64{}
			return
		}
		for i := len(path) - 1; i >= 0 && path[i].Height >= least; i-- {
			if hash := path[i].Hash; x.blocks[hash] == nil {
				if enough = false; !x.asksFor(hash) {
					x.wanted[hash] = 0
				}
			}
		}
		if enough {
			a.beginStates(x)
			return
		}
	}
	n := 0
	for hash, at := range x.wanted {
		if n++; n > blockRequests {
			break
		}
		if at != 0 && now-at < blockTimeout {
			continue
		}
		if peer := a.anyPeer(x.at.Sync.Height); peer != "" {
			x.wanted[hash] = now
			a.host.Post(near.ToPeer{Peer: peer, Msg: &wire.BlockRequest{Hash: hash}})
		}
	}
}

// anyPeer returns a random connected peer of at least the given height, or "".
func (a *Actor) anyPeer(height primitives.Height) wire.PeerID {
	var fit []wire.PeerID
	for i := range a.peers {
		if p := &a.peers[i]; max(p.Height, a.heights[p.Info.ID]) >= height {
			fit = append(fit, p.Info.ID)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	return fit[a.o.Random(len(fit))]
}

// bootstrapTakes stores a block that the bootstrap has requested, if the body of the block matches
// the block's verified header. It returns false if the block was not requested.
func (a *Actor) bootstrapTakes(hash primitives.Hash, b *primitives.Block) bool {
	x := a.bootstrap
	if x == nil {
		return false
	}
	if _, is := x.wanted[hash]; !is {
		return false
	}
	if b.Body.Hash() == b.Header.BlockBodyHash && chain.ComputeRoots(b.Body.Chunks,
		b.Header.Height).ChunkHeaders == b.Header.ChunkHeadersRoot {
		delete(x.wanted, hash)
		x.blocks[hash] = b
	}
	return true
}

// shards returns the shards whose states are fetched, by shard index. The result may be empty.
func (x *bootstrap) shards() []primitives.ShardID {
	out := []primitives.ShardID{}
	for i, id := range x.at.Layout.ShardIDs() {
		if x.at.Wanted[i] {
			out = append(out, id)
		}
	}
	return out
}

// Stages of a shard's state sync, with nearcore's numbers (nearcore
// chain/client-primitives/src/types.rs:52).
const (
	StageHeader     = 0
	StageParts      = 1
	StageFinalizing = 4
	StageDone       = 5
)

// stages returns the stages of the shards whose states are fetched.
func (x *bootstrap) stages() *map[primitives.ShardID]int {
	out := map[primitives.ShardID]int{}
	for _, id := range x.shards() {
		switch {
		case x.finished:
			out[id] = StageFinalizing
		case x.headers[id] != nil:
			out[id] = StageParts
		default:
			out[id] = StageHeader
		}
	}
	return &out
}

func (a *Actor) beginStates(x *bootstrap) {
	x.machine = statesync.New(x.shards(), a.o.States)
}

// stateHosts returns the nodes that announced the state of the sync block.
func (a *Actor) stateHosts(x *bootstrap, info *near.Info) []statesync.Host {
	x.hosts = stateHostsOf(a.o.Peer, info, a.lottery.draw(a.now()))
	return x.hosts.list(x.machine, func(h *wire.SnapshotHost) bool { return h.SyncHash == x.at.Before.Hash })
}

// stateStep steps the statesync machine and carries out its effects.
func (a *Actor) stateStep(x *bootstrap, ev statesync.Event) {
	out := x.machine.Step(a.now(), ev)
	a.o.Status.stateRequestsEnded(out.Ended)
	for _, q := range out.Ask {
		a.host.Post(x.hosts.request(x.machine, q, x.at.Sync.Hash))
	}
	for _, id := range out.Ban {
		a.ban(id, near.Abusive)
	}
	a.o.Status.states(x.machine.Parts())
	a.o.Status.stages.Store(x.stages())
	switch {
	case x.busy:
	case x.parts == nil && x.machine.Headers():
		a.beginParts(x)
	case x.parts != nil && x.machine.Done():
		a.finishBootstrap(x)
	}
}

// bootstrapResponse verifies a requested state header or part outside the mailbox.
func (a *Actor) bootstrapResponse(from wire.PeerID, r *primitives.StateResponse) {
	x := a.bootstrap
	if x == nil || x.machine == nil || r.SyncHash != x.at.Sync.Hash {
		return
	}
	item := statesync.Item{Shard: r.ShardID, Header: r.Header != nil}
	switch {
	case r.Header == nil && r.Part == nil:
		if i, is := x.machine.Asked(from, r.ShardID); is {
			a.stateStep(x, statesync.None{From: from, Item: i})
		}
		return
	case r.Header == nil:
		item.Part = r.Part.Number
	}
	if !x.machine.Expects(from, item) {
		return
	}
	a.stateStep(x, statesync.Arrived{From: from, Item: item})
	judge := a.verifyPart
	if item.Header {
		judge = a.verifyHeader
	}
	ev := statesync.ItemVerified{From: from, Item: item, Own: true}
	size, err := a.o.Status.admit(r)
	if err != nil {
		a.o.Log.WithError(err).WithField("peer", from).WithField("shard", item.Shard).Info("network: state part rejected")
		ev.Bad, ev.Own = isPeersFault(err), !isPeersFault(err)
		a.stateStep(x, ev)
		return
	}
	self := a.self
	go func() {
		then := func() { a.stateStep(x, ev) }
		defer func() {
			if p := recover(); p != nil {
				a.o.Status.note("a part of a state", p)
			}
			self(bootstrapDone{x, then})
		}()
		a.verifying <- struct{}{} // limits concurrency, because unpacking a part may need much memory
		err := func() error {
			defer func() {
				<-a.verifying
				a.o.Status.release(size)
			}()
			return judge(x, r)
		}()
		ev.Bad, ev.Own = isPeersFault(err), err != nil && !isPeersFault(err)
		then = func() {
			// For example, the disk is full. The stored data remains, and the next bootstrap
			// continues from that data.
			if ev.Own {
				a.logFailure("a state part cannot be stored; state sync continues later", err)
				a.abandonBootstrap()
				return
			}
			if err != nil {
				a.o.Log.WithError(err).WithField("peer", from).WithField("shard",
					item.Shard).Info("network: state part rejected")
			} else if item.Header {
				x.headers[item.Shard] = r.Header
			}
			a.stateStep(x, ev)
		}
	}()
}

// isPeersFault returns whether an error means that the received data is wrong.
func isPeersFault(err error) bool {
	return errors.As(err, new(chain.Invalid)) || errors.Is(err, trie.ErrMissing) || errors.Is(err, trie.ErrCorrupt) ||
		errors.Is(err, statesync.ErrPacked)
}

func (x *bootstrap) find(hash primitives.Hash) *primitives.Block { return x.blocks[hash] }

func (x *bootstrap) index(id primitives.ShardID) primitives.ShardIndex {
	i, err := x.at.Layout.Index(id)
	if err != nil {
		panic(fmt.Sprintf("network: no shard %d", id)) // cannot happen: only existing shards are requested
	}
	return i
}

func (a *Actor) verifyHeader(x *bootstrap, r *primitives.StateResponse) error {
	_, err := engine.VerifyStateHeader(r.Header, x.blocks[x.at.Point.Hash], x.at.Layout, x.index(r.ShardID), r.ShardID,
		x.find)
	return err
}

func (a *Actor) verifyPart(x *bootstrap, r *primitives.StateResponse) error {
	strings, err := statesync.UnpackPart(r.Part)
	if err != nil {
		return err
	}
	h := x.headers[r.ShardID]
	return x.parts.Part(x.index(r.ShardID), trie.PartID{Index: r.Part.Number,
		Total: trie.NumParts(h.Root.MemoryUsage)}, strings)
}

// beginParts verifies the state headers and creates the second store from these headers and the
// blocks.
func (a *Actor) beginParts(x *bootstrap) {
	x.busy = true
	blocks := x.blockSource(a.o.Engine)
	a.inBackground(x, "an arrival", func() func() {
		b := &engine.BootstrapInput{Blocks: blocks, Proof: x.proof, Point: x.blocks[x.at.Point.Hash],
			Next:       make([]*primitives.Chunk, x.at.Layout.NumShards()),
			Proofs:     map[primitives.Hash][]*primitives.Chunk{},
			LateProofs: map[primitives.ShardIndex]map[primitives.Hash][]*primitives.Chunk{}}
		var err error
		for _, id := range x.shards() {
			h, i := x.headers[id], x.index(id)
			var brought map[primitives.Hash][]*primitives.Chunk
			if brought, err = engine.VerifyStateHeader(h, b.Point, x.at.Layout, i, id, x.find); err != nil {
				break
			}
			next := h.Chunk
			b.Next[i] = &next
			if next.Header.PrevBlockHash != x.at.Before.Hash { // the sync point has no new chunk of the shard
				b.LateProofs[i] = brought
			} else {
				engine.MergeProofs(b.Proofs, brought)
			}
		}
		var came *engine.BootstrapSync
		if err == nil {
			came, err = a.o.StateSyncs.Begin(b)
		}
		var known []statesync.Known
		for _, id := range x.shards() {
			if err != nil {
				break
			}
			k := statesync.Known{Shard: id, Total: trie.NumParts(x.headers[id].Root.MemoryUsage)}
			k.Has, err = came.Has(x.index(id), k.Total)
			known = append(known, k)
		}
		return func() {
			if err != nil {
				a.logFailure("state sync cannot start; it starts again later", err)
				a.abandonBootstrap()
				return
			}
			x.busy, x.parts = false, came
			for _, k := range known {
				a.stateStep(x, k)
			}
		}
	})
}

// bootstrapBlocks reads the blocks of a bootstrap: whole blocks from memory, the others' headers
// from the header chain.
type bootstrapBlocks struct {
	headers *engine.HeaderChain
	first   []*primitives.Block // the genesis, and the last two blocks before the proof's last epoch
	path    []storage.BlockRef
	whole   map[primitives.Hash]*primitives.Block // never changes
}

// blockSource returns the blocks from the genesis to the block whose state is fetched.
func (x *bootstrap) blockSource(e *engine.Engine) *bootstrapBlocks {
	c := &x.proof.Current
	return &bootstrapBlocks{headers: e.HeaderChain(), path: x.at.Path, whole: maps.Clone(x.blocks),
		first: []*primitives.Block{e.Genesis().Block, {Header: c.PrevPrev}, {Header: c.Prev}}}
}

// Len implements engine.BootstrapBlocks.
func (s *bootstrapBlocks) Len() int { return len(s.first) + len(s.path) }

// Block implements engine.BootstrapBlocks.
func (s *bootstrapBlocks) Block(i int) (*primitives.Block, error) {
	if i < len(s.first) {
		return s.first[i], nil
	}
	hash := s.path[i-len(s.first)].Hash
	if b := s.whole[hash]; b != nil {
		return b, nil
	}
	h, err := s.headers.Header(hash)
	return &primitives.Block{Header: h}, err
}

func (a *Actor) finishBootstrap(x *bootstrap) {
	x.busy, x.finished = true, true
	x.endedAt, x.logAt = a.now(), a.now()+endPeriod
	a.o.Status.stages.Store(x.stages())
	a.o.Log.WithField("height", x.at.Before.Height).Info("state sync is complete: the node restarts with the state")
	a.inBackground(x, "the end of an arrival", func() func() {
		err := x.parts.Finish()
		if err == nil {
			err = a.o.StateSyncs.Ready(x.parts)
		}
		return func() {
			if err != nil {
				a.logFailure("the synced state cannot be used; state sync starts again later", err)
				a.abandonBootstrap()
			}
		}
	})
}

// syncProgress is how far a state sync at start is, for the log.
type syncProgress struct {
	headers, best primitives.Height // highest verified header, and highest claim of a peer
	found         bool              // the sync block is known
	unusable      bool              // the sync block cannot be used
	blocks        int               // needed full blocks that have not arrived
	hosts         int               // peers that announce the state
	shards        int               // shards whose state is fetched
	shardHeaders  int               // state headers that have arrived
	have, total   uint64            // parts; 0 parts in total: not known yet
}

// String returns a line for the log.
func (p *syncProgress) String() string {
	switch {
	case !p.found:
		return fmt.Sprintf("state sync: headers are at block %d of %d", p.headers, p.best)
	case p.unusable:
		return "state sync: waits for the sync block of the next epoch"
	case p.blocks > 0:
		return fmt.Sprintf("state sync: waits for %s before the sync block", plural(p.blocks, "block"))
	case p.shardHeaders < p.shards && p.hosts == 0:
		return fmt.Sprintf("state sync: %d of %s; no known node offers this state yet", p.shardHeaders, plural(p.shards, "state header"))
	case p.shardHeaders < p.shards || p.total == 0:
		return fmt.Sprintf("state sync: %d of %s from %s", p.shardHeaders, plural(p.shards, "state header"), plural(p.hosts, "node"))
	case p.hosts == 0:
		return fmt.Sprintf("state sync: %d of %s; no known node offers the rest", p.have, plural(p.total, "part"))
	}
	return fmt.Sprintf("state sync: %d of %s from %s", p.have, plural(p.total, "part"), plural(p.hosts, "node"))
}

// logEnd logs, once in endPeriod, that the end of the state sync goes on. Most of its time is the compaction
// of the index, which takes minutes for a large state and does not know how far it is.
func (a *Actor) logEnd(x *bootstrap, now int64) {
	if now < x.logAt {
		return
	}
	x.logAt = now + endPeriod
	a.o.Log.WithField("height", x.at.Before.Height).WithField("seconds", (now-x.endedAt)/1000).
		Info("state sync: all parts are stored; the node makes a chain of them and compacts the index")
}

// logProgress logs how far the state sync is, once in progressPeriod. hosts is the number of nodes that
// announce the state.
func (a *Actor) logProgress(x *bootstrap, now int64, hosts int) {
	if now < x.logAt {
		return
	}
	first := x.logAt == 0
	if x.logAt = now + progressPeriod; first {
		return
	}
	p := syncProgress{headers: a.headersAt(), best: a.sync.Best(), found: x.at != nil, unusable: x.unusable, hosts: hosts,
		shardHeaders: len(x.headers)}
	log := a.o.Log.WithFields(nil)
	if p.found {
		p.shards, log = len(x.shards()), log.WithField("height", x.at.Before.Height)
	}
	if x.machine == nil {
		if p.blocks = len(x.wanted); p.found && !p.unusable && p.blocks == 0 {
			return // all blocks have arrived: the next step begins
		}
	} else {
		p.have, p.total = x.machine.Parts()
	}
	log.Info(p.String())
}
