package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/network"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// maxJump is the height jump limit of the nodes in this test (engine.Options.MaxHeightJump).
const maxJump = 2000

// forge makes blocks of byzantine validators. They are all validators of the cluster but voter0, so
// they have more than two thirds of the stake.
type forge struct {
	*cluster
	e     *engine.Engine      // knows the blocks of base, and the blocks that keep added
	base  []*primitives.Block // blocks on the disk of the node under test
	names map[primitives.Hash]string
	parts []peerwire.Body // messages with chunk parts, which the attacker sends before its blocks
}

// newForge makes a chain of four validators with a few blocks, of which some are final.
func newForge(t *testing.T) *forge {
	t.Helper()
	c := newCluster(t, 4, 1, 1000, nil, nil)
	f := &forge{cluster: c, names: map[primitives.Hash]string{}}
	f.e = f.engineOn(nil, nil)
	t.Cleanup(func() { testnode.Close(t, f.e) })
	for f.e.TipFinal().Height < 3 {
		f.base = append(f.base, f.keep(f.block(f.e.Tip(), 1, nil)))
	}
	own := f.engineOn(c.disks[0], nil)
	for _, b := range f.base {
		if _, err := own.Process(b, make([]*primitives.Chunk, c.shards), false); err != nil {
			t.Fatal(err)
		}
	}
	testnode.Close(t, own)
	return f
}

// head returns the newest block of base.
func (f *forge) head() *engine.BlockNode { return f.e.Imported(f.base[len(f.base)-1].Hash()) }

// keep imports a block without chunks into the forge's engine, so that others can build on it.
func (f *forge) keep(b *primitives.Block) *primitives.Block {
	f.t.Helper()
	if _, err := f.e.Process(b, make([]*primitives.Chunk, f.shards), false); err != nil {
		f.t.Fatal(err)
	}
	return b
}

// producer returns the block producer of a height, and whether it is byzantine.
func (f *forge) producer(height primitives.Height) (primitives.AccountID, bool) {
	f.t.Helper()
	v, err := f.e.BlockProducer(f.e.Genesis().Hash, height)
	if err != nil {
		f.t.Fatal(err)
	}
	return v.AccountID, v.AccountID != voter(0)
}

// block returns a valid block on parent, at the first height that is at least more above it and has
// a byzantine producer. It has no new chunk, unless change adds one.
func (f *forge) block(parent *engine.BlockNode, more primitives.Height, change func(*engine.Proposal)) *primitives.Block {
	f.t.Helper()
	height := parent.Height() + more
	by, bad := f.producer(height)
	for ; !bad; by, bad = f.producer(height) {
		height++
	}
	p := &engine.Proposal{Parent: parent.Hash, Height: height, Timestamp: parent.Header().Timestamp + 1_000_000,
		Chunks: make([]*primitives.Chunk, f.shards), Endorsements: make([][]primitives.Signature, f.shards),
		Approvals: f.approvals(parent.Hash, parent.Height(), height)}
	if change != nil {
		change(p)
	}
	b, err := f.e.NewBlock(p, keyOf(by))
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

// approvals returns the approvals of the byzantine validators for a block.
func (f *forge) approvals(parent primitives.Hash, at, height primitives.Height) (out []primitives.Signature) {
	f.t.Helper()
	list, err := f.e.Approvers(f.e.Genesis().Hash)
	if err != nil {
		f.t.Fatal(err)
	}
	inner := primitives.NewApprovalInner(parent, at, height)
	for _, a := range list {
		var s primitives.Signature
		if a.AccountID != voter(0) {
			s = keyOf(a.AccountID).Sign(inner.SignedBytes(height))
		}
		out = append(out, s)
	}
	return out
}

// changed returns a changed copy of a block, approved and signed again.
func (f *forge) changed(b *primitives.Block, change func(h *primitives.BlockHeader, body *primitives.BlockBody)) *primitives.Block {
	f.t.Helper()
	h := *b.Header
	x := &primitives.Block{Header: &h, Body: b.Body}
	x.Body.Chunks, x.Body.ChunkEndorsements = slices.Clone(b.Body.Chunks), slices.Clone(b.Body.ChunkEndorsements)
	change(&h, &x.Body)
	h.Approvals = f.approvals(h.PrevHash, h.PrevHeight, h.Height)
	by, _ := f.producer(h.Height)
	return sealed(x, keyOf(by))
}

// sealed signs a block after its header was changed.
func sealed(b *primitives.Block, key primitives.SecretKey) *primitives.Block {
	b.Header.Init()
	chain.SignBlock(b, key)
	return b
}

// later returns a copy of a block with a later timestamp, so that its hash is another one.
func (f *forge) later(b *primitives.Block) *primitives.Block {
	return f.changed(b, func(h *primitives.BlockHeader, _ *primitives.BlockBody) { h.Timestamp++ })
}

// orphan returns a copy of a block on an unknown parent.
func (f *forge) orphan(b *primitives.Block, parent string) *primitives.Block {
	return f.changed(b, func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
		h.PrevHash = primitives.HashBytes([]byte(parent))
		f.names[h.PrevHash] = parent
	})
}

