// Package localnet runs the nodes of a local network as processes and shows their state.
//
//	in      homes; keys that the user presses; JSON-RPC answers of the nodes, also of a neard
//	out     processes started, stopped and paused; a screen, or lines
//	state   Board: the state of each node, the blocks of the last minute, and the requests under
//	        way. It has no process, terminal or clock: Step takes an event and the time, and
//	        returns the actions to take
//	units   heights in blocks, rates per second over the last minute
//	bound   home.MaxLocalnet nodes, one process each; two requests a second to each node,
//	        maxBlocks blocks a look; a log of maxLog bytes and its predecessor for each node;
//	        stopLimit for a stop
//	errors  a node's error is in its row; an error that ends the whole network is returned by Run
//	source  our own
//
// Every process has its own process group, so that Ctrl-C at the terminal reaches only this
// process. The nodes end with this process. If this process stops normally, it stops the nodes. If
// this process is killed, Linux kills the nodes.
package localnet
