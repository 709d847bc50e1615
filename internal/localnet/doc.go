// Package localnet runs the homes of a network on this machine as processes and shows what they do.
//
//	in      homes; keys of whoever looks at it; answers of the nodes' JSON-RPC, a neard's too
//	out     processes told to begin, end, stand still; a screen, or lines
//	state   Board: what is known of each node, of the last minute of the chain, and what was asked
//	        of whom. It has no process, terminal or clock: Step takes an event and the time, and
//	        says what is to be done
//	units   heights in blocks, rates a second over the last minute
//	bound   home.MaxLocalnet nodes, one process each; two requests a second of each node,
//	        maxBlocks blocks a look; a log of maxLog bytes and the one before of each node;
//	        stopLimit for ends
//	errors  of a node stand in its row; of what ends all, the error of Run
//	source  our own
//
// Every process is a group of its own, so that Ctrl-C at the terminal reaches this one alone, and
// ends with it: in order where it ends in order, killed where it is killed (on Linux).
package localnet