// withChunk returns a block on the newest block with a new chunk that all byzantine validators have
// endorsed. forgery, if set, changes the chunk. The attacker sends all parts of the chunk before the
// block if sent is set.
func (f *forge) withChunk(sent bool, forgery *chunkForgery) *primitives.Block {
	f.t.Helper()
	head := f.head()
	shard := head.Shards[0].ID
	by, err := f.e.ChunkProducer(head.Hash, shard)
	if err != nil || by.AccountID == voter(0) {
		f.t.Fatalf("the chunk's producer %v is not byzantine: %v", by.AccountID, err)
	}
	in := &chain.ChunkInput{PrevBlock: head.Hash, Height: head.Height() + 1, ShardID: shard, Extra: head.Shards[0].Extra,
		Outgoing: head.Shards[0].Outgoing, Layout: head.Layout, Coding: f.e.Coding()}
	if forgery != nil && forgery.result != nil {
		own := *in.Extra
		in.Extra = &own
		forgery.result(in)
	}
	c, coded, err := chain.BuildChunk(in, keyOf(by.AccountID))
	if err != nil {
		f.t.Fatal(err)
	}
	if forgery != nil && forgery.parts != nil {
		forgery.parts(coded.Parts)
	}
	root, proofs := primitives.MerklizeParts(coded.Parts)
	c.Header.EncodedMerkleRoot = root
	if forgery != nil && forgery.header != nil {
		forgery.header(&c.Header)
	}
	c.Hash = c.Header.ChunkHash()
	c.Header.Signature = keyOf(by.AccountID).Sign(c.Hash[:])
	f.names[c.Hash] = "chunk"
	if sent {
		x := primitives.PartialChunk{Header: c.Header, Receipts: coded.Receipts,
			Anchor: &primitives.PartialChunkAnchor{PrevPrevBlock: head.Header().PrevHash, EpochID: head.Header().EpochID}}
		for i, p := range coded.Parts {
			x.Parts = append(x.Parts, primitives.ChunkPart{Ord: uint64(i), Part: p, Proof: proofs[i]})
		}
		f.parts = append(f.parts, &peerwire.PartialChunk{PartialChunk: x})
	}
	return f.block(head, 1, func(p *engine.Proposal) {
		list, err := f.e.ChunkValidators(head, shard)
		if err != nil {
			f.t.Fatal(err)
		}
		p.Chunks[0] = c
		for _, v := range list {
			var s primitives.Signature
			if v.AccountID != voter(0) {
				s = keyOf(v.AccountID).Sign(primitives.ChunkEndorsementBytes(c.Hash))
			}
			p.Endorsements[0] = append(p.Endorsements[0], s)
		}
	})
}

// chunkForgery changes a chunk before it is signed. Fields may be nil.
type chunkForgery struct {
	result func(*chain.ChunkInput)       // the claimed result of the previous chunk
	parts  func([][]byte)                // the coded body
	header func(*primitives.ChunkHeader) // other fields
}

