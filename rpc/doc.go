// Package rpc serves NEAR's JSON-RPC over HTTP: the methods, their parameters in every form that
// clients send, and their errors, as neard has them.
//
//	in      HTTP requests; a Node, which answers reads from snapshots and takes transactions
//	out     replies: JSON of package primitives/view in JSON-RPC envelopes, metrics in Prometheus
//	        text
//	state   metrics, a cache of encoded blocks, and the door: connections, and what each address
//	        holds and has had done
//	units   timeouts are time.Durations, sizes bytes
//	bound   package limits, each on /metrics; the size of a body; depth of JSON; what is echoed
//	        (clip_text.go)
//	errors  Fault for what a method may answer with; all else is INTERNAL_ERROR and HTTP 500,
//	        logged (error_log.go); what a limit refuses is INTERNAL_ERROR with the limit's key,
//	        and HTTP 503 or 413
//	source  nearcore chain/jsonrpc/src, chain/jsonrpc-primitives/src; what differs on purpose is
//	        in testdata/wire-plan.txt
//
// A method is declared once, in the file of its name, and listed in methods.go; routes, metrics and
// tests follow from that table. A read is answered in the goroutine of its connection; only
// requests about transactions may wait. Large bodies and large replies take turns at a gate
// (heavy_limit.go), on half of the cores; what is small goes past it. Connections that always have
// something to read share half of the cores (pacer.go), and nothing copies megabytes in one go
// (pieces.go).
package rpc
