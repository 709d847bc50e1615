package primitives

import (
	"cmp"
	"container/list"
	"crypto/sha512"
	"slices"
	"sync"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"

	"github.com/troupe-chain/troupe/primitives/multiples"
)

// Verifier is Signature.Verify with a cache of recently used ed25519 keys. Verification takes a
// sixth less time for a repeated key, and two thirds less for a frequent key. Results never depend
// on the cache. Safe for concurrent use.
type Verifier struct {
	most  int // maximum number of cached keys
	often int // number of uses after which a key may get a table
	// stale is a number of checks. A key that was not used in the last `stale` checks may lose its
	// table. Each time after `stale` checks, the use counts of keys are halved.
	stale uint64

	mu     sync.Mutex
	keys   map[PublicKey]*list.Element // values are *knownKey
	recent list.List                   // most recently used first
	tables []*knownKey                 // keys with a table
	clock  uint64                      // number of checks so far
}

// maxTables bounds the number of keys with a table (130 KiB each). A table pays off after some ten
// more uses of its key. So a key gets a table after oftenUsed uses, and keeps it until another key
// is twice as frequent. To displace tables, an attacker has to use other keys as often. If more
// than maxTables keys alternate, no table is built in vain.
const (
	maxTables = 64
	oftenUsed = 32
	staleKey  = 4096
)

// knownKey is a cached key.
type knownKey struct {
	key      PublicKey
	expanded *ed25519.ExpandedPublicKey
	table    *multiples.Table // table of the negated key; nil: none
	times    int              // uses since place last considered it
	late     int              // recent uses, halved each time after Verifier.stale checks
	age      uint64           // clock/stale when late was last halved
	last     uint64           // clock at the last use
}

// NewVerifier returns a Verifier that caches up to n keys (1.5 KiB each), and tables (130 KiB each)
// of up to 64 of the most frequent keys. It evicts the least recently used key, keys with tables
// last.
func NewVerifier(n int) *Verifier { return newVerifier(n, oftenUsed, staleKey) }

func newVerifier(n, often int, stale uint64) *Verifier {
	return &Verifier{most: n, often: often, stale: stale, keys: map[PublicKey]*list.Element{}}
}

// Verify returns whether s is key's signature of data.
func (v *Verifier) Verify(s Signature, data []byte, key PublicKey) bool {
	if s == "" || key == "" || s.Type() != ED25519 || key.Type() != ED25519 || len(s) != 1+ed25519.SignatureSize {
		return s.Verify(data, key)
	}
	expanded, table := v.known(key)
	switch {
	case table != nil:
		return verifyByTable(table, s, data, key)
	case expanded != nil:
		return ed25519.VerifyExpandedWithOptions(expanded, data, []byte(s[1:]), ed25519Rules)
	}
	return false // the key is not a point
}

// known returns the cached data of a key and adds the key to the cache. Both results are nil for a
// key that is not a point.
func (v *Verifier) known(key PublicKey) (*ed25519.ExpandedPublicKey, *multiples.Table) {
	v.mu.Lock()
	v.clock++
	if e := v.keys[key]; e != nil {
		v.recent.MoveToFront(e)
		k := e.Value.(*knownKey)
		k.times++
		k.late = v.came(k) + 1
		k.last = v.clock
		expanded, table := k.expanded, k.table
		due := table == nil && k.times >= v.often && v.place(k)
		v.mu.Unlock()
		if due {
			table = tableOf(key)
			v.mu.Lock()
			if slices.Contains(v.tables, k) { // k was not displaced in the meantime
				k.table = table
			}
			v.mu.Unlock()
		}
		return expanded, table
	}
	v.mu.Unlock()
	expanded, err := ed25519.NewExpandedPublicKey(ed25519.PublicKey(key[1:]))
	if err != nil {
		return nil, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.keys[key] == nil && v.most > 0 {
		if len(v.keys) >= v.most {
			v.forget()
		}
		v.keys[key] = v.recent.PushFront(&knownKey{key: key, expanded: expanded, last: v.clock})
	}
	return expanded, nil
}

// forget evicts the least recently used key that has no table. If all keys have tables, it evicts
// the least recently used key. The caller holds mu.
func (v *Verifier) forget() {
	oldest := v.recent.Back()
	for e := oldest; e != nil; e = e.Prev() {
		if !slices.Contains(v.tables, e.Value.(*knownKey)) {
			oldest = e
			break
		}
	}
	k := v.recent.Remove(oldest).(*knownKey)
	delete(v.keys, k.key)
	v.tables = slices.DeleteFunc(v.tables, func(t *knownKey) bool { return t == k })
}

// came returns the number of recent uses of a key. The caller holds mu.
func (v *Verifier) came(k *knownKey) int {
	if age := v.clock / max(v.stale, 1); age > k.age {
		k.late >>= min(age-k.age, 63)
		k.age = age
	}
	return k.late
}

// place adds a key to the keys with tables and returns whether it did. If maxTables keys have
// tables, the new key replaces the key whose last use is oldest, provided that the replaced key is
// stale. Otherwise the new key replaces the least frequent key, provided that the replaced key is
// less than half as frequent as the new key. After a refusal, the key is considered again after
// v.often more uses. The caller holds mu and builds the table.
func (v *Verifier) place(k *knownKey) bool {
	k.times = 0
	if slices.Contains(v.tables, k) {
		return false // the table of k is being built
	}
	if len(v.tables) < maxTables {
		v.tables = append(v.tables, k)
		return true
	}
	least := slices.MinFunc(v.tables, func(a, b *knownKey) int { return cmp.Compare(a.last, b.last) })
	if v.clock-least.last < v.stale {
		least = slices.MinFunc(v.tables, func(a, b *knownKey) int { return cmp.Compare(v.came(a), v.came(b)) })
		if 2*v.came(least) >= v.came(k) {
			return false
		}
	}
	least.table, least.times = nil, 0
	v.tables[slices.Index(v.tables, least)] = k
	return true
}

// tableOf builds the table of a key that is a point.
func tableOf(key PublicKey) *multiples.Table {
	var compressed curve.CompressedEdwardsY
	copy(compressed[:], key[1:])
	var p curve.EdwardsPoint
	if _, err := p.SetCompressedY(&compressed); err != nil {
		panic("primitives: a public key that was valid does not decode") // known has checked it
	}
	return multiples.New(p.Neg(&p))
}

// verifyByTable checks ed25519Rules: S is below the order, and the canonical bytes of S·B - H(R ‖ A
// ‖ data)·A equal the bytes of R. The two products are sums of table entries, instead of 255
// doublings.
func verifyByTable(negated *multiples.Table, s Signature, data []byte, key PublicKey) bool {
	var sig [64]byte
	copy(sig[:], s[1:])
	if !scalar.ScMinimalVartime(sig[32:]) {
		return false
	}
	var hash [sha512.Size]byte
	if len(data) <= 64 {
		var b [128]byte
		copy(b[:32], sig[:32])
		copy(b[32:64], key[1:])
		hash = sha512.Sum512(b[:64+copy(b[64:], data)])
	} else {
		h := sha512.New()
		_, _ = h.Write(sig[:32])
		_, _ = h.Write([]byte(key[1:]))
		_, _ = h.Write(data)
		h.Sum(hash[:0])
	}
	var h, response scalar.Scalar
	if _, err := h.SetBytesModOrderWide(hash[:]); err != nil {
		return false
	}
	if _, err := response.SetBytesModOrder(sig[32:]); err != nil {
		return false
	}
	r := negated.Sum(&h, &response)
	return string(r[:]) == string(sig[:32])
}
