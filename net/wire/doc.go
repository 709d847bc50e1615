// Package wire encodes and decodes the messages between nearcore peers, with their hashes and
// signatures.
//
//	in      frames from untrusted peers (Decode), or messages to send (Append)
//	out     messages, or the bytes that neard would send for them
//	state   none; a decoded message aliases the frame that it was decoded from, which must not
//	        change afterwards
//	units   times in seconds and nanoseconds of UTC; heights in blocks; ports as numbers
//	bound   a frame of MaxFrame bytes; a decoded message takes memory in proportion to its frame,
//	        never to a count that the frame only claims
//	errors  ErrInvalid wraps every error: the frame is dropped and the connection stays open, as
//	        in neard
//	source  nearcore chain/network/src/network_protocol (network.proto, proto_conv, edge.rs,
//	        mod.rs, state_sync.rs)
//
// A frame is a protobuf PeerMessage. Most of its fields contain borsh. proto.go decodes protobuf
// with the leniency of rust-protobuf. schema.go contains the layouts of the messages. Package
// primitives decodes the borsh. A whole frame is first checked against its layout and then
// converted, in neard's order, so that this node and neard drop the same frames.
//
// Limits on the number of edges, hashes or peers in a message are enforced by the handlers in
// net/near, at the same points as in neard.
package wire
