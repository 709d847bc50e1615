package blockpool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// The bounds.
const (
	// Window is how far above the tip a block may be that waits for its parent.
	Window primitives.Height = 1024
	// MaxBlocks and MaxBlockBytes bound all blocks, MaxBlockSize one, and MaxStrangerSize one of which nobody knows who made it. A block of NEAR takes some ten
	// KiB, but what its producer writes into it that nobody reads (BlockBody.Challenges) neard bounds by the frame alone.
	MaxBlocks       = 1024
	MaxBlockBytes   = 256 << 20
	MaxBlockSize    = 128 << 20
	MaxStrangerSize = 1 << 20
	// MaxTwins is how many blocks of one height and producer are kept and adopted. An honest producer makes one, or two if it was
	// restarted in between. Beyond that a block is judged only if another that is signed builds on it, or in the place of one that leads nowhere: others may have
	// adopted it and vote on it, which nobody who has none of that height can join (nearcore client.rs:1381 judges all that are on the head).
	MaxTwins = 2
	// MaxStrangers bounds the blocks of unknown epochs, MaxEach those that one sender brings.
	MaxStrangers = 32
	MaxEach      = 4
	// MaxBodies and MaxBodyBytes bound the chunk bodies, MaxBodySize one, MaxBodyTwins those of one shard and height that no block
	// asks for. An honest chunk of NEAR has some 4 MiB of transactions at most, but its validators ask for no more than that their witness is no longer than
	// theirs may be: those that a judged block asks for are not counted, since it can't do without, and more than two thirds of them have endorsed it.
	MaxBodies    = 1024
	MaxBodyBytes = 256 << 20
	MaxBodySize  = 32 << 20
	MaxBodyTwins = 2
	// MaxRefused is how many refused blocks are remembered.
	MaxRefused = 1024
	// AskAgain is the least time between two questions for the same, ns.
	AskAgain = 1_000_000_000

	maxSlots = 4 * MaxBlocks
)

// Why a block or body is not kept.
var (
	ErrRefused  = errors.New("intake: refused before")
	ErrFar      = errors.New("intake: too far above the tip")
	ErrTwin     = errors.New("intake: its producer has made others of that height")
	ErrFull     = errors.New("intake: no room")
	ErrStale    = errors.New("intake: below the final block")
	ErrUnwanted = errors.New("intake: no block asks for that chunk")
)

// Status is what could be told of a block when it came.
type Status byte

// The standings.
const (
	Follows  Status = iota // its parent is part of the chain; signed by Producer
	Orphan                 // its parent is not known; its epoch is, and it is signed by Producer
	Stranger               // its epoch is not known, so nobody can say who had to sign it
)

// Block is a received block.
type Block struct {
	*primitives.Block
	Chunks   []*primitives.Chunk // what came with it of its new chunks, by shard index
	From     string
	Producer primitives.AccountID // of its height; none for a Stranger
	Needs    []Need               // of its new chunks, by shard index; nil: all bodies
	Standing Status
}

// Out is what the pool wants of the network because of a block.
type Out struct {
	Parent primitives.Hash   // zero: nothing
	Chunks []primitives.Hash // whose bodies are missing
	Bad    error             // why a body that came with the block was none of its; nil: all were right
}

// slot is a height with its producer.
type slot struct {
	height   primitives.Height
	producer primitives.AccountID
}

// item is a block of a known epoch.
type item struct {
	Block
	hash    primitives.Hash
	slot    slot
	needs   []primitives.Hash // of its new chunks, by shard index; zero: it has none there
	missing int               // of needs
	parent  bool              // is part of the chain
	judged  bool              // good, but for the bodies that are missing
	working bool              // handed out by Next
	size    int
	seq     uint64 // order of arrival
	asked   uint64
}

// Pool is the state. It is used by one goroutine.
type Pool struct {
	tip, final primitives.Height
	items      map[primitives.Hash]*item
	children   map[primitives.Hash][]*item // that wait, by parent
	slots      map[slot][]primitives.Hash  // what was taken of each
	bytes      int
	seq        uint64
	bodies     bodies
	refused    refusals
	strangers  []*stranger
}

