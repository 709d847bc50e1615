// Package statesync decides from which host the state at a sync block is requested: for each shard
// a header, then its parts, from several hosts at once. It also encodes parts and proofs.
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
// banned. A neard host answers 30 requests in 30 s, counted over all its peers, and ignores further
// ones; so the machine sends requests at a lower rate. If a host is slow to answer, fewer items are
// requested from it at the same time, and timeouts grow if no other host is available. Late
// responses are still accepted.
package statesync
