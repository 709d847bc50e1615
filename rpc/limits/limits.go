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
		Doc: "largest number of concurrent connections. It is smaller if the system lets the process open few " +
			"files. At the limit, a new connection replaces the longest idle connection of the address with " +
			"the most connections",
		Number: func(l *Limits) *uint64 { return &l.Connections }},
	{Key: "max_connections_per_address", Default: 1000, Min: 1, Max: 1_000_000,
		Doc:     "largest number of concurrent connections of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressConnections }},
	{Key: "max_parked_requests", Default: 10_000, Min: 1, Max: 1_000_000,
		Doc: "largest number of requests that wait for a transaction. At the limit, a new request of an " +
			"address with few waiting requests ends the newest waiting request of the address with the most",
		Number: func(l *Limits) *uint64 { return &l.Parked }},
	{Key: "max_parked_per_address", Default: 1000, Min: 1, Max: 1_000_000,
		Doc:     "largest number of requests of one address that wait for a transaction",
		Address: func(l *Limits) *ByAddress { return &l.AddressParked }},
	{Key: "max_wait_delay", Default: 2 * second, Min: second / 1000, Max: hour,
		Doc: "how long a new request that waits for a transaction may take to begin its wait. While requests " +
			"take longer, the node is overloaded and refuses new ones",
		Time: func(l *Limits) *time.Duration { return &l.WaitDelay }},
	{Key: "max_wait_outcomes", Default: 1 << 19, Min: 1024, Max: 1 << 26,
		Doc: "largest number of outcomes that are kept in memory for waiting requests, some 600 bytes each. " +
			"At the limit, a new request that would read more than 64 outcomes is refused",
		Number: func(l *Limits) *uint64 { return &l.Outcomes }},
	{Key: "max_batch", Default: 100, Min: 1, Max: 10_000,
		Doc:    "largest number of requests in one batch",
		Number: func(l *Limits) *uint64 { return &l.Batch }},
	{Key: "batch_timeout", Default: 20 * second, Min: 1, Max: hour,
		Doc:  "largest time to execute a batch. After it, the remaining requests of the batch are refused",
		Time: func(l *Limits) *time.Duration { return &l.BatchTimeout }},
	{Key: "read_timeout", Default: 30 * second, Min: 1, Max: hour,
		Doc:  "largest time in which a request must arrive",
		Time: func(l *Limits) *time.Duration { return &l.ReadTimeout }},
	{Key: "write_timeout", Default: 30 * second, Min: 1, Max: hour,
		Doc:  "largest time in which a client must read a reply",
		Time: func(l *Limits) *time.Duration { return &l.WriteTimeout }},
	{Key: "idle_timeout", Default: 120 * second, Min: 1, Max: 24 * hour,
		Doc:  "a connection without a request for this long is closed",
		Time: func(l *Limits) *time.Duration { return &l.IdleTimeout }},
	{Key: "max_json_nodes", Default: 100_000, Min: 1000, Max: 10_000_000,
		Doc:    "largest number of JSON values and keys in one request body",
		Number: func(l *Limits) *uint64 { return &l.JSONNodes }},
	{Key: "max_reply_bytes", Default: 32 * mib, Min: 64 << 10, Max: gib,
		Doc:    "largest size of a reply. The replies to one batch count together",
		Number: func(l *Limits) *uint64 { return &l.Reply }},
	{Key: "max_bytes_in_flight", Default: 48 * mib, Share: 16, Min: mib, Max: 64 * gib,
		Doc: "memory for all request bodies and replies. At the limit, connections that send or read slower " +
			"than `slow_transfer_bytes_per_second` are closed, and large requests and replies are refused. " +
			"Small ones are served. Replies to requests that waited for a transaction, up to 32 MiB of them, " +
			"wait until there is memory",
		Number: func(l *Limits) *uint64 { return &l.InFlight }},
	{Key: "max_bytes_in_flight_per_address", Default: 40 * mib, Share: 20, Min: mib, Max: 64 * gib,
		Doc:     "memory for the request bodies and replies of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressInFlight }},
	{Key: "max_simulations", Default: 16, Min: 1, Max: 10_000,
		Doc:    "largest number of simulations and traces that run or wait. One runs at a time",
		Number: func(l *Limits) *uint64 { return &l.Simulations }},
	{Key: "max_simulations_per_address", Default: 4, Min: 1, Max: 10_000,
		Doc:     "largest number of simulations and traces of one address that run or wait",
		Address: func(l *Limits) *ByAddress { return &l.AddressSimulations }},
	{Key: "max_work_per_address", Default: 250, Min: 1, Max: 1000,
		Doc: "milliseconds per second that the node may spend for one address on large request bodies, large " +
			"replies, simulations and traces. If an address has used more, its next large requests wait",
		Address: func(l *Limits) *ByAddress { return &l.AddressWork }},
	{Key: "max_heavy_waiting", Default: 4096, Min: 1, Max: 1_000_000,
		Doc:    "largest number of requests with a large body or reply that wait for their turn on the cores",
		Number: func(l *Limits) *uint64 { return &l.HeavyWaiting }},
	{Key: "max_views_waiting", Default: 4096, Min: 1, Max: 1_000_000,
		Doc: "largest number of waiting view calls of contracts. Short calls, long calls and simulations " +
			"are counted separately",
		Number: func(l *Limits) *uint64 { return &l.Views }},
	{Key: "slow_transfer_after", Default: second, Min: second / 1000, Max: hour,
		Doc: "when memory is needed, a connection is closed whose large body or reply has not moved for this " +
			"long, or was slower than `slow_transfer_bytes_per_second` for this long",
		Time: func(l *Limits) *time.Duration { return &l.SlowAfter }},
	{Key: "slow_transfer_bytes_per_second", Default: mib, Min: 1, Max: gib,
		Doc:    "lowest rate of a large body or reply; see `slow_transfer_after`",
		Number: func(l *Limits) *uint64 { return &l.SlowRate }},
	{Key: "max_websockets", Default: 4096, Min: 1, Max: 1_000_000,
		Doc:    "largest number of concurrent WebSockets. They also count as connections",
		Number: func(l *Limits) *uint64 { return &l.Sockets }},
	{Key: "max_websockets_per_address", Default: 256, Min: 1, Max: 1_000_000,
		Doc:     "largest number of concurrent WebSockets of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressSockets }},
	{Key: "max_websocket_waits", Default: 64, Min: 1, Max: 10_000,
		Doc: "largest number of requests of one WebSocket that wait for a transaction. At the limit, the " +
			"node reads no further request from the WebSocket",
		Number: func(l *Limits) *uint64 { return &l.SocketWaits }},
	{Key: "websocket_ping", Default: 30 * second, Min: second / 100, Max: hour,
		Doc: "time between two pings to a WebSocket. If its client sends nothing for twice this time, the " +
			"WebSocket is closed",
		Time: func(l *Limits) *time.Duration { return &l.SocketPing }},
	{Key: "max_queue_messages", Default: 1024, Min: 4, Max: 1_000_000,
		Doc: "largest number of messages in the queue of a WebSocket, which its client has not read yet. " +
			"At the limit, its subscriptions wait",
		Number: func(l *Limits) *uint64 { return &l.QueueMessages }},
	{Key: "max_queue_bytes", Default: 2 * mib, Min: 64 << 10, Max: gib,
		Doc:    "largest total size of the messages in the queue of a WebSocket. At the limit, its subscriptions wait",
		Number: func(l *Limits) *uint64 { return &l.QueueBytes }},
	{Key: "max_queued_bytes", Default: 64 * mib, Min: mib, Max: 64 * gib,
		Doc:    "largest total size of the messages in the queues of all WebSockets together",
		Number: func(l *Limits) *uint64 { return &l.QueuedBytes }},
	{Key: "max_subscriptions", Default: 16_384, Min: 1, Max: 1_000_000,
		Doc:    "largest number of subscriptions of all WebSockets",
		Number: func(l *Limits) *uint64 { return &l.Subscriptions }},
	{Key: "max_subscriptions_per_address", Default: 1024, Min: 1, Max: 1_000_000,
		Doc:     "largest number of subscriptions of one address",
		Address: func(l *Limits) *ByAddress { return &l.AddressSubs }},
	{Key: "max_subscriptions_per_websocket", Default: 64, Min: 1, Max: 10_000,
		Doc:    "largest number of subscriptions of one WebSocket",
		Number: func(l *Limits) *uint64 { return &l.SocketSubs }},
	{Key: "max_subscription_lag", Default: 64, Min: 1, Max: 1_000_000,
		Doc: "how many blocks a subscription that has reached the head may fall behind the head because its " +
			"client does not read. Then it ends, and returns the cursor from which to continue",
		Number: func(l *Limits) *uint64 { return &l.SubscriptionLag }},
	{Key: "max_requests_per_address", Default: 1_000_000, Min: 1, Max: 1_000_000,
		Doc: "largest number of requests per second of one address. Each request of a batch counts. Further " +
			"requests get HTTP 429. At the default nothing is counted",
		Address: func(l *Limits) *ByAddress { return &l.AddressRate }},
	{Key: "gzip_min_bytes", Default: 16 << 10, Min: 0, Max: gib,
		Doc: "a reply of at least this size is compressed if the client accepts it, except while half of the " +
			"cores are busy with large requests or the address has used up `max_work_per_address`. 0: replies " +
			"are never compressed",
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
		return strconv.FormatUint(r.Default/mib, 10) + " MiB, or 1/" + strconv.FormatUint(r.Share, 10) +
			" of the machine's memory if that is more"
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
