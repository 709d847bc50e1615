package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// recordedChain is a recorded chain with forks, as blocks that a peer has.
type recordedChain struct {
	blocks map[primitives.Hash]*primitives.Block
	bodies map[primitives.Hash]*primitives.Chunk
	order  []*primitives.Block // in order of production
	main   map[primitives.Hash]bool
	shards map[primitives.Hash][]engine.ShardState    // the states after each block
	of     map[primitives.Hash]primitives.ShardLayout // by chunk: the layout of its block
	last   primitives.Height                          // of the recording
}

// record replays a recording and makes forks of up to five blocks, with gaps in the heights so that
// none becomes final. There is at most one fork block at any height.
func record(t *testing.T, rec *Recording, name string, random *rand.Rand) *recordedChain {
	t.Helper()
	p := &recordedChain{blocks: map[primitives.Hash]*primitives.Block{}, bodies: map[primitives.Hash]*primitives.Chunk{}, main: map[primitives.Hash]bool{},
		shards: map[primitives.Hash][]engine.ShardState{}, of: map[primitives.Hash]primitives.ShardLayout{}, last: rec.Blocks[len(rec.Blocks)-1].Given.Header.Height}
	forked := primitives.Height(0)
	note := func(entry *engine.BlockNode, chunks []*primitives.Chunk) {
		b := entry.Block
		p.shards[entry.Hash] = entry.Shards
		p.blocks[b.Hash()] = b
		p.order = append(p.order, b)
		for _, c := range chunks {
			if c != nil {
				p.bodies[c.Hash], p.of[c.Hash] = c, entry.Layout
			}
		}
	}
	report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: func(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
		note(r.e.Imported(b.Hash()), chunks)
		p.main[b.Hash()] = true
		if b.Header.Height <= forked || random.IntN(3) > 0 {
			return nil
		}
		at := b.Hash()
		if random.IntN(2) == 0 {
			at = b.Header.PrevHash
		}
		for range 1 + random.IntN(5) {
			parent := r.e.Imported(at)
			height := max(parent.Height()+2, forked+1) + primitives.Height(random.IntN(2))
			if height+20 > p.last {
				break
			}
			fork, chunks, err := r.fork(parent, height, random)
			if err != nil {
				return fmt.Errorf("fork at %d: %w", height, err)
			}
			if _, err := r.e.Process(fork, chunks, false); err != nil {
				return fmt.Errorf("fork at %d: %w", height, err)
			}
			note(r.e.Imported(fork.Hash()), chunks)
			at, forked = fork.Hash(), height
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Findings {
		t.Errorf("%s: difference %v", name, d)
	}
	return p
}

// fork makes a block that is not in the recording, with empty chunks, some of which are missing.
func (r *runner) fork(parent *engine.BlockNode, height primitives.Height, random *rand.Rand) (*primitives.Block, []*primitives.Chunk, error) {
	var layout primitives.ShardLayout
	err := r.e.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayoutFromPrev(parent.Hash)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	p := &engine.Proposal{Parent: parent.Hash, Height: height, Timestamp: parent.Header().Timestamp + 1_000_000_000,
		Vote: parent.Header().LatestProtocolVersion, Chunks: make([]*primitives.Chunk, layout.NumShards()),
		Endorsements: make([][]primitives.Signature, layout.NumShards())}
	for i, id := range layout.ShardIDs() {
		if random.IntN(3) == 0 {
			continue
		}
		producer, err := r.e.ChunkProducer(parent.Hash, id)
		if err != nil {
			return nil, nil, err
		}
		if p.Chunks[i], err = r.e.NewChunk(parent.Hash, primitives.ShardIndex(i), nil, r.keys[producer.AccountID]); err != nil {
			return nil, nil, err
		}
		validators, err := r.e.ChunkValidators(parent, id)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range validators {
			p.Endorsements[i] = append(p.Endorsements[i], r.keys[v.AccountID].Sign(primitives.ChunkEndorsementBytes(p.Chunks[i].Hash)))
		}
	}
	approvers, err := r.e.Approvers(parent.Hash)
	if err != nil {
		return nil, nil, err
	}
	inner := primitives.NewApprovalInner(parent.Hash, parent.Height(), height)
	for _, a := range approvers {
		p.Approvals = append(p.Approvals, r.keys[a.AccountID].Sign(inner.SignedBytes(height)))
	}
	producer, err := r.e.BlockProducer(parent.Hash, height)
	if err != nil {
		return nil, nil, err
	}
	b, err := r.e.NewBlock(p, r.keys[producer.AccountID])
	return b, p.Chunks, err
}

// peer sends a recordedChain to a node.
type peer struct {
	*recordedChain
	track  engine.Track // shards that the node tracks; nil: all
	n      *node.Node
	random *rand.Rand

	mu      sync.Mutex
	asked   []any // requests of the node that are not answered yet
	blocks  int   // that it wanted
	chunks  int
	refused []error
	woken   chan struct{}
}

// body returns the part of a chunk that the node receives.
func (p *peer) body(hash primitives.Hash) *primitives.Chunk {
	c := p.bodies[hash]
	if p.track == nil || c == nil {
		return c
	}
	index, err := p.of[hash].Index(c.Header.ShardID)
	if err != nil {
		panic(err)
	}
	all := make([]*primitives.Chunk, p.of[hash].NumShards())
	all[index] = c
	some, _ := cutChunks(all, p.of[hash], p.track)
	return some[index]
}

func (p *peer) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// Refused and the next three methods implement messages.NetworkSender.
func (p *peer) Refused(m messages.BlockRefused)      { p.refuse(m.Err) }
func (p *peer) ChunkRefused(m messages.ChunkRefused) { p.refuse(m.Err) }

func (p *peer) Wanted(m messages.BlockWanted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.recordedChain.blocks[m.Hash]; b != nil {
		p.blocks++
		p.asked = append(p.asked, messages.BlockReceived{Block: b, From: "asked"})
		p.wake()
	}
}

func (p *peer) ChunksWanted(m messages.ChunksWanted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range m.Chunks {
		p.chunks++
		p.asked = append(p.asked, messages.ChunkReceivedAlone{Chunk: p.body(c), From: "asked"})
	}
	p.wake()
}

func (p *peer) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, err)
}

