// Package backend answers the RPC from an engine: reads from snapshots and the store, submissions through the node's actors.
//
//	in      requests of package rpc, as values
//	out     rpc.Node
//	state   none of its own; encoded genesis and start time
//	units   as package primitives has them
//	bound   a state is held only while its request runs
//	errors  *view.LookupError, *primitives.InvalidTxError; everything else is internal
//	source  nearcore chain/client/src/view_client_actor.rs
package backend
