package rpc

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxMissChunks is the method sandbox_miss_chunks, which nearcore does not have. Parameters are
// {"blocks", "shard_ids"}. The defaults are one block and all shards.
var sandboxMissChunks = Method[view.MissChunks]{
	Name: "sandbox_miss_chunks",
	Doc: `Omits new chunks from the next blocks, for some shards or all, as if their producers had failed. Transactions
and receipts of these shards wait. A number of 0 blocks ends it. It returns for each shard in how many of the
next blocks its chunk will be missing.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p view.MissChunks, err error) {
		p.Blocks = 1
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		return p, readStruct(v, "RpcSandboxMissChunksRequest", field{"blocks", true, into(&p.Blocks, readUint64)},
			field{"shard_ids", true, func(v val) (err error) { p.Shards, err = readList(v, readShard); return err }})
	},
	Handle: func(c *call, b []byte, p *view.MissChunks) ([]byte, error) {
		left, err := c.node.MissChunks(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "no chunk is missing in time; they still may be")
		}
		return left.AppendJSON(b), nil
	},
}

func readShard(v val) (primitives.ShardID, error) {
	n, err := readUint64(v)
	return primitives.ShardID(n), err
}

// reorg are the parameters of sandbox_reorg.
type reorg struct{ blocks uint64 }

// sandboxReorg is the method sandbox_reorg, which nearcore does not have. Parameters are
// {"blocks"}, one by default.
var sandboxReorg = Method[reorg]{
	Name: "sandbox_reorg",
	Doc: `Reorganises the chain as if another fork became canonical: a new block above the head, whose parent is the given
number of blocks below the head, becomes the head. Transactions of the reverted blocks return to the pool. Final
blocks cannot be reverted. It returns the head and the reverted blocks, newest first.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p reorg, err error) {
		p.blocks = 1
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		return p, readStruct(v, "RpcSandboxReorgRequest", field{"blocks", true, into(&p.blocks, readMine)})
	},
	Handle: func(c *call, b []byte, p *reorg) ([]byte, error) {
		r, err := c.node.Reorganise(c.ctx, p.blocks)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the chain has not gone another way in time; it still may")
		}
		return r.AppendJSON(b), nil
	},
}
