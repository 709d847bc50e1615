// Package recent is a map of the most recently added keys.
//
//	in      Put: a key and its value; Take: a key to remove
//	out     Get, Has, Len
//	state   Map: the entries, in the order in which they were added; no clock, no goroutine, no lock
//	bound   Map.Max entries; the oldest one makes room for a new one
//	errors  none
//	source  our own
package recent

// DefaultMax is the maximum number of entries of a Map whose Max is 0.
const DefaultMax = 64

// Map has the entries that were added last. Getting an entry, or putting it again, does not make it
// newer, so no peer can keep an entry by repeating it. The zero value is empty and ready to use. Each
// method takes constant time. Not safe for concurrent use.
type Map[K comparable, V any] struct {
	// Max is the maximum number of entries. It must not change after the first Put. 0: DefaultMax.
	Max int

	of             map[K]*entry[K, V]
	oldest, newest *entry[K, V]
}

// entry is an element of the list of entries.
type entry[K comparable, V any] struct {
	key          K
	value        V
	older, newer *entry[K, V]
}

// Put adds a key and returns true. If the map has the key, Put changes nothing and returns false. If
// the map is full, its oldest entry is removed.
func (m *Map[K, V]) Put(key K, value V) bool {
	if m.of[key] != nil {
		return false
	}
	if m.Max == 0 {
		m.Max = DefaultMax
	}
	if len(m.of) >= m.Max {
		m.remove(m.oldest)
	}
	if m.of == nil {
		m.of = map[K]*entry[K, V]{}
	}
	e := &entry[K, V]{key: key, value: value, older: m.newest}
	if m.of[key], m.newest = e, e; e.older != nil {
		e.older.newer = e
	} else {
		m.oldest = e
	}
	return true
}

// Get returns the value of a key, and whether the map has the key.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	if e := m.of[key]; e != nil {
		return e.value, true
	}
	return value, false
}

// Has returns whether the map has a key.
func (m *Map[K, V]) Has(key K) bool { return m.of[key] != nil }

// Take does the same as Get, and removes the entry.
func (m *Map[K, V]) Take(key K) (value V, ok bool) {
	e := m.of[key]
	if e == nil {
		return value, false
	}
	m.remove(e)
	return e.value, true
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return len(m.of) }

func (m *Map[K, V]) remove(e *entry[K, V]) {
	delete(m.of, e.key)
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		m.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		m.newest = e.older
	}
}
