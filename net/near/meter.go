package near

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives/recent"
)

// Meter counts messages, for metrics only. It has neard's metrics of
// chain/network/src/stats/metrics.rs. Several peer managers can use one Meter, one after the other.
// Safe for concurrent use.
type Meter struct {
	sent, received map[string]*messageCount // by variant; the maps do not change
	aboveLimit     map[string]*messageCount // messages dropped because of a limit, the same
	requests       map[string]*messageCount // what other parts of the node asked for, by requestNames; the same
	arrivedBytes   atomic.Uint64            // size of all frames that have arrived, also of those that do not decode

	mu     sync.Mutex
	routed map[routedLabels]*latencies
	hops   map[hopsLabels]uint64
}

// messageCount counts messages of a variant and the bytes of their frames.
type messageCount struct{ total, bytes atomic.Uint64 }

type routedLabels struct {
	variant string
	tier    wire.Tier
	fastest bool // no other copy of the message has arrived before
}

type hopsLabels struct {
	variant string
	hops    uint32
}

// latencies is a histogram. Its last count is of values above all bounds.
type latencies struct {
	counts [21]uint64
	sum    float64
}

// maxHops is the largest number of hops that is counted separately.
const maxHops = 20

// maxLatency bounds latencies, in seconds. Handshakes fail at half this difference of the clocks.
const maxLatency = 3600

// latencyBounds are the upper bounds of latencies, in seconds.
var latencyBounds = func() (out [20]float64) {
	v := 0.0001
	for i := range out {
		out[i] = v
		v *= 1.6
	}
	return out
}()

// NewMeter returns a meter.
func NewMeter() *Meter {
	m := &Meter{sent: map[string]*messageCount{}, received: map[string]*messageCount{},
		aboveLimit: map[string]*messageCount{}, routed: map[routedLabels]*latencies{}, hops: map[hopsLabels]uint64{}}
	for _, name := range wire.Variants() {
		m.sent[name], m.received[name], m.aboveLimit[name] = new(messageCount), new(messageCount), new(messageCount)
	}
	m.requests = map[string]*messageCount{}
	for _, name := range requestNames() {
		m.requests[name] = new(messageCount)
	}
	return m
}

// Sent counts a message that is sent. size is the size of its frame in bytes.
func (m *Meter) Sent(msg wire.Message, size int) { m.sent[wire.Variant(msg)].add(size) }

// Arrived counts the bytes of a frame that has arrived, before it is decoded. neard too counts frames
// that do not decode (peer_actor.rs:1576).
func (m *Meter) Arrived(size int) { m.arrivedBytes.Add(uint64(size)) }

// Received counts a message that has arrived. size is the size of its frame in bytes.
func (m *Meter) Received(msg wire.Message, size int) { m.received[wire.Variant(msg)].add(size) }

// requested counts an event with which another part of the node asks for something to be sent.
func (m *Meter) requested(ev Event) { m.requests[requestName(ev)].add(0) }

// limited counts a message that is dropped because of a limit.
func (m *Meter) limited(msg wire.Message) { m.aboveLimit[wire.Variant(msg)].add(0) }

// rateLimited returns the number of messages that were dropped because of a limit, by variant.
// Variants without such a message are absent.
func (m *Meter) rateLimited() map[string]uint64 {
	out := map[string]uint64{}
	for name, c := range m.aboveLimit {
		if n := c.total.Load(); n > 0 {
			out[name] = n
		}
	}
	return out
}

func (c *messageCount) add(size int) {
	if c != nil {
		c.total.Add(1)
		c.bytes.Add(uint64(size))
	}
}

// arrived counts a routed message for this node. As in neard, the latency has a resolution of one
// second, and is right only if the clocks of both nodes are. A time that no clock has would hide all
// other times in the sum: it does not count.
func (m *Meter) arrived(now time.Time, msg *wire.Routed, tier wire.Tier, fastest bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	variant := wire.Variant(msg)
	m.hops[hopsLabels{variant, min(msg.Hops, maxHops)}]++
	if msg.CreatedAt == nil {
		return
	}
	took := now.Unix() - *msg.CreatedAt
	if overflow := (took < 0) != (now.Unix() < *msg.CreatedAt); overflow || took > maxLatency || took < -maxLatency {
		return
	}
	k := routedLabels{variant, tier, fastest}
	l := m.routed[k]
	if l == nil {
		l = new(latencies)
		m.routed[k] = l
	}
	i, _ := slices.BinarySearch(latencyBounds[:], float64(took))
	l.counts[i]++
	l.sum += float64(took)
}

