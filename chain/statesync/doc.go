// Package statesync decides of whom the states at a sync block are asked: a header of each shard, then its parts, of several hosts at once.
//
//	in      Events: who gives states of which shards, what came and what became of it, time
//	out     Out: requests, hosts to be banned
//	state   Machine: of each shard what is here, of each host what it was asked for and when, tries of each part that is asked for
//	units   ms of a clock that only goes on
//	bound   MaxAsked requests under way and Rate in Period of one host, MaxAsked times the hosts in all; MaxParts of a shard
//	errors  none: what came is judged by its user
//	source  nearcore chain/client/src/sync/state, chain/network/src/snapshot_hosts
//
// A host that does not answer is asked later, for longer each time; who sends what is wrong is asked no more. neard's hosts answer 30 requests in 30 s, of
// all who ask: beyond that they are silent, so they are not asked as much. Over a slow line fewer are asked for at once, and waited for longer if there
// is nobody else; what comes late is taken. Beside it stand the forms in which parts and proofs are sent.
package statesync
