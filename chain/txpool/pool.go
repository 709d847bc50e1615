package txpool

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Why a transaction is not taken. That a pool is full neard keeps to itself: the client's wait ends without a result.
var (
	ErrFull    = errors.New("mempool: full")
	ErrBytes   = fmt.Errorf("%w: too many bytes", ErrFull)
	ErrKeyFull = errors.New("mempool: too many transactions of one key")
	ErrExpired = errors.New("mempool: expired")
)

// NonceTaken says that another transaction of the same key waits with the same nonce.
type NonceTaken struct {
	Nonce primitives.Nonce
	By    primitives.Hash
}

func (e *NonceTaken) Error() string {
	return fmt.Sprintf("mempool: nonce %d is taken by transaction %v", e.Nonce, e.By)
}

// Limits bound a pool. Zero means no limit.
type Limits struct {
	Transactions, Bytes       uint64 // of all
	KeyTransactions, KeyBytes uint64 // of one signer, key and nonce index
}

// Pool is one shard's pool. It is not safe for concurrent use.
type Pool struct {
	limits Limits
	period primitives.Height
	seed   primitives.Hash

	head    primitives.Height
	bytes   uint64
	byHash  map[primitives.Hash]int32 // to entries
	nonces  map[nonceKey]int32            // to entries
	entries []entry
	free    []int32 // unused entries
	oldest  []int32 // heap byAge
	order   tree    // of group keys; a node's index is its group's
	groups  []group
	cursor  primitives.Hash // of the group used last; need not be there
	round   *Round
	lastVisit   uint64 // number of the newest round
	scratch []byte
}

type nonceKey struct {
	group int32
	nonce primitives.Nonce
}

type entry struct {
	tx    *primitives.SignedTransaction
	key   [2]uint64 // nonce, height of the base block
	place [2]int32  // in the heaps; none: taken by the round
	group int32
}

// group holds the transactions of one signer, key and nonce index.
type group struct {
	waiting []int32 // heap byNonce
	count   int     // waiting, and taken by the round
	bytes   uint64
	visit   uint64 // the last round that came here
	progressed   bool   // something was taken or dropped since the round came
}

// New returns an empty pool. A transaction lives while head - base <= period, as the chain's transaction_validity_period
// has it. seed orders the groups and should be secret and new for every process.
func New(limits Limits, period primitives.Height, seed primitives.Hash) *Pool {
	return &Pool{
		limits: limits, period: period, seed: seed,
		byHash: map[primitives.Hash]int32{}, nonces: map[nonceKey]int32{}, order: newTree(),
	}
}

// Len is the number of transactions, Bytes the sum of their sizes, Groups the number of keys.
func (p *Pool) Len() int      { return len(p.byHash) }
func (p *Pool) Bytes() uint64 { return p.bytes }
func (p *Pool) Groups() int   { return len(p.order.nodes) - len(p.order.free) }

// Find returns a waiting transaction, or nil.
func (p *Pool) Find(hash primitives.Hash) *primitives.SignedTransaction {
	if i, ok := p.byHash[hash]; ok {
		return p.entries[i].tx
	}
	return nil
}

// groupKey is what orders groups (nearcore chain/pool/src/lib.rs:86).
func (p *Pool) groupKey(tx *primitives.Transaction) primitives.Hash {
	b := tx.PublicKey.AppendBorsh(p.scratch[:0])
	b = append(append(b, p.seed[:]...), tx.SignerID...)
	if tx.Nonce.HasIndex {
		b = borsh.AppendUint16(b, tx.Nonce.Index)
	}
	p.scratch = b
	return primitives.HashBytes(b)
}

// HasPredecessor tells whether the transaction with the nonce before this one's waits, of the same key.
func (p *Pool) HasPredecessor(tx *primitives.SignedTransaction) bool {
	key := p.groupKey(&tx.Transaction)
	g := p.order.find(&key)
	if g == none || tx.Nonce.Nonce == 0 {
		return false
	}
	_, ok := p.nonces[nonceKey{g, tx.Nonce.Nonce - 1}]
	return ok
}

// Front returns the transaction with the lowest nonce of those that wait of the same key; nil: none does.
func (p *Pool) Front(tx *primitives.SignedTransaction) *primitives.SignedTransaction {
	key := p.groupKey(&tx.Transaction)
	g := p.order.find(&key)
	if g == none || len(p.groups[g].waiting) == 0 {
		return nil
	}
	return p.entries[p.groups[g].waiting[0]].tx
}

// Crowded tells whether more than half of the places or bytes are taken.
func (p *Pool) Crowded() bool {
	return exceeds(p.limits.Transactions/2, uint64(len(p.byHash)), 1) || exceeds(p.limits.Bytes/2, p.bytes, 1)
}

