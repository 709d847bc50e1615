package statesync

import "slices"

// Want has one item asked for, as long as somebody waits for it: of a shard that comes in beside the chain, whose user asks in its own order. Dropped says
// that nobody does any more. What is asked for so need not be of a shard that the machine was made with.
type (
	Want    struct{ Item Item }
	Dropped struct{ Item Item }
)

func (Want) event()    {}
func (Dropped) event() {}

func (m *Machine) want(i Item) {
	if !slices.Contains(m.wanted, i) {
		m.wanted = append(m.wanted, i)
	}
}

// unwant forgets one that has come, or that nobody waits for. What is asked for already may still come.
func (m *Machine) unwant(i Item) {
	m.wanted = slices.DeleteFunc(m.wanted, func(x Item) bool { return x == i })
}
