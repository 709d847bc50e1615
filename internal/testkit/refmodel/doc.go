// Package refmodel is a second, small model of a chunk's effects on accounts, code and keys. It is
// written from nearcore's rules and shares no code with package runtime. Tests require that both
// give the same results for generated chunks. Producers is a second model of how chunk producers
// are chosen.
//
//	in      a World, and the transactions and receipts of one chunk of a chain with one shard
//	out     the result of each receipt: value or error, outgoing receipts, burnt tokens; and the
//	        World after the chunk
//	state   a World: accounts with code, keys and data; global code; waiting receipts
//	units   yoctoNEAR; gas is not modelled, its price is 0
//	bound   none on chunks; contracts are those of contracts.Version with programs of this package
//	errors  none: it panics at anything that the model does not cover
//	source  nearcore f0c7706f1, runtime/runtime/src: lib.rs, actions.rs, access_keys.rs,
//	        global_contracts.rs, contract_code.rs, deterministic_account_id.rs,
//	        action_validation.rs; runtime/near-vm-runner/src/wasmtime_runner/mod.rs
//
// A call runs the code whose hash is in the account's contract, as far as the chunk has changed it.
// The code must have been deployed before the chunk, or deployed or distributed earlier in the
// chunk.
package refmodel