// New returns a pool for a chain with this tip and final block.
func New(tip, final primitives.Height) *Pool {
	return &Pool{
		tip: tip, final: final, items: map[primitives.Hash]*item{}, children: map[primitives.Hash][]*item{}, slots: map[slot][]primitives.Hash{},
		bodies: newBodies(), refused: refusals{why: map[primitives.Hash]error{}},
	}
}

// Len returns how many blocks are kept, and how many of them are of unknown epochs.
func (p *Pool) Len() (blocks, strangers int) {
	return len(p.items) + len(p.strangers), len(p.strangers)
}

// Refusal says why a block was refused before, nil if it was not.
func (p *Pool) Refusal(hash primitives.Hash) error {
	if why, ok := p.refused.why[hash]; ok {
		return fmt.Errorf("%w: %w", ErrRefused, why)
	}
	return nil
}

// Has tells whether a block of a known epoch is kept.
func (p *Pool) Has(hash primitives.Hash) bool { return p.items[hash] != nil }

// Add takes a block. A block that is kept already changes nothing, but may bring bodies, and has what it lacks asked for again.
func (p *Pool) Add(b Block, now uint64) (Out, error) {
	hash, h := b.Hash(), b.Header
	if err := p.Refusal(hash); err != nil {
		return Out{}, err
	}
	if why, ok := p.refused.why[h.PrevHash]; ok && b.Standing != Stranger {
		p.refused.add(hash, inherited(why))
		return Out{}, p.Refusal(hash)
	}
	x := p.items[hash]
	if x == nil {
		if h.Height <= p.final {
			return Out{}, ErrStale
		}
		if b.Standing == Stranger {
			return Out{}, p.addStranger(&b)
		}
		var err error
		if x, err = p.insert(b, hash); err != nil {
			return Out{}, err
		}
	}
	out := Out{Bad: p.bring(x, b.Chunks)}
	if !x.working && (x.asked == 0 || now-min(now, x.asked) >= AskAgain) {
		x.asked = max(now, 1)
		if !x.parent && p.items[h.PrevHash] == nil {
			out.Parent = h.PrevHash
		}
		if !x.parent || x.judged { // else it is judged first
			out.Chunks = p.lacks(x)
		}
	}
	return out, nil
}

// insert makes an item of a block, if there is room.
func (p *Pool) insert(b Block, hash primitives.Hash) (*item, error) {
	h := b.Header
	if b.Standing == Orphan && h.Height-min(h.Height, p.tip) > Window {
		return nil, ErrFar
	}
	at := slot{h.Height, b.Producer}
	taken := p.slots[at]
	if !slices.Contains(taken, hash) && len(taken) >= MaxTwins && len(p.children[hash]) == 0 {
		if b.Standing != Follows || !p.yield(taken) {
			return nil, ErrTwin
		}
		taken = p.slots[at]
	}
	x := &item{Block: b, hash: hash, slot: at, parent: b.Standing == Follows, size: SizeOf(b.Block)}
	x.Chunks = nil
	if x.size > MaxBlockSize {
		return nil, ErrFull
	}
	p.seq++
	x.seq = p.seq
	p.items[hash] = x
	p.bytes += x.size
	if !slices.Contains(taken, hash) {
		p.slots[at] = append(taken, hash)
	}
	if !x.parent {
		p.children[h.PrevHash] = append(p.children[h.PrevHash], x)
	}
	p.want(x)
	p.boundSlots()
	for len(p.items) > MaxBlocks || p.bytes > MaxBlockBytes {
		far := p.farthest()
		p.remove(far)
		p.release(far)
	}
	if p.items[hash] != x {
		return nil, ErrFull
	}
	return x, nil
}

// yield removes one of some blocks that lacks its parent or bodies, which may never come, if there is one that nobody builds on.
func (p *Pool) yield(taken []primitives.Hash) bool {
	for _, hash := range taken {
		if x := p.items[hash]; x != nil && !x.working && (!x.parent || x.judged && x.missing > 0) && len(p.children[hash]) == 0 {
			p.remove(x)
			p.release(x)
			return true
		}
	}
	return false
}

