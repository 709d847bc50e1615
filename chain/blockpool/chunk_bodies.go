package blockpool

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// bodies caches chunk bodies (transactions or receipt proofs). The cached bodies belong to pooled
// blocks or to blocks that may still arrive. Bodies that no pooled block needs are evicted first.
type bodies struct {
	all   map[primitives.Hash]*body
	wants map[primitives.Hash][]*item // by chunk hash: the pooled blocks that need the body
	bytes int
	seq   uint64
}

// Need is the data of a new chunk that this node needs in addition to the chunk header. The zero
// value means that the node needs only the header.
type Need struct {
	Body bool                 // the shard is tracked: all transactions are needed
	To   []primitives.ShardID // the shard is not tracked: receipt proofs to these tracked shards are needed
}

// extract returns a copy of c with only the data that n needs. extract leaves out the remaining
// data of c, which is unverified.
//
// Errors: ErrUnwanted if c lacks some of the needed data; an error of package chain if the contents
// do not match the header.
func (n *Need) extract(c *primitives.Chunk) (*primitives.Chunk, error) {
	out := &primitives.Chunk{Hash: c.Hash, Header: c.Header}
	if n.Body {
		if c.Proofs != nil {
			return nil, ErrUnwanted
		}
		out.Transactions = c.Transactions
		return out, chain.ValidateBody(out)
	}
	if c.Proofs == nil || !chain.Proves(c, n.To) {
		return nil, ErrUnwanted
	}
	for _, id := range n.To {
		out.Proofs = append(out.Proofs, *chain.ProofTo(c, id))
	}
	return out, chain.ValidateProofs(out)
}

// satisfiedBy returns whether c contains the data that n needs. c must be a chunk that extract
// returned for this need or for any other need.
func (n *Need) satisfiedBy(c *primitives.Chunk) bool {
	if n.Body {
		return c.Proofs == nil
	}
	return c.Proofs != nil && chain.Proves(c, n.To)
}

// empty returns whether n needs no data.
func (n *Need) empty() bool { return !n.Body && len(n.To) == 0 }

// body is a verified chunk body: the transactions, or receipt proofs to some shards.
type body struct {
	chunk *primitives.Chunk
	hash  primitives.Hash
	// signed is set if the chunk producer's signature was verified. An unsigned body is kept only
	// while a pooled block needs it.
	signed bool
	size   int
	seq    uint64
}

func newBodies() bodies {
	return bodies{all: map[primitives.Hash]*body{}, wants: map[primitives.Hash][]*item{}}
}

// Wants returns whether a pooled block waits for the body of a chunk.
func (p *Pool) Wants(chunk primitives.Hash) bool {
	return len(p.bodies.wants[chunk]) > 0 && p.bodies.all[chunk] == nil
}

// AddBody stores a chunk that arrived without its block.
//
// signed says that the caller verified the signature with the key of the chunk's producer. In this
// case, need must be the data that this node needs of the chunk. An unsigned chunk is stored only
// if a pooled block waits for it, and AddBody then uses that block's needs instead of need.
//
// Errors: ErrUnwanted, ErrStale, ErrEquivocating and ErrFull if the body is dropped; an error of
// package chain if the body does not match its header. Adding a stored body again is no error.
func (p *Pool) AddBody(c *primitives.Chunk, signed bool, need Need) error {
	b := &p.bodies
	if b.all[c.Hash] != nil {
		return nil
	}
	wanted := len(b.wants[c.Hash]) > 0
	if wanted {
		need = b.wants[c.Hash][0].need(c.Hash)
	}
	switch {
	case !wanted && !signed, need.empty():
		return ErrUnwanted
	case !wanted && c.Header.HeightCreated <= p.final:
		return ErrStale
	case !wanted && p.countUnwantedBodies(&c.Header) >= MaxEquivocatingBodies:
		return ErrEquivocating
	}
	c, err := need.extract(c)
	if err != nil {
		return err
	}
	b.seq++
	x := &body{chunk: c, hash: c.Hash, signed: signed, size: bodySize(c), seq: b.seq}
	if x.size > MaxBodySize && p.evictionRankOf(x).rank < validatedRank {
		return ErrFull
	}
	b.all[c.Hash] = x
	b.bytes += x.size
	for _, i := range b.wants[c.Hash] {
		i.missing--
	}
	for len(b.all) > MaxBodies || b.bytes > MaxBodyBytes {
		far := p.farthestBody()
		if p.evictionRankOf(far).rank == validatedRank {
			break
		}
		p.removeBody(far)
	}
	if b.all[c.Hash] == nil {
		return ErrFull
	}
	return nil
}

func (p *Pool) countUnwantedBodies(h *primitives.ChunkHeader) (n int) {
	for hash, x := range p.bodies.all {
		if x.chunk.Header.HeightCreated == h.HeightCreated && x.chunk.Header.ShardID == h.ShardID && len(p.bodies.wants[hash]) == 0 {
			n++
		}
	}
	return n
}

// farthestBody returns the body to evict. First come bodies that no block needs. Then come bodies
// that only unvalidated blocks need, because such a block may contain chunks that were never
// produced. Among bodies of equal rank it returns the body farthest from the tip, and among bodies
// at equal distance the last to arrive. Eviction does not affect blocks that Next has returned,
// because they hold references to their bodies.
func (p *Pool) farthestBody() (far *body) {
	var most evictionRank
	for _, x := range p.bodies.all {
		if at := p.evictionRankOf(x); far == nil || at.evictsBefore(&most) {
			far, most = x, at
		}
	}
	return far
}

