// Package refmodel is a second, small model of what a chunk does to accounts, code and keys,
// written from nearcore's rules and sharing no code with runtime: tests want both to agree on
// chunks that a generator makes. Producers is the same for the producers of chunks in package chain.
//
//	in      a World, and the transactions and receipts of one chunk of a chain with one shard
//	out     what each receipt comes to: value or error, receipts that leave, tokens burnt; and the
//	        World behind the chunk
//	state   a World: accounts with code, keys and data; global code; receipts that wait
//	units   yoctoNEAR; gas is not modelled, its price is 0
//	bound   chunks without limits; contracts are contracts.Version, whose programs are made here
//	errors  none: what the model does not know it panics at
//	source  nearcore f0c7706f1, runtime/runtime/src: lib.rs, actions.rs, access_keys.rs,
//	        global_contracts.rs, contract_code.rs, deterministic_account_id.rs,
//	        action_validation.rs; runtime/near-vm-runner/src/wasmtime_runner/mod.rs
//
// Which code a call runs: the account's contract is resolved to a hash by what the chunk has
// written so far, and code of that hash runs if it was there before the chunk, or if anything in
// the chunk has deployed or distributed it before.
package refmodel
