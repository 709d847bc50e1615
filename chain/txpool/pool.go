package txpool

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Errors of Add. neard does not report to a client that the pool is full; the client waits until a
// timeout.
var (
	ErrFull    = errors.New("mempool: the pool is full")
	ErrBytes   = fmt.Errorf("%w: too many bytes", ErrFull)
	ErrKeyFull = errors.New("mempool: too many transactions of one key")
	ErrExpired = errors.New("mempool: the transaction has expired")
)

// NonceTaken means that the pool contains another transaction, By, with the key and the nonce of
// the rejected transaction.
type NonceTaken struct {
	Nonce primitives.Nonce
	By    primitives.Hash
}

func (e *NonceTaken) Error() string {
	return fmt.Sprintf("mempool: nonce %d is taken by transaction %v", e.Nonce, e.By)
}

// Limits bounds a pool. Zero means no limit.
type Limits struct {
	Transactions, Bytes uint64 // maximum number and total size (bytes) of all transactions in the pool
	// maximum number and bytes of the transactions of one group (signer, key and nonce index)
	KeyTransactions, KeyBytes uint64
}

// Pool contains the pending transactions of one shard. It is not safe for concurrent use.
type Pool struct {
	limits Limits
	period primitives.Height
	seed   primitives.Hash

	head      primitives.Height
	bytes     uint64
	byHash    map[primitives.Hash]int32 // index in entries
	nonces    map[nonceKey]int32        // index in entries
	entries   []entry
	free      []int32 // indices of unused entries
	oldest    []int32 // heap of indices in entries, by height of the base block
	order     tree    // group keys; the index of a node is the index of its group
	groups    []group
	cursor    primitives.Hash // key of the group used last, which may have been removed
	round     *Round
	lastVisit uint64 // number of the newest round
	scratch   []byte
}

type nonceKey struct {
	group int32
	nonce primitives.Nonce
}

type entry struct {
	tx    *primitives.SignedTransaction
	key   [2]uint64 // the keys in both heaps: nonce, and height of the base block
	place [2]int32  // index in each heap; none: the entry is in no heap, because the round kept it
	group int32
}

// group holds the transactions of one signer, key and nonce index.
type group struct {
	waiting    []int32 // heap of indices in entries, by nonce
	count      int     // number of transactions, including the transactions that the round kept
	bytes      uint64
	visit      uint64 // number of the last round that visited the group
	progressed bool   // the round kept or dropped a transaction since its last visit
}

// New returns an empty pool. A transaction is valid while head - base <= period, where period is
// the chain's transaction_validity_period. seed determines the order of groups. seed should be
// secret and new in every process.
func New(limits Limits, period primitives.Height, seed primitives.Hash) *Pool {
	return &Pool{
		limits: limits, period: period, seed: seed,
		byHash: map[primitives.Hash]int32{}, nonces: map[nonceKey]int32{}, order: newTree(),
	}
}

// Len returns the number of transactions, Bytes the sum of their sizes, Groups the number of
// groups.
func (p *Pool) Len() int      { return len(p.byHash) }
func (p *Pool) Bytes() uint64 { return p.bytes }
func (p *Pool) Groups() int   { return len(p.order.nodes) - len(p.order.free) }

// Find returns the transaction with this hash, or nil.
func (p *Pool) Find(hash primitives.Hash) *primitives.SignedTransaction {
	if i, ok := p.byHash[hash]; ok {
		return p.entries[i].tx
	}
	return nil
}

// groupKey returns the hash by which groups are ordered (nearcore chain/pool/src/lib.rs:86).
func (p *Pool) groupKey(tx *primitives.Transaction) primitives.Hash {
	b := tx.PublicKey.AppendBorsh(p.scratch[:0])
	b = append(append(b, p.seed[:]...), tx.SignerID...)
	if tx.Nonce.HasIndex {
		b = borsh.AppendUint16(b, tx.Nonce.Index)
	}
	p.scratch = b
	return primitives.HashBytes(b)
}

// HasPredecessor returns whether the pool contains a transaction of the same group whose nonce is
// lower by one.
func (p *Pool) HasPredecessor(tx *primitives.SignedTransaction) bool {
	key := p.groupKey(&tx.Transaction)
	g := p.order.find(&key)
	if g == none || tx.Nonce.Nonce == 0 {
		return false
	}
	_, ok := p.nonces[nonceKey{g, tx.Nonce.Nonce - 1}]
	return ok
}

// Front returns the transaction with the lowest nonce in the group of tx. Front ignores
// transactions that the round has kept. Front returns nil if no transaction remains.
func (p *Pool) Front(tx *primitives.SignedTransaction) *primitives.SignedTransaction {
	key := p.groupKey(&tx.Transaction)
	g := p.order.find(&key)
	if g == none || len(p.groups[g].waiting) == 0 {
		return nil
	}
	return p.entries[p.groups[g].waiting[0]].tx
}

// Crowded returns whether the pool uses more than half of its limit of transactions or of bytes.
func (p *Pool) Crowded() bool {
	return exceeds(p.limits.Transactions/2, uint64(len(p.byHash)), 1) || exceeds(p.limits.Bytes/2, p.bytes, 1)
}

// Add adds a transaction whose base block has the height base. It returns false without an error if
// the pool contains the transaction already. Errors: ErrExpired, ErrFull, ErrBytes, ErrKeyFull,
// *NonceTaken.
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
	e := p.newEntry(entry{tx: tx, key: [2]uint64{uint64(tx.Nonce.Nonce), uint64(base)}, place: [2]int32{none, none},
		group: g})
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

// exceeds returns whether have plus more exceeds limit. Limit 0 means no limit. The sum does not
// overflow, because both terms are sizes of data in memory.
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

// Remove removes a transaction that a block includes, and returns whether the pool contained it.
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

// shrink returns an empty heap. shrink frees the memory of a large heap.
func shrink(h []int32) []int32 {
	if cap(h) > 16 {
		return nil
	}
	return h[:0]
}

func (p *Pool) expired(base primitives.Height) bool { return p.head > base && p.head-base > p.period }

// Advance sets the height of the head, which may be lower after a reorganisation. Advance removes
// and returns expired transactions, so that expired transactions do not occupy space in a full
// pool.
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

// Each calls f for each transaction with the height of its base block, in no order.
func (p *Pool) Each(f func(tx *primitives.SignedTransaction, base primitives.Height)) {
	for _, i := range p.byHash {
		f(p.entries[i].tx, primitives.Height(p.entries[i].key[byAge]))
	}
}

// Drain empties the pool. It calls the function each for every transaction with the height of its
// base block, by group and ascending nonce. Drain ends an open round. The caller drains the pool
// when its shard is split.
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
