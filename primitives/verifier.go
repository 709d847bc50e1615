package primitives

import (
	"container/list"
	"crypto/sha512"
	"slices"
	"sync"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// Verifier is Signature.Verify with a memory of the ed25519 keys seen lately: a key that comes again costs about a tenth less, and one that has come often a
// good third less still. It is safe for concurrent use; results never depend on what it remembers.
type Verifier struct {
	most  int // keys
	often int // times after which a key gets a table

	mu     sync.Mutex
	keys   map[PublicKey]*list.Element // of *knownKey
	recent list.List                   // the one used last first
	tables []*knownKey                 // those that have a table
	clock  uint64                      // checks so far
}

// maxTables is how many keys have a table of multiples, 40 KiB each. One pays when its key has come some ten times more.
const (
	maxTables = 64
	oftenUsed = 32
)

// knownKey is a key with what was made of it.
type knownKey struct {
	key      PublicKey
	expanded *ed25519.ExpandedPublicKey
	table    *curve.EdwardsBasepointTable // of its negation; nil: there is none
	times    int                          // seen again
	last     uint64                       // of clock
}

// NewVerifier returns a Verifier that remembers up to n keys (1.5 KiB each), the least recently used going first, and of up to 64 of them,
// which come often, a table (40 KiB).
func NewVerifier(n int) *Verifier { return newVerifier(n, oftenUsed) }

func newVerifier(n, often int) *Verifier {
	return &Verifier{most: n, often: often, keys: map[PublicKey]*list.Element{}}
}

// Verify tells whether s is key's signature of data.
func (v *Verifier) Verify(s Signature, data []byte, key PublicKey) bool {
	if s == "" || key == "" || s.Type() != ED25519 || key.Type() != ED25519 {
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

// known returns what is known of a key, which is remembered from now on. Nothing is of one that is no point.
func (v *Verifier) known(key PublicKey) (*ed25519.ExpandedPublicKey, *curve.EdwardsBasepointTable) {
	v.mu.Lock()
	v.clock++
	if e := v.keys[key]; e != nil {
		v.recent.MoveToFront(e)
		k := e.Value.(*knownKey)
		k.times++
		k.last = v.clock
		expanded, table, due := k.expanded, k.table, k.times == v.often
		v.mu.Unlock()
		if due {
			table = tableOf(key)
			v.keep(k, table)
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
			oldest := v.recent.Remove(v.recent.Back()).(*knownKey)
			delete(v.keys, oldest.key)
			v.tables = slices.DeleteFunc(v.tables, func(k *knownKey) bool { return k == oldest })
		}
		v.keys[key] = v.recent.PushFront(&knownKey{key: key, expanded: expanded, last: v.clock})
	}
	return expanded, nil
}

// keep gives a key its table, in the place of the one that was not used for longest if there are too many.
func (v *Verifier) keep(k *knownKey, table *curve.EdwardsBasepointTable) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k.table = table
	if len(v.tables) < maxTables {
		v.tables = append(v.tables, k)
		return
	}
	least := 0
	for i, t := range v.tables {
		if t.last < v.tables[least].last {
			least = i
		}
	}
	v.tables[least].table, v.tables[least].times = nil, 0
	v.tables[least] = k
}

// tableOf makes the table of a key that is a point.
func tableOf(key PublicKey) *curve.EdwardsBasepointTable {
	var compressed curve.CompressedEdwardsY
	copy(compressed[:], key[1:])
	var p curve.EdwardsPoint
	if _, err := p.SetCompressedY(&compressed); err != nil {
		panic("primitives: a key that was one is none") // known has seen to it
	}
	return curve.NewEdwardsBasepointTable(p.Neg(&p))
}

// verifyByTable checks what ed25519Rules say: S below the order, and the bytes of S·B - H(R ‖ A ‖ data)·A, which are the canonical ones, are those of R.
// Both products are sums of table entries, where the way without a table doubles 255 times.
func verifyByTable(negated *curve.EdwardsBasepointTable, s Signature, data []byte, key PublicKey) bool {
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
	var p, q curve.EdwardsPoint
	p.MulBasepoint(negated, &h)
	q.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, &response)
	p.Add(&p, &q)
	var r curve.CompressedEdwardsY
	r.SetEdwardsPoint(&p)
	return string(r[:]) == string(sig[:32])
}
