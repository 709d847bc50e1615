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
	// Window is how far above the tip an orphan may be, in blocks.
	Window primitives.Height = 1024
	// MaxBlocks and MaxBlockBytes bound all pooled blocks. MaxBlockSize bounds one block, and
	// MaxUnknownEpochSize one block of an unknown epoch, whose producer can't be checked. An
	// ordinary block takes about 10 KiB. Its producer can make it larger by BlockBody.Challenges,
	// which no node reads and whose size neard bounds only by that of a network frame.
	MaxBlocks           = 1024
	MaxBlockBytes       = 256 << 20
	MaxBlockSize        = 128 << 20
	MaxUnknownEpochSize = 1 << 20
	// MaxEquivocating is how many blocks of one height and producer are pooled and imported. An
	// honest producer makes one, or two if it restarted in between. A further block is accepted
	// only if a signed block builds on it, or if it can replace a pooled one that still waits for a
	// parent or bodies. These exceptions are needed because other validators may have imported the
	// further block and vote on it, and a node that has imported no block of that height could not
	// join them. nearcore validates every such block that builds on the head (client.rs:1381).
	MaxEquivocating = 2
	// MaxUnknownEpoch bounds the blocks of unknown epochs, MaxEach those from one sender.
	MaxUnknownEpoch = 32
	MaxEach         = 4
	// MaxBodies and MaxBodyBytes bound the chunk bodies, MaxBodySize one body,
	// MaxEquivocatingBodies the bodies of one shard and height that no block needs. An honest chunk
	// has at most about 4 MiB of transactions, but chunk validators check only the size of the
	// witness, so larger bodies may be endorsed. Therefore the bodies that a validated block needs
	// are exempt from the bounds: validators with more than two thirds of the stake have endorsed
	// them, and the block can't be imported without them.
	MaxBodies             = 1024
	MaxBodyBytes          = 256 << 20
	MaxBodySize           = 32 << 20
	MaxEquivocatingBodies = 2
	// MaxRefused is how many invalid blocks are remembered.
	MaxRefused = 1024
	// AskAgain is the least time in ns between two requests for the same block or body.
	AskAgain = 1_000_000_000

	maxSlots = 4 * MaxBlocks
)

// Reasons why a block or body is not stored. After any of these except ErrRefused, it may be
// offered again.
var (
	ErrRefused      = errors.New("block pool: invalid block")
	ErrFar          = errors.New("block pool: the block is too far above the tip")
	ErrEquivocating = errors.New("block pool: the producer has other blocks of that height")
	ErrFull         = errors.New("block pool: the pool is full")
	ErrStale        = errors.New("block pool: the block is at or below the final block")
	ErrUnwanted     = errors.New("block pool: no block needs that chunk")
)

// Status is what is known about the origin of a block when it arrives.
type Status byte

// Values of Status.
const (
	Follows      Status = iota // the parent is imported; the block is signed by Producer
	Orphan                     // the parent is unknown; the epoch is known and the block is signed by Producer
	UnknownEpoch               // the epoch is unknown, so the producer and its signature can't be checked
)

// Block is a received block.
type Block struct {
	*primitives.Block
	// The bodies that arrived together with the block, by shard index; elements may be nil.
	Chunks   []*primitives.Chunk
	From     string
	Producer primitives.AccountID // producer of the height; empty for UnknownEpoch
	Needs    []Need               // of its new chunks, by shard index; nil: all bodies
	Standing Status
}

// Out lists what to request from the network because of a block.
type Out struct {
	Parent primitives.Hash   // parent to request; zero: none
	Chunks []primitives.Hash // chunks with missing bodies
	Bad    error             // why a body that arrived with the block is invalid; nil: none is
}

// slot is a height with its block producer.
type slot struct {
	height   primitives.Height
	producer primitives.AccountID
}