// distance is how far a height is from that of the next block, to either side.
func (p *Pool) distance(h primitives.Height) primitives.Height {
	if h > p.tip {
		return h - p.tip - 1
	}
	return p.tip - h + 1
}

// farthest returns what goes first when there is no room: the farthest from the tip, of these the last to come.
func (p *Pool) farthest() (far *item) {
	for _, x := range p.items {
		if x.working {
			continue
		}
		if far != nil {
			a, b := p.distance(x.Header.Height), p.distance(far.Header.Height)
			if a < b || a == b && x.seq < far.seq {
				continue
			}
		}
		far = x
	}
	return far
}

// release gives back the place of a block that was not judged.
func (p *Pool) release(x *item) {
	left := slices.DeleteFunc(slices.Clone(p.slots[x.slot]), func(h primitives.Hash) bool { return h == x.hash })
	if len(left) == 0 {
		delete(p.slots, x.slot)
	} else {
		p.slots[x.slot] = left
	}
}

// boundSlots forgets the farthest places while there are too many: of blocks that were judged far above the tip.
func (p *Pool) boundSlots() {
	for len(p.slots) > maxSlots {
		var far slot
		for s := range p.slots {
			if a, b := p.distance(s.height), p.distance(far.height); far == (slot{}) || a > b || a == b && s.producer > far.producer {
				far = s
			}
		}
		delete(p.slots, far)
	}
}

// remove forgets an item; its place stays taken.
func (p *Pool) remove(x *item) {
	delete(p.items, x.hash)
	p.bytes -= x.size
	p.unwant(x)
	if x.parent {
		return
	}
	prev := x.Header.PrevHash
	left := slices.DeleteFunc(p.children[prev], func(c *item) bool { return c == x })
	if len(left) == 0 {
		delete(p.children, prev)
	} else {
		p.children[prev] = left
	}
}

// Next hands out a block to be judged, the lowest first, with those of its new chunks that are there, by shard index: one whose parent
// is part of the chain, and once it was found to be good but for bodies, one whose bodies are there. It stays in the pool until it
// is told what became of it. nil: there is none.
func (p *Pool) Next() *Block {
	var best *item
	for _, x := range p.items {
		if !x.parent || x.judged && x.missing > 0 || x.working {
			continue
		}
		if best == nil || x.Header.Height < best.Header.Height || x.Header.Height == best.Header.Height && x.seq < best.seq {
			best = x
		}
	}
	if best == nil {
		return nil
	}
	best.working = true
	b := best.Block
	b.Chunks = make([]*primitives.Chunk, len(best.needs))
	for i, hash := range best.needs {
		if x := p.bodies.all[hash]; x != nil {
			b.Chunks[i] = x.chunk
		}
	}
	return &b
}

// Lacking says that a block that Next handed out is good as far as that can be told without the bodies that it lacks. It waits for
// them, and they are asked for. False: it lacks none that it names.
func (p *Pool) Lacking(hash primitives.Hash, now uint64) (Out, bool) {
	x := p.items[hash]
	if x == nil || x.missing == 0 {
		return Out{}, false
	}
	x.working, x.judged, x.asked = false, true, max(now, 1)
	return Out{Chunks: p.lacks(x)}, true
}

// Renew says what is needed of a kept block's new chunks now: the shards that are held have changed since it came, or its parent was not known then. Bodies that
// are not what is needed go. What it lacks then is asked for; nothing of one that is to be judged first.
func (p *Pool) Renew(hash primitives.Hash, needs []Need, now uint64) (out Out) {
	x := p.items[hash]
	if x == nil || len(needs) != len(x.Body.Chunks) {
		return out
	}
	for i, c := range x.Body.Chunks {
		if b := p.bodies.all[c.ChunkHash()]; b != nil && c.HeightIncluded == x.Header.Height && !needs[i].met(b.chunk) {
			p.removeBody(b)
		}
	}
	p.unlist(x)
	x.Needs, x.missing = needs, 0
	p.want(x)
	if x.judged && !x.working {
		x.asked = max(now, 1)
		out.Chunks = p.lacks(x)
	}
	return out
}

