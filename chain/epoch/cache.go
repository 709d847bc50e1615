package epoch

// cache keeps a fixed number of the most recently added entries. Not safe for concurrent use.
type cache[K comparable, V any] struct {
	entries map[K]V
	order   []K // ring buffer of keys; if it is full, the oldest key is at index next
	next    int
}

func newCache[K comparable, V any](size int) *cache[K, V] {
	return &cache[K, V]{entries: make(map[K]V), order: make([]K, 0, size)}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, ok := c.entries[k]
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) {
	if _, ok := c.entries[k]; !ok {
		if len(c.order) < cap(c.order) {
			c.order = append(c.order, k)
		} else {
			delete(c.entries, c.order[c.next])
			c.order[c.next] = k
			c.next = (c.next + 1) % len(c.order)
		}
	}
	c.entries[k] = v
}

// drop removes k. The ring keeps the slot of k until the slot is reused.
func (c *cache[K, V]) drop(k K) { delete(c.entries, k) }
