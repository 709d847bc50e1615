// Package view writes the protocol's values as nearcore's JSON-RPC does: one append-style encoder
// for each kind of reply.
//
//	in      values of package primitives, and the plain structs here for replies that are no value
//	        of the protocol
//	out     compact JSON appended to a buffer; the keys of every object ascend, as replies to POST
//	        have them. The two replies that GET has as well (status, network_info) can also be had
//	        in the order of nearcore's structs.
//	state   none
//	units   balances are decimal strings, gas, heights and nonces numbers, bytes base64, hashes
//	        base58
//	bound   output grows with the input; nothing is kept
//	errors  none: every value has a form
//	source  nearcore core/primitives/src/views.rs, core/primitives/src/action/,
//	        chain/jsonrpc-primitives/src/types
//
// Keys are written out in the encoders, so that none of them sorts or reflects while it runs; tests
// hold them against recorded replies.
package view
