// Package contracts has the contracts that tests and benchmarks run: a probe for any sequence of
// host calls, contracts of real shape in C, and modules that no node should be hurt by.
//
//	in      programs for the probe; the C sources in c/ (at `make contracts`); sizes and depths of
//	        bad modules
//	out     wasm, arguments, and what the sources were when the committed .wasm files were built
//	state   none; what is built is built once a process
//	units   arguments of the probe: 8 bytes little-endian; balances 16
//	bound   a Program's code and data: what fits between its base and the scratch memory, 2.4 MiB
//	errors  a program that names no host function, or gives it the wrong number of arguments,
//	        panics: it is a test's mistake
//	source  nearcore runtime/near-vm-runner (host functions, limits); NEP-141, NEP-145, NEP-148,
//	        NEP-297
package contracts