// answer answers the node's requests, some of them or all.
func (p *peer) answer(all bool) {
	p.mu.Lock()
	list := p.asked
	p.asked = nil
	p.mu.Unlock()
	p.random.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	for i, m := range list {
		if !all && p.random.IntN(2) == 0 {
			p.mu.Lock()
			p.asked = append(p.asked, list[i])
			p.mu.Unlock()
			continue
		}
		p.n.Receive(m)
	}
}

// messages returns blocks and bodies in a random order: a body with its block, before or after it,
// twice, or only on request.
func (p *peer) messages(window []*primitives.Block) (out []any) {
	for _, b := range window {
		m := messages.BlockReceived{Block: b, Chunks: make([]*primitives.Chunk, len(b.Body.Chunks)), From: fmt.Sprint("peer", p.random.IntN(8))}
		for i, h := range b.Body.Chunks {
			if h.HeightIncluded != b.Header.Height {
				continue
			}
			c := p.body(h.ChunkHash())
			switch p.random.IntN(4) {
			case 0:
				m.Chunks[i] = c
			case 1:
				out = append(out, messages.ChunkReceivedAlone{Chunk: c, From: m.From})
			case 2:
				out = append(out, messages.ChunkReceivedAlone{Chunk: c, From: m.From}, messages.ChunkReceivedAlone{Chunk: c, From: "other"})
			}
		}
		out = append(out, m)
		if p.random.IntN(3) == 0 {
			out = append(out, m)
		}
	}
	p.random.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}

// TestBlockOrderChangesNoResult: a node that receives the blocks of a recorded chain out of order,
// chunk bodies late and separately, and forks in between, computes the recorded chain: each block's
// changes, all outcomes, light client blocks and validators.
func TestBlockOrderChangesNoResult(t *testing.T) {
	seed := rand.Uint64()
	names := chains("four", "storm")
	if !modes() {
		// the others have more in them
		names = slices.DeleteFunc(names, func(name string) bool { return name == "native" || name == "probe" })
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			reaching(t, seed, func(seed uint64) bool {
				random := rand.New(rand.NewPCG(seed, 2))
				return follow(t, rec, name, record(t, rec, name, random), random, nil)
			})
		})
	}
}

// TestBlockOrderChangesNoTrackedState: so does a node that tracks one shard and receives from other
// shards' chunks only the receipts for it, late or separately. It computes the same states.
func TestBlockOrderChangesNoTrackedState(t *testing.T) {
	seed := rand.Uint64()
	names := []string{"reshard", "storm"}
	if modes() {
		names = chains("four")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			first := rec.Blocks[0].Given.Chunks
			for round := range uint64(1 + len(names)/3) {
				reaching(t, seed+100*round, func(seed uint64) bool {
					random := rand.New(rand.NewPCG(seed, 3))
					tape := record(t, rec, name, random)
					track := engine.TrackShards(first[random.IntN(len(first))].ShardID)
					if name == "reshard" && random.IntN(2) == 0 {
						track = engine.TrackAccounts([]primitives.AccountID{"aa", "h", "probe.near", "zz.near"}[random.IntN(4)])
					}
					return follow(t, rec, name, tape, random, track)
				})
			}
		})
	}
}

