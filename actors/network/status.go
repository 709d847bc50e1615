package network

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Status is the part of the network actor's state that other goroutines read. It survives restarts
// of the actor. Safe for concurrent use.
type Status struct {
	MaxPeers uint32
	Awaits   bool   // boot nodes are configured: Syncing is true until a peer has reported its head
	FirstMet func() // called when the first peer connects; nil: not called
	Log      *logrus.Logger
	Meter    *near.Meter // counts messages, for metrics; nil: it is not shown

	host                       atomic.Pointer[tcp.Server]           // nil: no host is running
	excludeMu                  sync.Mutex                           // held while host or excluded is changed
	excluded                   []wire.PeerID                        // peers that Exclude was called with
	key                        atomic.Pointer[primitives.SecretKey] // the validator's key set by Rekey
	info                       atomic.Pointer[near.Info]
	syncing, stuck, met        atomic.Bool
	knows                      atomic.Bool   // a peer has reported its head to the sync machine
	best                       atomic.Uint64 // highest height that a peer has reported
	headers                    atomic.Uint64 // height of the highest verified header
	stuckAgain                 atomic.Int64
	sent, received             atomic.Uint64 // bytes that the current host has transferred
	sentRate, receivedRate     atomic.Uint64 // bytes a second
	dropped, served, forwarded atomic.Uint64
	bans, panics               atomic.Uint64
	// Valid transactions that entered a pool of this node, by the node's role at that time: it is
	// about to produce a chunk of the signer's shard, or not; then txForwarded counts those that a
	// peer forwarded to it, and txOther the rest.
	txValidator, txOther, txForwarded atomic.Uint64
	clock                             atomic.Pointer[clockResult] // nil: no block was compared yet
	debug                             debugPages
	// statesHere is the number of received parts of the running state sync. statesAll is the number
	// of all parts of that state sync.
	statesHere, statesAll atomic.Uint64
	statesWaiting         atomic.Int64 // bytes of arrived state parts that are not verified yet
	// Answers of this node to state requests. stateThrottled counts the requests that the limit of
	// stateRequests refused.
	stateHeaders, stateParts stateAnswers
	partTimes                metrics.Set // statePartTime, stateRequestDelay, stateDownloads
	stateThrottled           atomic.Uint64
	stages                   atomic.Pointer[map[primitives.ShardID]int]
	proofBytes               atomic.Uint64 // size of the epoch sync proof that was packed last
	lastSent, lastReceived   uint64        // previous values of sent and received; used only by the actor
	// early has the hashes of recent blocks that this node relayed before their import.
	early      recentSet[primitives.Hash]
	earlySlots recentSet[heightSlot] // counts the blocks in early by height
}

// stateAnswers counts answers to state requests of one kind. failed counts the answers that the data
// is not available.
type stateAnswers struct{ success, failed atomic.Uint64 }

// Holds returns whether a validator has announced that its node tracks a shard.
func (f *Status) Holds(account primitives.AccountID, shard primitives.ShardID) bool {
	i := f.info.Load()
	return i != nil && slices.Contains(i.Holders[account], shard)
}

// Exclude makes the host close and refuse connections with these peers. Each call replaces the
// list. The result is whether the list has changed. The list remains in force when the actor
// restarts.
func (f *Status) Exclude(peers []wire.PeerID) bool {
	f.excludeMu.Lock()
	defer f.excludeMu.Unlock()
	if slices.Equal(f.excluded, peers) {
		return false
	}
	f.excluded = peers
	if h := f.host.Load(); h != nil {
		h.Post(near.Exclude{Peers: peers})
	}
	return true
}

// setHost publishes a host that is about to run.
func (f *Status) setHost(h *tcp.Server) {
	f.excludeMu.Lock()
	defer f.excludeMu.Unlock()
	f.host.Store(h)
	if f.excluded != nil {
		h.Post(near.Exclude{Peers: f.excluded})
	}
}

