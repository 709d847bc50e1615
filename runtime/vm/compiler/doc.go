// Package compiler has modules compiled by child processes, which may crash, hang or be killed
// without harm to the node.
//
//	in      a prepared module, the size of the contract that it is of, whether a block waits for
//	        it
//	out     the artifact; or an Error: that the compiler failed, never that the contract is at
//	        fault
//	state   a Pool of children, started when they are first needed and ended when they have been
//	        idle; a Quarantine of the code that the compiler failed on, with a mark on disk for
//	        each compilation under way
//	bound   processor time, memory and bytes of output by the size of the contract (LimitsOf);
//	        attempts by what went wrong
//	units   bytes; processor time of the child, never the clock, which a busy machine makes long;
//	        the clock only where a child uses no processor time at all
//	errors  *Error after the last attempt; ErrClosed, ErrCancelled
//
// What no block waits for is compiled by children of their own, all of whose threads have a low
// priority, half as many at a time as there are cores. What a block waits for never gets such a
// child, and goes first.
//
// A child is the same binary, given two pipes: it reads Requests from descriptor 3 and writes
// Replies to descriptor 4, one at a time (frame.go). It sets its own limits before each. Without a
// command to start, all is done in this process, which then has the marks on disk but no limits.
package compiler
