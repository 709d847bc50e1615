// Package daemon assembles a node from its home folder and runs it: store, engine, actors, RPC,
// maintenance.
//
//	in      a loaded home.Home, overrides of the command line
//	out     Daemon: where it listens; Stop; Failed
//	state   the parts, and a goroutine for maintenance (garbage collection, the check of states
//	        after a start)
//	units   as the parts have them
//	bound   as the parts have them
//	errors  of opening: the folder, the port, the genesis, each with what to do about it
//	source  our own
package daemon
