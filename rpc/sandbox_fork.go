package rpc

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxMissChunks is the method sandbox_miss_chunks, which nearcore does not have. Parameters are
// {"blocks", "shard_ids"}. The defaults are one block and all shards.
var sandboxMissChunks = Method[view.MissChunks]{
	Name: "sandbox_miss_chunks", Doc: `Leaves new chunks out of the next blocks, of some shards or of all, as if their producers failed: transactions
and receipts wait. 0 blocks ends it. Returns for each shard in how many coming blocks its chunk is missing.`,
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
	Name: "sandbox_reorg", Doc: `Reorganises the chain, as if another branch won: a block higher than the head, whose parent is so many blocks
below the head, becomes the head. Transactions of the reverted blocks return to the pool. Final blocks stay.
Returns the head and the reverted blocks, the newest first.`,
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