// follow makes a node follow a chain and returns whether it received forks and had to request
// blocks and bodies.
func follow(t *testing.T, rec *Recording, name string, tape *recordedChain, random *rand.Rand, track engine.Track) (reached bool) {
	r := &runner{rec: rec, report: &Report{}, o: Options{Par: par, MaxFindings: 20, tracks: track}}
	var err error
	if r.chain, err = Genesis(rec, epochConfigs(t, name)); err != nil {
		t.Fatal(err)
	}
	machine, err := vm.New(vm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	r.vm = machine
	disk := storage.NewMemDisk()
	r.o.Open = func(o storage.Options) (*storage.Store, error) { return storage.OpenMemory(disk, o) }
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	p := &peer{recordedChain: tape, track: track, random: random, woken: make(chan struct{}, 1)}
	var mu sync.Mutex // guards the fields below, and the report
	accepted := map[primitives.Hash]bool{r.e.Genesis().Hash: true}
	forks, steps := 0, 0
	p.n, err = node.Start(node.Options{
		Engine: r.e, Mode: production.Manual, Net: p,
		Delays:  doomslug.Delays{Endorsement: int64(600 * time.Millisecond), Skip: int64(2 * time.Second), MaxWait: int64(6 * time.Second), ChunkWait: [2]uint64{1, 3}},
		Mempool: txpool.Limits{Transactions: 1000, Bytes: 1 << 20, KeyTransactions: 100},
		Observe: func(m *messages.BlockAccepted) {
			mu.Lock()
			defer mu.Unlock()
			accepted[m.Hash] = true
			if track != nil {
				steps += r.held(r.e.BlockNode(m.Hash), tape.shards[m.Hash], track)
			}
			if tape.main[m.Hash] && track == nil {
				if err := r.afterBlock(r.e.BlockNode(m.Hash)); err != nil {
					t.Error(err)
				}
			} else if !tape.main[m.Hash] {
				forks++
			}
			p.wake()
		},
		Exit: func(who string, reason any, stack []byte) {
			panic(fmt.Sprintf("%s failed: %v\n%s", who, reason, stack))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.n.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	arrived := func(hash primitives.Hash) bool {
		mu.Lock()
		defer mu.Unlock()
		return accepted[hash]
	}
	arrives := func(b *primitives.Block) {
		t.Helper()
		for limit := time.After(60 * time.Second); !arrived(b.Hash()); {
			p.answer(true)
			select {
			case <-p.woken:
			case <-limit:
				h, halted := p.n.Halted()
				t.Fatalf("block %d is not imported; the tip is %d; halted %v %v", b.Header.Height, r.e.Tip().Height(), halted, h)
			}
		}
	}
	var late []*primitives.Block // forks that are sent in a later window
	sure := slices.IndexFunc(tape.order, func(b *primitives.Block) bool { return !tape.main[b.Hash()] })
	for at := 0; at < len(tape.order); {
		end := min(at+1+random.IntN(24), len(tape.order))
		switch {
		case at == sure: // the first one is sent alone and executed: many others arrive after a higher block is final
			for _, m := range p.messages(tape.order[at : at+1]) {
				p.n.Receive(m)
			}
			arrives(tape.order[at])
			at++
			continue
		case at < sure:
			end = min(end, sure)
		}
		window := append(slices.Clone(tape.order[at:end]), late...)
		late = nil
		var last *primitives.Block
		window = slices.DeleteFunc(window, func(b *primitives.Block) bool {
			if tape.main[b.Hash()] {
				if last == nil || b.Header.Height > last.Header.Height {
					last = b
				}
				return false
			}
			if random.IntN(3) == 0 {
				late = append(late, b)
				return true
			}
			return false
		})
		for _, m := range p.messages(window) {
			p.n.Receive(m)
			if random.IntN(4) == 0 {
				p.answer(false)
			}
		}
		if last != nil {
			arrives(last)
		}
		at = end
	}
	head := rec.Blocks[len(rec.Blocks)-1].Given.Header.Hash
	mu.Lock()
	defer mu.Unlock()
	if r.e.Head().Hash != head {
		t.Errorf("head %v, want %v", r.e.Head().Hash, head)
	}
	for hash := range tape.main {
		if !accepted[hash] {
			t.Errorf("block %v is not accepted", hash)
		}
	}
	p.mu.Lock()
	for _, err := range p.refused {
		t.Errorf("refused: %v", err)
	}
	p.mu.Unlock()
	if track == nil {
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range r.report.Findings {
		t.Errorf("difference %v", d)
	}
	t.Logf("%d blocks and %d of forks, of which %d were executed; %d parents and %d bodies asked for; %d changes, %d epochs, %d light client blocks compared",
		len(tape.main), len(tape.order)-len(tape.main), forks, p.blocks, p.chunks, r.report.Changes, r.report.Epochs, r.report.Lights)
	if track != nil && steps < len(tape.main) {
		t.Errorf("%d steps of held shards are compared", steps)
	}
	return forks > 0 && p.blocks > 0 && p.chunks > 0
}
