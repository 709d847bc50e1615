package blockpool

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// bodies are the transactions of chunks, for blocks that wait for them or are still to come.
type bodies struct {
	all   map[primitives.Hash]*body
	wants map[primitives.Hash][]*item // by chunk hash
	bytes int
	seq   uint64
}

// Need is what a node wants of a chunk besides the header that its block has. The zero Need: nothing.
type Need struct {
	Body bool                 // it holds the shard
	To   []primitives.ShardID // else: proofs of the receipts to these shards, which it holds
}

// take returns of what came with a chunk's header what is needed, and no more: the rest nobody has checked. ErrUnwanted: it is not all
// of what is needed. An error of package chain: it is not what the header says.
func (n *Need) take(c *primitives.Chunk) (*primitives.Chunk, error) {
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

// met tells whether what take has returned, perhaps for another need, is what is needed.
func (n *Need) met(c *primitives.Chunk) bool {
	if n.Body {
		return c.Proofs == nil
	}
	return c.Proofs != nil && chain.Proves(c, n.To)
}

// none tells whether nothing is needed.
func (n *Need) none() bool { return !n.Body && len(n.To) == 0 }

// body is a chunk of which what is needed is there and right: the transactions, or the receipts to some shards.
type body struct {
	chunk  *primitives.Chunk
	hash   primitives.Hash
	signed bool // by the producer of its shard and height; else it is kept as long as a block wants it
	size   int
	seq    uint64
}

func newBodies() bodies {
	return bodies{all: map[primitives.Hash]*body{}, wants: map[primitives.Hash][]*item{}}
}

// Wants tells whether a block waits for a chunk's body.
func (p *Pool) Wants(chunk primitives.Hash) bool {
	return len(p.bodies.wants[chunk]) > 0 && p.bodies.all[chunk] == nil
}

// AddBody takes a chunk that came by itself. signed tells that the producer of its shard and height has signed it, and need what is
// needed of it then; if not, or if that is not known, it is kept only for a block that waits for it. An error of package chain: the
// body is not what its header says.
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
	case !wanted && !signed, need.none():
		return ErrUnwanted
	case !wanted && c.Header.HeightCreated <= p.final:
		return ErrStale
	case !wanted && p.bodyTwins(&c.Header) >= MaxBodyTwins:
		return ErrTwin
	}
	c, err := need.take(c)
	if err != nil {
		return err
	}
	b.seq++
	x := &body{chunk: c, hash: c.Hash, signed: signed, size: bodySize(c), seq: b.seq}
	if x.size > MaxBodySize && p.place(x).rank < judgedRank {
		return ErrFull
	}
	b.all[c.Hash] = x
	b.bytes += x.size
	for _, i := range b.wants[c.Hash] {
		i.missing--
	}
	for len(b.all) > MaxBodies || b.bytes > MaxBodyBytes {
		far := p.farthestBody()
		if p.place(far).rank == judgedRank {
			break
		}
		p.removeBody(far)
	}
	if b.all[c.Hash] == nil {
		return ErrFull
	}
	return nil
}

func (p *Pool) bodyTwins(h *primitives.ChunkHeader) (n int) {
	for hash, x := range p.bodies.all {
		if x.chunk.Header.HeightCreated == h.HeightCreated && x.chunk.Header.ShardID == h.ShardID && len(p.bodies.wants[hash]) == 0 {
			n++
		}
	}
	return n
}

// farthestBody returns what goes first when there is no room: what no block wants, then what no block wants that was judged, as whoever
// is a validator may name chunks that nobody made; of these the farthest from the tip, and the last to come. A block in work has
// its bodies in any case.
func (p *Pool) farthestBody() (far *body) {
	var most place
	for _, x := range p.bodies.all {
		if at := p.place(x); far == nil || at.behind(&most) {
			far, most = x, at
		}
	}
	return far
}

// place says how near a body is to being of use.
type place struct {
	rank     int // judgedRank: wanted by a judged block, 1: by another, 0: by none
	distance primitives.Height
	seq      uint64
}

const judgedRank = 2

func (a *place) behind(b *place) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.distance > b.distance || a.distance == b.distance && a.seq > b.seq
}

func (p *Pool) place(x *body) place {
	at := place{distance: p.distance(x.chunk.Header.HeightCreated), seq: x.seq}
	for _, i := range p.bodies.wants[x.hash] {
		rank, d := 1, p.distance(i.Header.Height)
		if i.judged {
			rank = judgedRank
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

// want notes which bodies a block needs.
func (p *Pool) want(x *item) {
	x.needs = make([]primitives.Hash, len(x.Body.Chunks))
	for i, c := range x.Body.Chunks {
		if c.HeightIncluded != x.Header.Height {
			continue
		}
		if x.Needs != nil && x.Needs[i].none() {
			continue
		}
		hash := c.ChunkHash()
		if slices.Contains(x.needs, hash) {
			continue // a bad block: it lacks nothing, and will be judged
		}
		x.needs[i] = hash
		p.bodies.wants[hash] = append(p.bodies.wants[hash], x)
		if p.bodies.all[hash] == nil {
			x.missing++
		}
	}
}

// need returns what a block needs of a chunk that it wants.
func (x *item) need(hash primitives.Hash) Need {
	if i := slices.Index(x.needs, hash); x.Needs != nil {
		return x.Needs[i]
	}
	return Need{Body: true}
}

// unwant ends that. Bodies that only this block vouched for go.
func (p *Pool) unwant(x *item) {
	for _, hash := range p.unlist(x) {
		if b := p.bodies.all[hash]; b != nil && !b.signed {
			p.removeBody(b)
		}
	}
}

// unlist ends that, and returns the chunks that no block wants any more.
func (p *Pool) unlist(x *item) (none []primitives.Hash) {
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

// lacks lists the bodies that a block waits for.
func (p *Pool) lacks(x *item) (out []primitives.Hash) {
	for _, hash := range x.needs {
		if !hash.IsZero() && p.bodies.all[hash] == nil {
			out = append(out, hash)
		}
	}
	return out
}

// bring takes the bodies that came with a block. The error is that of the first that is not what its header says.
func (p *Pool) bring(x *item, chunks []*primitives.Chunk) (bad error) {
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

// drop forgets the bodies of an adopted block that no other one wants.
func (p *Pool) drop(b *primitives.Block) {
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

// prune forgets the bodies that no block above the final one can have.
func (b *bodies) prune(final primitives.Height) {
	for hash, x := range b.all {
		if x.chunk.Header.HeightCreated <= final && len(b.wants[hash]) == 0 {
			delete(b.all, hash)
			b.bytes -= x.size
		}
	}
}

// bodySize estimates what a body takes in memory.
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
