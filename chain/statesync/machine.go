package statesync

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// The bounds and times; ms.
const (
	MaxAsked = 4
	Rate     = 24
	Period   = 30_000
	MaxParts = 1 << 20
	maxPause = 60_000
)

// PeerID names a host.
type PeerID = primitives.PublicKey

// Options are what a Machine works with. Zero is what neard has.
type Options struct {
	Wait  int64 // for an answer (state_sync_p2p_timeout)
	Pause int64 // of a host that did not answer, the first time (state_sync_retry_backoff)
}

// Item is what is asked for: a shard's header, or a part of its state.
type Item struct {
	Shard  primitives.ShardID
	Header bool
	Part   uint64
}

func (i Item) compare(o Item) int {
	if i.Header != o.Header {
		if i.Header {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(i.Shard, o.Shard), cmp.Compare(i.Part, o.Part))
}

// Host gives states of shards.
type Host struct {
	ID     PeerID
	Shards []primitives.ShardID
}

// Event is one of the types below.
type Event interface{ event() }

// The events.
type (
	// Hosts are all that are connected; who is not among them is gone.
	Hosts struct{ List []Host }
	// Came says that something came of who was asked for it, and is being judged.
	Came struct {
		From PeerID
		Item Item
	}
	// None says that a host can't give it now.
	None struct {
		From PeerID
		Item Item
	}
	// Judged says what became of what came. Bad: it is wrong. Own: it was not taken for a reason of this node's.
	Judged struct {
		From     PeerID
		Item     Item
		Bad, Own bool
	}
	// Known says of a shard, whose header is here, how many parts it has and which are here.
	Known struct {
		Shard primitives.ShardID
		Total uint64
		Has   []uint64
	}
	// Tick comes every now and then.
	Tick struct{}
)

func (Hosts) event()  {}
func (Came) event()   {}
func (None) event()   {}
func (Judged) event() {}
func (Known) event()  {}
func (Tick) event()   {}

// Ask is a request.
type Ask struct {
	Peer PeerID
	Item Item
}

// Out is what the shell is to do.
type Out struct {
	Ask []Ask
	Ban []PeerID // they have sent what is wrong
}

// Machine is the state. It is used by one goroutine.
type Machine struct {
	o      Options
	shards []*shard
	hosts  map[PeerID]*host
	asked  map[Item]*request
	banned map[PeerID]bool
	wanted []Item // one by one (Want)
}

type shard struct {
	id     primitives.ShardID
	known  bool // its header is here, and how many parts there are
	header bool // it has come
	has    []bool
	left   uint64
}

type host struct {
	id     PeerID
	shards map[primitives.ShardID]bool
	pause  int64 // until when it is not asked
	misses int
	missed int64 // the last time
	asked  int
	spent  []int64 // when it was asked, within the period
	tries  map[Item]int
}

type request struct {
	peer    PeerID
	at      int64
	judging bool
	took    int64 // until it came
}

// New begins with shards of which nothing is here.
func New(shards []primitives.ShardID, o Options) *Machine {
	if o.Wait == 0 {
		o.Wait = 10_000
	}
	if o.Pause == 0 {
		o.Pause = 1000
	}
	m := &Machine{o: o, hosts: map[PeerID]*host{}, asked: map[Item]*request{}, banned: map[PeerID]bool{}}
	for _, id := range shards {
		m.shards = append(m.shards, &shard{id: id})
	}
	return m
}

// Headers tells whether all headers are here, Done whether everything is.
func (m *Machine) Headers() bool {
	return !slices.ContainsFunc(m.shards, func(s *shard) bool { return !s.header })
}

// Done tells whether all parts of all shards are here.
func (m *Machine) Done() bool {
	return !slices.ContainsFunc(m.shards, func(s *shard) bool { return !s.known || s.left > 0 })
}

// Parts tells how many parts are here, and of how many that are known of.
func (m *Machine) Parts() (have, total uint64) {
	for _, s := range m.shards {
		total += uint64(len(s.has))
		have += uint64(len(s.has)) - s.left
	}
	return have, total
}

// Expects tells whether something is to come from a host, or may come late: it was asked for it, and nobody else has brought it.
func (m *Machine) Expects(from PeerID, i Item) bool {
	r := m.asked[i]
	if r != nil && (r.judging || r.peer == from) {
		return !r.judging
	}
	h, s := m.hosts[from], m.shard(i.Shard)
	switch {
	case h == nil || s == nil || h.tries[i] == 0:
		return false
	case i.Header:
		return !s.header
	}
	return s.known && i.Part < uint64(len(s.has)) && !s.has[i.Part]
}

// take has what came judged; what came late is not asked of another any more.
func (m *Machine) take(now int64, from PeerID, i Item) {
	if r := m.asked[i]; r == nil || r.peer != from {
		if r != nil {
			m.end(i)
		}
		m.asked[i] = &request{peer: from, at: now - m.o.Wait}
		m.hosts[from].asked++
	}
	r := m.asked[i]
	r.judging, r.took = true, now-r.at
}

// Asked returns something that a host is asked for of a shard: it may say that it has nothing, without saying of what.
func (m *Machine) Asked(from PeerID, id primitives.ShardID) (i Item, asked bool) {
	for x, r := range m.asked {
		if r.peer == from && x.Shard == id && !r.judging && (!asked || r.at < m.asked[i].at) {
			i, asked = x, true
		}
	}
	return i, asked
}

// Step takes an event at a time in ms.
func (m *Machine) Step(now int64, ev Event) (out Out) {
	switch ev := ev.(type) {
	case Hosts:
		m.setHosts(ev.List)
	case Came:
		if m.Expects(ev.From, ev.Item) {
			m.take(now, ev.From, ev.Item)
		}
	case None:
		if r := m.asked[ev.Item]; r != nil && r.peer == ev.From && !r.judging {
			m.end(ev.Item)
			m.pause(now, ev.From, false)
		}
	case Judged:
		m.judged(&out, now, &ev)
	case Known:
		m.known(&ev)
	case Want:
		m.want(ev.Item)
	case Dropped:
		m.unwant(ev.Item)
	case Tick:
	default:
		panic(fmt.Sprintf("state: no case for %T", ev))
	}
	m.expire(now)
	m.ask(&out, now)
	return out
}

func (m *Machine) setHosts(list []Host) {
	here := map[PeerID]bool{}
	for _, x := range list {
		if m.banned[x.ID] {
			continue
		}
		here[x.ID] = true
		h := m.hosts[x.ID]
		if h == nil {
			h = &host{id: x.ID, tries: map[Item]int{}}
			m.hosts[x.ID] = h
		}
		h.shards = map[primitives.ShardID]bool{}
		for _, id := range x.Shards {
			h.shards[id] = true
		}
	}
	for id := range m.hosts {
		if !here[id] {
			m.gone(id)
		}
	}
}

// gone has what a host was asked for asked of others.
func (m *Machine) gone(id PeerID) {
	delete(m.hosts, id)
	for i, r := range m.asked {
		if r.peer == id && !r.judging {
			delete(m.asked, i)
		}
	}
}

// end ends a request.
func (m *Machine) end(i Item) {
	if h := m.hosts[m.asked[i].peer]; h != nil && h.asked > 0 { // 0: it has gone in between, and come back
		h.asked--
	}
	delete(m.asked, i)
}

// pause has a host asked no more for a while, silent: for longer each time.
func (m *Machine) pause(now int64, id PeerID, silent bool) {
	h := m.hosts[id]
	if h == nil {
		return
	}
	wait := m.o.Pause
	if silent {
		wait = min(maxPause, m.o.Pause<<min(h.misses, 16))
		h.misses++
	}
	h.pause = max(h.pause, now+wait)
}

func (m *Machine) judged(out *Out, now int64, ev *Judged) {
	r := m.asked[ev.Item]
	if r == nil || r.peer != ev.From || !r.judging {
		return
	}
	m.end(ev.Item)
	s := m.shard(ev.Item.Shard)
	switch {
	case ev.Bad:
		m.banned[ev.From] = true
		out.Ban = append(out.Ban, ev.From)
		m.gone(ev.From)
		return
	case ev.Own:
		m.pause(now, ev.From, false)
		return
	case s == nil:
	case ev.Item.Header:
		s.header = true
	case s.known && ev.Item.Part < uint64(len(s.has)) && !s.has[ev.Item.Part]:
		s.has[ev.Item.Part] = true
		s.left--
	}
	m.unwant(ev.Item)
	for _, h := range m.hosts {
		delete(h.tries, ev.Item)
	}
	if h := m.hosts[ev.From]; h != nil && r.took <= m.o.Wait/2 { // so fast that it may be asked for twice as much
		h.misses /= 2
	}
}

func (m *Machine) shard(id primitives.ShardID) *shard {
	for _, s := range m.shards {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (m *Machine) known(ev *Known) {
	s := m.shard(ev.Shard)
	if s == nil || ev.Total > MaxParts {
		return
	}
	s.known, s.header, s.has, s.left = true, true, make([]bool, ev.Total), ev.Total
	for _, i := range ev.Has {
		if i < ev.Total && !s.has[i] {
			s.has[i] = true
			s.left--
		}
	}
}

// patience is how long a host has for an answer: twice as long with each time that none came in time, as over a slow line.
func (m *Machine) patience(h *host) int64 {
	if h == nil {
		return m.o.Wait
	}
	return m.o.Wait << min(h.misses, 5)
}

// expire ends what was asked for too long ago, at once if another can be asked. What a host was asked for at the same time is one miss.
func (m *Machine) expire(now int64) {
	for _, i := range slices.SortedFunc(maps.Keys(m.asked), Item.compare) {
		r := m.asked[i]
		h := m.hosts[r.peer]
		if r.judging || now-r.at < m.o.Wait || now-r.at < m.patience(h) && !slices.ContainsFunc(m.free(now, i), func(o *host) bool { return o != h }) {
			continue
		}
		m.end(i)
		if h != nil && (h.misses == 0 || r.at > h.missed) {
			h.missed = now
			m.pause(now, r.peer, true)
		}
	}
}

// ask asks for what nobody is asked for, as far as there is somebody to ask.
func (m *Machine) ask(out *Out, now int64) {
	for _, i := range m.wanted {
		m.askFor(out, now, i)
	}
	for _, s := range m.shards {
		switch {
		case !s.header:
			m.askFor(out, now, Item{Shard: s.id, Header: true})
		case s.known && s.left > 0:
			for i, is := range s.has {
				if !is && !m.askFor(out, now, Item{Shard: s.id, Part: uint64(i)}) {
					break
				}
			}
		}
	}
}

// free lists who may be asked for something now, in the order of ids.
func (m *Machine) free(now int64, i Item) (fit []*host) {
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		h := m.hosts[id]
		for len(h.spent) > 0 && now-h.spent[0] >= Period {
			h.spent = h.spent[1:]
		}
		if h.shards[i.Shard] && now >= h.pause && h.asked < max(1, MaxAsked>>min(h.misses, 8)) && len(h.spent) < Rate {
			fit = append(fit, h)
		}
	}
	return fit
}

// askFor asks the host that was asked for it least often, and has least to do; false: there is nobody now.
func (m *Machine) askFor(out *Out, now int64, i Item) bool {
	if m.asked[i] != nil {
		return true
	}
	fit := m.free(now, i)
	if len(fit) == 0 {
		return false
	}
	h := slices.MinFunc(fit, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.tries[i], b.tries[i]), cmp.Compare(a.asked, b.asked), cmp.Compare(len(a.spent), len(b.spent)))
	})
	h.asked++
	h.tries[i]++
	h.spent = append(h.spent, now)
	m.asked[i] = &request{peer: h.id, at: now}
	out.Ask = append(out.Ask, Ask{h.id, i})
	return true
}
