package rpc

import (
	"errors"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var block = Method[view.BlockRef]{
	Name: "block", Doc: "Returns a block by height, hash, finality or checkpoint.",
	Faults: []*Fault{UnknownBlock, NotSyncedYet},
	Parse: func(v val) (view.BlockRef, error) {
		if id, ok := single(v); ok { // the old form, [block_id]
			return readBlockID(id)
		}
		return readBlockRef(v)
	},
	Handle: func(c *call, b []byte, ref *view.BlockRef) ([]byte, error) {
		ctx, leave := c.inTurn(nil)
		defer leave()
		author, block, err := c.node.Block(ctx, *ref)
		if fault, ok := blockFault(err, "BLOCK"); ok {
			return b, fault
		}
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		return c.blocks.append(b, block.Hash(), func(b []byte) []byte { return view.AppendBlock(b, author, block) }), nil
	},
}

var chunk = Method[view.ChunkRef]{
	Name: "chunk", Doc: "Returns a chunk by hash, or by block and shard.",
	Faults: []*Fault{UnknownBlock, InvalidShardID, UnknownChunk, NotSyncedYet},
	Parse:  readChunkRef,
	Handle: func(c *call, b []byte, ref *view.ChunkRef) ([]byte, error) {
		if err := c.expect(chunkKey(ref)); err != nil {
			return b, err
		}
		ctx, leave := c.inTurn(c.key)
		defer leave()
		author, chunk, err := c.node.Chunk(ctx, *ref)
		if err != nil {
			return b, chunkFault(err)
		}
		if b, err = c.reserve(b, view.ChunkSize(chunk)); err != nil {
			return b, err
		}
		return view.AppendChunk(b, author, chunk), nil
	},
}

// chunkKey returns the cache key of a chunk: the chunk's hash, or its block and shard.
func chunkKey(ref *view.ChunkRef) any {
	if ref.ByHash {
		return ref.Hash
	}
	return struct {
		height primitives.Height
		block  primitives.Hash
		shard  primitives.ShardID
	}{ref.Block.Height, ref.Block.Hash, ref.ShardID}
}

func chunkFault(err error) error {
	if fault, ok := blockFault(err, "BLOCK"); ok {
		return fault
	}
	if e, ok := lookup(err); ok {
		switch e.Kind {
		case view.ErrInvalidShard:
			id := strconv.AppendUint(nil, uint64(e.ShardID), 10)
			return InvalidShardID.because("Shard id "+string(id)+" does not exist", member(nil, "shard_id", id))
		case view.ErrUnknownChunk:
			return UnknownChunk.because("Chunk Missing (unavailable on the node): ChunkHash(`"+e.Hash.String()+"`)"+causeUnknown,
				member(nil, "chunk_hash", view.AppendHash(nil, &e.Hash)))
		}
	}
	return internal(reachedLimits, err)
}

var gasPrice = Method[*view.BlockRef]{
	Name: "gas_price", Doc: "Returns the gas price after a block. Without a block it is that after the head.",
	Faults: []*Fault{UnknownBlock, NotSyncedYet},
	Parse:  parseMaybeBlock("RpcGasPriceRequest"),
	Handle: func(c *call, b []byte, ref **view.BlockRef) ([]byte, error) {
		ctx, leave := c.inTurn(nil)
		defer leave()
		price, err := c.node.GasPrice(ctx, *ref)
		if fault, ok := blockFault(err, "BLOCK HEADER"); ok {
			return b, fault
		}
		if err != nil {
			return b, internal(internalError, err)
		}
		return append(view.AppendBalance(append(b, `{"gas_price":`...), price), '}'), nil
	},
}

var protocolConfig = Method[view.BlockRef]{
	Name: "EXPERIMENTAL_protocol_config", Doc: "Returns the protocol configuration that applies at a block.",
	Faults: []*Fault{UnknownBlock},
	Parse:  readBlockRef,
	Handle: func(c *call, b []byte, ref *view.BlockRef) ([]byte, error) {
		config, err := c.node.ProtocolConfig(*ref)
		if e, ok := lookup(err); ok && (e.Kind == view.ErrUnknownHeight || e.Kind == view.ErrUnknownBlock) {
			return b, UnknownBlock.because("Block Not Found: "+missingBlock(e, "BLOCK HEADER"), nil)
		}
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		return view.AppendProtocolConfig(b, config), nil
	},
}

var genesisConfig = Method[noParams]{
	Name: "genesis_config", Doc: "Returns the chain's genesis configuration.", Aliases: []string{"EXPERIMENTAL_genesis_config"},
	Parse: parseNone,
	Handle: func(c *call, b []byte, _ *noParams) ([]byte, error) {
		config, err := c.node.GenesisConfig()
		return append(b, config...), err
	},
}

// errStopping is the cause of the waits' end when the server shuts down.
var errStopping = errors.New("the node is stopping")
