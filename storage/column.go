package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Rule says how often the value of a key may be written.
type Rule byte

// The rules.
const (
	Insert  Rule = iota // a second Put of a key must write the same bytes
	Replace             // a second Put of a key replaces the value
)

func (r Rule) String() string { return [...]string{"insert", "replace"}[r] }

// Column is one kind of row of the index. On disk a key is the column's ID followed by key(k). The
// value is V's borsh encoding. Integers in keys are big-endian, so that scans return them in
// numeric order.
type Column[K, V any] struct {
	id     byte
	name   string
	rule   Rule
	key    func([]byte, K) []byte
	encode func([]byte, *V) []byte
	decode func(*borsh.Reader, *V)
}

// columnInfo describes a column in columnTable.
type columnInfo struct {
	id         byte
	name       string
	rule       Rule
	key, value string
}

var columnTable [256]*columnInfo

// column declares a column. IDs are never reused: column panics if the ID is taken.
func column[K, V any, P interface {
	*V
	borsh.Appender
	borsh.Decoder
}](id byte, name string, rule Rule, key func([]byte, K) []byte) *Column[K, V] {
	if old := columnTable[id]; old != nil {
		panic(fmt.Sprintf("storage: columns %s and %s share ID %#02x", old.name, name, id))
	}
	var k K
	var v V
	columnTable[id] = &columnInfo{id: id, name: name, rule: rule, key: fmt.Sprintf("%T", k), value: fmt.Sprintf("%T", v)}
	return &Column[K, V]{
		id: id, name: name, rule: rule, key: key,
		encode: func(b []byte, v *V) []byte { return P(v).AppendBorsh(b) },
		decode: func(r *borsh.Reader, v *V) { P(v).DecodeBorsh(r) },
	}
}

func (c *Column[K, V]) dbKey(k K) []byte { return c.key(append(make([]byte, 0, 48), c.id), k) }

// Get returns the value of k. Errors name the column and the key. The error for an absent key is
// ErrNotFound.
func (c *Column[K, V]) Get(r Getter, k K) (V, error) {
	var v V
	raw, err := r.get(c.dbKey(k))
	if err == nil {
		err = c.unmarshal(raw, &v)
	}
	if err != nil {
		return v, fmt.Errorf("%s %v: %w", c.name, k, err)
	}
	return v, nil
}

// unmarshal decodes exactly one value. A value that does not decode is ErrDamaged.
func (c *Column[K, V]) unmarshal(raw []byte, v *V) error {
	r := borsh.NewReader(raw)
	c.decode(r, v)
	if err := r.Close(); err != nil {
		return damaged("%w", err)
	}
	return nil
}

// Put adds a write of the value of k to the batch.
func (c *Column[K, V]) Put(b *Batch, k K, v *V) {
	b.key, b.value = c.key(append(b.key[:0], c.id), k), c.encode(b.value[:0], v)
	b.put(b.key, b.value)
}

// Delete adds a deletion of k to the batch. k need not be present.
func (c *Column[K, V]) Delete(b *Batch, k K) {
	b.key = c.key(append(b.key[:0], c.id), k)
	b.delete(b.key)
}

// Scan calls f for each entry with a key in [lo, hi), in ascending order, until f returns false.
// lo, hi and the key passed to f lack the column ID. A nil hi means the end of the column. The key
// is valid during the call only.
func (c *Column[K, V]) Scan(r Reader, lo, hi []byte, f func(key []byte, v V) bool) error {
	from, to := append([]byte{c.id}, lo...), append([]byte{c.id}, hi...)
	if hi == nil {
		to = []byte{c.id + 1}
	}
	cur := r.iterate(from, to)
	for cur.next() {
		var v V
		if err := c.unmarshal(cur.value(), &v); err != nil {
			key := fmt.Sprintf("%x", cur.key()[1:])
			_ = cur.done()
			return fmt.Errorf("%s %s: %w", c.name, key, err)
		}
		if !f(cur.key()[1:], v) {
			break
		}
	}
	if err := cur.done(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}
