// Package workload generates random transactions of every kind of action, optionally with contract
// calls. Package workload also drives chains that execute these transactions.
//
//	in      a seed; the numbers of accounts and shards, the skew; for a chain also genesis values
//	        and the data folder
//	out     signed transactions (Generator), blocks (Chain), the sum of all tokens (Held)
//	state   Generator: a random source, counters and the secret keys it has used; Chain: an engine
//	        with its store
//	units   heights in blocks, times in ns since 1970, yoctoNEAR
//	bound   a million nonces of a key in one block (the protocol's own range); a few keys per
//	        account
//	errors  those of the engine and the store; a failed transaction is not an error
//	source  nearcore runtime/runtime/src/actions.rs (what can fail), runtime/runtime/src/
//	        balance_checker.rs (supply)
//
// Equal seeds give equal transactions. Blocks are equal too, because all keys are derived from
// seeds and ed25519 is deterministic. So a chain can be executed in different ways (serially, in
// parallel, with restarts) and the results compared by hashes.
package workload