// target is the node that is attacked, and what happened there.
type target struct {
	*member
	f  *forge
	mu sync.Mutex
	// delivered are the blocks that have reached the mailbox of the network actor, and persisted those
	// that the network actor has learnt to be on disk.
	delivered, persisted map[primitives.Hash]int
	parts                int // messages with chunk parts that the actor with the parts' pool has handled
	imported             []string
	rejected             []string
}

// startTarget starts voter0's node as a validator, or as a follower without any key.
func startTarget(f *forge, validates, eager bool) *target {
	f.t.Helper()
	x := &target{f: f, delivered: map[primitives.Hash]int{}, persisted: map[primitives.Hash]int{}}
	f.open = func(_ int, o *engine.Options) {
		o.MaxHeightJump, o.Now = maxJump, func() uint64 { return uint64(time.Now().UnixNano()) }
	}
	f.change = func(_ int, o *Options) {
		o.Network.Eager = eager
		if o.Validator.Eager = eager; !validates {
			o.Validator = nil
		}
		o.Observe = func(m *messages.BlockAccepted) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.imported = append(x.imported, f.names[m.Hash])
		}
		o.hooks.trip = func(kind string, m any, after bool) {
			if !after {
				return
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			switch m := m.(type) {
			case validatoractor.Heard:
				if _, is := m.Message.(*primitives.PartialChunk); is {
					x.parts++
				}
			case messages.BlockRefused:
				x.rejected = append(x.rejected, f.names[m.Hash])
			case messages.BlockAccepted:
				if kind == network.Name {
					x.persisted[m.Hash]++
				}
			}
		}
		listen := o.Network.Listener
		o.Network.Listener = listenFunc(func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server,
			error) {
			return listen.Listen(func(d near.Deliver) {
				deliver(d)
				x.mu.Lock()
				defer x.mu.Unlock()
				switch m := d.Msg.(type) {
				case *peerwire.Block:
					x.delivered[m.Block.Hash()]++
				case *peerwire.Routed: // a follower's pool is in the network actor, which handles messages in order
					if _, is := m.Body.(*peerwire.PartialChunk); is && !validates {
						x.parts++
					}
				}
			}, verify)
		})
	}
	f.start(0)
	x.member = f.members[0]
	return x
}

func (x *target) has(list map[primitives.Hash]int, hash primitives.Hash, n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return list[hash] >= n
}

func (x *target) partsHandled() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.parts
}

// hostile is a peer of the target that records what the target sends to it.
type hostile struct {
	*attacker
	f        *forge
	mu       sync.Mutex
	blocks   []primitives.Hash
	requests map[string]bool
}

func (f *forge) peer(name string, of *target) *hostile {
	f.t.Helper()
	head := near.Head{Block: f.head().Block, TrackedShards: f.head().Layout.ShardIDs()}
	x := &hostile{attacker: attackAt(f.t, name, of.member, "test", head), f: f, requests: map[string]bool{}}
	go func() {
		for {
			select {
			case <-f.t.Context().Done():
				return
			case d := <-x.got:
				x.record(d.Msg)
			}
		}
	}()
	return x
}

func (x *hostile) record(m peerwire.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch m := m.(type) {
	case *peerwire.Block:
		x.blocks = append(x.blocks, m.Block.Hash())
	case *peerwire.BlockRequest:
		x.requests["block "+x.f.names[m.Hash]] = true
	case *peerwire.HeadersRequest:
		x.requests["headers"] = true
	case *peerwire.Routed:
		if q, is := m.Body.(*peerwire.ChunkRequest); is {
			x.requests["parts of "+x.f.names[q.ChunkHash]] = true
		}
	}
}

func (x *hostile) has(hash primitives.Hash) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.blocks, hash)
}

func (x *hostile) asked(what string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.requests[what]
}

