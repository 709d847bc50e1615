// Package vm runs contracts. It implements action.VM with the packages prep (validation and
// metering), compiler (child processes), engine (wasmtime), cache (compiled contracts) and logic
// (host functions and gas).
//
//	in      action.Call and action.External; code by its hash
//	out     action.CallOutcome, exact in gas and error
//	bound   parameters.Limits; compiled code in memory and on disk as set by Options
//	errors  a failure of the contract is in the outcome. An error means that the state or the node
//	        failed, and the chunk cannot be applied
//	source  nearcore runtime/near-vm-runner/src/wasmtime_runner/mod.rs,
//	        runtime/runtime/src/function_call.rs
package vm
