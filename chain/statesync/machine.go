package statesync

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds and times; times are in ms.
const (
	MaxAsked = 4 // maximum number of requests in flight to a host
	// MaxInFlight is the maximum number of requests in flight to all hosts together, with the items that
	// are being validated. It bounds the memory for responses.
	MaxInFlight = 32
	Rate        = 24 // maximum number of requests to a host in Period
	Period      = 30_000
	MaxParts    = 1 << 20 // maximum number of parts of a shard
	maxPause    = 60_000  // maximum pause of a host that does not answer
)

// PeerID identifies a host.
type PeerID = primitives.PublicKey

// Options configures a Machine. Zero values stand for neard's defaults.
type Options struct {
	Wait  int64 // timeout of a request in ms (state_sync_p2p_timeout); 0: 10 s
	Pause int64 // first pause of a host that did not answer, in ms (state_sync_retry_backoff); 0: 1 s
}

// Item is the object of a request: the header of a shard, or a part of the shard's state.
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

type (
	// Hosts lists all connected hosts. A host that is not in List has disconnected.
	Hosts struct{ List []Host }
	// Arrived reports that an item arrived from a host. Its validation has begun.
	Arrived struct {
		From PeerID
		Item Item
	}
	// None reports that a host answered that it does not have an item now.
	None struct {
		From PeerID
		Item Item
	}
	// ItemVerified is the result of the validation of an item. Bad means that the item is invalid.
	// Own means that the item was not stored because of an error of this node.
	ItemVerified struct {
		From     PeerID
		Item     Item
		Bad, Own bool
	}
	// Known reports that the header of a shard is stored. Total is the shard's number of parts. Has
	// lists the parts that are present.
	Known struct {
		Shard primitives.ShardID
		Total uint64
		Has   []uint64
	}
	// Tick reports that time has passed.
	Tick struct{}
)

func (Hosts) event()        {}
func (Arrived) event()      {}
func (None) event()         {}
func (ItemVerified) event() {}
func (Known) event()        {}
func (Tick) event()         {}

// Ask is a request to a host.
type Ask struct {
	Peer PeerID
	Item Item
}

// Out lists what the caller has to do after Step.
type Out struct {
	Ask []Ask
	Ban []PeerID // hosts that sent invalid data
	// Ended lists requests that ended, for metrics. A request to a host that disconnected is not
	// listed, nor a response that arrived after the timeout.
	Ended []Ended
}

// Result is how a request ended.
type Result byte

// The results.
const (
	Success Result = iota // the item arrived; it may still be invalid
	Refused               // the host does not have the item now
	TimedOut
	Results = 3 // number of results
)

// Ended is a request that ended Ms after it was sent.
type Ended struct {
	Item   Item
	Result Result
	Ms     int64
}

// Machine is the state of state sync. It is not safe for concurrent use.
type Machine struct {
	o      Options
	shards []*shard
	hosts  map[PeerID]*host
	asked  map[Item]*request
	banned map[PeerID]bool
	wanted []Item // items requested by Want
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
	pausedUntil int64 // no requests before this time
	misses      int
	missed      int64 // time of the last miss
	asked       int
	lost        int     // share of the last requests that brought no valid item, in thousandths
	recent      []int64 // times of the requests within Period
	tries       map[Item]int
}

// lostSpan is the weight of host.lost: one request moves it by 1/lostSpan of the way.
const lostSpan = 8

// fail records a request that brought no valid item.
func (h *host) fail() { h.lost += (1000 - h.lost) / lostSpan }

// Delivers returns whether at least half of the last requests to a host brought a valid item. It
// returns true for a host that was asked only a few times: announcing a state costs nothing, so whether
// a host serves it shows only by asking.
func (m *Machine) Delivers(id PeerID) bool { return m.hosts[id] == nil || m.hosts[id].lost <= 500 }

type request struct {
	peer      PeerID
	at        int64
	verifying bool
	took      int64 // ms from the request to the arrival of the response
}

// New returns a machine for shards of which no data is present yet.
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

// Parts returns how many parts are present and how many exist. Parts counts only shards whose
// header is known.
func (m *Machine) Parts() (have, total uint64) {
	for _, s := range m.shards {
		total += uint64(len(s.has))
		have += uint64(len(s.has)) - s.left
	}
	return have, total
}