// flush returns once the target has sent to the peer all that it had to send before, or has closed
// the connection. The target answers the request for the block echo, which is requested only once.
func (x *hostile) flush(t *testing.T, of *target, echo primitives.Hash) {
	t.Helper()
	x.Post(near.ToPeer{Peer: of.info.ID, Msg: &peerwire.BlockRequest{Hash: echo}})
	until(t, func() bool { return x.has(echo) || !x.connected() })
}

// attackCase is an attack whose blocks lead to one verdict of the importer.
type attackCase struct {
	name string
	make func(f *forge) []*primitives.Block
	// awaits is a request that the target sends after the first block of the attack. Empty: the attack
	// causes no request.
	awaits string
	halts  bool
	want   string // what the attack causes, see report
	eager  string // what it causes in eager mode (pace); empty: the same
}

// named names the blocks of an attack.
func (f *forge) named(names string, list ...*primitives.Block) []*primitives.Block {
	for i, name := range strings.Fields(names) {
		f.names[list[i].Hash()] = name
	}
	return list
}

func one(make func(f *forge) *primitives.Block) func(*forge) []*primitives.Block {
	return func(f *forge) []*primitives.Block { return f.named("block", make(f)) }
}

// attackRun is an attackCase on one node.
type attackRun struct {
	*attackCase
	f         *forge
	list      []*primitives.Block
	marker    *primitives.Block // a valid block, which the honest peer sends after the attack
	x         *target
	bad, good *hostile
}

// prepare starts a node and its two peers, which connect within about a second.
func prepare(t *testing.T, c *attackCase, validates, eager bool) *attackRun {
	t.Helper()
	f := newForge(t)
	r := &attackRun{attackCase: c, f: f, list: c.make(f), marker: f.block(f.head(), 5, nil)}
	r.x = startTarget(f, validates, eager)
	r.bad, r.good = f.peer("attacker", r.x), f.peer("honest", r.x)
	return r
}

// run carries out the attack and returns what it caused. The messages of the attack, the marker and
// the request of flush pass through the same mailboxes in this order. So the effects of the attack
// are complete when the answer to the last request arrives.
func (r *attackRun) run(t *testing.T) string {
	t.Helper()
	x, bad, good := r.x, r.bad, r.good
	until(t, func() bool { return len(x.front.Info().ActivePeers) == 2 && bad.connected() && good.connected() })
	for i, p := range r.f.parts {
		last := time.Time{}
		until(t, func() bool { // the attacker's peer manager drops the message until it knows a route
			if time.Since(last) > 50*time.Millisecond {
				bad.Post(near.RouteTo{Target: peerwire.ToPeer(x.info.ID), Body: p})
				last = time.Now()
			}
			return x.partsHandled() > i
		})
	}
	sent := map[primitives.Hash]int{}
	for _, b := range r.list {
		bad.Post(near.ToPeer{Peer: x.info.ID, Msg: &peerwire.Block{Block: b}})
		sent[b.Hash()]++
		until(t, func() bool { return x.has(x.delivered, b.Hash(), sent[b.Hash()]) || !bad.connected() })
		if r.awaits != "" {
			until(t, func() bool { return bad.asked(r.awaits) || good.asked(r.awaits) })
		}
	}
	if r.halts {
		until(t, func() bool { _, is := x.Halted(); return is })
	} else {
		good.Post(near.ToPeer{Peer: x.info.ID, Msg: &peerwire.Block{Block: r.marker}})
		// A validator relays blocks in order, but not through the network actor.
		until(t, func() bool {
			return x.has(x.persisted, r.marker.Hash(), 1) && (bad.has(r.marker.Hash()) || !bad.connected())
		})
	}
	bad.flush(t, x, r.f.base[0].Hash())
	good.flush(t, x, r.f.base[0].Hash())
	return r.report(t)
}

