// Package rpc serves NEAR's JSON-RPC over HTTP: the methods, their parameters in every form that clients send, and their
// errors, as neard has them.
//
//	in      HTTP requests; a Node, which answers reads from snapshots and takes transactions
//	out     replies: JSON of package primitives/view in JSON-RPC envelopes, metrics in Prometheus text
//	state   metrics, a cache of encoded blocks, the count of requests that wait
//	units   timeouts are time.Durations, sizes bytes
//	bound   Options: body, depth of JSON, batch, connections, waiting requests; a reply is as large as what it shows
//	errors  Fault for what a method may answer with; all else is INTERNAL_ERROR and HTTP 500
//	source  nearcore chain/jsonrpc/src, chain/jsonrpc-primitives/src; what differs on purpose is in testdata/wire-plan.txt
//
// A method is declared once, in the file of its name, and listed in methods.go; routes, metrics and tests follow from
// that table. A read is answered in the goroutine of its connection; only requests about transactions may wait.
package rpc
