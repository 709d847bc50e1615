package statesync

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds and times; times are in ms. MaxAsked: requests in flight to a host. Rate: requests to a
// host in Period. MaxParts: parts of a shard.
const (
	MaxAsked = 4
	Rate     = 24
	Period   = 30_000
	MaxParts = 1 << 20
	maxPause = 60_000
)

// PeerID identifies a host.
type PeerID = primitives.PublicKey

// Options configures a Machine. Zero values mean neard's defaults.
type Options struct {
	Wait  int64 // for a response, ms (state_sync_p2p_timeout)
	Pause int64 // of a host that did not answer, the first time, ms (state_sync_retry_backoff)
}

// Item is what is requested: the header of a shard, or a part of its state.
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

// Host is a peer that serves the state of shards.
type Host struct {
	ID     PeerID
	Shards []primitives.ShardID
}

// Event is an input of Machine.Step: one of the types below.
type Event interface{ event() }

// The events.
type (
	// Hosts lists all connected hosts. A host that is missing has disconnected.
	Hosts struct{ List []Host }
	// Came reports that an item arrived from a host, and is being validated.
	Came struct {
		From PeerID
		Item Item
	}
	// None reports that a host does not have an item now.
	None struct {
		From PeerID
		Item Item
	}
	// Judged is the result of validation. Bad: the item is invalid. Own: it was not stored, for a
	// reason that is this node's own.
	Judged struct {
		From     PeerID
		Item     Item
		Bad, Own bool
	}
	// Known reports the header of a shard: how many parts it has, and which are present.
	Known struct {
		Shard primitives.ShardID
		Total uint64
		Has   []uint64
	}
	// Tick reports that time has passed.
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

// Out is what the caller has to do after a Step.
type Out struct {
	Ask []Ask
	Ban []PeerID // they sent invalid data
}

// Machine is the state of state sync. Not safe for concurrent use.
type Machine struct {
	o      Options
	shards []*shard
	hosts  map[PeerID]*host
	asked  map[Item]*request
	banned map[PeerID]bool
	wanted []Item // requested by Want
}

type shard struct {
	id     primitives.ShardID
	known  bool // the header is stored, and the number of parts is known
	header bool // the header has arrived
	has    []bool
	left   uint64
}

type host struct {
	id          PeerID
	shards      map[primitives.ShardID]bool
	pausedUntil int64 // no request before
	misses      int
	missed      int64 // the last time
	asked       int
	recent      []int64 // times of requests within Period
	tries       map[Item]int
}

type request struct {
	peer    PeerID
	at      int64
	judging bool
	took    int64 // time from request to arrival
}

// New returns a machine for shards of which nothing is present.
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

// Headers returns whether the headers of all shards have arrived.
func (m *Machine) Headers() bool {
	return !slices.ContainsFunc(m.shards, func(s *shard) bool { return !s.header })
}

// Done returns whether all parts of all shards are present.
func (m *Machine) Done() bool {
	return !slices.ContainsFunc(m.shards, func(s *shard) bool { return !s.known || s.left > 0 })
}

// Parts returns how many parts are present, and how many there are in the shards with a known
// header.
func (m *Machine) Parts() (have, total uint64) {
	for _, s := range m.shards {
		total += uint64(len(s.has))
		have += uint64(len(s.has)) - s.left
	}
	return have, total
}

// Expects returns whether an item from a host would be of use: the host was asked for it, even if
// that timed out, and it has not arrived from another host.
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

// take marks an item as being validated. If it is late, the request to another host ends.
func (m *Machine) take(now int64, from PeerID, i Item) {
	if r := m.asked[i]; r == nil || r.peer != from {
		if r != nil {
			m.endRequest(i)
		}
		m.asked[i] = &request{peer: from, at: now - m.o.Wait}
		m.hosts[from].asked++
	}
	r := m.asked[i]
	r.judging, r.took = true, now-r.at
}

// Asked returns the oldest item of a shard that a host was asked for. A host may answer that it has
// nothing, without naming the item.
func (m *Machine) Asked(from PeerID, id primitives.ShardID) (i Item, asked bool) {
	for x, r := range m.asked {
		if r.peer == from && x.Shard == id && !r.judging && (!asked || r.at < m.asked[i].at) {
			i, asked = x, true
		}
	}
	return i, asked
}

// Step handles an event at now, in ms. It panics on an event of another package.
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
			m.endRequest(ev.Item)
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
		panic(fmt.Sprintf("statesync: no case for %T", ev))
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
			m.removeHost(id)
		}
	}
}

