package rpc

import "strings"

// packages are the names of this module's packages. Errors begin with them, which says where they come from to those who read logs; what a
// client is told has none.
var packages = map[string]bool{
	"action": true, "apply": true, "backend": true, "bandwidth": true, "bench": true, "bombs": true,
	"borsh": true, "cache": true, "capture": true, "chain": true, "check": true, "compiler": true,
	"config": true, "conformance": true, "congestion": true, "consensus": true, "console": true,
	"contracts": true, "curve": true, "doomslug": true, "dump": true, "e2e": true, "engine": true,
	"epoch": true, "failed": true, "fair": true, "feed": true, "fees": true, "fixture": true, "flame": true,
	"follow": true, "fork": true, "genesis": true, "headers": true, "home": true, "host": true, "indexer": true,
	"intake": true, "jetstream": true, "lake": true, "libp2p": true, "lightclient": true, "limits": true,
	"link": true, "load": true, "localnet": true, "logic": true, "mempool": true,
	"messages": true, "milestones": true, "multiples": true, "near": true, "network": true, "node": true,
	"openapi": true, "otlp": true, "outcome": true, "parts": true, "prep": true, "primitives": true,
	"procs": true, "producer": true, "production": true, "prom": true, "replay": true, "replica": true,
	"rpc": true, "rules": true, "sandbox": true, "scenario": true, "session": true, "shard": true,
	"signature": true, "sim": true, "state": true, "storage": true, "stream": true, "streams": true,
	"sync": true, "tcp": true, "top": true, "trace": true, "trie": true, "txstatus": true, "validator": true,
	"verify": true, "view": true, "viewer": true, "vm": true, "waiter": true, "wasm": true, "wire": true,
	"witness": true, "workload": true,
}

// reason is what a client is told of an error: its text without the names of packages.
func reason(err error) string {
	parts := strings.Split(err.Error(), ": ")
	out := parts[:0]
	for i, p := range parts {
		if i+1 < len(parts) && packages[p] {
			continue
		}
		out = append(out, p)
	}
	return strings.Join(out, ": ")
}
