// Package daemon assembles a node from its home folder and runs it: store, engine, actors, RPC,
// upkeep.
//
//	in      a loaded home.Home, overrides of the command line
//	out     Host: where it listens; Stop
//	state   the parts, and two goroutines for upkeep (garbage collection, the check of states
//	        after a start)
//	units   as the parts have them
//	bound   as the parts have them
//	errors  of opening: the folder, the port, the genesis, each said so that one knows what to do
//	source  our own
package daemon
