// Package vm runs contracts: it is the action.VM of a node, made of package prep (what may run, and
// its metering), engine (wasmtime), cache (what was compiled) and logic (host functions and gas).
//
//	in      action.Call and action.External; code by its hash
//	out     action.CallOutcome, exact in gas and error
//	bound   as config.Limits says; compiled code in memory and on disk as Options says
//	errors  what a contract causes is in the outcome; an error is the state's or the node's and
//	        makes the chunk impossible
//	source  nearcore runtime/near-vm-runner/src/wasmtime_runner/mod.rs,
//	        runtime/runtime/src/function_call.rs
package vm