// reset clears the state of the connections after the host has ended.
func (f *Status) reset() {
	f.info.Store(nil)
	f.sentRate.Store(0)
	f.receivedRate.Store(0)
	f.lastSent, f.lastReceived = 0, 0
}

func (f *Status) show(i *near.Info, h *tcp.Server) {
	f.info.Store(i)
	if len(i.Peers) > 0 && f.met.CompareAndSwap(false, true) && f.FirstMet != nil {
		f.FirstMet()
	}
	f.sent.Store(h.Sent.Load())
	f.received.Store(h.Received.Load())
}

// measure updates the rates from the host's byte counters. ms is the time since the last call.
func (f *Status) measure(h *tcp.Server, ms uint64) {
	sent, received := h.Sent.Load(), h.Received.Load()
	f.sentRate.Store((sent - f.lastSent) * 1000 / ms)
	f.receivedRate.Store((received - f.lastReceived) * 1000 / ms)
	f.lastSent, f.lastReceived = sent, received
}

func (f *Status) syncs(active, stuck bool, best primitives.Height) {
	f.syncing.Store(active)
	f.stuck.Store(stuck)
	f.best.Store(uint64(best))
}

// SyncStages returns the stage of each shard whose state the state sync at start has fetched last,
// or is fetching. nil: there was no state sync in this process.
func (f *Status) SyncStages() map[primitives.ShardID]int {
	if s := f.stages.Load(); s != nil {
		return *s
	}
	return nil
}

func (f *Status) states(here, all uint64) {
	f.statesHere.Store(here)
	f.statesAll.Store(all)
}

// recovered recovers a panic caused by a peer's message and logs it. Callers defer it. what names
// the message.
func (f *Status) recovered(what string) {
	if p := recover(); p != nil {
		f.note(what, p)
	}
}

func (f *Status) note(what string, reason any) {
	f.panics.Add(1)
	if f.Log != nil {
		p := parallel.Recovered(reason)
		f.Log.Errorf("network: %s: %v\n%s", what, p.Reason, p.Stack)
	}
}

// Syncing returns whether the node is behind its peers. Syncing also returns true if the node
// cannot know whether it is behind. The height is the height of the highest peer.
func (f *Status) Syncing() (bool, primitives.Height) {
	return f.syncing.Load() || f.Awaits && (!f.knows.Load() || f.stuck.Load()), primitives.Height(f.best.Load())
}

// Peers returns the number of connected peers.
func (f *Status) Peers() int {
	if i := f.info.Load(); i != nil {
		return len(i.Peers)
	}
	return 0
}

// Met returns whether any peer was connected since the process began.
func (f *Status) Met() bool { return f.met.Load() }

// Info returns the reply of the RPC method network_info. As in neard, a known producer has no
// address. Clients find the address by the producer's peer id among the active peers.
func (f *Status) Info() *view.NetworkInfo {
	out := &view.NetworkInfo{PeerMaxCount: f.MaxPeers, SentBytesPerSec: f.sentRate.Load(),
		ReceivedBytesPerSec: f.receivedRate.Load()}
	i := f.info.Load()
	if i == nil {
		return out
	}
	for k := range i.Peers {
		p := &i.Peers[k]
		x := view.Peer{ID: p.Info.ID, AccountID: p.Info.AccountID}
		if p.Info.Addr.IsValid() {
			x.Addr = p.Info.Addr.String()
		}
		out.ActivePeers = append(out.ActivePeers, x)
	}
	for _, a := range i.Producers {
		out.KnownProducers = append(out.KnownProducers, view.KnownProducer{AccountID: a.AccountID, PeerID: a.PeerID})
	}
	return out
}

