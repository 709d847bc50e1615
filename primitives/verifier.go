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

// Verifier is Signature.Verify with a memory of the ed25519 keys seen lately: a key that comes
// again costs a sixth less, and one that has come often two thirds less. It is safe for concurrent
// use; results never depend on what it remembers.
type Verifier struct {
	most  int // keys
	often int // times after which a key gets a table
	// checks after which another key may have the table of one that did not come, and how often a
	// key came counts half
	stale uint64

	mu     sync.Mutex
	keys   map[PublicKey]*list.Element // of *knownKey
	recent list.List                   // the one used last first
	tables []*knownKey                 // those that have a table
	clock  uint64                      // checks so far
}

// maxTables is how many keys have a table, 130 KiB each. One pays when its key has come some ten
// times more, so that a key gets it when it has come oftenUsed times, and keeps it until another
// comes twice as often: who keeps others from having tables has to come as often with each key of
// as many, and where more keys than there are tables come in turn, none is made in vain.
const (
	maxTables = 64
	oftenUsed = 32
	staleKey  = 4096
)

// knownKey is a key with what was made of it.
type knownKey struct {
	key      PublicKey
	expanded *ed25519.ExpandedPublicKey
	table    *multiples.Table // of its negation; nil: there is none
	times    int              // seen again since a place was looked for
	late     int              // seen again lately: what it was stale checks ago counts half
	age      uint64           // how often late was halved, of all that it could have been
	last     uint64           // of clock
}

// NewVerifier returns a Verifier that remembers up to n keys (1.5 KiB each), the least recently
// used going first, and of up to 64 of them, which come most often, a table (130 KiB): those go
// last.
func NewVerifier(n int) *Verifier { return newVerifier(n, oftenUsed, staleKey) }

func newVerifier(n, often int, stale uint64) *Verifier {
	return &Verifier{most: n, often: often, stale: stale, keys: map[PublicKey]*list.Element{}}
}

// Verify tells whether s is key's signature of data.
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
	return false // no point
}

// known returns what is known of a key, which is remembered from now on. Nothing is of one that is
// no point.
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
			if slices.Contains(v.tables, k) { // it has not lost its place meanwhile
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

// forget makes room for a key: the least recently used one goes that has no table, if there is one.
// The caller holds mu.
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

// came is how often a key has come lately. The caller holds mu.
func (v *Verifier) came(k *knownKey) int {
	if age := v.clock / max(v.stale, 1); age > k.age {
		k.late >>= min(age-k.age, 63)
		k.age = age
	}
	return k.late
}

// place gives a key a place among those that have tables: if there are too many that of the one
// that was not used for longest, or of the one that comes least, if that is less than half as
// often. false: it has to come as often again before there is another look. The caller holds mu,
// and makes the table.
func (v *Verifier) place(k *knownKey) bool {
	k.times = 0
	if slices.Contains(v.tables, k) {
		return false // somebody makes it just now
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

// tableOf makes the table of a key that is a point.
func tableOf(key PublicKey) *multiples.Table {
	var compressed curve.CompressedEdwardsY
	copy(compressed[:], key[1:])
	var p curve.EdwardsPoint
	if _, err := p.SetCompressedY(&compressed); err != nil {
		panic("primitives: a key that was one is none") // known has seen to it
	}
	return multiples.New(p.Neg(&p))
}

// verifyByTable checks what ed25519Rules say: S below the order, and the bytes of S·B - H(R ‖ A ‖
// data)·A, which are the canonical ones, are those of R. Both products are sums of table entries,
// where the way without a table doubles 255 times.
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