// item is a pooled block of a known epoch.
type item struct {
	Block
	hash      primitives.Hash
	slot      slot
	needs     []primitives.Hash // by shard index: the new chunk with a needed body; zero: none
	missing   int               // how many of needs are not stored
	parent    bool              // the parent is imported
	validated bool              // valid, except that bodies were missing
	working   bool              // handed out by Next, not settled yet
	size      int
	seq       uint64 // order of arrival
	asked     uint64
}

// Pool holds blocks that can't be imported yet. Not safe for concurrent use.
//
// # Block pool
//
// Problem. Blocks arrive in any order, from any peer. A block may arrive before its parent, before
// its chunk bodies, or even before this node knows the block's epoch, which determines the
// validator that had to sign it. Memory is bounded, and an attacker chooses what is sent. The
// blocks that continue the chain must find room in any case.
//
// Invariants.
//
//   - An item (block of a known epoch) carries a verified signature of the producer of its height.
//     Only validators can fill the pool, and each gets MaxEquivocating blocks of each height at
//     which it is the producer.
//   - Blocks and bodies are evicted farthest from the tip first. So the next blocks stay, no matter
//     what else arrives.
//   - Dropping is harmless: a block that builds on a dropped one has it requested again.
//   - A block that Next handed out is never evicted. It leaves by Imported, Refused, Dropped or
//     returns by WaitForChunks.
//   - Descendants of an invalid block are invalid, without validation.
//
// Outline. Add stores a block according to its Status. A block that Follows an imported one is
// ready at once. An Orphan is stored under its parent (children) until Imported is called for the
// parent. A block of an UnknownEpoch is stored apart, with a bound for each sender, since its
// signature can't be checked; Imported returns it when another epoch becomes known. Next returns
// the lowest ready block. It is validated first without missing bodies; if only bodies are missing,
// WaitForChunks puts it back and returns what to request. The block is validated before its bodies
// are requested, so that bodies are requested, and room for them is guaranteed, only for valid
// headers. A producer's slot (height, producer) stays taken after import, so that a third block of
// the slot is refused; invalid blocks free it.
//
// Rejected: separate pools for orphans and missing chunks, as nearcore has them (orphan.rs,
// missing_chunks.rs). A block that lacks both would move from one pool to the other, and each pool
// would need its own bounds and eviction. Rejected: evicting the oldest block, because a flood of
// blocks far above the tip would then evict the blocks that come next.
type Pool struct {
	tip, final   primitives.Height
	items        map[primitives.Hash]*item
	children     map[primitives.Hash][]*item // orphans, by parent
	slots        map[slot][]primitives.Hash  // blocks accepted of each height and producer
	bytes        int
	seq          uint64
	bodies       bodies
	invalid      invalidCache
	unknownEpoch []*unknownEpochBlock
}

// New returns an empty pool for a chain with this tip and final height.
func New(tip, final primitives.Height) *Pool {
	return &Pool{
		tip: tip, final: final, items: map[primitives.Hash]*item{}, children: map[primitives.Hash][]*item{}, slots: map[slot][]primitives.Hash{},
		bodies: newBodies(), invalid: invalidCache{why: map[primitives.Hash]error{}},
	}
}

// Len returns the number of pooled blocks, and how many of these are of unknown epochs.
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

// Add stores a block and returns what to request for it. now is in ns.
//
// Adding a pooled block again stores the bodies that came with it and repeats requests that are at
// least AskAgain old. On an error the block is not stored. Add may evict another block to make
// room, which it does not report.
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
		// otherwise the header is validated before its bodies are requested
		if !x.parent || x.validated {
			out.Chunks = p.missingBodies(x)
		}
	}
	return out, nil
}

// insert stores a new item and evicts the farthest ones. Errors: ErrFar, ErrEquivocating, ErrFull.
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
	}
	p.addWants(x)
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

