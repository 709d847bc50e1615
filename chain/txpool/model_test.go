package txpool

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// model is a simple reference pool: a list that is searched and sorted each time.
type model struct {
	limits Limits
	period primitives.Height
	key    func(*primitives.Transaction) primitives.Hash
	head   primitives.Height
	all    []*item
	cursor primitives.Hash
}

type item struct {
	tx    *primitives.SignedTransaction
	group primitives.Hash
	base  primitives.Height
}

func (m *model) expired(base primitives.Height) bool { return m.head > base+m.period }

func (m *model) add(tx *primitives.SignedTransaction, base primitives.Height) (bool, error) {
	var total, size, keyTotal, keySize uint64
	group := m.key(&tx.Transaction)
	var taken error
	for _, x := range m.all {
		if x.tx.Hash() == tx.Hash() {
			return false, nil
		}
		total, size = total+1, size+uint64(x.tx.Size())
		if x.group == group {
			keyTotal, keySize = keyTotal+1, keySize+uint64(x.tx.Size())
			if x.tx.Nonce.Nonce == tx.Nonce.Nonce {
				taken = &NonceTaken{Nonce: tx.Nonce.Nonce, By: x.tx.Hash()}
			}
		}
	}
	more := uint64(tx.Size())
	switch {
	case m.expired(base):
		return false, ErrExpired
	case total+1 > m.limits.Transactions:
		return false, ErrFull
	case size+more > m.limits.Bytes:
		return false, ErrBytes
	case taken != nil:
		return false, taken
	case keyTotal+1 > m.limits.KeyTransactions || keySize+more > m.limits.KeyBytes:
		return false, ErrKeyFull
	}
	m.all = append(m.all, &item{tx: tx, group: group, base: base})
	return true, nil
}

func (m *model) remove(hash primitives.Hash) {
	m.all = slices.DeleteFunc(m.all, func(x *item) bool { return x.tx.Hash() == hash })
}

func (m *model) advance(head primitives.Height) (dropped []primitives.Hash) {
	m.head = head
	m.all = slices.DeleteFunc(m.all, func(x *item) bool {
		if m.expired(x.base) {
			dropped = append(dropped, x.tx.Hash())
			return true
		}
		return false
	})
	return dropped
}

// round returns the transactions that a chunk producer keeps, at most limit of them. verdict
// determines how the producer treats each transaction.
func (m *model) round(limit int, verdict func(*primitives.SignedTransaction) byte) (out []primitives.Hash) {
	groups := map[primitives.Hash][]*item{}
	for _, x := range m.all {
		groups[x.group] = append(groups[x.group], x)
	}
	var order []primitives.Hash
	for key, g := range groups {
		slices.SortFunc(g, func(a, b *item) int { return cmp.Compare(a.tx.Nonce.Nonce, b.tx.Nonce.Nonce) })
		order = append(order, key)
	}
	slices.SortFunc(order, func(a, b primitives.Hash) int { return bytes.Compare(a[:], b[:]) })
	split, _ := slices.BinarySearchFunc(order, m.cursor, func(a, b primitives.Hash) int {
		return cmp.Or(bytes.Compare(a[:], b[:]), -1)
	})
	order = append(order[split:len(order):len(order)], order[:split]...)
	for i := 0; i < len(order); i++ {
		if i > 0 {
			m.cursor = order[i-1]
		}
		if len(out) >= limit {
			return out
		}
		key, moved := order[i], false
	visit:
		for len(groups[key]) > 0 {
			x := groups[key][0]
			switch verdict(x.tx) {
			case keepIt:
				groups[key], moved = groups[key][1:], true
				out = append(out, x.tx.Hash())
				break visit
			case dropIt:
				groups[key], moved = groups[key][1:], true
				m.remove(x.tx.Hash())
			default:
				break visit
			}
		}
		if moved && len(groups[key]) > 0 {
			order = append(order, key)
		}
	}
	if len(order) > 0 {
		m.cursor = order[len(order)-1]
	}
	return out
}

const (
	keepIt = iota
	dropIt
	parkIt
)

// walk does the same as model.round with the pool under test.
func walk(p *Pool, limit int, verdict func(*primitives.SignedTransaction) byte) (out []primitives.Hash) {
	r := p.Round()
	defer r.End()
	for r.Next() {
		if len(out) >= limit {
			return out
		}
	visit:
		for tx := r.Peek(); tx != nil; tx = r.Peek() {
			switch verdict(tx) {
			case keepIt:
				r.Keep(tx)
				out = append(out, tx.Hash())
				break visit
			case dropIt:
				r.Drop(tx)
			default:
				break visit
			}
		}
	}
	return out
}

var testKeys = func() (keys [4]primitives.PublicKey) {
	for i := range keys {
		keys[i] = primitives.PublicKey(append([]byte{0}, bytes.Repeat([]byte{byte(i + 1)}, 32)...))
	}
	return keys
}()

// testTx is a transaction whose signer, key and nonce index depend on i, with the given nonce. salt
// makes transactions differ that are otherwise equal.
func testTx(i byte, nonce primitives.Nonce, salt byte) *primitives.SignedTransaction {
	t := primitives.Transaction{
		SignerID: primitives.AccountID(fmt.Sprintf("s%d.near", i/8%8)), PublicKey: testKeys[i/2%4],
		Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: "r.near", BlockHash: primitives.Hash{salt},
	}
	if i%2 == 1 {
		t.Version, t.Nonce.HasIndex, t.Nonce.Index = primitives.TransactionV1, true, uint16(i%3)
	}
	for range salt % 3 {
		t.Actions = append(t.Actions, &primitives.CreateAccount{})
	}
	return primitives.NewSignedTransaction(t, primitives.ZeroED25519Signature)
}

