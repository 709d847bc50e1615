// Package backend implements rpc.Node: it answers RPC requests from an engine. Reads use state
// snapshots and the store. Submissions go to the node's actors.
//
//	in      requests of package rpc, as values
//	out     rpc.Node
//	state   no chain state of its own; the encoded genesis, the start time, and caches: digests of
//	        recent blocks, authors, receipt origins, parents of reported blocks
//	units   as package primitives has them
//	bound   a state is held only while its request runs; each cache has a constant beside it
//	errors  *view.LookupError, *primitives.InvalidTxError; every other error is internal
//	source  nearcore chain/client/src/view_client_actor.rs
package backend
