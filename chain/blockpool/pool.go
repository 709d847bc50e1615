package blockpool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of the pool.
const (
	// Window is the maximum height of an orphan above the tip.
	Window primitives.Height = 1024
	// MaxBlocks and MaxBlockBytes bound all pooled blocks. MaxBlockSize bounds one block. MaxBlocks
	// is the number of orphans that fit into Window with MaxEquivocating of each height. So the
	// second blocks of equivocating producers do not evict the blocks that end the window.
	// MaxUnknownEpochSize bounds one block of an unknown epoch, because its producer cannot be
	// checked. An ordinary block takes about 10 KiB. A producer can enlarge a block with
	// BlockBody.Challenges. No node reads that field, and neard bounds it only by the size of a
	// network frame.
	MaxBlocks           = 2048
	MaxBlockBytes       = 256 << 20
	MaxBlockSize        = 128 << 20
	MaxUnknownEpochSize = 1 << 20
	// MaxEquivocating is the maximum number of blocks of one height and producer that are pooled or
	// imported. An honest producer makes one block of a height, or two if it restarted in between.
	// There are two exceptions to the maximum: a further block that has a pooled child, and a
	// further block that replaces a pooled block whose parent or bodies are missing. Other
	// validators may have imported and approved the further block. Without the exceptions, a node
	// that has no other block of that height could not follow them. nearcore validates every such
	// block whose parent is the head (client.rs:1381).
	MaxEquivocating = 2
	// MaxUnknownEpoch bounds the blocks of unknown epochs. MaxEach bounds the blocks of unknown
	// epochs from one sender.
	MaxUnknownEpoch = 32
	MaxEach         = 4
	// MaxBodies and MaxBodyBytes bound all chunk bodies. MaxBodySize bounds one body.
	// MaxEquivocatingBodies bounds the bodies of one shard and height that no block needs. An
	// honest chunk has at most about 4 MiB of transactions. Larger bodies may be endorsed, because
	// chunk validators check only the size of the witness. Therefore bodies that a validated block
	// needs are exempt from MaxBodies and MaxBodyBytes. Validators with more than two thirds of the
	// stake have endorsed these bodies, and the block cannot be imported without them.
	MaxBodies             = 1024
	MaxBodyBytes          = 256 << 20
	MaxBodySize           = 32 << 20
	MaxEquivocatingBodies = 2
	// MaxRefused is the maximum number of invalid blocks that are remembered.
	MaxRefused = 1024
	// AskAgain is the minimum time in ns between two requests for the same block or body.
	AskAgain = 1_000_000_000

	maxSlots = 4 * MaxBlocks
)

// Reasons why a block or body is not stored. The caller may add it again later, except after
// ErrRefused.
var (
	ErrRefused      = errors.New("block pool: invalid block")
	ErrFar          = fmt.Errorf("block pool: the block is more than %d heights above the tip", Window)
	ErrEquivocating = errors.New("block pool: the maximum of blocks or bodies of this height and producer is stored already")
	ErrFull         = errors.New("block pool: the pool has no room for the block or body")
	ErrStale        = errors.New("block pool: the block is at or below the final block")
	ErrUnwanted     = errors.New("block pool: no waiting block needs the chunk body")
)

// Status says which checks a block passed when it arrived.
type Status byte

// Values of Status.
const (
	Follows      Status = iota // the parent is imported; Producer signed the block
	Orphan                     // the parent is unknown; the epoch is known and Producer signed the block
	UnknownEpoch               // the epoch is unknown, so the producer and its signature can't be checked
)

// Block is a received block.
type Block struct {
	*primitives.Block
	// Chunks are the bodies that arrived together with the block, by shard index. Elements may be
	// nil.
	Chunks   []*primitives.Chunk
	From     string
	Producer primitives.AccountID // block producer of the height; empty for UnknownEpoch
	Needs    []Need               // data of new chunks that this node needs, by shard index; nil: all bodies
	Standing Status
}

// Out lists what to request from the network for a block.
type Out struct {
	Parent primitives.Hash   // parent to request; zero: none
	Chunks []primitives.Hash // chunks with missing bodies
	Bad    error             // error of a body that arrived with the block; nil: no body is invalid
}

// slot identifies a height and its block producer.
type slot struct {
	height   primitives.Height
	producer primitives.AccountID
}

