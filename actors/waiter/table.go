package waiter

import "github.com/troupe-chain/troupe/primitives"

// table is a small map that keeps the order of insertion. A table has an index only when it is
// large: most transactions have two or three outcomes, and there are thousands of waiters.
type table[T any] struct {
	rows  []row[T]
	index map[primitives.Hash]int // index in rows by hash; nil: there are at most unindexedRows rows
}

type row[T any] struct {
	id    primitives.Hash
	value T
}

// unindexedRows is the maximum number of rows that are searched without an index.
const unindexedRows = 8

// get returns a pointer to the value of an id, or nil. The pointer is valid until the next put.
func (t *table[T]) get(id primitives.Hash) *T {
	if t.index != nil {
		if i, ok := t.index[id]; ok {
			return &t.rows[i].value
		}
		return nil
	}
	for i := range t.rows {
		if t.rows[i].id == id {
			return &t.rows[i].value
		}
	}
	return nil
}

func (t *table[T]) put(id primitives.Hash, of T) {
	if at := t.get(id); at != nil {
		*at = of
		return
	}
	t.rows = append(t.rows, row[T]{id, of})
	switch {
	case t.index != nil:
		t.index[id] = len(t.rows) - 1
	case len(t.rows) > unindexedRows:
		t.index = make(map[primitives.Hash]int, 2*unindexedRows)
		for i := range t.rows {
			t.index[t.rows[i].id] = i
		}
	}
}

func (t *table[T]) clear() { t.rows, t.index = nil, nil }
