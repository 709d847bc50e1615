// Package wire is the language of nearcore's peers: every message between two nodes, its bytes, its
// hash and its signatures.
//
//	in      frames that anybody may have sent (Decode), or messages of our own (Append)
//	out     messages, or the bytes that neard would send for them
//	state   none; a decoded message aliases the frame that it was read from, which must not change
//	        afterwards
//	units   times in seconds and nanoseconds of UTC; heights in blocks; ports as numbers
//	bound   a frame of MaxFrame bytes; a message takes memory of the order of its frame, never of
//	        a count that it only claims
//	errors  ErrInvalid wraps every refusal: the frame is dropped and the connection stays, as
//	        neard does
//	source  nearcore chain/network/src/network_protocol (network.proto, proto_conv, edge.rs,
//	        mod.rs, state_sync.rs)
//
// A frame is a protobuf PeerMessage whose fields are, in most messages, borsh. What rust-protobuf
// takes of odd encodings and what it refuses is in proto.go, the messages' layouts are the tables
// of schema.go, and what borsh holds is read by primitives. A message is first checked against the
// tables as a whole and then converted, in neard's order, so that both nodes drop the same frames.
//
// Limits of a message (how many edges, hashes, peers) are not here but where neard has them, in
// what handles messages: net/near.
package wire