// item is a pooled block of a known epoch.
type item struct {
	Block
	hash primitives.Hash
	slot slot
	// hash of each new chunk whose body this node needs, by shard index; zero: the body is not
	// needed
	needs     []primitives.Hash
	missing   int  // number of needed bodies that are not stored
	parent    bool // the parent is imported
	validated bool // all checks passed that need no chunk body
	working   bool // Next returned the block, and the caller has not reported the result yet
	size      int
	seq       uint64 // order of arrival
	asked     uint64
}

// Pool holds blocks that can't be imported yet. Not safe for concurrent use.
//
// # Block pool
//
// Problem. Blocks arrive in any order, from any peer. A block may arrive before its parent or
// before its chunk bodies. A block may also arrive before this node knows the block's epoch, which
// determines its producer. Memory is bounded, and an attacker chooses what is sent. The pool must
// always have memory for the blocks that continue the chain.
//
// Invariants.
//
//   - An item (block of a known epoch) carries a verified signature of the producer of its height.
//     Only validators can fill the pool. Each validator gets MaxEquivocating blocks of each height
//     at which that validator is the producer.
//   - Blocks and bodies are evicted farthest from the tip first. So the next blocks stay, no matter
//     what else arrives.
//   - Dropping a block is harmless. When a child of the dropped block arrives, the block is
//     requested again.
//   - A block that Next returned is never evicted. The caller ends this with Imported, Refused,
//     Dropped or WaitForChunks.
//   - Descendants of an invalid block are invalid, without validation.
//
// Outline. Add stores a block according to its Status. A block that Follows an imported block is
// ready at once. An Orphan is stored in children until Imported is called for its parent. A block
// of an UnknownEpoch is stored apart, with a bound for each sender, because its signature cannot be
// checked. Imported returns such blocks when another epoch becomes known. Next returns the lowest
// ready block, at first without its missing bodies. If the caller finds that only bodies are
// missing, WaitForChunks keeps the block and returns what to request. So bodies of a block with an
// imported parent are requested, and exempt from eviction, only after its header is valid. For an
// Orphan, Add returns the missing bodies at once. A follower requests them then; a validator after
// the import of the parent (consensus.Node.requestMissing). An imported block still counts for its
// slot (height, producer), so that a third block of the slot is refused. An invalid block does not
// count.
//
// Rejected: separate pools for orphans and missing chunks, as in nearcore (orphan.rs,
// missing_chunks.rs). A block that lacks both would move from one pool to the other, and each pool
// would need its own bounds and eviction. Rejected: evicting the oldest block. A flood of blocks
// far above the tip would then evict the next blocks of the chain.
type Pool struct {
	tip, final   primitives.Height
	items        map[primitives.Hash]*item
	children     map[primitives.Hash][]*item // orphans, by parent
	slots        map[slot][]primitives.Hash  // hashes of the accepted blocks of each height and producer
	bytes        int
	orphans      int // number of items in children
	counters     *Counters
	seq          uint64
	bodies       bodies
	invalid      invalidCache
	unknownEpoch []*unknownEpochBlock
}

// New returns an empty pool for a chain with this tip and final height.
func New(tip, final primitives.Height) *Pool {
	p := &Pool{
		tip: tip, final: final, items: map[primitives.Hash]*item{}, children: map[primitives.Hash][]*item{}, slots: map[slot][]primitives.Hash{},
		bodies: newBodies(), invalid: invalidCache{why: map[primitives.Hash]error{}},
	}
	p.SetCounters(new(Counters))
	return p
}

// Len returns the number of pooled blocks, and how many of them are of unknown epochs.
func (p *Pool) Len() (blocks, strangers int) {
	return len(p.items) + len(p.unknownEpoch), len(p.unknownEpoch)
}

// Refusal returns an error that wraps ErrRefused if the block is known to be invalid, else nil.
func (p *Pool) Refusal(hash primitives.Hash) error {
	if why, ok := p.invalid.why[hash]; ok {
		return fmt.Errorf("%w: %w", ErrRefused, why)
	}
	return nil
}

// Has returns whether a block of a known epoch is pooled.
func (p *Pool) Has(hash primitives.Hash) bool { return p.items[hash] != nil }

// HasChild returns whether a child of a block is pooled whose parent is not imported.
func (p *Pool) HasChild(parent primitives.Hash) bool { return len(p.children[parent]) > 0 }

