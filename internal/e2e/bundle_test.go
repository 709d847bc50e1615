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

// bundle is all that the liar says of a chunk of its own before it is in a block: parts of it, and
// of its witness, for each juror. It is held back until it is whole.
type bundle struct {
	key     primitives.ChunkKey
	header  *primitives.ChunkHeader
	parts   [jurors]*primitives.PartialChunk
	witness [jurors]*primitives.PartialWitness
	begun   time.Time
}

// whole returns whether all of it is there.
func (b *bundle) whole() bool {
	return !slices.Contains(b.parts[:], nil) && !slices.Contains(b.witness[:], nil)
}

// parcel has what a chunk of the liar becomes.
type parcel struct {
	wants bool    // the next one
	now   *bundle // that is under way; nil: none
	ready chan *bundle
	key   primitives.SecretKey // of the liar's node
	votes map[primitives.Hash]map[primitives.AccountID]bool
	asked map[primitives.Height]map[primitives.AccountID]bool // whose endorsements of a height came
}

// held takes what belongs to a bundle; false: it is to pass.
func (c *court) held(to int, m *wire.Routed) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.parcel
	var key primitives.ChunkKey
	switch b := m.Body.(type) {
	case *wire.PartialChunk:
		key = primitives.ChunkKey{ShardID: b.Header.ShardID, HeightCreated: b.Header.HeightCreated}
	case *wire.PartialWitness:
		key = primitives.ChunkKey{ShardID: b.ShardID, HeightCreated: b.HeightCreated}
	case *wire.PartialWitnessForward: // its own part, to all others
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

// endorsed notes what the liar is told of chunks.
func (c *court) endorsed(e *primitives.ChunkEndorsement) {
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

// nextBundle waits for the next chunk of the liar.
func (c *court) nextBundle(within time.Duration) *bundle {
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
		// its block was gone before all was said
		if b := c.parcel.now; b != nil && !b.whole() && time.Since(b.begun) > 3*time.Second {
			c.parcel.wants, c.parcel.now = true, nil
		}
		c.mu.Unlock()
	}
	c.t.Fatal("the liar makes no chunk")
	return nil
}

// chunkTale is a chunk of the liar in the form in which it is told.
type chunkTale struct {
	primitives.ChunkHeader
	body   primitives.ChunkBody
	shown  *primitives.ChunkStateWitness
	sealed bool                 // the header is as it is to be, signature and all
	by     primitives.SecretKey // signs it
	parts  [jurors][]primitives.ChunkPart
	c      *court
}

// unpack reads a bundle.
func (c *court) unpack(b *bundle) (*chunkTale, error) {
	x := &chunkTale{ChunkHeader: *b.header, by: c.by, c: c}
	coder, err := partialwitness.WitnessCoder(jurors + 1)
	if err != nil {
		return nil, err
	}
	shares := make([][]byte, jurors+1)
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

// coding is that of chunks' bodies.
func (c *court) coding() (*primitives.ReedSolomon, error) {
	return primitives.NewReedSolomon(primitives.ChunkPartCounts(50))
}

// code codes the body anew, and has header and witness say so.
func (x *chunkTale) code() bool {
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

// seal signs the header as it is.
func (x *chunkTale) seal() {
	if hash := x.ChunkHash(); !x.sealed {
		x.Signature, x.sealed = x.by.Sign(hash[:]), true
		x.shown.Header = x.ChunkHeader
	}
}

// send gives each juror what it was to get, in the form of the tale.
func (c *court) send(b *bundle, x *chunkTale) error {
	x.seal()
	payload, err := partialwitness.Encode(x.shown)
	if err != nil {
		return err
	}
	key := primitives.ChunkKey{ShardID: b.witness[0].ShardID, EpochID: b.witness[0].EpochID, HeightCreated: x.shown.Header.HeightCreated}
	shares, err := partialwitness.Parts(key, nil, payload, jurors+1, c.by)
	if err != nil {
		return err
	}
	for i := range jurors {
		part := &wire.PartialChunk{PartialChunk: primitives.PartialChunk{Header: x.ChunkHeader, Parts: x.parts[i], Receipts: b.parts[i].Receipts}}
		share := &wire.PartialWitness{PartialWitness: *shares[b.witness[i].Ord]}
		for _, body := range []wire.Body{part, share} {
			to := wire.ToPeer(keyOf(c.t, c.seats[i].home))
			if err := c.veil.say(i, wire.Append(nil, wire.NewRouted(c.parcel.key, to, body, time.Now().Unix()))); err != nil {
				return fmt.Errorf("to %s %d: %w", c.kind(i), i, err)
			}
		}
	}
	return nil
}

// nodeKey is the key of a home's node.
func (c *court) nodeKey(i int) primitives.SecretKey {
	c.t.Helper()
	k, err := home.ParseNodeKey(mustRead(c.t, filepath.Join(c.seats[i].home, "node_key.json")))
	if err != nil {
		c.t.Fatal(err)
	}
	return k.SecretKey
}
