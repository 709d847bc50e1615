//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// bundle holds all messages in which the byzantine validator distributes a chunk before it is in a
// block: the parts of the chunk and of its witness for each honest node. They are held back until
// the bundle is complete.
type bundle struct {
	key     primitives.ChunkKey
	header  *primitives.ChunkHeader
	parts   [honestNodes]*primitives.PartialChunk
	witness [honestNodes]*primitives.PartialWitness
	begun   time.Time
}

// whole returns whether the bundle is complete.
func (b *bundle) whole() bool {
	return !slices.Contains(b.parts[:], nil) && !slices.Contains(b.witness[:], nil)
}

// parcel collects the messages of a chunk of the byzantine validator.
type parcel struct {
	wants bool    // intercept the next chunk
	now   *bundle // the bundle being collected; nil: none
	ready chan *bundle
	key   primitives.SecretKey // node key of the byzantine validator
	votes map[primitives.Hash]map[primitives.AccountID]bool
	asked map[primitives.Height]map[primitives.AccountID]bool // validators whose endorsements of a height arrived
}

// hold adds a message to the bundle that it belongs to. It returns false if the message is to be
// forwarded.
func (c *byzantineCluster) hold(to int, m *wire.Routed) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.parcel
	var key primitives.ChunkKey
	switch b := m.Body.(type) {
	case *wire.PartialChunk:
		key = primitives.ChunkKey{ShardID: b.Header.ShardID, HeightCreated: b.Header.HeightCreated}
	case *wire.PartialWitness:
		key = primitives.ChunkKey{ShardID: b.ShardID, HeightCreated: b.HeightCreated}
	case *wire.PartialWitnessForward: // its own part, for all others
		key = primitives.ChunkKey{ShardID: b.ShardID, HeightCreated: b.HeightCreated}
	default:
		return false
	}
	if _, forward := m.Body.(*wire.PartialWitnessForward); p.now == nil && p.wants && !forward {
		p.now, p.wants = &bundle{key: key, begun: time.Now()}, false
	}
	if p.now == nil || p.now.key.ShardID != key.ShardID || p.now.key.HeightCreated != key.HeightCreated {
		return false
	}
	switch b := m.Body.(type) {
	case *wire.PartialChunk:
		own := b.PartialChunk
		p.now.parts[to], p.now.header = &own, &own.Header
	case *wire.PartialWitness:
		own := b.PartialWitness
		p.now.witness[to] = &own
	}
	if p.ready != nil && p.now.whole() {
		p.ready <- p.now
		p.ready = nil
	}
	return true
}

// endorsed records an endorsement that the byzantine validator received.
func (c *byzantineCluster) endorsed(e *primitives.ChunkEndorsement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.parcel
	if p.votes == nil {
		p.votes, p.asked = map[primitives.Hash]map[primitives.AccountID]bool{}, map[primitives.Height]map[primitives.AccountID]bool{}
	}
	if p.votes[e.ChunkHash] == nil {
		p.votes[e.ChunkHash] = map[primitives.AccountID]bool{}
	}
	if h := e.Metadata.HeightCreated; p.asked[h] == nil {
		p.asked[h] = map[primitives.AccountID]bool{}
	}
	p.votes[e.ChunkHash][e.Metadata.AccountID], p.asked[e.Metadata.HeightCreated][e.Metadata.AccountID] = true, true
}

// nextBundle waits for the next chunk of the byzantine validator.
func (c *byzantineCluster) nextBundle(within time.Duration) *bundle {
	c.t.Helper()
	ready := make(chan *bundle, 1)
	c.mu.Lock()
	c.parcel.wants, c.parcel.now, c.parcel.ready = true, nil, ready
	c.mu.Unlock()
	for limit := time.Now().Add(within); time.Now().Before(limit); {
		select {
		case b := <-ready:
			return b
		case <-time.After(100 * time.Millisecond):
		}
		c.mu.Lock()
		// the block arrived before the bundle was complete
		if b := c.parcel.now; b != nil && !b.whole() && time.Since(b.begun) > 3*time.Second {
			c.parcel.wants, c.parcel.now = true, nil
		}
		c.mu.Unlock()
	}
	c.t.Fatal("the byzantine validator produces no chunk")
	return nil
}