// Append appends the metrics in Prometheus' text format to b. Variants without a message are absent,
// as in neard.
func (m *Meter) Append(b []byte) []byte {
	head := func(name, kind, help string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	for _, x := range []struct {
		of                 map[string]*messageCount
		name, bytes, total string
	}{
		{m.received, "received", "Total data received from peers by message types",
			"Number of messages received from peers by message types"},
		{m.sent, "sent", "Total data sent to peers by message types",
			"Number of messages sent to peers by message types"},
	} {
		bytes, total := "near_peer_message_"+x.name+"_by_type_bytes", "near_peer_message_"+x.name+"_by_type_total"
		head(bytes, "counter", x.bytes)
		names := slices.Sorted(maps.Keys(x.of))
		sum := uint64(0)
		for _, name := range names {
			if c := x.of[name]; c.total.Load() > 0 {
				sum += c.bytes.Load()
				b = fmt.Appendf(b, "%s{type=%q} %d\n", bytes, name, c.bytes.Load())
			}
		}
		head(total, "counter", x.total)
		for _, name := range names {
			if n := x.of[name].total.Load(); n > 0 {
				b = fmt.Appendf(b, "%s{type=%q} %d\n", total, name, n)
			}
		}
		all, direction := "near_peer_data_"+x.name+"_bytes", " from"
		if x.name == "sent" {
			direction = " to"
		} else {
			sum = m.arrivedBytes.Load()
		}
		head(all, "counter", "Total data "+x.name+direction+" peers")
		b = fmt.Appendf(b, "%s %d\n", all, sum)
	}
	const requests = "near_requests_count_by_type_total"
	head(requests, "counter", "Requests of other parts of this node to the network, by type; a routed message counts once "+
		"for each recipient")
	for _, name := range slices.Sorted(maps.Keys(m.requests)) {
		if n := m.requests[name].total.Load(); n > 0 {
			b = fmt.Appendf(b, "%s{type=%q} %d\n", requests, name, n)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	const latency, hops = "near_network_routed_msg_latency", "near_network_routed_msg_hops"
	head(latency, "histogram", "Latency of network messages, assuming clocks are perfectly synchronized. 'tier' "+
		"indicates what is the tier of the connection on which the message arrived (TIER1 is expected to be faster "+
		"than TIER2) and 'fastest' indicates whether this was the first copy of the message to arrive.")
	for _, k := range slices.SortedFunc(maps.Keys(m.routed), routedLabels.compare) {
		b = m.routed[k].append(b, latency, fmt.Sprintf(`routed=%q,tier="%v",fastest="%v"`, k.variant, k.tier, k.fastest))
	}
	head(hops, "counter", "Number of peers the routed message traveled through")
	for _, k := range slices.SortedFunc(maps.Keys(m.hops), func(a, b hopsLabels) int {
		if c := compareStrings(a.variant, b.variant); c != 0 {
			return c
		}
		return int(a.hops) - int(b.hops)
	}) {
		b = fmt.Appendf(b, "%s{routed=%q,hops=\"%d\"} %d\n", hops, k.variant, k.hops, m.hops[k])
	}
	return b
}

func (k routedLabels) compare(o routedLabels) int {
	switch c := compareStrings(k.variant, o.variant); {
	case c != 0:
		return c
	case k.tier != o.tier:
		return int(k.tier) - int(o.tier)
	case k.fastest == o.fastest:
		return 0
	case k.fastest:
		return 1
	}
	return -1
}

func (l *latencies) append(b []byte, name, labels string) []byte {
	total := uint64(0)
	for i, bound := range latencyBounds {
		total += l.counts[i]
		b = fmt.Appendf(b, "%s_bucket{%s,le=\"%s\"} %d\n", name, labels, strconv.FormatFloat(bound, 'g', -1, 64), total)
	}
	total += l.counts[len(latencyBounds)]
	return fmt.Appendf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %s\n%s_count{%s} %d\n", name, labels, total,
		name, labels, strconv.FormatFloat(l.sum, 'g', -1, 64), name, labels, total)
}

// recentRouted is the set of the last maxRecentRouted messages that were for this node.
type recentRouted struct {
	recent.Map[routedKey, struct{}]
}

// routedKey is the beginning of a message's signature. Equal keys of two messages would only make a
// metric wrong.
type routedKey [16]byte

const maxRecentRouted = 10_000 // nearcore RECENT_ROUTED_MESSAGES_CACHE_SIZE

// isFirst returns whether no copy of m is in the set, and adds m. A message without a signature has
// only one copy: its author sent it over a connection that authenticates the author.
func (r *recentRouted) isFirst(m *wire.Routed) bool {
	if m.IsBare() {
		return true
	}
	var k routedKey
	copy(k[:], m.Signature)
	return r.Put(k, struct{}{})
}
