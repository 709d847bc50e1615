package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// kickoutCluster makes a chain of four validators and two shards that begins with a protocol version.
// Chunk producers are listed soon. No node is started.
func kickoutCluster(t *testing.T, version primitives.ProtocolVersion, epochLength uint64, change func(int, *Options)) *cluster {
	t.Helper()
	c := newCluster(t, 4, 2, epochLength, func(i int, o *Options) {
		if o.Vote = 87; change != nil {
			change(i, o)
		}
	}, func(g *genesis.Config) map[string][]byte {
		g.ChainID, g.ProtocolVersion = "test-chain-forms", version // with the thresholds of the genesis
		g.BlockProducerKickoutThreshold, g.ChunkProducerKickoutThreshold, g.ChunkValidatorOnlyKickoutThreshold = 0, 0, 0
		return nil
	})
	c.chain.Params.EarlyKickout = &earlykickout.Thresholds{GraceBlocks: 3, MinMissed: 2, MinProducedPercent: 90}
	return c
}

// counted adds up what a member has counted of messages that name an anchor.
func (m *member) counted(of func(*anchor.Counters) uint64) uint64 {
	return of(&m.validator.Counters.Chunks) + of(&m.validator.Counters.Witnesses)
}

func wrongForms(c *anchor.Counters) uint64  { return c.WrongForm.Load() }
func wrongPlaces(c *anchor.Counters) uint64 { return c.WrongPlace.Load() }
func queued(c *anchor.Counters) uint64      { return c.Queued.Load() }
func unsigned(c *anchor.Counters) uint64    { return c.Unsigned.Load() }

// chunkPlace is the place of a shard's chunk on a block, with its producer.
type chunkPlace struct {
	key    primitives.ChunkKey
	at     primitives.ChunkAnchor
	index  primitives.ShardIndex
	by     primitives.AccountID
	canon  primitives.AccountID // that the height alone gives
	listed bool                 // canon is left out
}

