// Package contracts contains the contracts of tests and benchmarks: a probe that makes any sequence
// of host calls, realistic contracts in C, and modules that must not harm a node.
//
//	in      programs for the probe; the C sources in c/ (for `make contracts`); sizes and depths of
//	        bad modules
//	out     wasm, arguments, and what the committed .wasm files were built from
//	state   none; contracts are built once per process
//	units   arguments of the probe: 8 bytes little-endian; balances 16
//	bound   code and data of a Program: 2.4 MiB, the space before the scratch memory
//	errors  a program with an unknown host function or the wrong number of arguments panics
//	source  nearcore runtime/near-vm-runner (host functions, limits); NEP-141, NEP-145, NEP-148,
//	        NEP-297
package contracts