// Add stores a block and returns what to request for it. now is in ns.
//
// Adding a pooled block again stores the bodies that came with the block, and repeats requests that
// are at least AskAgain old. On an error the block is not stored. Add may evict a pooled block, and
// does not report which block. Counters.EvictedOrphans counts evicted orphans.
func (p *Pool) Add(b Block, now uint64) (Out, error) {
	hash, h := b.Hash(), b.Header
	if err := p.Refusal(hash); err != nil {
		return Out{}, err
	}
	if why, ok := p.invalid.why[h.PrevHash]; ok && b.Standing != UnknownEpoch {
		p.invalid.add(hash, asDescendant(why))
		return Out{}, p.Refusal(hash)
	}
	x := p.items[hash]
	if x == nil {
		if h.Height <= p.final {
			return Out{}, ErrStale
		}
		if b.Standing == UnknownEpoch {
			return Out{}, p.addUnknownEpoch(&b)
		}
		var err error
		if x, err = p.insert(b, hash); err != nil {
			return Out{}, err
		}
	}
	out := Out{Bad: p.addBundled(x, b.Chunks)}
	if !x.working && (x.asked == 0 || now-min(now, x.asked) >= AskAgain) {
		x.asked = max(now, 1)
		if !x.parent && p.items[h.PrevHash] == nil {
			out.Parent = h.PrevHash
		}
		// An orphan's bodies are returned at once. If the parent is imported and the block is not
		// validated yet, WaitForChunks returns the bodies after validation.
		if !x.parent || x.validated {
			out.Chunks = p.missingBodies(x)
		}
	}
	return out, nil
}