// evictStalled evicts one of the blocks in taken (the blocks of a slot). It evicts only a block
// that waits for a parent or bodies, which may never arrive, and that has no pooled child. It
// returns whether it found one.
func (p *Pool) evictStalled(taken []primitives.Hash) bool {
	for _, hash := range taken {
		if x := p.items[hash]; x != nil && !x.working && (!x.parent || x.validated && x.missing > 0) && len(p.children[hash]) == 0 {
			p.remove(x)
			p.release(x)
			return true
		}
	}
	return false
}

// distance returns how far a height is from that of the next block, in either direction.
func (p *Pool) distance(h primitives.Height) primitives.Height {
	if h > p.tip {
		return h - p.tip - 1
	}
	return p.tip - h + 1
}

// farthest returns the block to evict: the one farthest from the tip, and among equals the one that
// arrived last. It returns nil if all are being validated.
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

// release frees the slot entry of a block: another block may take its place in the slot.
func (p *Pool) release(x *item) {
	left := slices.DeleteFunc(slices.Clone(p.slots[x.slot]), func(h primitives.Hash) bool { return h == x.hash })
	if len(left) == 0 {
		delete(p.slots, x.slot)
	} else {
		p.slots[x.slot] = left
	}
}

// boundSlots removes the slots farthest from the tip until there are at most maxSlots. Slots
// accumulate if blocks far above the tip are validated.
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

// remove removes an item. Its slot entry stays taken.
func (p *Pool) remove(x *item) {
	delete(p.items, x.hash)
	p.bytes -= x.size
	p.removeWants(x)
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

// Next returns the lowest block that is ready to be validated, with the stored bodies of its new
// chunks by shard index. It returns nil if no block is ready.
//
// A block is ready if its parent is imported and if it has either not been validated yet, or has
// all bodies. The block stays in the pool, exempt from eviction, until Imported, WaitForChunks, Refused
// or Dropped is called for it.
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

// WaitForChunks records that a block from Next is valid as far as that can be checked without its
// missing chunk bodies. The block waits for them, and Out requests them. It returns false, and
// changes nothing, if the block misses no body or is not pooled.
func (p *Pool) WaitForChunks(hash primitives.Hash, now uint64) (Out, bool) {
	x := p.items[hash]
	if x == nil || x.missing == 0 {
		return Out{}, false
	}
	x.working, x.validated, x.asked = false, true, max(now, 1)
	return Out{Chunks: p.missingBodies(x)}, true
}

// Refresh replaces what is needed of a pooled block's new chunks, by shard index. It is called when
// the tracked shards have changed, and for a block whose parent was unknown when it arrived. Stored
// bodies that do not satisfy the new needs are dropped. Out requests the missing bodies, if the
// block was validated. Unknown hashes and a wrong number of needs are ignored.
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

// Imported records that a block, pooled or not, is part of the chain, and sets the tip and final
// height. epoch says that the producers of another epoch became known. Then Imported removes blocks
// of unknown epochs from the pool and returns them, so that the caller can add them again.
func (p *Pool) Imported(b *primitives.Block, tip, final primitives.Height, epoch bool) (again []Block) {
	hash := b.Hash()
	if x := p.items[hash]; x != nil {
		p.remove(x)
	}
	for _, c := range p.children[hash] {
		c.parent = true
	}
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

// Refused records that a block is invalid for every node. Its descendants are removed as well and
// returned. The slots of all these blocks are freed, because other blocks of the same producers and
// heights may be valid.
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

// Dropped removes a block and its descendants without treating them as invalid, because the chain
// has overtaken the block or because it is too early to validate it. If again is set, the block's
// slot is freed, so that it may be added again.
func (p *Pool) Dropped(hash primitives.Hash, again bool) {
	if x := p.items[hash]; x != nil && again {
		p.release(x)
	}
	p.removeSubtree(hash, p.release)
}

// removeSubtree removes a block and its pooled descendants, calls each for the descendants, and
// returns them.
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

// Clear empties the pool, and forgets invalid blocks too.
func (p *Pool) Clear() { *p = *New(p.tip, p.final) }

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