// Metrics appends the metrics in Prometheus' text format to b. A metric that neard has too has
// neard's name.
func (f *Status) Metrics(b []byte) []byte {
	var peers, producers, reachable int
	if i := f.info.Load(); i != nil {
		peers, producers, reachable = len(i.Peers), len(i.Producers), i.Reachable
	}
	syncing, best := f.Syncing()
	is := 0
	if syncing {
		is = 1
	}
	for _, g := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"near_peer_connections_total", "gauge", "Number of connected peers", uint64(peers)},
		{"near_peer_reachable", "gauge",
			"Total number of peers that are reachable from this peer using potentially a chain of peer connections",
			uint64(reachable)},
		{"troupe_network_known_producers", "gauge", "Validators whose node is known", uint64(producers)},
		{"troupe_sync_active", "gauge", "1: the node is behind its peers and catches up", uint64(is)},
		{"troupe_sync_highest_peer", "gauge", "Greatest height of a peer whose claim is trusted", uint64(best)},
		{"troupe_sync_state_parts", "gauge",
			"State parts that the running state sync downloads; 0: no state sync is running", f.statesAll.Load()},
		{"troupe_sync_state_parts_here", "gauge", "State parts that the running state sync has received",
			f.statesHere.Load()},
		{"troupe_sync_state_waiting_bytes", "gauge", "Bytes of state parts that have arrived and are not verified yet",
			uint64(f.statesWaiting.Load())},
		{"troupe_sync_state_waiting_bytes_limit", "gauge",
			"Limit of troupe_sync_state_waiting_bytes; parts above it are dropped, and requested again later", maxWaitingParts},
		{"troupe_network_sent_bytes_total", "counter", "Bytes of frames sent since the TCP server last started",
			f.sent.Load()},
		{"troupe_network_received_bytes_total", "counter", "Bytes of frames received since the TCP server last started",
			f.received.Load()},
		{"troupe_network_requests_served_total", "counter", "Requests of peers that were answered", f.served.Load()},
		{"troupe_network_messages_dropped_total", "counter", "Messages of peers dropped because a queue was full",
			f.dropped.Load()},
		{"troupe_network_transactions_forwarded_total", "counter", "Transactions sent to chunk producers",
			f.forwarded.Load()},
		{"near_transaction_received_validator", "gauge", "Validator received a transaction", f.txValidator.Load()},
		{"near_transaction_received_non_validator", "gauge", "Non-validator received a transaction", f.txOther.Load()},
		{"near_transaction_received_non_validator_forwarded", "gauge",
			"Non-validator received a forwarded transaction", f.txForwarded.Load()},
		{"troupe_network_bans_total", "counter", "Peers banned by this node", f.bans.Load()},
		{"troupe_network_panics_total", "counter", "Messages of peers whose handling panicked", f.panics.Load()},
		{"near_state_sync_requests_throttled_total", "counter",
			"Total number of state sync requests which were received and ignored", f.stateThrottled.Load()},
		{"near_epoch_sync_last_generated_compressed_proof_size", "gauge",
			"Size of the last generated compressed epoch sync proof, in bytes", f.proofBytes.Load()},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", g.name, g.help, g.name, g.kind, g.name, g.value)
	}
	if f.Meter != nil {
		b = f.Meter.Append(b)
	}
	info := f.info.Load()
	if info == nil {
		info = &near.Info{}
	}
	b = appendEdges(b, info)
	b = appendByLabel(b, "near_peer_message_rate_limited_by_type_total",
		"Number of messages dropped because rate limited by message types", info.RateLimited)
	c, wrong := f.clock.Load(), 0
	if c != nil && c.state != clockUnknown {
		if c.state != clockAgrees {
			wrong = 1
		}
		const offset = "troupe_network_clock_offset_seconds"
		b = fmt.Appendf(b, "# HELP %s Median of timestamp minus arrival time of the last blocks; above 0: the clock of this "+
			"machine is behind\n"+
			"# TYPE %s gauge\n%s %g\n", offset, offset, offset, c.offset.Seconds())
	}
	const suspect = "troupe_network_clock_suspect"
	b = fmt.Appendf(b, "# HELP %s 1: the clock of this machine differs from the clocks of block producers, "+
		"or all blocks arrive late\n"+
		"# TYPE %s gauge\n%s %d\n", suspect, suspect, suspect, wrong)
	if i := f.info.Load(); i != nil {
		b = appendConnections(b, i)
	}
	if info.Public.IsValid() {
		const public = "near_tier3_public_addr"
		b = fmt.Appendf(b, "# HELP %s Own public address advertised in tier3 state sync requests\n"+
			"# TYPE %s gauge\n%s{addr=\"%v\"} 1\n",
			public, public, public, info.Public)
	}
	const served = "near_state_sync_requests_served_total"
	b = fmt.Appendf(b, "# HELP %s Count of state sync requests processed by type (header, part) "+
		"and status (success, failed)\n"+
		"# TYPE %s counter\n", served, served)
	for _, x := range []struct {
		kind string
		n    *stateAnswers
	}{{"header", &f.stateHeaders}, {"part", &f.stateParts}} {
		b = fmt.Appendf(b, "%s{type=\"%s\",status=\"success\"} %d\n%s{type=\"%s\",status=\"failed\"} %d\n",
			served, x.kind, x.n.success.Load(), served, x.kind, x.n.failed.Load())
	}
	return f.partTimes.AppendText(b, statePartTime, stateRequestDelay, stateDownloads)
}