// forgedChunk is a chunk of the byzantine validator that a chunkForm changes before it is sent.
type forgedChunk struct {
	primitives.ChunkHeader
	body   primitives.ChunkBody
	shown  *primitives.ChunkStateWitness
	sealed bool                 // the header is final, including its signature
	by     primitives.SecretKey // signs it
	parts  [honestNodes][]primitives.ChunkPart
	c      *byzantineCluster
}

// unpack decodes the chunk and the witness of a bundle.
func (c *byzantineCluster) unpack(b *bundle) (*forgedChunk, error) {
	x := &forgedChunk{ChunkHeader: *b.header, by: c.by, c: c}
	coder, err := partialwitness.WitnessCoder(honestNodes + 1)
	if err != nil {
		return nil, err
	}
	shares := make([][]byte, honestNodes+1)
	for _, w := range b.witness {
		shares[w.Ord] = w.Part
	}
	payload, err := coder.Join(shares, b.witness[0].EncodedLength)
	if err != nil {
		return nil, err
	}
	if x.shown, _, err = partialwitness.Decode(payload); err != nil {
		return nil, err
	}
	rs, err := c.coding()
	if err != nil {
		return nil, err
	}
	pieces := make([][]byte, rs.TotalParts())
	for i, p := range b.parts {
		x.parts[i] = slices.Clone(p.Parts)
		for _, one := range p.Parts {
			pieces[one.Ord] = one.Part
		}
	}
	raw, err := rs.Decode(pieces, b.header.EncodedLength)
	if err != nil {
		return nil, err
	}
	return x, borsh.Unmarshal(raw, &x.body)
}

// coding returns the Reed-Solomon code of chunk bodies.
func (c *byzantineCluster) coding() (*primitives.ReedSolomon, error) {
	return primitives.NewReedSolomon(primitives.ChunkPartCounts(50))
}

// code encodes the body again and updates header and witness to match.
func (x *forgedChunk) code() bool {
	var enc *chain.EncodedBody
	rs, err := x.c.coding()
	if err == nil {
		enc, err = chain.EncodeBody(&x.body, rs)
	}
	if err != nil {
		x.c.t.Error(err)
		return false
	}
	paths := enc.Tree.Paths()
	for i := range x.parts {
		for k := range x.parts[i] {
			p := &x.parts[i][k]
			p.Part, p.Proof = enc.Parts[p.Ord], paths[p.Ord]
		}
	}
	x.EncodedMerkleRoot, x.EncodedLength, x.TxRoot = enc.Root, enc.Length, chain.TxRoot(x.body.Transactions)
	x.shown.NewTransactions = x.body.Transactions
	return true
}

// seal signs the header. It recomputes nothing.
func (x *forgedChunk) seal() {
	if hash := x.ChunkHash(); !x.sealed {
		x.Signature, x.sealed = x.by.Sign(hash[:]), true
		x.shown.Header = x.ChunkHeader
	}
}

// send sends each honest node its parts of the changed chunk.
func (c *byzantineCluster) send(b *bundle, x *forgedChunk) error {
	x.seal()
	payload, err := partialwitness.Encode(x.shown)
	if err != nil {
		return err
	}
	key := primitives.ChunkKey{ShardID: b.witness[0].ShardID, EpochID: b.witness[0].EpochID, HeightCreated: x.shown.Header.HeightCreated}
	shares, err := partialwitness.Parts(key, nil, payload, honestNodes+1, c.by)
	if err != nil {
		return err
	}
	for i := range honestNodes {
		part := &wire.PartialChunk{PartialChunk: primitives.PartialChunk{Header: x.ChunkHeader, Parts: x.parts[i], Receipts: b.parts[i].Receipts}}
		share := &wire.PartialWitness{PartialWitness: *shares[b.witness[i].Ord]}
		for _, body := range []wire.Body{part, share} {
			to := wire.ToPeer(keyOf(c.t, c.homes[i].home))
			if err := c.proxy.send(i, wire.Append(nil, wire.NewRouted(c.parcel.key, to, body, time.Now().Unix()))); err != nil {
				return fmt.Errorf("to %s %d: %w", c.kind(i), i, err)
			}
		}
	}
	return nil
}

// nodeKey returns the node key of a home folder.
func (c *byzantineCluster) nodeKey(i int) primitives.SecretKey {
	c.t.Helper()
	k, err := home.ParseNodeKey(mustRead(c.t, filepath.Join(c.homes[i].home, "node_key.json")))
	if err != nil {
		c.t.Fatal(err)
	}
	return k.SecretKey
}
