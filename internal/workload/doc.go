// Package workload makes random load: transactions of every action, calls of contracts if asked
// for, and the chains that run them.
//
//	in      a seed and a few numbers: accounts, shards, skew; for a chain also genesis figures and
//	        where its data lies
//	out     signed transactions (Generator), blocks (Chain), what a chain holds in tokens (Held)
//	state   Generator: a random source, counters and the secret keys it has used; Chain: an engine
//	        with its store
//	units   heights in blocks, times in ns since 1970, yoctoNEAR
//	bound   a million nonces of a key in one block (the protocol's own range); keys: what the
//	        accounts' seeds give
//	errors  what the engine and the store say; a transaction that fails is load, not an error
//	source  nearcore runtime/runtime/src/actions.rs (what can fail), runtime/runtime/src/
//	        balance_checker.rs (supply)
//
// Equal seeds give equal transactions and, as all keys follow from seeds and ed25519 is
// deterministic, equal blocks. So a chain can be run again otherwise (serially, in parallel, with
// restarts) and compared hash by hash.
package workload