// appendEdges appends the metrics of the routing graph.
func appendEdges(b []byte, i *near.Info) []byte {
	for _, x := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"near_edge_total", "gauge", "Total edges between peers (including removed ones).", uint64(i.Edges.Total)},
		{"near_edge_active", "gauge", "Total edges active between peers", uint64(i.Edges.Active)},
		{"near_edge_updates", "counter", "Unique edge updates", i.Edges.Updates},
		{"near_edge_dropped", "counter", "Number of edges rejected due to routing graph limits", i.Edges.Dropped},
		{"near_peer_unreliable", "gauge", "Total peers that are behind and will not be used to route messages",
			uint64(i.Unreliable)},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", x.name, x.help, x.name, x.kind, x.name, x.value)
	}
	return b
}

// appendByLabel appends a counter with a value for each type of message, in the order of the types.
func appendByLabel(b []byte, name, help string, values map[string]uint64) []byte {
	b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n", name, help, name)
	for _, kind := range slices.Sorted(maps.Keys(values)) {
		b = fmt.Appendf(b, "%s{type=%q} %d\n", name, kind, values[kind])
	}
	return b
}

// appendConnections appends the numbers of connections by tier and direction.
func appendConnections(b []byte, i *near.Info) []byte {
	const name = "near_peer_connections"
	b = fmt.Appendf(b, "# HELP %s Number of connected peers\n# TYPE %s gauge\n", name, name)
	for _, t := range []struct {
		tier  wire.Tier
		peers []near.PeerState
	}{{wire.T1, i.T1}, {wire.T2, i.Peers}, {wire.T3, i.T3}} {
		inbound := 0
		for k := range t.peers {
			if t.peers[k].Inbound {
				inbound++
			}
		}
		b = fmt.Appendf(b, "%s{tier=\"%v\",peer_type=\"Inbound\"} %d\n%s{tier=\"%v\",peer_type=\"Outbound\"} %d\n",
			name, t.tier, inbound, name, t.tier, len(t.peers)-inbound)
	}
	return b
}

// Announcement returns the last account announcement of a validator, or nil.
func (f *Status) Announcement(account primitives.AccountID) *wire.Announcement {
	if i := f.info.Load(); i != nil {
		for _, a := range i.Producers {
			if a.AccountID == account {
				return a
			}
		}
	}
	return nil
}

// Rekey sets the key that signs the validator's account data, for the running host and for hosts
// that start afterwards. With the zero key nothing is signed.
func (f *Status) Rekey(key primitives.SecretKey) { f.key.Store(&key) }

// Progress sets the fields of p about headers and state parts.
func (f *Status) Progress(p *view.Progress) {
	p.Headers = max(p.Headers, primitives.Height(f.headers.Load()))
	p.Parts, p.PartsHere = f.statesAll.Load(), f.statesHere.Load()
}