// report returns what an attack caused.
func (r *attackRun) report(t *testing.T) string {
	t.Helper()
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	r.bad.mu.Lock()
	defer r.bad.mu.Unlock()
	r.good.mu.Lock()
	defer r.good.mu.Unlock()
	var out, relayed, requested []string
	for _, h := range r.good.blocks {
		if name := r.f.names[h]; !slices.Contains(relayed, name) { // the head is sent again after a while
			relayed = append(relayed, name)
		}
	}
	maps.Copy(r.bad.requests, r.good.requests)
	for _, q := range slices.Sorted(maps.Keys(r.bad.requests)) {
		// A node also requests headers if a higher block of a peer is not imported within a second.
		if q != "headers" || r.awaits == q {
			requested = append(requested, q)
		}
	}
	for _, l := range []struct {
		what string
		list []string
	}{{"imports", r.x.imported}, {"rejects", r.x.rejected}, {"relays", relayed}, {"requests", requested}} {
		// Blocks without a name are not part of the attack.
		if list := slices.DeleteFunc(slices.Clone(l.list), func(s string) bool { return s == "" }); len(list) > 0 {
			out = append(out, l.what+" "+strings.Join(list, ", "))
		}
	}
	if !r.good.connected() {
		out = append(out, "bans the honest peer")
	}
	text := string(r.x.front.Metrics(r.x.Metrics(nil)))
	metric := func(name string) string {
		_, rest, _ := strings.Cut(text, "\n"+name+" ")
		v, _, _ := strings.Cut(rest, "\n")
		return v
	}
	if metric("near_block_processed_total") != fmt.Sprint(len(r.x.imported)) {
		t.Errorf("%s blocks are counted, want %d", metric("near_block_processed_total"), len(r.x.imported))
	}
	if bans := metric("troupe_network_bans_total"); (bans == "1") == r.bad.connected() {
		t.Errorf("%s bans are counted, but the attacker is connected: %t", bans, r.bad.connected())
	}
	for _, m := range [][2]string{{"near_num_orphans", "orphans"}, {"troupe_network_bans_total", "bans"}, {"troupe_halted", "halted"},
		{"near_chunks_processed", "chunks"}, {"troupe_orphans_evicted_total", "evicted"}, {"troupe_network_messages_dropped_total", "dropped"}} {
		if v := metric(m[0]); v != "0" {
			out = append(out, m[1]+" "+v)
		}
	}
	return strings.Join(out, "; ")
}

// attackCases are the cases by subject.
var attackCases = []struct {
	subject string
	list    []attackCase
}{{"place in the chain", placeCases}, {"validity", validityCases}, {"chunks", chunkCases}}

var placeCases = []attackCase{
	{name: "valid", want: "imports block; relays block", make: one(func(f *forge) *primitives.Block { return f.block(f.head(), 1, nil) })},
	{name: "valid twice", want: "imports block; relays block", make: func(f *forge) []*primitives.Block {
		b := f.block(f.head(), 1, nil)
		return f.named("block block", b, b)
	}},
	{name: "orphan, then its parent", want: "imports parent, child; relays parent, child; requests block parent", awaits: "block parent",
		make: func(f *forge) []*primitives.Block {
			parent := f.keep(f.block(f.head(), 1, nil))
			return f.named("child parent", f.block(f.e.Imported(parent.Hash()), 1, nil), parent)
		}},
	{name: "orphan alone", want: "requests block parent; orphans 1", awaits: "block parent", make: one(func(f *forge) *primitives.Block {
		return f.orphan(f.block(f.head(), 1, nil), "parent")
	})},
	{name: "at the final height", make: one(func(f *forge) *primitives.Block {
		return f.later(f.block(f.e.Imported(f.base[0].Header.PrevHash), f.e.TipFinal().Height, nil))
	})},
	{name: "parent below the final block", eager: "relays block", make: one(func(f *forge) *primitives.Block {
		return f.later(f.block(f.e.Imported(f.base[0].Hash()), f.head().Height()-f.base[0].Header.Height+1, nil))
	})},
	{name: "unknown parent below the final block", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
			h.PrevHash, h.PrevHeight = primitives.Hash{1}, 1
		})
	})},
	{name: "unknown epoch", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.orphan(f.block(f.head(), 1, nil), "parent"), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
			h.EpochID = primitives.EpochID{1}
		})
	})},
	{name: "five of an unknown epoch", make: func(f *forge) (list []*primitives.Block) {
		for i := range blockpool.MaxEach + 1 {
			list = append(list, f.changed(f.orphan(f.block(f.head(), 1, nil), "parent"), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
				h.EpochID = primitives.EpochID{byte(1 + i)}
			}))
		}
		return f.named("a b c d e", list...)
	}},
	{name: "orphan far above the tip", want: "requests headers", awaits: "headers", make: one(func(f *forge) *primitives.Block {
		return f.orphan(f.block(f.head(), blockpool.Window+1, nil), "parent")
	})},
	{name: "three of a producer and height", want: "requests block parent; orphans 2", awaits: "block parent",
		make: func(f *forge) []*primitives.Block {
			b := f.block(f.head(), 1, nil)
			var list []*primitives.Block
			for i := range 3 {
				list = append(list, f.changed(f.orphan(b, "parent"), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
					h.Timestamp += uint64(i)
				}))
			}
			return f.named("first second third", list...)
		}},
	{name: "height far above the tip", want: "requests headers", awaits: "headers", make: one(func(f *forge) *primitives.Block {
		return f.block(f.head(), maxJump+10, nil)
	})},
}