// evictionRank orders bodies for eviction. The lowest rank is evicted first. Among bodies of equal
// rank, the body with the greatest distance is evicted first, then the last to arrive.
type evictionRank struct {
	// validatedRank: a validated block needs the body; 1: only unvalidated blocks need the body; 0:
	// no block does
	rank     int
	distance primitives.Height
	seq      uint64
}

const validatedRank = 2

func (a *evictionRank) evictsBefore(b *evictionRank) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.distance > b.distance || a.distance == b.distance && a.seq > b.seq
}

func (p *Pool) evictionRankOf(x *body) evictionRank {
	at := evictionRank{distance: p.distance(x.chunk.Header.HeightCreated), seq: x.seq}
	for _, i := range p.bodies.wants[x.hash] {
		rank, d := 1, p.distance(i.Header.Height)
		if i.validated {
			rank = validatedRank
		}
		if rank > at.rank || rank == at.rank && d < at.distance {
			at.rank, at.distance = rank, d
		}
	}
	return at
}

func (p *Pool) removeBody(x *body) {
	delete(p.bodies.all, x.hash)
	p.bodies.bytes -= x.size
	for _, i := range p.bodies.wants[x.hash] {
		i.missing++
	}
}

// addWants registers the bodies that a block needs.
func (p *Pool) addWants(x *item) {
	x.needs = make([]primitives.Hash, len(x.Body.Chunks))
	for i, c := range x.Body.Chunks {
		if c.HeightIncluded != x.Header.Height {
			continue
		}
		if x.Needs != nil && x.Needs[i].empty() {
			continue
		}
		hash := c.ChunkHash()
		if slices.Contains(x.needs, hash) {
			continue // validation will refuse this block
		}
		x.needs[i] = hash
		p.bodies.wants[hash] = append(p.bodies.wants[hash], x)
		if p.bodies.all[hash] == nil {
			x.missing++
		}
	}
}

// need returns the data that the block needs of the chunk with the given hash.
func (x *item) need(hash primitives.Hash) Need {
	if i := slices.Index(x.needs, hash); x.Needs != nil {
		return x.Needs[i]
	}
	return Need{Body: true}
}

// removeWants removes a block from wants. It drops the block's unsigned bodies if no other pooled
// block needs them.
func (p *Pool) removeWants(x *item) {
	for _, hash := range p.unlinkWants(x) {
		if b := p.bodies.all[hash]; b != nil && !b.signed {
			p.removeBody(b)
		}
	}
}

// unlinkWants removes a block from wants. It returns the chunks that no pooled block needs any
// more.
func (p *Pool) unlinkWants(x *item) (none []primitives.Hash) {
	for _, hash := range x.needs {
		if hash.IsZero() {
			continue
		}
		left := slices.DeleteFunc(p.bodies.wants[hash], func(w *item) bool { return w == x })
		if len(left) > 0 {
			p.bodies.wants[hash] = left
			continue
		}
		delete(p.bodies.wants, hash)
		none = append(none, hash)
	}
	return none
}

// missingBodies lists the bodies that a block waits for.
func (p *Pool) missingBodies(x *item) (out []primitives.Hash) {
	for _, hash := range x.needs {
		if !hash.IsZero() && p.bodies.all[hash] == nil {
			out = append(out, hash)
		}
	}
	return out
}

// addBundled stores the bodies that arrived together with a block. It ignores bodies that the block
// does not need. It returns the error of the first invalid body.
func (p *Pool) addBundled(x *item, chunks []*primitives.Chunk) (bad error) {
	for i, c := range chunks {
		if c == nil || i >= len(x.needs) || c.Hash != x.needs[i] {
			continue
		}
		err := p.AddBody(c, false, Need{})
		if bad == nil && errors.As(err, new(chain.Invalid)) {
			bad = err
		}
	}
	return bad
}

// dropBodies drops the bodies of an imported block that no other block needs.
func (p *Pool) dropBodies(b *primitives.Block) {
	for _, c := range b.Body.Chunks {
		if c.HeightIncluded != b.Header.Height {
			continue
		}
		hash := c.ChunkHash()
		if x := p.bodies.all[hash]; x != nil && len(p.bodies.wants[hash]) == 0 {
			p.removeBody(x)
		}
	}
}

// prune drops bodies at or below the final height that no pooled block needs. Blocks above the
// final block cannot include the chunks of the dropped bodies.
func (b *bodies) prune(final primitives.Height) {
	for hash, x := range b.all {
		if x.chunk.Header.HeightCreated <= final && len(b.wants[hash]) == 0 {
			delete(b.all, hash)
			b.bytes -= x.size
		}
	}
}

// bodySize returns an estimate of the memory of a body in bytes.
func bodySize(c *primitives.Chunk) int {
	n := 1024
	for _, tx := range c.Transactions {
		n += 256 + tx.Size()
	}
	for i := range c.Proofs {
		n += 256 + 2*len(c.Proofs[i].AppendBorsh(nil))
	}
	return n
}