// Add takes a transaction whose base block has height base. One that is there already is no error: added is false.
func (p *Pool) Add(tx *primitives.SignedTransaction, base primitives.Height) (added bool, err error) {
	hash, size := tx.Hash(), uint64(tx.Size())
	if _, ok := p.byHash[hash]; ok {
		return false, nil
	}
	if p.expired(base) {
		return false, ErrExpired
	}
	if exceeds(p.limits.Transactions, uint64(len(p.byHash)), 1) {
		return false, ErrFull
	}
	if exceeds(p.limits.Bytes, p.bytes, size) {
		return false, ErrBytes
	}
	key := p.groupKey(&tx.Transaction)
	g := p.order.find(&key)
	if g != none {
		at := &p.groups[g]
		if by, ok := p.nonces[nonceKey{g, tx.Nonce.Nonce}]; ok {
			return false, &NonceTaken{Nonce: tx.Nonce.Nonce, By: p.entries[by].tx.Hash()}
		}
		if exceeds(p.limits.KeyTransactions, uint64(at.count), 1) || exceeds(p.limits.KeyBytes, at.bytes, size) {
			return false, ErrKeyFull
		}
	} else {
		if exceeds(p.limits.KeyBytes, 0, size) {
			return false, ErrKeyFull
		}
		g = p.order.insert(key)
		if int(g) == len(p.groups) {
			p.groups = append(p.groups, group{})
		}
	}
	e := p.newEntry(entry{tx: tx, key: [2]uint64{uint64(tx.Nonce.Nonce), uint64(base)}, place: [2]int32{none, none}, group: g})
	p.byHash[hash] = e
	p.nonces[nonceKey{g, tx.Nonce.Nonce}] = e
	at := &p.groups[g]
	at.waiting = p.heapPush(at.waiting, byNonce, e)
	at.count++
	at.bytes += size
	p.oldest = p.heapPush(p.oldest, byAge, e)
	p.bytes += size
	return true, nil
}

// exceeds tells whether have and more exceed limit. No sum of sizes in memory overflows.
func exceeds(limit, have, more uint64) bool { return limit != 0 && have+more > limit }

func (p *Pool) newEntry(e entry) int32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.entries[i] = e
		return i
	}
	p.entries = append(p.entries, e)
	return int32(len(p.entries) - 1)
}

// Remove takes out a transaction, if it is there: a block has included it.
func (p *Pool) Remove(hash primitives.Hash) bool {
	i, ok := p.byHash[hash]
	if ok {
		p.remove(i)
	}
	return ok
}

func (p *Pool) remove(i int32) {
	e := &p.entries[i]
	size := uint64(e.tx.Size())
	g := &p.groups[e.group]
	if at := e.place[byNonce]; at != none {
		g.waiting = p.heapRemove(g.waiting, byNonce, int(at))
	}
	p.oldest = p.heapRemove(p.oldest, byAge, int(e.place[byAge]))
	g.count--
	g.bytes -= size
	p.bytes -= size
	delete(p.byHash, e.tx.Hash())
	delete(p.nonces, nonceKey{e.group, primitives.Nonce(e.key[byNonce])})
	if g.count == 0 {
		p.order.remove(e.group)
		*g = group{waiting: shrink(g.waiting)}
	}
	*e = entry{group: none}
	p.free = append(p.free, i)
}

// shrink gives back the memory of a group that was large.
func shrink(h []int32) []int32 {
	if cap(h) > 16 {
		return nil
	}
	return h[:0]
}

func (p *Pool) expired(base primitives.Height) bool { return p.head > base && p.head-base > p.period }

// Advance sets the head's height, which may also fall when the chain reorganises, and drops what has expired, oldest base
// first; so a full pool holds nothing that could make room. It returns what it dropped.
func (p *Pool) Advance(head primitives.Height) []*primitives.SignedTransaction {
	p.head = head
	var out []*primitives.SignedTransaction
	for len(p.oldest) > 0 {
		e := p.oldest[0]
		if !p.expired(primitives.Height(p.entries[e].key[byAge])) {
			break
		}
		out = append(out, p.entries[e].tx)
		p.remove(e)
	}
	return out
}

// Each calls f for what the pool holds, with the heights of the base blocks, in no order.
func (p *Pool) Each(f func(tx *primitives.SignedTransaction, base primitives.Height)) {
	for _, i := range p.byHash {
		f(p.entries[i].tx, primitives.Height(p.entries[i].key[byAge]))
	}
}

// Drain empties the pool and returns what it held with the heights of the base blocks, by hash order of groups: for the
// pools that follow when a shard is split.
func (p *Pool) Drain(each func(tx *primitives.SignedTransaction, base primitives.Height)) {
	if p.round != nil {
		p.round.End()
	}
	for g := p.order.first(); g != none; g = p.order.first() {
		for n := p.groups[g].count; n > 0; n-- {
			e := p.groups[g].waiting[0]
			tx, base := p.entries[e].tx, primitives.Height(p.entries[e].key[byAge])
			p.remove(e)
			each(tx, base)
		}
	}
}
