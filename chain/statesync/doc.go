// Package statesync decides from which hosts the state at a sync block is requested. For each shard
// the Machine requests a header, then the parts, from several hosts at once. The package also
// encodes parts and proofs.
//
//	in      Events: hosts and the shards that they serve, responses and whether they are valid,
//	        time
//	out     Out: requests, hosts to ban
//	state   Machine: for each shard what is present, for each host its requests and pauses, and the
//	        number of tries for each requested item
//	units   ms of a monotonic clock
//	bound   MaxAsked requests in flight and Rate in Period for each host; MaxParts for each shard
//	errors  ErrPacked is the sender's fault; the Machine returns no errors
//	source  nearcore chain/client/src/sync/state, chain/network/src/snapshot_hosts
//
// A host that does not answer is paused, each time for longer. A host that sends invalid data is
// banned. A neard host answers at most 30 requests in 30 s, summed over all peers of the host, and
// ignores further requests. So the machine sends requests at a lower rate. If a host is slow, the
// machine requests fewer items from that host at the same time. If no other host is available, the
// timeout of the slow host grows. The machine still accepts late responses.
package statesync
