// Package limits defines the limits of the RPC: for each its name in config.json, its default and
// its range.
//
//	in      nothing
//	out     Limits, and Table. Table serves to read and check config.json, and to write
//	        docs/operate/config.md
//	state   none
//	units   counts, bytes, durations
//	bound   each row's Min and Max
//	errors  none
//	source  our own; neard only bounds the size of a body
package limits

import (
	"strconv"
	"time"
)

// Limits are the limits of one server. A limit by address applies to loopback addresses only if
// config.json names it (see ByAddress).
type Limits struct {
	Connections uint64
	Parked      uint64 // maximum number of requests of all clients that wait for a transaction
	Outcomes    uint64 // maximum number of outcomes that the node remembers for all waiting requests
	// WaitDelay is the maximum time until the node first checks a waiting request. If the time
	// would be longer, new waiting requests are rejected.
	WaitDelay    time.Duration
	Batch        uint64        // maximum number of requests in one body
	BatchTimeout time.Duration // time limit for all requests of a body together
	ReadTimeout  time.Duration // time limit for a request to arrive
	WriteTimeout time.Duration // time limit for a reply to be sent
	IdleTimeout  time.Duration // maximum time between two requests of a connection
	JSONNodes    uint64        // maximum number of JSON values and keys in a body
	Reply        uint64        // maximum size of a reply, or of all replies of a batch, in bytes
	InFlight     uint64        // maximum size of all bodies and replies in memory, in bytes
	Simulations  uint64        // maximum number of simulations and traces that run or wait

	HeavyWaiting uint64        // maximum number of heavy requests that wait for a turn
	Views        uint64        // maximum number of waiting contract calls in each queue of package viewpool
	SlowAfter    time.Duration // a transfer without progress for this time counts as slow
	SlowRate     uint64        // a transfer below this rate in bytes a second counts as slow

	Sockets     uint64 // maximum number of WebSockets
	SocketWaits uint64 // maximum number of requests of one WebSocket that wait for a transaction
	// SocketPing is the interval between pings to a WebSocket. A WebSocket from which nothing
	// arrives for two intervals is closed.
	SocketPing      time.Duration
	QueueMessages   uint64 // maximum number of queued messages of one WebSocket
	QueueBytes      uint64 // maximum number of queued bytes of one WebSocket
	QueuedBytes     uint64 // maximum number of queued bytes of all WebSockets
	Subscriptions   uint64 // maximum number of subscriptions of all WebSockets
	SocketSubs      uint64 // maximum number of subscriptions of one WebSocket
	SubscriptionLag uint64 // maximum number of blocks by which a subscription may lag behind the chain
	AddressSockets  ByAddress
	AddressRate     ByAddress // maximum number of requests per second of one address
	GzipMin         uint64    // minimum size of a reply that is compressed, in bytes; 0: no reply is compressed
	AddressSubs     ByAddress // maximum number of subscriptions of one address

	AddressConnections ByAddress
	AddressParked      ByAddress
	AddressInFlight    ByAddress
	AddressSimulations ByAddress
	AddressWork        ByAddress // maximum ms of expensive work per second of one address
}

// ByAddress is the limit of one client address.
type ByAddress struct {
	Max      uint64
	Loopback bool // true: the limit also applies to loopback addresses
}

// ID is a limit's index in Table.
type ID int

// The limits, in the order of Table.
const (
	MaxConnections ID = iota
	MaxAddressConnections
	MaxParked
	MaxAddressParked
	MaxWaitDelay
	MaxWaitOutcomes
	MaxBatch
	BatchTime
	ReadTime
	WriteTime
	IdleTime
	MaxJSONNodes
	MaxReply
	MaxInFlight
	MaxAddressInFlight
	MaxSimulations
	MaxAddressSimulations
	MaxAddressWork
	MaxHeavyWaiting
	MaxViewsWaiting
	SlowTime
	SlowRate
	MaxSockets
	MaxAddressSockets
	MaxSocketWaits
	SocketPing
	MaxQueueMessages
	MaxQueueBytes
	MaxQueuedBytes
	MaxSubscriptions
	MaxAddressSubscriptions
	MaxSocketSubscriptions
	MaxSubscriptionLag
	MaxAddressRate
	MinGzip
	// Count is the number of limits. As the result of a function, Count means that no limit is
	// exceeded.
	Count
)

