// Package viewstate prints what the commands of view-state show: blocks, epochs, and the result of
// applying stored chunks again.
//
//	in      a Request; the engine of a running node, or of a folder opened for the command
//	out     lines of text, and rows of a CSV file; over a stream: JSON messages (Serve, Receive)
//	state   none: a command reads stored blocks
//	units   heights in blocks
//	bound   one block in memory; with ApplyRequest.Parallel one for each processor
//	errors  ErrUsage: the request is invalid; ErrDiffers: a result differs from the stored one;
//	        ErrBroken: the stream ended before the command did
//	source  nearcore tools/state-viewer/src/commands.rs, epoch_info.rs, apply_chain_range.rs
package viewstate
