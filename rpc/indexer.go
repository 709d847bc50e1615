package rpc

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// The faults of EXPERIMENTAL_indexer_block (near-jsonrpc-primitives 0.38.0 src/types/indexer.rs).
// neard returns UNSUPPORTED if its store has no outcomes or no state changes. Troupe always stores
// outcomes and state changes, so it never returns UNSUPPORTED.
var (
	DataUnavailable = &Fault{Name: "DATA_UNAVAILABLE", Fields: true}
	IncompleteData  = &Fault{Name: "INCOMPLETE_DATA", Fields: true}
	LimitExceeded   = &Fault{Name: "LIMIT_EXCEEDED"}
	IndexerBusy     = &Fault{Name: "BUSY"}
)

// maxIndexerBlock is the maximum size of a reply of EXPERIMENTAL_indexer_block, in bytes (nearcore
// 2.14 chain/jsonrpc/src/indexer.rs, MAX_MESSAGE_BYTES).
const maxIndexerBlock = 32 << 20

// indexerBlock is served if Options.IndexerRequests is not 0.
var indexerBlock = Method[primitives.Hash]{
	Name: "EXPERIMENTAL_indexer_block",
	Doc: `Returns a block as nearcore's indexer framework streams it, and the ids of the shards that the node has
executed. It is available if rpc.enable_indexer_rpc is set.`,
	Faults: []*Fault{DataUnavailable, IncompleteData, LimitExceeded, IndexerBusy},
	Heavy:  true,
	Parse:  parseIndexerBlock,
	Handle: func(c *call, b []byte, hash *primitives.Hash) ([]byte, error) {
		if c.metrics.indexing.Add(1) > int64(c.opts.IndexerRequests) {
			c.metrics.indexing.Add(-1)
			return b, IndexerBusy.asCause(nil)
		}
		defer c.metrics.indexing.Add(-1)
		if err := c.expect(indexerKey(*hash)); err != nil {
			return b, err
		}
		message, err := c.node.IndexerBlock(*hash, min(maxIndexerBlock, c.left(b)))
		if err != nil {
			return b, indexerFault(err)
		}
		if b, err = c.reserve(b, len(message)); err != nil {
			return b, err
		}
		return append(b, message...), nil
	},
}

// indexerKey is the key of a reply in replySizes.
type indexerKey primitives.Hash

// parseIndexerBlock parses {"block_hash"} or [hash]. As in nearcore, any member except block_hash
// is an error.
func parseIndexerBlock(v val) (hash primitives.Hash, err error) {
	const name = "block_hash"
	unknown, found := "", false
	if v.kind() == kObject {
		for _, m := range v.members() {
			if key := string(m.key); key != name && (!found || key < unknown) {
				unknown, found = key, true
			}
		}
	}
	refused := fmt.Errorf("unknown field `%s`, expected `%s`", clipText([]byte(unknown)), name)
	if found && unknown < name { // serde reads members in the order of their names
		return hash, refused
	}
	err = readStruct(v, "RpcIndexerBlockRequest", field{name, false, into(&hash, readHash)})
	var missing missingField
	if found && (err == nil || errors.As(err, &missing)) {
		return hash, refused
	}
	return hash, err
}

// indexerFault maps an error of Node.IndexerBlock to the method's faults.
func indexerFault(err error) error {
	because := func(f *Fault, text string) error { return f.asCause(member(nil, "error_message", quoted(text))) }
	e, ok := lookup(err)
	if !ok {
		return internalAsCause(err)
	}
	switch e.Kind {
	case view.ErrUnknownBlock:
		return because(DataUnavailable, "Block either has never been observed on the node or has been garbage collected: "+
			notFound+missingBlock(e, "BLOCK")+causeUnknown)
	case view.ErrIncompleteData:
		return because(IncompleteData, e.Reason)
	case view.ErrMessageLarge:
		return LimitExceeded.asCause(nil)
	}
	return internalAsCause(err)
}
