package rpc

import (
	"errors"
	"strings"
)

// packages are the names of this module's packages. Errors begin with such a name, for readers of
// logs. Texts for clients have no package names (see reason).
var packages = map[string]bool{
	"action": true, "anchor": true, "apply": true, "backend": true, "badchunk": true, "bandwidth": true,
	"bench": true, "blockdoc": true, "blockfeed": true, "blockpool": true, "blocksync": true,
	"borsh": true, "cache": true, "capture": true, "chain": true, "check": true,
	"chunkparts": true, "compilebombs": true, "compiler": true, "config": true,
	"conformance": true, "congestion": true, "consensus": true, "console": true, "contracts": true,
	"curve": true, "daemon": true, "doctor": true, "doomslug": true, "dump": true, "e2e": true, "earlykickout": true,
	"engine": true, "epoch": true, "external": true, "fair": true, "fees": true, "flame": true, "fork": true,
	"genesis": true, "genesisstate": true, "headerchain": true, "history": true, "historyimport": true, "home": true, "importer": true,
	"indexer": true, "jetstream": true, "lake": true, "libp2p": true, "lightclient": true,
	"limits": true, "load": true, "localnet": true, "logic": true, "mainnetpeer": true, "mempool": true,
	"messages": true, "metrics": true, "multiples": true, "near": true, "network": true, "node": true,
	"openapi": true, "optimistic": true, "otlp": true, "outcome": true, "parallel": true, "parameters": true,
	"partialwitness": true,
	"prep":           true, "primitives": true, "producer": true, "production": true, "prom": true,
	"recent": true, "recipes": true, "refmodel": true, "replay": true, "replica": true, "rpc": true,
	"sandbox": true, "sched": true, "session": true, "shard": true, "signature": true, "sim": true, "sstable": true,
	"state": true, "stateprobe": true, "statesync": true, "storage": true, "stream": true, "stun": true, "subscriptions": true,
	"system": true, "tcp": true, "testnode": true, "testutil": true, "top": true, "trace": true, "trie": true,
	"txlog": true, "txpool": true, "txscript": true, "txstatus": true, "txtext": true, "txtracker": true,
	"validator": true, "verify": true, "view": true, "viewpool": true, "viewstate": true,
	"vm": true, "waiter": true, "wasmasm": true, "wire": true, "workload": true,
}

// reason returns the text of an error for clients. reason removes the package names at the
// beginning of the error's text and at the beginning of each wrapped error's text. It removes no
// "name: " inside a text: there "state: " may be part of a contract's own text. reason finds
// wrapped errors by errors.Unwrap as long as the text of the outer error ends with the text of the
// wrapped error. Where the outer text does not end so, the prefixes of the wrapped error stay.
func reason(err error) string {
	text := err.Error()
	inner := errors.Unwrap(err)
	if inner == nil {
		return withoutPackages(text)
	}
	around, ok := strings.CutSuffix(text, inner.Error())
	if !ok {
		return withoutPackages(text)
	}
	return withoutPackages(around) + reason(inner)
}

// withoutPackages removes package names, each followed by ": ", from the beginning of a text.
func withoutPackages(text string) string {
	for {
		name, rest, ok := strings.Cut(text, ": ")
		if !ok || !packages[name] {
			return text
		}
		text = rest
	}
}
