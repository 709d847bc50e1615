// Package statesync decides which host is asked for the state at a sync block: for each shard a
// header, then its parts, from several hosts at once. It also encodes parts and proofs.
//
//	in      Events: hosts and the shards that they serve, what arrived and whether it is valid,
//	        time
//	out     Out: requests, hosts to ban
//	state   Machine: of each shard what is present, of each host its requests and pauses, and the
//	        number of tries for each requested item
//	units   ms of a monotonic clock
//	bound   MaxAsked requests in flight and Rate in Period for each host; MaxParts for each shard
//	errors  ErrPacked: the sender is at fault; the Machine returns none
//	source  nearcore chain/client/src/sync/state, chain/network/src/snapshot_hosts
//
// A host that does not answer is paused, for longer each time; one that sends invalid data is
// banned. neard's hosts answer 30 requests in 30 s, of all peers together, and are silent beyond
// that; so the request rate stays below. Over a slow link, fewer items are requested at once, and
// timeouts grow if no other host is available; late responses are still accepted.
package statesync
