package waiter

import "github.com/troupe-chain/troupe/primitives"

// table is a small map by ids, in the order in which they came: most transactions have two or three outcomes, and thousands wait. A large one has an index.
type table[T any] struct {
	rows  []row[T]
	index map[primitives.Hash]int // nil: there are few rows
}

type row[T any] struct {
	id primitives.Hash
	value T
}

// unindexedRows are looked through without an index.
const unindexedRows = 8

// get returns what an id has, nil if there is nothing. It is good until the next put.
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