// run applies a script, with four bytes for each operation, to both pools.
func run(t *testing.T, script []byte) {
	limits := Limits{Transactions: 40, Bytes: 6000, KeyTransactions: 7, KeyBytes: 1100}
	const period = 9
	p := New(limits, period, primitives.Hash{7})
	m := &model{limits: limits, period: period, key: p.groupKey}
	var known []primitives.Hash
	for n := 0; len(script) >= 4; n, script = n+1, script[4:] {
		op, a, b, c := script[0], script[1], script[2], script[3]
		switch op % 8 {
		case 0, 1, 2, 3:
			base := m.head + primitives.Height(c%4)
			if back := primitives.Height(c / 16); c%8 == 7 && base >= back {
				base -= back
			}
			tx := testTx(a%64, primitives.Nonce(b%16), c%5)
			got, gotErr := p.Add(tx, base)
			want, wantErr := m.add(tx, base)
			if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("op %d: add = %v, %v, want %v, %v", n, got, gotErr, want, wantErr)
			}
			known = append(known, tx.Hash())
		case 4:
			if len(known) > 0 {
				h := known[int(binary.LittleEndian.Uint16([]byte{a, b}))%len(known)]
				p.Remove(h)
				m.remove(h)
			}
		case 5:
			head := m.head + primitives.Height(a%4)
			if a%16 == 0 {
				head -= min(head, 3)
			}
			got := make([]primitives.Hash, 0)
			for _, tx := range p.Advance(head) {
				got = append(got, tx.Hash())
			}
			if want := m.advance(head); !sameSet(got, want) {
				t.Fatalf("op %d: advance dropped %v, want %v", n, got, want)
			}
		default:
			verdict := func(tx *primitives.SignedTransaction) byte {
				h := tx.Hash()
				switch x := h[0] ^ b; {
				case x < 40:
					return dropIt
				case x < 60:
					return parkIt
				}
				return keepIt
			}
			got, want := walk(p, int(a%32), verdict), m.round(int(a%32), verdict)
			if !slices.Equal(got, want) {
				t.Fatalf("op %d: round = %v, want %v", n, got, want)
			}
			if p.cursor != m.cursor {
				t.Fatalf("op %d: cursor = %v, want %v", n, p.cursor, m.cursor)
			}
		}
		check(t, p, m)
	}
}

func sameSet(a, b []primitives.Hash) bool {
	order := func(a, b primitives.Hash) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(a, order)
	slices.SortFunc(b, order)
	return slices.Equal(a, b)
}

// check compares the pool with the model, and checks that its indexes are consistent.
func check(t *testing.T, p *Pool, m *model) {
	t.Helper()
	var size uint64
	groups := map[primitives.Hash]int{}
	for _, x := range m.all {
		size += uint64(x.tx.Size())
		groups[x.group]++
		if p.Find(x.tx.Hash()) != x.tx {
			t.Fatalf("%v is not found", x.tx.Hash())
		}
	}
	if p.Len() != len(m.all) || p.Bytes() != size || p.Groups() != len(groups) {
		t.Fatalf("pool has %d transactions, %d bytes, %d groups, want %d, %d, %d",
			p.Len(), p.Bytes(), p.Groups(), len(m.all), size, len(groups))
	}
	if len(p.oldest) != p.Len() || len(p.nonces) != p.Len() {
		t.Fatalf("%d ages and %d nonces of %d transactions", len(p.oldest), len(p.nonces), p.Len())
	}
	for which, h := range [2][]int32{byAge: p.oldest} {
		for i, e := range h {
			if p.entries[e].place[which] != int32(i) || i > 0 && p.entries[h[(i-1)/2]].key[which] > p.entries[e].key[which] {
				t.Fatalf("heap %d is out of order at %d", which, i)
			}
		}
	}
}

func TestPoolMatchesModel(t *testing.T) {
	t.Parallel()
	rng := primitives.NewChaCha8Rng([32]byte{1})
	for range 60 {
		script := make([]byte, 4*400)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		run(t, script)
	}
}

func FuzzPool(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x02\x00\x06\x20\x00\x00\x05\x03\x00\x00\x04\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4*600 {
			t.Skip("the model is slow")
		}
		run(t, script)
	})
}

func TestAddErrorsAreTyped(t *testing.T) {
	t.Parallel()
	p := New(Limits{Transactions: 3, KeyTransactions: 2}, 10, primitives.Hash{})
	first := testTx(0, 5, 0)
	if added, err := p.Add(first, 0); !added || err != nil {
		t.Fatalf("add = %v, %v", added, err)
	}
	if added, err := p.Add(first, 0); added || err != nil {
		t.Errorf("the same again = %v, %v, want false, nil", added, err)
	}
	var taken *NonceTaken
	if _, err := p.Add(testTx(0, 5, 1), 0); !errors.As(err, &taken) || taken.By != first.Hash() {
		t.Errorf("same nonce: %v, want NonceTaken by %v", err, first.Hash())
	}
	p.Add(testTx(0, 6, 0), 0)
	if _, err := p.Add(testTx(0, 7, 0), 0); err != ErrKeyFull {
		t.Errorf("third of a key: %v, want %v", err, ErrKeyFull)
	}
	p.Add(testTx(8, 6, 0), 0)
	if _, err := p.Add(testTx(16, 7, 0), 0); err != ErrFull {
		t.Errorf("fourth: %v, want %v", err, ErrFull)
	}
	if dropped := p.Advance(11); len(dropped) != 3 || p.Len() != 0 {
		t.Errorf("advance dropped %d, %d left, want 3, 0", len(dropped), p.Len())
	}
	if _, err := p.Add(first, 0); err != ErrExpired {
		t.Errorf("old base: %v, want %v", err, ErrExpired)
	}
}
