// Package fork is the way to another chain that a node runs a fork of: its accounts, access keys,
// code and contract values after a block, from the JSON-RPC of any of its nodes.
//
//	in      a URL and a block (Spec); keys of the state (engine.RemoteState)
//	out     values; Pin: what the first block of the fork is made of; a home folder for it;
//	        counts, and what is not proven
//	state   what was asked for, in memory and as files by block hash; questions under way
//	units   bytes; requests a second; times as time.Duration
//	bound   Options: requests at once and a second, bytes of a reply, time and tries of a request,
//	        bytes in memory; each question is asked once
//	errors  state.ErrAway: the other node does not answer, answers for another block, or what
//	        can't be believed. Never another value
//	source  our own; replies as nearcore's chain/jsonrpc has them
//
// What of a contract's storage is proven (view_state with include_proof) is held to the state root
// that the next block of the other chain has for the shard. That block and the pinned one are held
// to their hashes, which are the whole of what is trusted: they are remembered, and a node that has
// others later is refused. Accounts and access keys have no proof in NEAR's RPC and are counted as
// unproven; code is held to the hash that its account tells.
package fork
