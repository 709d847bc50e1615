// Package compiler compiles modules in child processes, which may crash, hang or be killed without
// harm to the node.
//
//	in      a prepared module, the size of its contract, whether a block waits for it
//	out     the artifact, or an Error: the compiler failed. An Error never means that the contract is
//	        at fault
//	state   a Pool of children, started on demand and ended when idle; a Quarantine of code that the
//	        compiler failed on, with a mark on disk for each running compilation
//	bound   processor time, memory and bytes of output by the size of the contract (LimitsOf); the
//	        number of attempts by the kind of failure
//	units   bytes; processor time of the child. Wall time depends on the load of the machine and is
//	        used only for a child that uses no processor time at all
//	errors  *Error after the last attempt; ErrClosed, ErrCancelled
//
// The problem: the code generator is a large library that runs on input from any account. A module
// that crashes it, or makes it take gigabytes or minutes, must not take the node down. Such a crash
// must not repeat after every restart.
//
// Outline: a child is the same binary with two pipes. A child reads Requests from descriptor 3 and
// writes Replies to descriptor 4, one at a time (frame.go). The child sets its own limits before
// each request. Jobs wait in the gate until they may begin; jobs that a block waits for go first.
// Background jobs have separate children, at most half as many as there are cores. All threads of
// these children have a low priority, so they never compile for a block. If Options.Command is
// empty, modules are compiled in this process, with marks on disk but without limits.
//
// Invariants: a failure is an Error, never an artifact and never an outcome of the call. A
// compilation that failed is tried again each time that a block needs it. In the background, the
// compilation is tried again only after it has succeeded for a block (Quarantine).
//
// Rejected: limits by wall time. A busy machine would fail compilations that an idle machine
// finishes. Also rejected: caching failures as results. The node would then disagree with nodes
// whose compiler succeeds.
package compiler