// placesOn returns the places of the chunks on a block.
func placesOn(t *testing.T, m *member, on *engine.BlockNode) (out []chunkPlace) {
	t.Helper()
	err := m.e.Epochs(func(em *epoch.Manager) error {
		id, err := em.EpochIDFromPrev(on.Hash)
		if err != nil {
			return err
		}
		layout, err := em.ShardLayout(id)
		if err != nil {
			return err
		}
		for i, shard := range layout.ShardIDs() {
			p := chunkPlace{key: primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: on.Height() + 1}, index: primitives.ShardIndex(i),
				at: primitives.ChunkAnchor{PrevBlock: on.Hash, PrevPrevBlock: on.Header().PrevHash}}
			by, err := em.ChunkProducerFromPrev(on.Hash, shard)
			if err != nil {
				return err
			}
			canonical, err := em.CanonicalChunkProducer(id, shard, p.key.HeightCreated)
			if err != nil {
				return err
			}
			p.by, p.canon = by.AccountID, canonical.AccountID
			p.listed = p.canon != p.by && isListed(em, on.Header().PrevHash, p.index, p.canon)
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// isListed returns whether a block's rows leave a producer out.
func isListed(em *epoch.Manager, anchor primitives.Hash, index primitives.ShardIndex, id primitives.AccountID) bool {
	b, err := em.BlockInfo(anchor)
	if err != nil {
		return false
	}
	info, err := em.EpochInfo(b.EpochID)
	if err != nil {
		return false
	}
	lists, err := em.ChunkProducerBlacklist(anchor)
	v, known := info.ValidatorID(id)
	return err == nil && known && int(index) < len(lists) && slices.Contains(lists[index], v)
}

// bodiesAt returns one message of each kind about a chunk, signed by an account, in the form that names
// an anchor, or without one.
func bodiesAt(key primitives.ChunkKey, at *primitives.ChunkAnchor, by primitives.AccountID, salt int) []peerwire.Body {
	if at != nil { // the caller may change its own
		own := *at
		at = &own
	}
	sk, part := keyOf(by), make([]byte, 200)
	w := primitives.PartialWitness{EpochID: key.EpochID, ShardID: key.ShardID, HeightCreated: key.HeightCreated, Anchor: at,
		Ord: uint64(salt % 4), Part: part, EncodedLength: 400}
	w.Signed(func(b []byte) { w.Signature = sk.Sign(b) })
	a := primitives.ContractAccesses{Key: key, Contracts: []primitives.Hash{{byte(salt)}}, Anchor: at}
	a.Signature = sk.Sign(a.SignedBytes())
	d := primitives.PartialContractDeploys{Key: key, Ord: uint64(salt % 4), Part: part, EncodedLength: 400, Anchor: at}
	d.Signature = sk.Sign(d.SignedBytes())
	list := []peerwire.Body{&peerwire.ContractAccesses{ContractAccesses: a}, &peerwire.ContractDeploys{PartialContractDeploys: d}}
	if at == nil {
		return append(list, &peerwire.PartialWitness{PartialWitness: w}, &peerwire.PartialWitnessForward{PartialWitness: w})
	}
	v := primitives.VersionedPartialWitness{PartialWitness: w}
	return append(list, &peerwire.VersionedWitness{VersionedPartialWitness: v}, &peerwire.VersionedWitnessForward{VersionedPartialWitness: v})
}

// chunkAt returns parts of a chunk that is signed by an account. Another gas limit makes another chunk.
func chunkAt(head *engine.BlockNode, key primitives.ChunkKey, prev primitives.Hash, at *primitives.PartialChunkAnchor,
	by primitives.AccountID, salt int) *peerwire.PartialChunk {
	h := *head.Block.Body.Chunks[0]
	h.ShardID, h.PrevBlockHash, h.HeightCreated, h.HeightIncluded, h.GasLimit = key.ShardID, prev, key.HeightCreated, 0, primitives.Gas(salt)
	parts := [][]byte{make([]byte, 2000), {1}, {2}, {3}}
	root, paths := primitives.MerklizeParts(parts)
	h.EncodedMerkleRoot = root
	hash := h.ChunkHash()
	h.Signature = keyOf(by).Sign(hash[:])
	return &peerwire.PartialChunk{PartialChunk: primitives.PartialChunk{Header: h, Anchor: at,
		Parts: []primitives.ChunkPart{{Ord: 0, Part: parts[0], Proof: paths[0]}}}}
}

// usurpedChunk makes a chunk on a block, and all messages that its producer would send with it. It
// signs them with the key of a validator that the block's rows leave out. The chunk has a
// transaction that the right chunk lacks. Otherwise both would be the same chunk, because a chunk's
// hash does not cover the signature.
func usurpedChunk(t *testing.T, m *member, on *engine.BlockNode, p *chunkPlace) (c *primitives.Chunk, bodies []peerwire.Body) {
	t.Helper()
	tx := m.sign(primitives.Transaction{SignerID: payer(0), ReceiverID: payer(1), BlockHash: m.e.Final().Hash,
		Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(on.Height()) * 1_000_000}, Actions: []primitives.Action{transfer(1)}})
	c, coded, err := m.e.NewCodedChunk(on.Hash, p.index, []*primitives.SignedTransaction{tx}, keyOf(p.canon))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(s primitives.Signature, b []byte, k primitives.PublicKey) bool { return s.Verify(b, k) }
	pool := chunkparts.New(p.canon, m.e.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil }), m.e.Coding(), verify,
		func(int) int { return 0 })
	out, err := pool.Step(0, chunkparts.Made{Chunk: c, Body: coded})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Send {
		if x, is := s.Body.(*primitives.PartialChunk); is {
			bodies = append(bodies, &peerwire.PartialChunk{PartialChunk: *x})
		}
	}
	return c, append(bodies, bodiesAt(p.key, &p.at, p.canon, 1)...)
}

// badBytes is a body that does not decode.
type badBytes struct {
	kind peerwire.BodyKind
	raw  []byte
}

