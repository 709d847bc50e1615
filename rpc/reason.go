package rpc

import "strings"

// packages are the names of this module's packages. Errors begin with them, which says where they
// come from to those who read logs; what a client is told has none.
var packages = map[string]bool{
	"action": true, "apply": true, "backend": true, "badchunk": true, "bandwidth": true,
	"bench": true, "blockdoc": true, "blockfeed": true, "blockpool": true, "blocksync": true,
	"borsh": true, "cache": true, "capture": true, "chain": true, "check": true,
	"chunkparts": true, "compilebombs": true, "compiler": true, "config": true,
	"conformance": true, "congestion": true, "consensus": true, "console": true, "contracts": true,
	"curve": true, "daemon": true, "doomslug": true, "dump": true, "e2e": true, "engine": true,
	"epoch": true, "fair": true, "fees": true, "flame": true, "fork": true,
	"genesis": true, "genesisstate": true, "headerchain": true, "home": true, "host": true,
	"indexer": true, "jetstream": true, "lake": true, "libp2p": true, "lightclient": true,
	"limits": true, "load": true, "localnet": true, "logic": true, "mempool": true,
	"messages": true, "multiples": true, "near": true, "network": true, "node": true,
	"openapi": true, "otlp": true, "outcome": true, "parameters": true, "partialwitness": true,
	"prep": true, "primitives": true, "producer": true, "production": true, "prom": true,
	"recipes": true, "refmodel": true, "replay": true, "replica": true, "rpc": true,
	"sandbox": true, "sched": true, "session": true, "shard": true, "signature": true, "sim": true,
	"state": true, "statesync": true, "storage": true, "stream": true, "subscriptions": true,
	"system": true, "tcp": true, "testutil": true, "top": true, "trace": true, "trie": true,
	"txpool": true, "txscript": true, "txstatus": true, "txtracker": true, "validator": true,
	"verify": true, "view": true, "viewpool": true, "vm": true, "waiter": true, "wasmasm": true,
	"wire": true, "workload": true,
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