var validityCases = []attackCase{
	{name: "height not above the parent", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
			h.Height = f.head().Height()
		})
	})},
	{name: "another epoch than the parent's", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
			h.EpochID = primitives.EpochID{1}
		})
	})},
	{name: "no signature", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		b := f.block(f.head(), 1, nil)
		b.Header.Signature = primitives.ZeroED25519Signature
		return b
	})},
	{name: "signed by another validator", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		b := f.block(f.head(), 1, nil)
		by, _ := f.producer(b.Header.Height)
		for i := range 4 {
			if voter(i) != by {
				return sealed(b, keyOf(voter(i)))
			}
		}
		return nil
	})},
	{name: "header of an old version", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) { h.Version = primitives.HeaderV4 })
	})},
	{name: "another body", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(_ *primitives.BlockHeader, b *primitives.BlockBody) { b.VRFValue[0]++ })
	})},
	{name: "no chunk headers", want: "rejects block; bans 1", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(h *primitives.BlockHeader, b *primitives.BlockBody) {
			b.Chunks = nil
			h.BlockBodyHash = b.Hash()
		})
	})},
	{name: "too few approvals", want: "rejects block", make: one(func(f *forge) *primitives.Block {
		b := f.block(f.head(), 1, nil)
		b.Header.Approvals = slices.Clone(b.Header.Approvals)
		b.Header.Approvals[slices.IndexFunc(b.Header.Approvals, func(s primitives.Signature) bool { return s != "" })] = ""
		by, _ := f.producer(b.Header.Height)
		return sealed(b, keyOf(by))
	})},
	{name: "wrong state root", want: "rejects block", make: one(func(f *forge) *primitives.Block { return f.wrongRoot(1, 0) })},
	{name: "wrong state root, again, and a child", want: "rejects block, block, child", make: func(f *forge) []*primitives.Block {
		b := f.wrongRoot(1, 0)
		child := f.changed(f.block(f.head(), b.Header.Height+1-f.head().Height(), nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
			h.PrevHash, h.PrevHeight = b.Hash(), b.Header.Height
		})
		return f.named("block block child", b, b, child)
	}},
	{name: "three of a height with wrong state roots", want: "rejects first, second, third; bans 1", make: func(f *forge) []*primitives.Block {
		return f.named("first second third", f.wrongRoot(1, 0), f.wrongRoot(1, 1), f.wrongRoot(1, 2))
	}},
	{name: "timestamp ahead of the clock", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.block(f.head(), 1, nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
			h.Timestamp = uint64(time.Now().Add(time.Hour).UnixNano())
		})
	})},
}