func (b badBytes) BodyKind() peerwire.BodyKind   { return b.kind }
func (b badBytes) AppendBorsh(out []byte) []byte { return append(out, b.raw...) }

// TestFalseChunkMessagesAreDropped: a peer that holds the keys of validators sends messages about
// chunks in the form of another version, with wrong anchors, with wrong keys, with anchors that no
// node has, and the chunks of a producer that is left out. As in nearcore these messages are
// dropped, the peer is not banned, and the chain continues without any of those chunks. The peer is
// banned for a forged signature of a routed message, and in the end for blocks with such chunks.
func TestFalseChunkMessagesAreDropped(t *testing.T) {
	parameters.SupportForTest(t, 87)
	var mu sync.Mutex
	usurped, endorsed := map[primitives.Hash]bool{}, map[primitives.Hash]bool{}
	var refused atomic.Int64 // blocks, for the signature of a chunk
	c := kickoutCluster(t, 87, 1000, func(i int, o *Options) {
		before := o.hooks.onSend
		o.hooks.onSend = func(list []consensus.Send) {
			before(list)
			mu.Lock()
			defer mu.Unlock()
			for _, s := range list {
				if e, is := s.Message.(*primitives.ChunkEndorsement); is {
					endorsed[e.ChunkHash] = true
				}
			}
		}
		if i == 0 {
			o.hooks.trip = func(kind string, m any, after bool) {
				if r, is := m.(messages.BlockRefused); is && after && kind == network.Name &&
					strings.Contains(r.Err.Error(), "not signed by its producer") {
					refused.Add(1)
				}
			}
		}
	})
	for i := range 4 {
		c.start(i)
	}
	m := c.members[0]
	c.reach(5, 120*time.Second)
	c.stop(c.members[3]) // it misses its chunks and is left out
	until(t, func() bool {
		on := m.e.Final()
		return m.e.Epochs(func(em *epoch.Manager) error {
			for i := range primitives.ShardIndex(2) {
				if isListed(em, on.Hash, i, voter(3)) {
					return nil
				}
			}
			return epoch.ErrMissingBlock
		}) == nil
	})
	c.start(3)
	c.reach(m.e.Final().Height+5, 120*time.Second)

	x := attack(t, "liar", m, "test")
	until(t, x.connected)
	send := func(body peerwire.Body) {
		x.Post(near.RouteTo{Target: peerwire.ToPeer(m.info.ID), Body: body})
	}
	from := m.e.Final().Height
	done, tries := map[primitives.Hash]bool{}, 0
	for limit := time.Now().Add(2 * time.Minute); m.e.Final().Height < from+20 || len(usurped) < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d false chunks; %s", len(usurped), c.where())
		}
		head := m.e.Head()
		if done[head.Hash] {
			continue
		}
		done[head.Hash] = true
		for _, p := range placesOn(t, m, head) {
			tries++
			older, unknown := m.e.Final().Hash, primitives.HashBytes(fmt.Append(nil, tries))
			all := bodiesAt(p.key, nil, p.by, tries) // the form of 86
			all = append(all, chunkAt(head, p.key, head.Hash, nil, p.by, tries))
			for _, at := range []primitives.ChunkAnchor{
				{PrevBlock: head.Hash, PrevPrevBlock: older}, {PrevBlock: head.Hash}, {PrevBlock: head.Hash, PrevPrevBlock: unknown},
				{PrevBlock: p.at.PrevPrevBlock, PrevPrevBlock: head.Hash}, {PrevBlock: unknown}, {PrevPrevBlock: head.Hash},
			} {
				if at == p.at {
					continue
				}
				all = append(all, bodiesAt(p.key, &at, p.by, tries)...)
				claimed := &primitives.PartialChunkAnchor{PrevPrevBlock: at.PrevPrevBlock, EpochID: p.key.EpochID}
				all = append(all, chunkAt(head, p.key, at.PrevBlock, claimed, p.by, tries))
			}
			for _, by := range []primitives.AccountID{"nobody", voter(1), voter(2)} {
				if by == p.by {
					continue
				}
				all = append(all, bodiesAt(p.key, &p.at, by, tries)...) // the wrong key
				right := &primitives.PartialChunkAnchor{PrevPrevBlock: p.at.PrevPrevBlock, EpochID: p.key.EpochID}
				all = append(all, chunkAt(head, p.key, head.Hash, right, by, tries))
			}
			// early for ever: on a block, and an anchor, that no node has
			early := p.key
			early.HeightCreated += 2
			all = append(all, bodiesAt(early, &primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: primitives.Hash{1}}, "nobody", tries)...)
			all = append(all, bodiesAt(early, &primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: head.Hash}, p.by, tries)...)
			all = append(all, badBytes{peerwire.BodyVersionedWitness, []byte{2, 0}}, badBytes{peerwire.BodyVersionedForward, nil},
				badBytes{peerwire.BodyPartialWitness, all[2].AppendBorsh(nil)[1:]}, badBytes{peerwire.BodyPartialChunk, []byte{3}})
			if p.listed {
				chunk, bodies := usurpedChunk(t, m, head, &p)
				mu.Lock()
				usurped[chunk.Hash] = true
				mu.Unlock()
				all = append(bodies, all...)
			}
			for _, body := range all {
				send(body)
			}
		}
	}
	until(t, func() bool {
		return m.counted(wrongForms) > 0 && m.counted(wrongPlaces) > 0 && m.counted(unsigned) > 0 && m.counted(queued) > 0
	})
	if !x.connected() {
		t.Error("the peer is banned for messages that nearcore drops")
	}
	for i, m := range c.members {
		if h, is := m.Halted(); is {
			t.Errorf("node %d has halted: %s", i, h.Reason)
		}
	}
	c.reach(m.e.Final().Height+4, 120*time.Second)
	mu.Lock()
	for hash := range usurped {
		if endorsed[hash] {
			t.Errorf("chunk %v of a producer that is left out is endorsed", hash)
		}
	}
	mu.Unlock()
	for h := from; h <= m.e.Final().Height; h++ {
		hash, err := m.store.HashAt(h)
		if err != nil {
			continue // skipped
		}
		b, err := m.e.Block(hash)
		if err != nil {
			t.Fatal(err)
		}
		for _, chunk := range b.Block.Body.Chunks {
			if usurped[chunk.ChunkHash()] {
				t.Errorf("block %d includes a chunk of a producer that is left out", h)
			}
		}
	}
	t.Logf("%d heights, %d false chunks, %d places; %d wrong forms, %d wrong places, %d unsigned, %d queued",
		m.e.Final().Height-from, len(usurped), tries, m.counted(wrongForms), m.counted(wrongPlaces), m.counted(unsigned), m.counted(queued))

	// Blocks that include such a chunk are refused. A peer that relays two of a height need not know
	// that, a third one bans it.
	relay, flood := attack(t, "relay", m, "test"), attack(t, "flood", m, "test")
	until(t, func() bool { return relay.connected() && flood.connected() })
	post := func(to *attacker, n int) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("no height at which such blocks are refused")
			}
			head, before := m.e.Head(), refused.Load()
			places := placesOn(t, m, head)
			i := slices.IndexFunc(places, func(p chunkPlace) bool { return p.listed })
			if i < 0 {
				continue
			}
			chunk, _ := usurpedChunk(t, m, head, &places[i])
			for salt := range n {
				to.Post(near.ToPeer{Peer: m.info.ID, Msg: &peerwire.Block{Block: blockWith(t, m, head, &places[i], chunk, uint64(1+salt))}})
			}
			for end := time.Now().Add(time.Second); time.Now().Before(end) && refused.Load() < before+int64(n); {
				time.Sleep(time.Millisecond)
			}
			if refused.Load() == before+int64(n) {
				return
			}
		}
	}
	post(relay, 2)
	post(flood, 3)
	until(t, func() bool { return !flood.connected() })
	if !relay.connected() {
		t.Error("a peer is banned for relaying two blocks with false chunks")
	}

	// A peer is banned if the signature of a routed message, of whatever form, is that of another
	// node. Only the peer that delivers the message is banned.
	p := placesOn(t, m, m.e.Head())[0]
	for i, body := range bodiesAt(p.key, &p.at, p.by, 1) {
		forger := attack(t, fmt.Sprint("forger", i), m, "test")
		until(t, forger.connected)
		routed := peerwire.NewRouted(keyOf("another"), peerwire.ToPeer(m.info.ID), body, time.Now().Unix())
		routed.Signature = keyOf("third").Sign(nil)
		forger.Post(near.ToPeer{Peer: m.info.ID, Msg: routed})
		until(t, func() bool { return !forger.connected() })
	}
	if !x.connected() || !relay.connected() || m.front.Peers() < 5 {
		t.Errorf("%d peers are connected, want at least 5; the attacker %t, the relay %t", m.front.Peers(), x.connected(), relay.connected())
	}
	c.reach(m.e.Final().Height+3, 120*time.Second)
}

