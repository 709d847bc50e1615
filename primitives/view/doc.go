// Package view writes the protocol's values as nearcore's JSON-RPC does, with one append-style
// encoder for each kind of reply.
//
//	in      values of package primitives, and the plain structs here for other replies
//	out     compact JSON appended to a buffer; the keys of every object ascend, as in replies to
//	        POST. What a block contains (Encoder) and the two replies that GET has as well (status,
//	        network_info) are also available in the order of nearcore's structs.
//	state   none, except the texts of hashes in an Encoder of NewEncoder
//	units   balances are decimal strings, gas, heights and nonces numbers, bytes base64, hashes
//	        base58
//	bound   output grows with the input; nothing is kept
//	errors  none: every value has a form
//	source  nearcore core/primitives/src/views.rs, core/primitives/src/action/,
//	        chain/jsonrpc-primitives/src/types
//
// Keys are written out in the encoders, which neither sort nor use reflection at run time; only
// failures, which are stored as JSON, are put in the order of structs. Tests compare the encoders
// with recorded replies.
package view
