package fork

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// Errors of blocks that fail verification.
var (
	errHash  = errors.New("the block in the reply does not match its hash")
	errRoots = errors.New("the chunks in the reply do not match the block's state root")
)

// parseBlock parses a block in the form of the JSON-RPC and verifies the block and its chunk
// headers against their hashes. Headers older than V5 belong to protocol versions that this node
// does not run.
func parseBlock(in []byte) (*primitives.Block, error) {
	d, err := blockdoc.ParseBlock(in)
	var lie *blockdoc.MismatchError
	switch {
	case errors.As(err, &lie):
		return nil, fmt.Errorf("%w: %w", errHash, err)
	case err != nil:
		return nil, fmt.Errorf("parse the block in the reply: %w", err)
	}
	b := d.Block
	if b.Header.Version < primitives.HeaderV5 || b.Hash() != d.Hash { // a form between V1 and V5 is read as V5
		return nil, fmt.Errorf("%w %v, or its header is older than this node reads (before V5)", errHash, d.Hash)
	}
	roots := make([]primitives.Hash, len(b.Body.Chunks))
	for i, h := range b.Body.Chunks {
		roots[i] = primitives.HashBytes(h.PrevStateRoot[:])
	}
	if len(roots) != len(b.Header.ChunkMask) || primitives.MerkleRoot(roots) != b.Header.PrevStateRoot {
		return nil, fmt.Errorf("%w: block %v", errRoots, b.Hash())
	}
	return b, nil
}