// insert stores a new item. While a bound is exceeded, it evicts the item farthest from the tip.
// Errors: ErrFar, ErrEquivocating, ErrFull.
func (p *Pool) insert(b Block, hash primitives.Hash) (*item, error) {
	h := b.Header
	if b.Standing == Orphan && h.Height-min(h.Height, p.tip) > Window {
		return nil, ErrFar
	}
	at := slot{h.Height, b.Producer}
	taken := p.slots[at]
	if !slices.Contains(taken, hash) && len(taken) >= MaxEquivocating && len(p.children[hash]) == 0 {
		if b.Standing != Follows || !p.evictStalled(taken) {
			return nil, ErrEquivocating
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
		p.addOrphans(1)
	}
	p.addWants(x)
	p.boundSlots()
	for len(p.items) > MaxBlocks || p.bytes > MaxBlockBytes {
		p.evict(p.farthest())
	}
	if p.items[hash] != x {
		return nil, ErrFull
	}
	return x, nil
}

// evictStalled evicts one of taken, the blocks of a slot. It evicts only a block that has no pooled
// child and that waits for a parent or bodies, because the awaited parent or bodies may never
// arrive. It returns whether it evicted a block.
func (p *Pool) evictStalled(taken []primitives.Hash) bool {
	for _, hash := range taken {
		if x := p.items[hash]; x != nil && !x.working && (!x.parent || x.validated && x.missing > 0) && len(p.children[hash]) == 0 {
			p.evict(x)
			return true
		}
	}
	return false
}

// evict drops a block to make room. The caller may add the dropped block again.
func (p *Pool) evict(x *item) {
	if !x.parent {
		p.counters.EvictedOrphans.Add(1)
	}
	p.remove(x)
	p.release(x)
}

// distance returns the difference between a height and the height after the tip.
func (p *Pool) distance(h primitives.Height) primitives.Height {
	if h > p.tip {
		return h - p.tip - 1
	}
	return p.tip - h + 1
}

// farthest returns the block to evict: the block farthest from the tip, and among blocks at equal
// distance the last to arrive. farthest returns nil if all blocks are being validated.
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

// release removes a block from its slot, so that another block may be added to the slot.
func (p *Pool) release(x *item) {
	left := slices.DeleteFunc(slices.Clone(p.slots[x.slot]), func(h primitives.Hash) bool { return h == x.hash })
	if len(left) == 0 {
		delete(p.slots, x.slot)
	} else {
		p.slots[x.slot] = left
	}
}

// boundSlots removes the slots farthest from the tip until at most maxSlots remain. Without this
// bound, slots of validated blocks far above the tip would accumulate.
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

// remove removes an item. The item still counts for its slot.
func (p *Pool) remove(x *item) {
	delete(p.items, x.hash)
	p.bytes -= x.size
	p.removeWants(x)
	if x.parent {
		return
	}
	p.addOrphans(-1)
	prev := x.Header.PrevHash
	left := slices.DeleteFunc(p.children[prev], func(c *item) bool { return c == x })
	if len(left) == 0 {
		delete(p.children, prev)
	} else {
		p.children[prev] = left
	}
}

// Next returns the lowest block that is ready to be validated, with the stored bodies of its new
// chunks by shard index. It returns nil if no block is ready.
//
// A block is ready if its parent is imported and the block either was not validated by the caller
// yet or has all its bodies. The block stays in the pool and is not evicted until the caller calls
// Imported, WaitForChunks, Refused or Dropped for it.
func (p *Pool) Next() *Block {
	var best *item
	for _, x := range p.items {
		if !x.parent || x.validated && x.missing > 0 || x.working {
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

// WaitForChunks records that a block from Next is valid as far as its missing chunk bodies allow a
// check. The block then waits for these bodies, and Out requests the bodies. WaitForChunks returns
// false, and changes nothing, if no body is missing or the block is not pooled.
func (p *Pool) WaitForChunks(hash primitives.Hash, now uint64) (Out, bool) {
	x := p.items[hash]
	if x == nil || x.missing == 0 {
		return Out{}, false
	}
	x.working, x.validated, x.asked = false, true, max(now, 1)
	return Out{Chunks: p.missingBodies(x)}, true
}

// Refresh replaces the needs of a pooled block's new chunks, by shard index. The caller calls it
// when the tracked shards have changed, and when the parent of an orphan becomes known. Refresh
// drops stored bodies that do not satisfy the new needs. If the block was validated, Out requests
// the missing bodies. Unknown hashes and a wrong number of needs are ignored.
func (p *Pool) Refresh(hash primitives.Hash, needs []Need, now uint64) (out Out) {
	x := p.items[hash]
	if x == nil || len(needs) != len(x.Body.Chunks) {
		return out
	}
	for i, c := range x.Body.Chunks {
		if b := p.bodies.all[c.ChunkHash()]; b != nil && c.HeightIncluded == x.Header.Height && !needs[i].satisfiedBy(b.chunk) {
			p.removeBody(b)
		}
	}
	p.unlinkWants(x)
	x.Needs, x.missing = needs, 0
	p.addWants(x)
	if x.validated && !x.working {
		x.asked = max(now, 1)
		out.Chunks = p.missingBodies(x)
	}
	return out
}

// Blocks returns the pooled blocks of known epochs that are not being validated, lowest first.
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

// Imported records that a block is part of the chain, and sets the tip and the final height. The
// block need not be pooled. epoch says that the block producers of another epoch became known. In
// that case, Imported removes blocks of unknown epochs from the pool and returns them. The caller
// adds them again.
func (p *Pool) Imported(b *primitives.Block, tip, final primitives.Height, epoch bool) (again []Block) {
	hash := b.Hash()
	if x := p.items[hash]; x != nil {
		p.remove(x)
	}
	for _, c := range p.children[hash] {
		c.parent = true
	}
	p.addOrphans(-len(p.children[hash]))
	delete(p.children, hash)
	p.dropBodies(b)
	risen := final > p.final
	p.tip, p.final = tip, final
	if risen {
		p.prune()
	}
	p.unknownEpoch = slices.DeleteFunc(p.unknownEpoch, func(s *unknownEpochBlock) bool {
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

// prune drops everything at or below the final height.
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

// Refused records that a block is invalid for every node. Refused removes the block's descendants
// and returns these descendants. It frees the slots of the block and its descendants, because other
// blocks of the same producers and heights may be valid.
func (p *Pool) Refused(hash primitives.Hash, why error) (fell []Block) {
	p.invalid.add(hash, why)
	if x := p.items[hash]; x != nil {
		p.release(x)
	}
	return p.removeSubtree(hash, func(x *item) {
		p.invalid.add(x.hash, asDescendant(why))
		p.release(x)
	})
}

// Dropped removes a block and its descendants without recording them as invalid. The caller drops a
// block that the chain has passed or that cannot be validated yet. If again is set, the block no
// longer counts for its slot, so that the caller may add the block again.
func (p *Pool) Dropped(hash primitives.Hash, again bool) {
	if x := p.items[hash]; x != nil && again {
		p.release(x)
	}
	p.removeSubtree(hash, p.release)
}

// removeSubtree removes a block and its pooled descendants. It calls the function each for every
// descendant and returns the descendants.
func (p *Pool) removeSubtree(hash primitives.Hash, each func(*item)) (fell []Block) {
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

// Clear empties the pool, including the record of invalid blocks. It keeps the Counters.
func (p *Pool) Clear() {
	c := p.counters
	*p = *New(p.tip, p.final)
	p.SetCounters(c)
}

// SizeOf estimates the memory of a block, in bytes.
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
