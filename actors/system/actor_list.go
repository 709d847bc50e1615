package system

import (
	"slices"
	"strings"
	"time"
)

// Instance is one actor at a moment.
type Instance struct {
	ID       string // its path in the tree
	Name     string // the kind
	Shard    string // empty: of no shard
	Mailbox  int64
	Messages int64         // handled since it began
	Since    time.Duration // how long the message is being handled that is not done; 0: none is
	Oldest   time.Duration // how long the first message that waits has waited; 0: none does
}

// List returns actors that live, by id, and how many there are: where there are more than most, those that have something to do rather than others.
func (m *Meter) List(most int) (out []Instance, all int) {
	now := clock()
	m.mu.Lock()
	all = len(m.boxes)
	out = make([]Instance, 0, min(all, most))
	for _, idle := range []bool{false, true} {
		for b := range m.boxes {
			if len(out) == most {
				break
			}
			waiting, from, first := b.waiting.Load(), b.busy.Load(), b.oldest.Load()
			if (waiting <= 0 && from == 0) != idle {
				continue
			}
			i := Instance{ID: b.id, Name: b.count.name.kind, Shard: b.count.name.shard, Mailbox: max(waiting, 0), Messages: b.done.Load()}
			if from != 0 {
				i.Since = time.Duration(max(now-from, 0))
			}
			if first != 0 {
				i.Oldest = time.Duration(max(now-first, 0))
			}
			out = append(out, i)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Instance) bool { return a.ID == b.ID }), all // who began to work between the two looks
}
