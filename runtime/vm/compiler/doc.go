// Package compiler compiles modules in child processes, which may crash, hang or be killed without
// harm to the node.
//
//	in      a prepared module, the size of its contract, whether a block waits for it
//	out     the artifact, or an Error: the compiler failed. The contract is never at fault
//	state   a Pool of children, started on demand and ended when idle; a Quarantine of code that the
//	        compiler failed on, with a mark on disk for each running compilation
//	bound   processor time, memory and bytes of output by the size of the contract (LimitsOf); the
//	        number of attempts by the kind of failure
//	units   bytes; processor time of the child. Wall time depends on the load of the machine and is
//	        used only for a child that uses no processor time at all
//	errors  *Error after the last attempt; ErrClosed, ErrCancelled
//
// The problem: the code generator is a large library that runs on input from any account. A module
// that crashes it, or makes it take gigabytes or minutes, must not take the node down; and the
// crash must not repeat after every restart.
//
// Outline: a child is the same binary with two pipes. It reads Requests from descriptor 3 and
// writes Replies to descriptor 4, one at a time (frame.go). It sets its own limits before each
// request. Jobs wait in the gate until they may begin; jobs that a block waits for go first.
// Background jobs have children of their own, at most half as many as there are cores, all of whose
// threads have a low priority. A job that a block waits for never gets such a child. If Options.Command
// is empty, modules are compiled in this process, with marks on disk but without limits.
//
// Invariants: a failure is an Error, never an artifact and never an outcome of the call. A failed
// compilation is retried for a block each time that a block needs it, and not in the background
// until then (Quarantine).
//
// Rejected: limits by wall time, which make a busy machine fail compilations that an idle one
// finishes. Rejected too: caching failures as results; the node would then disagree with nodes
// whose compiler succeeds.
package compiler
