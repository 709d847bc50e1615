package partialwitness

import "slices"

// recent is a map that evicts the least recently used entry when the map has more than limit
// entries.
type recent[K comparable, V any] struct {
	limit int
	order []K // keys of the map, least recently used first
	by    map[K]V
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{limit: limit, by: map[K]V{}}
}

// get returns a value and makes its entry the most recently used.
func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if v, ok = r.by[k]; ok {
		r.touch(k)
	}
	return v, ok
}

func (r *recent[K, V]) touch(k K) {
	i := slices.Index(r.order, k)
	r.order = append(slices.Delete(r.order, i, i+1), k)
}

// put sets a value, makes its entry the most recently used, and evicts the least recently used
// entry if there are more than r.limit entries.
func (r *recent[K, V]) put(k K, v V) {
	if _, ok := r.by[k]; ok {
		r.touch(k)
	} else {
		r.order = append(r.order, k)
	}
	r.by[k] = v
	if len(r.order) > r.limit {
		r.drop(r.order[0])
	}
}

func (r *recent[K, V]) has(k K) bool {
	_, ok := r.by[k]
	return ok
}

func (r *recent[K, V]) drop(k K) {
	if i := slices.Index(r.order, k); i >= 0 {
		r.order = slices.Delete(r.order, i, i+1)
		delete(r.by, k)
	}
}
