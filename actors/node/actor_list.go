package node

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/primitives"
)

// kindView is the console's view of the actors of one kind and shard. Times are in ns. Histograms
// have one count for each bucket; the last bucket has no upper bound.
type kindView struct {
	Kind     string   `json:"kind"`
	Shard    *string  `json:"shard"`
	Alive    int64    `json:"alive"`
	Mailbox  int64    `json:"mailbox"`
	Messages int64    `json:"messages"`
	Busy     int64    `json:"busy_ns"`
	Oldest   int64    `json:"oldest_ns"`
	Since    int64    `json:"since_ns"`
	Restarts int64    `json:"restarts"`
	Dead     int64    `json:"dead_letters"`
	Stalls   int64    `json:"standstills"`
	Waited   []uint64 `json:"waited"`
	Handled  []uint64 `json:"handled"`
}

// AppendActors appends a JSON report on the actors to b, for the console. It contains the bounds of
// the histograms, the kinds, and at most `most` actors. Each actor is an array: path, index of its
// kind, number of waiting messages, number of handled messages, age of the oldest waiting message
// in µs, running time of the current handler in µs.
func (n *Node) AppendActors(b []byte, most int) []byte {
	samples := n.Meter()
	list, all := n.spawner.meter.List(most)
	index := make(map[[2]string]int, len(samples))
	kinds := make([]kindView, len(samples))
	for i := range samples {
		s := &samples[i]
		index[[2]string{s.Name, s.Shard}] = i
		kinds[i] = kindView{Kind: s.Name, Alive: s.Alive, Mailbox: s.Mailbox, Messages: s.Messages, Busy: int64(s.Busy),
			Oldest: int64(s.Oldest), Since: int64(s.Since),
			Restarts: s.Restarts, Dead: s.Dead, Stalls: s.Stalls, Waited: s.Waited.Counts[:], Handled: s.Handled.Counts[:]}
		if s.Shard != "" {
			kinds[i].Shard = &s.Shard
		}
	}
	head, err := json.Marshal(struct {
		Uptime int64           `json:"uptime_ns"`
		Total  int             `json:"total"`
		Bounds []time.Duration `json:"bounds_ns"`
		Kinds  []kindView      `json:"kinds"`
	}{int64(time.Since(n.stats.begun)), all, system.Bounds[:], kinds})
	if err != nil {
		panic(err) // cannot happen, because the values are only numbers and names
	}
	b = append(append(b, head[:len(head)-1]...), `,"actors":[`...)
	first := true
	for i := range list {
		x := &list[i]
		kind, ok := index[[2]string{x.Name, x.Shard}]
		if !ok { // the first actor of this kind started after Meter was read
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = primitives.AppendJSONString(append(b, '['), x.ID)
		for _, v := range [...]int64{int64(kind), x.Mailbox, x.Messages, x.Oldest.Microseconds(), x.Since.Microseconds()} {
			b = strconv.AppendInt(append(b, ','), v, 10)
		}
		b = append(b, ']')
	}
	return append(b, "]}"...)
}
