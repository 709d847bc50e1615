package rpc

import (
	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxNewWorld is the method sandbox_new_world, which nearcore does not have.
var sandboxNewWorld = Method[view.NewWorld]{
	Name: "sandbox_new_world",
	Doc: `Creates a world: a chain in the same process that continues from the head or a snapshot of this one, with
blocks, clock, pending transactions and snapshots of its own. Neither chain sees later changes of the other. All
paths of this node exist for the world below /world/ID; with port: true it also listens on an address of its
own. quiet produces no block while there is nothing to execute; the default is the parent's setting. A world can
have worlds. It ends when it is dropped, after some time without a request, with its parent, and with the
process.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p view.NewWorld, err error) {
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		if err := needObject(v, "RpcSandboxNewWorldRequest"); err != nil {
			return p, err
		}
		return p, readFields(v, []field{
			{"snapshot", true, into(&p.Snapshot, readSnapshotName)},
			{"quiet", true, into(&p.Quiet, pointer(readBool))},
			{"port", true, into(&p.Port, readBool)},
		})
	},
	Handle: func(c *call, b []byte, p *view.NewWorld) ([]byte, error) {
		w, err := c.node.NewWorld(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "no world was made in time")
		}
		return w.AppendJSON(b), nil
	},
}

// sandboxDropWorld is the method sandbox_drop_world, which nearcore does not have.
var sandboxDropWorld = Method[snapshotID]{
	Name:   "sandbox_drop_world",
	Doc:    `Ends a world and all worlds that continue from it. The reply is sent when all their resources are freed.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true, Parse: parseSnapshotID,
	Handle: func(c *call, b []byte, p *snapshotID) ([]byte, error) {
		if k := c.x.socket; k != nil {
			k.droppingWorld.Store(true)
		}
		if err := c.node.DropWorld(c.ctx, p.id); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the world has not ended in time; it still will")
		}
		return append(b, "{}"...), nil
	},
}

// sandboxWorlds is the method sandbox_worlds, which nearcore does not have.
var sandboxWorlds = Method[struct{}]{
	Name: "sandbox_worlds",
	Doc: `Returns the worlds of this process in the order of their creation, with the block from which each continues, its
head, and its approximate memory in bytes.`,
	Faults: sandboxFaults, Sandbox: true, Own: true, Parse: parseNothing,
	Handle: func(c *call, b []byte, _ *struct{}) ([]byte, error) {
		list, err := c.node.Worlds()
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		b = append(b, '[')
		for i := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = list[i].AppendJSON(b)
		}
		return append(b, ']'), nil
	},
}