// blockWith returns a block on the head with a false chunk, otherwise in order and signed by its
// producer. Another later makes another block.
func blockWith(t *testing.T, m *member, head *engine.BlockNode, p *chunkPlace, c *primitives.Chunk, later uint64) *primitives.Block {
	t.Helper()
	return proposed(t, m, head, later, func(prop *engine.Proposal) {
		validators, err := m.e.ChunkValidators(head, p.key.ShardID)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range validators {
			signature := keyOf(v.AccountID).Sign(primitives.ChunkEndorsementBytes(c.Hash))
			prop.Endorsements[p.index] = append(prop.Endorsements[p.index], signature)
		}
		prop.Chunks[p.index] = c
	})
}

// proposed returns a block of two shards on the head, signed by its producer, with what change adds to
// the proposal. Another later makes another block.
func proposed(t *testing.T, m *member, head *engine.BlockNode, later uint64, change func(*engine.Proposal)) *primitives.Block {
	t.Helper()
	approvers, err := m.e.Approvers(head.Hash)
	if err != nil {
		t.Fatal(err)
	}
	h := head.Height() + 1
	prop := &engine.Proposal{Parent: head.Hash, Height: h, Timestamp: head.Header().Timestamp + later, Chunks: make([]*primitives.Chunk, 2),
		Endorsements: make([][]primitives.Signature, 2)}
	inner := primitives.NewApprovalInner(head.Hash, head.Height(), h)
	for _, a := range approvers {
		prop.Approvals = append(prop.Approvals, keyOf(a.AccountID).Sign(inner.SignedBytes(h)))
	}
	change(prop)
	by, err := m.e.BlockProducer(head.Hash, h)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.e.NewBlock(prop, keyOf(by.AccountID))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bans returns how many peers a member has banned by what its network actor knows.
func (m *member) bans(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(string(m.front.Metrics(nil))) {
		if _, err := fmt.Sscanf(line, "troupe_network_bans_total %d", &n); err == nil {
			return n
		}
	}
	t.Fatal("bans are not counted")
	return 0
}

// TestHonestChunkMessagesBanNoPeer: the chain goes through an upgrade from 86 to 87 and the ends of
// short epochs, with validators that are down and return. So heights are skipped, forks are
// abandoned, producers are left out, and nodes get messages whose anchors they do not know yet.
// Still no message about a chunk is wrong and no peer is banned. A peer that delivers messages of
// the producers of another fork is not banned either.
func TestHonestChunkMessagesBanNoPeer(t *testing.T) {
	parameters.SupportForTest(t, 87)
	c := kickoutCluster(t, 86, 20, nil)
	for i := range 4 {
		c.start(i)
	}
	m := c.members[0]
	c.reach(3, 120*time.Second)
	x := attack(t, "of a fork", m, "test")
	until(t, x.connected)
	versions, ends, sent := map[primitives.ProtocolVersion]bool{}, 0, 0
	var stopAt primitives.Height = 25 // of a final block
	down, epochs := time.Time{}, map[primitives.EpochID]bool{}
	var last primitives.Hash
	limit := time.Now().Add(4 * time.Minute)
	for ; m.e.Final().Height < 120 || len(versions) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("versions %v: %s", versions, c.where())
		}
		h := m.e.Final().Height
		switch out := c.members[2].ended.Load(); {
		case !out && h >= stopAt:
			c.stop(c.members[2])
			down, stopAt = time.Now(), stopAt+40
		case out && time.Since(down) > 4*time.Second:
			c.start(2)
		}
		head := m.e.Head()
		if head.Hash == last {
			continue
		}
		last = head.Hash
		var version primitives.ProtocolVersion
		if err := m.e.Epochs(func(em *epoch.Manager) (err error) {
			id, err := em.EpochIDFromPrev(head.Hash)
			if err == nil {
				version, err = em.ProtocolVersion(id)
			}
			if epochs[id] = true; id != head.Header().EpochID {
				ends++
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		versions[version] = true
		for _, p := range placesOn(t, m, head) {
			sent++
			// Chunks of a fork that this node does not have: on a child of the head's parent that skips the
			// head's height, whose producer the parent's row gives, and on descendants of unknown blocks.
			fork, later := p.key, p.key
			fork.HeightCreated++
			later.HeightCreated += 3
			unknown := primitives.HashBytes(fmt.Append(nil, "fork", sent))
			if version < 87 {
				for _, k := range []primitives.ChunkKey{fork, later} {
					if by, err := m.e.Validation().Producer(k); err == nil {
						for _, body := range bodiesAt(k, nil, by.AccountID, sent) {
							x.Post(near.RouteTo{Target: peerwire.ToPeer(m.info.ID), Body: body})
						}
					}
				}
				continue
			}
			at := primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: head.Header().PrevHash}
			if by, err := m.e.Validation().ProducerAt(fork, at); errors.Is(err, anchor.ErrEarly) && by.AccountID != "" {
				for _, body := range bodiesAt(fork, &at, by.AccountID, sent) {
					x.Post(near.RouteTo{Target: peerwire.ToPeer(m.info.ID), Body: body})
				}
			} else if !errors.Is(err, anchor.ErrEarly) && !head.Header().PrevHash.IsZero() {
				t.Errorf("a chunk on a child of the parent of block %d: %v", head.Height(), err)
			}
			at.PrevPrevBlock = primitives.HashBytes(unknown[:])
			if by, err := m.e.Validation().Producer(later); err == nil {
				for _, body := range bodiesAt(later, &at, by.AccountID, sent) {
					x.Post(near.RouteTo{Target: peerwire.ToPeer(m.info.ID), Body: body})
				}
			}
		}
	}
	if c.members[2].ended.Load() {
		c.start(2)
	}
	c.reach(m.e.Final().Height+5, 120*time.Second)
	if !x.connected() {
		t.Error("a peer is banned for messages of another fork")
	}
	skipped := 0
	for h := primitives.Height(1); h < m.e.Final().Height; h++ {
		if _, err := m.store.HashAt(h); err != nil {
			skipped++
		}
	}
	for i, m := range c.members {
		peers := 3
		if i == 0 {
			peers++
		}
		until(t, func() bool { return m.front.Peers() >= peers })
		if n := m.bans(t); n != 0 {
			t.Errorf("node %d has banned %d peers", i, n)
		}
		if f, p := m.counted(wrongForms), m.counted(wrongPlaces); f+p > 0 {
			t.Errorf("node %d dropped %d messages for their form and %d for their place", i, f, p)
		}
	}
	if len(versions) < 2 || ends < 3 || skipped == 0 || m.counted(queued) == 0 {
		t.Errorf("versions %v, %d ends of epochs, %d heights skipped, %d messages queued: too little happened",
			versions, ends, skipped, m.counted(queued))
	}
	t.Logf("height %d, %d epochs, %d heights skipped, %d messages queued", m.e.Final().Height, len(epochs), skipped, m.counted(queued))
}