// removeHost forgets a host. What it was asked for is requested from others.
func (m *Machine) removeHost(id PeerID) {
	delete(m.hosts, id)
	for i, r := range m.asked {
		if r.peer == id && !r.judging {
			delete(m.asked, i)
		}
	}
}

// endRequest ends a request.
func (m *Machine) endRequest(i Item) {
	// 0: the host disconnected and reconnected meanwhile
	if h := m.hosts[m.asked[i].peer]; h != nil && h.asked > 0 {
		h.asked--
	}
	delete(m.asked, i)
}

// pause stops requests to a host for a while. silent: it did not answer; the pause doubles each
// time.
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
	h.pausedUntil = max(h.pausedUntil, now+wait)
}

func (m *Machine) judged(out *Out, now int64, ev *Judged) {
	r := m.asked[ev.Item]
	if r == nil || r.peer != ev.From || !r.judging {
		return
	}
	m.endRequest(ev.Item)
	s := m.shard(ev.Item.Shard)
	switch {
	case ev.Bad:
		m.banned[ev.From] = true
		out.Ban = append(out.Ban, ev.From)
		m.removeHost(ev.From)
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
	// fast enough for twice as many requests at once
	if h := m.hosts[ev.From]; h != nil && r.took <= m.o.Wait/2 {
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

// timeout returns how long a host has to answer: it doubles with each miss, as for a slow link.
func (m *Machine) timeout(h *host) int64 {
	if h == nil {
		return m.o.Wait
	}
	return m.o.Wait << min(h.misses, 5)
}

// expire ends requests that timed out. A request to a slow host ends early if another host is
// available. Requests that a host was sent at the same time count as one miss.
func (m *Machine) expire(now int64) {
	for _, i := range slices.SortedFunc(maps.Keys(m.asked), Item.compare) {
		r := m.asked[i]
		h := m.hosts[r.peer]
		if r.judging || now-r.at < m.o.Wait || now-r.at < m.timeout(h) && !slices.ContainsFunc(m.eligible(now, i), func(o *host) bool { return o != h }) {
			continue
		}
		m.endRequest(i)
		if h != nil && (h.misses == 0 || r.at > h.missed) {
			h.missed = now
			m.pause(now, r.peer, true)
		}
	}
}

// ask requests what is missing and not requested, as far as hosts are available.
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

// eligible lists the hosts that may be asked for an item now, by id.
func (m *Machine) eligible(now int64, i Item) (fit []*host) {
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		h := m.hosts[id]
		for len(h.recent) > 0 && now-h.recent[0] >= Period {
			h.recent = h.recent[1:]
		}
		if h.shards[i.Shard] && now >= h.pausedUntil && h.asked < max(1, MaxAsked>>min(h.misses, 8)) && len(h.recent) < Rate {
			fit = append(fit, h)
		}
	}
	return fit
}

// askFor requests an item from the host with the fewest tries for it, then the fewest requests. It
// returns false if no host is available.
func (m *Machine) askFor(out *Out, now int64, i Item) bool {
	if m.asked[i] != nil {
		return true
	}
	fit := m.eligible(now, i)
	if len(fit) == 0 {
		return false
	}
	h := slices.MinFunc(fit, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.tries[i], b.tries[i]), cmp.Compare(a.asked, b.asked), cmp.Compare(len(a.recent), len(b.recent)))
	})
	h.asked++
	h.tries[i]++
	h.recent = append(h.recent, now)
	m.asked[i] = &request{peer: h.id, at: now}
	out.Ask = append(out.Ask, Ask{h.id, i})
	return true
}

// Want requests an item of a shard that is synced beside the chain (catchup), in the caller's
// order, until it arrives or Dropped cancels it. The shard need not be one that New was called
// with.
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

// unwant cancels the request of an item. A response in flight may still arrive.
func (m *Machine) unwant(i Item) {
	m.wanted = slices.DeleteFunc(m.wanted, func(x Item) bool { return x == i })
}
