// Package e2e runs the program as its users do: real clients against a node, restarts, crashes, and
// bad input at the process's edge. `make e2e` runs it; the tests have the build tag e2e.
//
//	in      the sources (or TROUPE_BIN, a program already built); Node.js with npm, python3, and
//	        cargo, for the clients
//	out     test results; logged: start time, idle memory and latencies
//	state   folders of the test; js/node_modules, py/.venv and rust/target stay for the next run
//	units   ms and MiB in what is logged
//	bound   every script and every start has a time limit
//	errors  a client's failure is the test's, with the script's output; what is not installed is
//	        skipped, and said so
//	source  nearcore chain/jsonrpc; the clients' own documentation
//
// The clients are as their registries have them, at the versions of js/package-lock.json,
// py/requirements.txt and rust/Cargo.lock. The crates take minutes to build, once. TROUPE_PROCESSES
// says how many nodes TestManySandboxesStartAtOnce starts side by side.
package e2e
