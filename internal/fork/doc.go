// Package fork reads the chain that this node's chain is a fork of: its accounts, access keys, code
// and contract values after a block, from the JSON-RPC of any of its nodes.
//
//	in      a URL and a block (Spec); keys of the state (engine.RemoteState)
//	out     values; Pin: the data of the fork's first block; a home folder for the fork; counts,
//	        and which answers are not proven
//	state   answers, in memory and as files by block hash; requests under way
//	units   bytes; requests per second; times as time.Duration
//	bound   Options: concurrent requests, requests per second, bytes of a reply, time and tries of
//	        a request, bytes in memory; each question is asked once
//	errors  state.ErrAway: the remote node does not answer, answers for another block, or sends a
//	        reply that fails its checks. A wrong value is never returned
//	source  our own; replies as nearcore's chain/jsonrpc has them
//
// Contract storage with a proof (view_state with include_proof) is verified against the state root
// in the forked chain's next block for the shard. That block and the pinned block are verified
// against their hashes. The hashes are all that is trusted: they are stored, and this node refuses
// a remote node that later reports hashes other than the stored ones. Accounts and access keys have
// no proof in NEAR's RPC and count as unproven. Code is verified against the code hash in the
// account.
package fork