var chunkCases = []attackCase{
	{name: "chunk body missing", want: "requests parts of chunk", eager: "relays block; requests parts of chunk", awaits: "parts of chunk",
		make: one(func(f *forge) *primitives.Block { return f.withChunk(false, nil) })},
	{name: "chunk", want: "imports block; relays block; chunks 1",
		make: one(func(f *forge) *primitives.Block { return f.withChunk(true, nil) })},
	{name: "chunk with forged signature", want: "rejects block", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.withChunk(false, nil), func(h *primitives.BlockHeader, b *primitives.BlockBody) {
			own := *b.Chunks[0]
			own.Signature = keyOf("nobody").Sign(nil)
			b.Chunks[0] = &own
			h.BlockBodyHash = b.Hash()
		})
	})},
	{name: "chunk without endorsements", want: "rejects block", make: one(func(f *forge) *primitives.Block {
		return f.changed(f.withChunk(false, nil), func(h *primitives.BlockHeader, b *primitives.BlockBody) {
			b.ChunkEndorsements[0] = make([]primitives.Signature, len(b.ChunkEndorsements[0]))
			h.ChunkEndorsements = chain.EndorsementBitmaps(b.ChunkEndorsements)
			h.BlockBodyHash = b.Hash()
		})
	})},
	{name: "chunk whose parts are no codeword", want: "rejects block", eager: "rejects block; relays block",
		make: one(func(f *forge) *primitives.Block {
			return f.withChunk(true, &chunkForgery{parts: func(p [][]byte) { p[3] = slices.Clone(p[3]); p[3][0]++ }})
		})},
	{name: "chunk with other transactions than its header says", eager: "relays block", make: one(func(f *forge) *primitives.Block {
		return f.withChunk(true, &chunkForgery{header: func(h *primitives.ChunkHeader) { h.TxRoot = primitives.Hash{1} }})
	})},
	{name: "chunk with receipts that the node did not compute", want: "halted 1", eager: "relays block; halted 1", halts: true,
		make: one(func(f *forge) *primitives.Block {
			return f.withChunk(true, &chunkForgery{result: func(in *chain.ChunkInput) {
				in.Outgoing = []*primitives.Receipt{{PredecessorID: payer(0), ReceiverID: payer(1), Body: &primitives.DataReceipt{}}}
			}})
		})},
	{name: "chunk with a state root that the node did not compute", want: "halted 1", eager: "relays block; halted 1", halts: true,
		make: one(func(f *forge) *primitives.Block {
			return f.withChunk(true, &chunkForgery{result: func(in *chain.ChunkInput) { in.Extra.StateRoot = primitives.Hash{1} }})
		})},
}

// wrongRoot returns a block on the newest one whose state root does not follow from its chunks.
func (f *forge) wrongRoot(more primitives.Height, salt uint64) *primitives.Block {
	return f.changed(f.block(f.head(), more, nil), func(h *primitives.BlockHeader, _ *primitives.BlockBody) {
		h.PrevStateRoot, h.Timestamp = primitives.Hash{1}, h.Timestamp+salt
	})
}

// TestFollowerAndValidatorAgreeOnVerdicts: a byzantine peer sends blocks that lead to each verdict of
// package importer that a peer can cause, over a socket. The node's reaction is the same whether it
// follows the chain (actors/chain) or validates (package consensus).
func TestFollowerAndValidatorAgreeOnVerdicts(t *testing.T) {
	t.Parallel()
	for _, eager := range []bool{false, true} {
		for _, validates := range []bool{false, true} {
			name := map[bool]string{false: "follower", true: "validator"}[validates] + map[bool]string{true: " in eager mode"}[eager]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, c := range attackCases {
					t.Run(c.subject, func(t *testing.T) { attackAll(t, c.list, validates, eager) })
				}
			})
		}
	}
}

// attackAll runs attacks on new nodes. It prepares all of them first, since peers need a second to
// connect.
func attackAll(t *testing.T, list []attackCase, validates, eager bool) {
	t.Helper()
	var runs []*attackRun
	for i := range list {
		runs = append(runs, prepare(t, &list[i], validates, eager))
	}
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			defer r.f.stop(r.x.member)
			want := r.want
			if eager && r.eager != "" {
				want = r.eager
			}
			if got := r.run(t); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}