// Expects returns whether the caller should accept an item from a host. The machine must have
// requested the item from that host, even if the request timed out. The item must not have arrived
// from another host.
func (m *Machine) Expects(from PeerID, i Item) bool {
	r := m.asked[i]
	if r != nil && (r.verifying || r.peer == from) {
		return !r.verifying
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

// take marks an item as being validated. If the item was also requested from another host, that
// request ends.
func (m *Machine) take(now int64, from PeerID, i Item) {
	if r := m.asked[i]; r == nil || r.peer != from {
		if r != nil {
			m.endRequest(i)
		}
		m.asked[i] = &request{peer: from, at: now - m.o.Wait}
		m.hosts[from].asked++
	}
	r := m.asked[i]
	r.verifying, r.took = true, now-r.at
}

// Asked returns the oldest unanswered item of a shard that was requested from a host. Asked
// identifies the item when the host answers that it has no data, because such answers do not name
// the item.
func (m *Machine) Asked(from PeerID, id primitives.ShardID) (i Item, asked bool) {
	for x, r := range m.asked {
		if r.peer == from && x.Shard == id && !r.verifying && (!asked || r.at < m.asked[i].at) {
			i, asked = x, true
		}
	}
	return i, asked
}

// Step handles an event at the time now, in ms. Step panics on an unknown Event type.
func (m *Machine) Step(now int64, ev Event) (out Out) {
	switch ev := ev.(type) {
	case Hosts:
		m.setHosts(ev.List)
	case Arrived:
		if m.Expects(ev.From, ev.Item) {
			if r := m.asked[ev.Item]; r != nil && r.peer == ev.From {
				out.Ended = append(out.Ended, Ended{ev.Item, Success, now - r.at})
			}
			m.take(now, ev.From, ev.Item)
		}
	case None:
		if r := m.asked[ev.Item]; r != nil && r.peer == ev.From && !r.verifying {
			out.Ended = append(out.Ended, Ended{ev.Item, Refused, now - r.at})
			m.endRequest(ev.Item)
			m.pause(now, ev.From, false)
			if h := m.hosts[ev.From]; h != nil {
				h.fail()
			}
		}
	case ItemVerified:
		m.itemVerified(&out, now, &ev)
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
	m.expire(&out, now)
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

// removeHost removes a host. The next steps request the items of this host's requests from other
// hosts.
func (m *Machine) removeHost(id PeerID) {
	delete(m.hosts, id)
	for i, r := range m.asked {
		if r.peer == id && !r.verifying {
			delete(m.asked, i)
		}
	}
}

// endRequest removes the request of an item, which must have been requested.
func (m *Machine) endRequest(i Item) {
	// h.asked is 0 if the host disconnected and reconnected after the request.
	if h := m.hosts[m.asked[i].peer]; h != nil && h.asked > 0 {
		h.asked--
	}
	delete(m.asked, i)
}

// pause stops requests to a host for a while. silent means that the host did not answer. In that
// case the pause doubles each time.
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

func (m *Machine) itemVerified(out *Out, now int64, ev *ItemVerified) {
	r := m.asked[ev.Item]
	if r == nil || r.peer != ev.From || !r.verifying {
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
	if h := m.hosts[ev.From]; h != nil {
		h.lost -= h.lost / lostSpan
		// The host is fast enough for twice as many requests in flight.
		if r.took <= m.o.Wait/2 {
			h.misses /= 2
		}
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

// timeout returns the timeout of a request to a host, in ms. The timeout doubles with each request
// to the host that timed out, because the link may be slow.
func (m *Machine) timeout(h *host) int64 {
	if h == nil {
		return m.o.Wait
	}
	return m.o.Wait << min(h.misses, 5)
}

// expire ends requests that timed out. If another host is available for the item, the request ends
// after the basic timeout, even if the host's own timeout is longer. Requests that were sent to a
// host at the same time count as one miss.
func (m *Machine) expire(out *Out, now int64) {
	for _, i := range slices.SortedFunc(maps.Keys(m.asked), Item.compare) {
		r := m.asked[i]
		h := m.hosts[r.peer]
		if r.verifying || now-r.at < m.o.Wait || now-r.at < m.timeout(h) &&
			!slices.ContainsFunc(m.eligible(now, i), func(o *host) bool { return o != h }) {
			continue
		}
		out.Ended = append(out.Ended, Ended{i, TimedOut, now - r.at})
		m.endRequest(i)
		if h != nil {
			h.fail()
		}
		if h != nil && (h.misses == 0 || r.at > h.missed) {
			h.missed = now
			m.pause(now, r.peer, true)
		}
	}
}

// ask requests the missing items that are not requested yet, while hosts are available.
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

// eligible returns the hosts from which an item may be requested now, sorted by id.
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

// askFor requests an item from the host that was asked for this item the fewest times, and among
// such hosts from the host with the fewest requests in flight. It returns false if no host is
// available, or if MaxInFlight requests are in flight.
func (m *Machine) askFor(out *Out, now int64, i Item) bool {
	if m.asked[i] != nil {
		return true
	}
	if len(m.asked) >= MaxInFlight {
		return false
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

// Want requests an item of a shard that is synced while the chain runs (catchup). Wanted items are
// requested in the order of these events. Dropped cancels a Want. The shard need not be one of the
// shards passed to New.
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

// unwant cancels a Want. A response in flight may still arrive.
func (m *Machine) unwant(i Item) {
	m.wanted = slices.DeleteFunc(m.wanted, func(x Item) bool { return x == i })
}