// Row describes one limit. Exactly one of Number, Time and Address is set.
type Row struct {
	Key     string // name in config.json, below troupe.rpc
	Default uint64 // default value; durations in ns
	// If Share is not 0, the default is at least 1/Share of the machine's memory.
	Share    uint64
	Min, Max uint64
	Doc      string // description in docs/operate/config.md
	Number   func(*Limits) *uint64
	Time     func(*Limits) *time.Duration
	Address  func(*Limits) *ByAddress
}

const (
	second = uint64(time.Second)
	hour   = uint64(time.Hour)
	mib    = 1 << 20
	gib    = 1 << 30
)

// Table is all limits, in the order of the documentation.
var Table = [Count]Row{
	{Key: "max_connections", Default: 10_000, Min: 1, Max: 1_000_000,
		Doc: "connections at once, fewer if the system lets the process open few files. When all are taken, the " +
			"connection that has been idle longest, of the address that has most, is closed",
		Number: func(l *Limits) *uint64 { return &l.Connections }},
	{Key: "max_connections_per_address", Default: 1000, Min: 1, Max: 1_000_000,
		Doc:     "connections of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressConnections }},
	{Key: "max_parked_requests", Default: 10_000, Min: 1, Max: 1_000_000,
		Doc: "requests that wait for a transaction. When all are taken, the last one of the address that has " +
			"most is refused in favour of an address that has fewer",
		Number: func(l *Limits) *uint64 { return &l.Parked }},
	{Key: "max_parked_per_address", Default: 1000, Min: 1, Max: 1_000_000,
		Doc:     "requests of one address that wait for a transaction",
		Address: func(l *Limits) *ByAddress { return &l.AddressParked }},
	{Key: "max_wait_delay", Default: 2 * second, Min: second / 1000, Max: hour,
		Doc: "how long until a request that waits for a transaction is first looked at. While that takes longer " +
			"the node cannot keep up, and new ones are refused at once",
		Time: func(l *Limits) *time.Duration { return &l.WaitDelay }},
	{Key: "max_wait_outcomes", Default: 1 << 19, Min: 1024, Max: 1 << 26,
		Doc: "outcomes known for waiting requests, some 600 bytes each. Beyond it a wait that would read more " +
			"than 64 is refused",
		Number: func(l *Limits) *uint64 { return &l.Outcomes }},
	{Key: "max_batch", Default: 100, Min: 1, Max: 10_000,
		Doc:    "requests in one body",
		Number: func(l *Limits) *uint64 { return &l.Batch }},
	{Key: "batch_timeout", Default: 20 * second, Min: 1, Max: hour,
		Doc:  "for all requests of a body together. Those whose turn has not come are refused",
		Time: func(l *Limits) *time.Duration { return &l.BatchTimeout }},
	{Key: "read_timeout", Default: 30 * second, Min: 1, Max: hour,
		Doc:  "for one request to arrive",
		Time: func(l *Limits) *time.Duration { return &l.ReadTimeout }},
	{Key: "write_timeout", Default: 30 * second, Min: 1, Max: hour,
		Doc:  "for one reply to be read by its client",
		Time: func(l *Limits) *time.Duration { return &l.WriteTimeout }},
	{Key: "idle_timeout", Default: 120 * second, Min: 1, Max: 24 * hour,
		Doc:  "between requests of a connection",
		Time: func(l *Limits) *time.Duration { return &l.IdleTimeout }},
	{Key: "max_json_nodes", Default: 100_000, Min: 1000, Max: 10_000_000,
		Doc:    "values and keys in one body",
		Number: func(l *Limits) *uint64 { return &l.JSONNodes }},
	{Key: "max_reply_bytes", Default: 32 * mib, Min: 64 << 10, Max: gib,
		Doc:    "size of one reply; of a batch, of all its replies together",
		Number: func(l *Limits) *uint64 { return &l.Reply }},
	{Key: "max_bytes_in_flight", Default: 48 * mib, Share: 16, Min: mib, Max: 64 * gib,
		Doc: "bodies and replies in memory. At the limit, clients that send or read slower than " +
			"`slow_transfer_bytes_per_second` are closed, large requests and replies are refused, and small " +
			"ones are served. Replies of transaction waits wait for room, as long as a request may take, up to " +
			"32 MiB of them",
		Number: func(l *Limits) *uint64 { return &l.InFlight }},
	{Key: "max_bytes_in_flight_per_address", Default: 40 * mib, Share: 20, Min: mib, Max: 64 * gib,
		Doc:     "bodies and replies in memory, of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressInFlight }},
	{Key: "max_simulations", Default: 16, Min: 1, Max: 10_000,
		Doc:    "simulations and traces that run or wait. One runs at a time",
		Number: func(l *Limits) *uint64 { return &l.Simulations }},
	{Key: "max_simulations_per_address", Default: 4, Min: 1, Max: 10_000,
		Doc:     "simulations and traces of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressSimulations }},
	{Key: "max_work_per_address", Default: 250, Min: 1, Max: 1000,
		Doc: "milliseconds of heavy work per second for one address: reading large bodies, writing large " +
			"replies, simulating and tracing. Beyond it the next requests wait",
		Address: func(l *Limits) *ByAddress { return &l.AddressWork }},
	{Key: "max_heavy_waiting", Default: 4096, Min: 1, Max: 1_000_000,
		Doc:    "requests that wait until a large body can be read or a large reply written",
		Number: func(l *Limits) *uint64 { return &l.HeavyWaiting }},
	{Key: "max_views_waiting", Default: 4096, Min: 1, Max: 1_000_000,
		Doc:    "contract calls that wait for a turn; short ones, long ones and simulations count separately",
		Number: func(l *Limits) *uint64 { return &l.Views }},
	{Key: "slow_transfer_after", Default: second, Min: second / 1000, Max: hour,
		Doc: "a large transfer that moved nothing for this long, or stayed below " +
			"`slow_transfer_bytes_per_second` for this long, is closed when another request needs its memory",
		Time: func(l *Limits) *time.Duration { return &l.SlowAfter }},
	{Key: "slow_transfer_bytes_per_second", Default: mib, Min: 1, Max: gib,
		Doc:    "see slow_transfer_after",
		Number: func(l *Limits) *uint64 { return &l.SlowRate }},
	{Key: "max_websockets", Default: 4096, Min: 1, Max: 1_000_000,
		Doc:    "WebSockets at once. They count as connections, too",
		Number: func(l *Limits) *uint64 { return &l.Sockets }},
	{Key: "max_websockets_per_address", Default: 256, Min: 1, Max: 1_000_000,
		Doc:     "WebSockets of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressSockets }},
	{Key: "max_websocket_waits", Default: 64, Min: 1, Max: 10_000,
		Doc:    "requests of one WebSocket that wait for a transaction. At the limit no more is read from it",
		Number: func(l *Limits) *uint64 { return &l.SocketWaits }},
	{Key: "websocket_ping", Default: 30 * second, Min: second / 100, Max: hour,
		Doc:  "between two pings to a WebSocket. It is closed if its client sends nothing for two of them",
		Time: func(l *Limits) *time.Duration { return &l.SocketPing }},
	{Key: "max_queue_messages", Default: 1024, Min: 4, Max: 1_000_000,
		Doc:    "messages of one WebSocket that its client has not read. At the limit its subscriptions wait",
		Number: func(l *Limits) *uint64 { return &l.QueueMessages }},
	{Key: "max_queue_bytes", Default: 2 * mib, Min: 64 << 10, Max: gib,
		Doc:    "the same in bytes",
		Number: func(l *Limits) *uint64 { return &l.QueueBytes }},
	{Key: "max_queued_bytes", Default: 64 * mib, Min: mib, Max: 64 * gib,
		Doc:    "bytes in the queues of all WebSockets",
		Number: func(l *Limits) *uint64 { return &l.QueuedBytes }},
	{Key: "max_subscriptions", Default: 16_384, Min: 1, Max: 1_000_000,
		Doc:    "subscriptions of all WebSockets",
		Number: func(l *Limits) *uint64 { return &l.Subscriptions }},
	{Key: "max_subscriptions_per_address", Default: 1024, Min: 1, Max: 1_000_000,
		Doc:     "subscriptions of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressSubs }},
	{Key: "max_subscriptions_per_websocket", Default: 64, Min: 1, Max: 10_000,
		Doc:    "subscriptions of one WebSocket",
		Number: func(l *Limits) *uint64 { return &l.SocketSubs }},
	{Key: "max_subscription_lag", Default: 64, Min: 1, Max: 1_000_000,
		Doc: "blocks that a subscription at the head may fall behind for lack of room in the queue. Beyond it " +
			"the subscription ends and returns the cursor to resume from",
		Number: func(l *Limits) *uint64 { return &l.SubscriptionLag }},
	{Key: "max_requests_per_address", Default: 1_000_000, Min: 1, Max: 1_000_000,
		Doc: "requests per second of one address, each of a batch counted. Beyond it 429. At the default " +
			"nothing is counted",
		Address: func(l *Limits) *ByAddress { return &l.AddressRate }},
	{Key: "gzip_min_bytes", Default: 16 << 10, Min: 0, Max: gib,
		Doc: "smallest reply that is compressed if the client accepts it, unless half of the cores are busy " +
			"with large bodies and replies, or the address has no work left. 0: never",
		Number: func(l *Limits) *uint64 { return &l.GzipMin }},
}

// Set sets a limit to v. named means that config.json names the limit. A limit by address then also
// applies to loopback addresses.
func (r *Row) Set(l *Limits, v uint64, named bool) {
	switch {
	case r.Number != nil:
		*r.Number(l) = v
	case r.Time != nil:
		*r.Time(l) = time.Duration(v)
	default:
		*r.Address(l) = ByAddress{v, named}
	}
}

// Get returns the value of a limit; durations in ns.
func (r *Row) Get(l *Limits) uint64 {
	switch {
	case r.Number != nil:
		return *r.Number(l)
	case r.Time != nil:
		return uint64(*r.Time(l))
	}
	return r.Address(l).Max
}

// DefaultFor returns the default on a machine with memory bytes of memory.
func (r *Row) DefaultFor(memory uint64) uint64 {
	if r.Share == 0 {
		return r.Default
	}
	return min(max(r.Default, memory/r.Share), r.Max)
}

// Shown returns the default as a text for people.
func (r *Row) Shown() string {
	switch {
	case r.Share != 0:
		return strconv.FormatUint(r.Default/mib, 10) + " MiB, or 1/" + strconv.FormatUint(r.Share, 10) + " of the machine's memory if that is more"
	case r.Time != nil:
		return strconv.FormatUint(r.Default/second, 10) + " s"
	case r.Default >= mib:
		return strconv.FormatUint(r.Default/mib, 10) + " MiB"
	}
	return strconv.FormatUint(r.Default, 10)
}

// Named marks the limits that config.json names.
type Named [Count]bool

// FitMemory raises the defaults that depend on memory, for a machine with memory bytes. named lists
// the limits that config.json sets; FitMemory does not change these.
func (l *Limits) FitMemory(memory uint64, named *Named) {
	for i := range Table {
		if r := &Table[i]; r.Share != 0 && !named[i] {
			r.Set(l, r.DefaultFor(memory), false)
		}
	}
}

// Default returns the limits of a node whose config.json names no limit, on a machine with little
// memory.
func Default() Limits {
	var l Limits
	for i := range Table {
		Table[i].Set(&l, Table[i].Default, false)
	}
	return l
}
