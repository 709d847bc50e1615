package rpc

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// If a method takes only a block reference (block, protocol config), the parameters are an enum
// with one key. If a method takes a block reference and further parameters, the reference is a
// member of the same object (nearcore core/primitives/src/types.rs BlockReference).

var (
	referenceNames  = []string{"block_id", "finality", "sync_checkpoint"}
	finalityNames   = []string{"optimistic", "near-final", "final"}
	checkpointNames = []string{"genesis", "earliest_available"}
)

func noMatch(enum string) error {
	return errors.New("data did not match any variant of untagged enum " + enum)
}

func readBlockID(v val) (ref view.BlockRef, err error) {
	switch v.kind() {
	case kNumber:
		if h, ok := v.uint64(); ok {
			return view.BlockRef{Kind: view.RefHeight, Height: primitives.Height(h)}, nil
		}
	case kString:
		if h, err := readHash(v); err == nil {
			return view.BlockRef{Kind: view.RefHash, Hash: h}, nil
		}
	}
	return ref, noMatch("BlockId")
}

// readReference reads the value of a reference under one of its three keys. flat is as in readUnit.
func readReference(key string, v val, flat bool) (view.BlockRef, error) {
	switch key {
	case "block_id":
		return readBlockID(v)
	case "finality":
		i, err := readUnit(v, finalityNames, flat)
		return view.BlockRef{Kind: [...]view.RefKind{view.RefOptimistic, view.RefNearFinal, view.RefFinal}[i]}, err
	default:
		i, err := readUnit(v, checkpointNames, flat)
		return view.BlockRef{Kind: [...]view.RefKind{view.RefGenesis, view.RefEarliest}[i]}, err
	}
}

// readBlockRef reads a reference that is all of the parameters.
func readBlockRef(v val) (ref view.BlockRef, err error) {
	err = oneKey(v, referenceNames, noUnits, func(i int, inner val) (err error) {
		ref, err = readReference(referenceNames[i], inner, false)
		return err
	})
	return ref, err
}

// readFlatRef reads the reference among the members of an object. If there are several, nearcore
// takes the first; here that is an error.
func readFlatRef(v val) (ref view.BlockRef, err error) {
	name := ""
	var value val
	for _, n := range referenceNames {
		if x, ok := v.get(n); ok {
			if name != "" {
				return ref, errors.New("only one of block_id, finality and sync_checkpoint may be given")
			}
			name, value = n, x
		}
	}
	if name == "" {
		return ref, errors.New("no variant of enum BlockReference found in flattened data")
	}
	return readReference(name, value, true)
}

// readChunkRef reads {"chunk_id"}, {"block_id", "shard_id"}, [hash] or [[block, shard]].
func readChunkRef(v val) (ref view.ChunkRef, err error) {
	if x, ok := single(v); ok {
		if x.kind() != kArray {
			ref.ByHash = true
			ref.Hash, err = readHash(x)
			return ref, err
		}
		return readBlockShard(x)
	}
	block, ok1 := v.get("block_id")
	shard, ok2 := v.get("shard_id")
	if ok1 && ok2 {
		at, err := readBlockID(block)
		if id, ok := shard.uint64(); ok && err == nil {
			return view.ChunkRef{Block: at, ShardID: primitives.ShardID(id)}, nil
		}
	}
	if id, ok := v.get("chunk_id"); ok {
		if hash, err := readHash(id); err == nil {
			return view.ChunkRef{Hash: hash, ByHash: true}, nil
		}
	}
	return ref, noMatch("ChunkReference")
}

// readBlockShard reads the pair [block, shard].
func readBlockShard(v val) (ref view.ChunkRef, err error) {
	const want = ", expected a tuple of size 2"
	if v.len() == 0 {
		return ref, errors.New("invalid length 0" + want)
	}
	if ref.Block, err = readBlockID(v.item(0)); err != nil {
		return ref, err
	}
	if v.len() == 1 {
		return ref, errors.New("invalid length 1" + want)
	}
	shard, err := readUint64(v.item(1))
	if err != nil {
		return ref, err
	}
	ref.ShardID = primitives.ShardID(shard)
	if v.len() > 2 {
		return ref, errors.New("invalid length " + string(appendInt(nil, v.len())) + ", expected fewer elements in array")
	}
	return ref, nil
}
