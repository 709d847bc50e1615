package epoch

import (
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// AccountEntry is a pair of an AccountMap.
type AccountEntry[V any] struct {
	Account primitives.AccountID
	Value   V
}

// AccountMap maps accounts to values. An AccountMap is a list of pairs in ascending order of
// accounts, so iteration is deterministic and the encoding is that of a borsh map. The zero value
// is empty.
type AccountMap[V any] []AccountEntry[V]

func (m AccountMap[V]) find(a primitives.AccountID) (int, bool) {
	return slices.BinarySearchFunc(m, a, func(e AccountEntry[V], a primitives.AccountID) int {
		return strings.Compare(string(e.Account), string(a))
	})
}

// Get returns an account's value. If the account has no value, Get returns the zero value and
// false.
func (m AccountMap[V]) Get(a primitives.AccountID) (V, bool) {
	if i, ok := m.find(a); ok {
		return m[i].Value, true
	}
	var zero V
	return zero, false
}

// Has returns whether an account has a value.
func (m AccountMap[V]) Has(a primitives.AccountID) bool {
	_, ok := m.find(a)
	return ok
}

// Set sets an account's value, and replaces an existing value.
func (m *AccountMap[V]) Set(a primitives.AccountID, v V) {
	i, ok := m.find(a)
	if ok {
		(*m)[i].Value = v
		return
	}
	*m = slices.Insert(*m, i, AccountEntry[V]{a, v})
}

// Delete removes an account and its value. It does nothing if the account is absent.
func (m *AccountMap[V]) Delete(a primitives.AccountID) {
	if i, ok := m.find(a); ok {
		*m = slices.Delete(*m, i, i+1)
	}
}

func appendAccountMap[V any](b []byte, m AccountMap[V], f func([]byte, *V) []byte) []byte {
	b = borsh.AppendLen(b, len(m))
	for i := range m {
		b = f(m[i].Account.AppendBorsh(b), &m[i].Value)
	}
	return b
}

// readAccountMap decodes a map. Keys must ascend, so that each map has only one encoding.
func readAccountMap[V any](r *borsh.Reader, minValue int, f func(*borsh.Reader) V) AccountMap[V] {
	m := AccountMap[V](borsh.Slice(r, 4+primitives.MinAccountIDLen+minValue, func(r *borsh.Reader) AccountEntry[V] {
		return AccountEntry[V]{primitives.ReadAccountID(r), f(r)}
	}))
	for i := 1; i < len(m); i++ {
		if m[i-1].Account >= m[i].Account {
			r.Failf("keys of a map do not ascend")
			return nil
		}
	}
	return m
}

func appendBalance(b []byte, v *primitives.Balance) []byte { return v.AppendBorsh(b) }

func appendUint64(b []byte, v *uint64) []byte { return borsh.AppendUint64(b, *v) }