// Blocks are those of known epochs that are kept and not handed out, the lowest first.
func (p *Pool) Blocks() (out []Block) {
	var list []*item
	for _, x := range p.items {
		if !x.working {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.Header.Height, b.Header.Height), cmp.Compare(a.seq, b.seq))
	})
	for _, x := range list {
		out = append(out, x.Block)
	}
	return out
}

// Adopted says that a block, received or not, is part of the chain, and where tip and final block are now; epoch tells that
// blocks of other epochs than before can be told. It returns those that are to be looked at again from the start.
func (p *Pool) Imported(b *primitives.Block, tip, final primitives.Height, epoch bool) (again []Block) {
	hash := b.Hash()
	if x := p.items[hash]; x != nil {
		p.remove(x)
	}
	for _, c := range p.children[hash] {
		c.parent = true
	}
	delete(p.children, hash)
	p.drop(b)
	risen := final > p.final
	p.tip, p.final = tip, final
	if risen {
		p.prune()
	}
	p.strangers = slices.DeleteFunc(p.strangers, func(s *stranger) bool {
		if s.Header.Height <= final {
			return true
		}
		if epoch || s.Header.PrevHash == hash {
			again = append(again, s.Block)
			return true
		}
		return false
	})
	return again
}

// prune forgets what the final block has overtaken.
func (p *Pool) prune() {
	for _, x := range p.items {
		if x.Header.Height <= p.final && !x.working {
			p.remove(x)
		}
	}
	for s := range p.slots {
		if s.height <= p.final {
			delete(p.slots, s)
		}
	}
	p.bodies.prune(p.final)
}

// Refused says that a block is bad, whoever judges it. What waits for it is bad too, and is returned.
// Their places are free: who sends such blocks is known by that, and others of the height may be right.
func (p *Pool) Refused(hash primitives.Hash, why error) (fell []Block) {
	p.refused.add(hash, why)
	if x := p.items[hash]; x != nil {
		p.release(x)
	}
	return p.fall(hash, func(x *item) {
		p.refused.add(x.hash, inherited(why))
		p.release(x)
	})
}

// Dropped says that a block was not judged to the end, through no fault of its own: it was overtaken, or it is too early for it. If
// again, its producer's place of that height is free for it, so that it may come again.
func (p *Pool) Dropped(hash primitives.Hash, again bool) {
	if x := p.items[hash]; x != nil && again {
		p.release(x)
	}
	p.fall(hash, p.release)
}

// fall removes a block and what waits for it, and returns the latter; each is called for those.
func (p *Pool) fall(hash primitives.Hash, each func(*item)) (fell []Block) {
	if x := p.items[hash]; x != nil {
		p.remove(x)
	}
	for todo := []primitives.Hash{hash}; len(todo) > 0; todo = todo[1:] {
		for _, x := range slices.Clone(p.children[todo[0]]) {
			p.remove(x)
			each(x)
			todo = append(todo, x.hash)
			fell = append(fell, x.Block)
		}
	}
	return fell
}

// Clear forgets everything: no block is judged any more.
func (p *Pool) Clear() { *p = *New(p.tip, p.final) }

// SizeOf estimates what a block takes in memory.
func SizeOf(b *primitives.Block) int {
	const header, chunk, signature, request = 1024, 1024, 96, 96
	n := header + signature*len(b.Header.Approvals) + len(b.Body.Challenges) + 8*len(b.Header.EndorsementStats)
	for _, c := range b.Body.Chunks {
		n += chunk + signature*len(c.PrevValidatorProposals) + request*len(c.BandwidthRequests)
	}
	for _, list := range b.Body.ChunkEndorsements {
		n += 24 + signature*len(list)
	}
	for _, bits := range b.Header.ChunkEndorsements {
		n += 24 + len(bits)
	}
	return n + signature*len(b.Header.PrevValidatorProposals)
}
