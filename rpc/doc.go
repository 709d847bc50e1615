// Package rpc serves NEAR's JSON-RPC over HTTP and WebSocket: methods, parameters in every form
// that clients send, and errors, as neard has them.
//
//	in      HTTP requests; a Node, which answers reads from snapshots and takes transactions
//	out     replies: JSON of package primitives/view in JSON-RPC envelopes, metrics in Prometheus
//	        text
//	state   metrics, a cache of encoded blocks, and connLimiter: the connections, and what each
//	        address holds and has used
//	units   timeouts are time.Durations, sizes bytes
//	bound   package limits, each limit with a metric; the size of a body; depth of JSON; what an
//	        error reply repeats of its request (clip_text.go)
//	errors  the Faults that a method declares. Any other error is INTERNAL_ERROR with HTTP 500 and
//	        is logged (error_log.go). A request that a limit rejects is INTERNAL_ERROR with the
//	        limit's key, and HTTP 503, 413 or 429
//	source  nearcore chain/jsonrpc/src, chain/jsonrpc-primitives/src; deliberate differences are
//	        listed in testdata/wire-plan.txt
//
// A method is declared once, in the file of its name, and listed in methods.go. Routes, metrics,
// the OpenAPI document and table-driven tests follow from that list. Reads are answered in the
// goroutine of their connection. Only requests about transactions, and those that control a
// sandbox, wait for the chain. listener.go and docs/design/rpc-limits.md describe the limits that
// apply to a request, in order.
package rpc
