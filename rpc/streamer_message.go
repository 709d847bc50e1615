package rpc

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var streamerMessage = Method[view.BlockRef]{
	Name: "troupe_streamer_message",
	Doc: `Returns a block as nearcore's indexer framework streams it: block, chunks, outcomes with their receipts, state
changes.`,
	Faults: []*Fault{UnknownBlock, NotSyncedYet},
	Heavy:  true,
	Own:    true, Parse: func(v val) (view.BlockRef, error) {
		if id, ok := single(v); ok {
			return readBlockID(id)
		}
		return readBlockRef(v)
	},
	Handle: func(c *call, b []byte, ref *view.BlockRef) ([]byte, error) {
		if err := c.expect(streamerKey{ref.Kind, ref.Height, ref.Hash}); err != nil {
			return b, err
		}
		message, err := c.node.StreamerMessage(*ref)
		if fault, ok := blockFault(err, "BLOCK"); ok {
			return b, fault
		}
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		if b, err = c.reserve(b, len(message)); err != nil {
			return b, err
		}
		return append(b, message...), nil
	},
}

// streamerKey is the key of a reply in replySizes.
type streamerKey struct {
	kind   view.RefKind
	height primitives.Height
	block  primitives.Hash
}
