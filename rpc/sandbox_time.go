package rpc

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxFaults are the faults of methods whose only own failure is a refusal with a reason.
var sandboxFaults = []*Fault{SandboxRefused, Timeout}

// maxSnapshotName is the maximum length of a snapshot's name, in bytes.
const maxSnapshotName = 128

// takeSnapshot are the parameters of sandbox_snapshot.
type takeSnapshot struct{ name string }

// sandboxSnapshot is the method sandbox_snapshot, which nearcore does not have.
var sandboxSnapshot = Method[takeSnapshot]{
	Name: "sandbox_snapshot",
	Doc: `Takes a snapshot of the head: state, pending transactions, clock and epoch. It returns the snapshot's id, which
is the given name or a number. It replaces a snapshot of the same name.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p takeSnapshot, err error) {
		if v.isNull() {
			return p, nil
		}
		return p, readStruct(v, "RpcSandboxSnapshotRequest", field{"name", true, into(&p.name, readSnapshotName)})
	},
	Handle: func(c *call, b []byte, p *takeSnapshot) ([]byte, error) {
		s, err := c.node.TakeSnapshot(c.ctx, p.name)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "no snapshot was taken in time")
		}
		return s.AppendJSON(b), nil
	},
}

// snapshotID are the parameters of methods that take a snapshot.
type snapshotID struct{ id string }

func parseSnapshotID(v val) (p snapshotID, err error) {
	return p, readStruct(v, "RpcSandboxSnapshotId", field{"id", false, into(&p.id, readSnapshotName)})
}

// sandboxRevert is the method sandbox_revert, which nearcore does not have.
var sandboxRevert = Method[snapshotID]{
	Name: "sandbox_revert",
	Doc: `Reverts the chain to a snapshot: its block becomes the head again, also on disk, and later blocks and snapshots
are removed. The snapshot remains and can be used again. Clients that wait for a transaction at that time get an
error.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true, Parse: parseSnapshotID,
	Handle: func(c *call, b []byte, p *snapshotID) ([]byte, error) {
		at, err := c.node.Revert(c.ctx, p.id)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the chain did not go back in time; it still may")
		}
		return at.AppendMembers(append(b, '{')), nil
	},
}

// sandboxDropSnapshot is the method sandbox_drop_snapshot, which nearcore does not have.
var sandboxDropSnapshot = Method[snapshotID]{
	Name: "sandbox_drop_snapshot", Doc: "Removes a snapshot and frees its memory.",
	Faults: sandboxFaults, Sandbox: true, Own: true, Parse: parseSnapshotID,
	Handle: func(c *call, b []byte, p *snapshotID) ([]byte, error) {
		if err := c.node.DropSnapshot(p.id); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		return append(b, "{}"...), nil
	},
}

// sandboxSnapshots is the method sandbox_snapshots, which nearcore does not have.
var sandboxSnapshots = Method[struct{}]{
	Name: "sandbox_snapshots", Doc: "Returns the snapshots in the order of their creation.",
	Faults: sandboxFaults, Sandbox: true, Own: true, Parse: parseNothing,
	Handle: func(c *call, b []byte, _ *struct{}) ([]byte, error) {
		list, err := c.node.Snapshots()
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

func readSnapshotName(v val) (string, error) {
	if n, ok := v.uint64(); ok {
		return strconv.FormatUint(n, 10), nil
	}
	text, err := readString(v)
	if err == nil && (len(text) == 0 || len(text) > maxSnapshotName) {
		err = fmt.Errorf("invalid value: a name of %d bytes, expected 1 to %d", len(text), maxSnapshotName)
	}
	return string(text), err
}

// sandboxSetClock is the method sandbox_set_clock, which nearcore does not have.
var sandboxSetClock = Method[view.SetClock]{
	Name: "sandbox_set_clock",
	Doc: `Sets the clock for block timestamps and returns it; without parameters it only returns it. timestamp_nanosec
sets the current time. advance_nanosec adds to it. frozen stops the clock. next_timestamp_nanosec sets the time
of the next block, from which the clock continues. interval_nanosec fixes the time between a block and its
parent, independent of the clock; 0 ends that. Values are numbers or decimal strings. Only sandbox_revert moves
the clock back.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p view.SetClock, err error) {
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		if err := needObject(v, "RpcSandboxSetClockRequest"); err != nil {
			return p, err
		}
		return p, readFields(v, []field{
			{"timestamp_nanosec", true, into(&p.Time, pointer(readNanos))},
			{"advance_nanosec", true, into(&p.Advance, readNanos)},
			{"frozen", true, into(&p.Frozen, pointer(readBool))},
			{"next_timestamp_nanosec", true, into(&p.Next, pointer(readNanos))},
			{"interval_nanosec", true, into(&p.Interval, pointer(readNanos))},
		})
	},
	Handle: func(c *call, b []byte, p *view.SetClock) ([]byte, error) {
		clock, err := c.node.SetClock(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the clock was not set in time; it still may be")
		}
		return clock.AppendJSON(b), nil
	},
}

// sandboxSetProduction is the method sandbox_set_production, which nearcore does not have.
var sandboxSetProduction = Method[view.SetProduction]{
	Name: "sandbox_set_production",
	Doc: `Sets when blocks are produced, until the node stops, and returns the setting; without parameters it only returns
it. mode is "instant", "interval" or "manual", as in troupe.block_production. quiet produces no block while
there is nothing to execute. interval_nanosec is the time between idle blocks.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p view.SetProduction, err error) {
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		if err := needObject(v, "RpcSandboxSetProductionRequest"); err != nil {
			return p, err
		}
		return p, readFields(v, []field{
			{"mode", true, into(&p.Mode, pointer(readMode))},
			{"quiet", true, into(&p.Quiet, pointer(readBool))},
			{"interval_nanosec", true, into(&p.Interval, pointer(readNanos))},
		})
	},
	Handle: func(c *call, b []byte, p *view.SetProduction) ([]byte, error) {
		production, err := c.node.SetProduction(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "block production was not set in time; it still may be")
		}
		return production.AppendJSON(b), nil
	},
}

// sandboxNextEpoch is the method sandbox_next_epoch, which nearcore does not have.
var sandboxNextEpoch = Method[struct{}]{
	Name:   "sandbox_next_epoch",
	Doc:    `Advances the chain to the first block of the next epoch, like sandbox_fast_forward, and returns that block.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true, Patience: forwardPatience, Parse: parseNothing,
	Handle: func(c *call, b []byte, _ *struct{}) ([]byte, error) {
		at, err := c.node.NextEpoch(c.ctx)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the epoch did not end in time; it still will")
		}
		return at.AppendMembers(append(b, '{')), nil
	},
}

// pointer returns a reader that stores the value behind a pointer, for optional members.
func pointer[T any](one func(val) (T, error)) func(val) (*T, error) {
	return func(v val) (*T, error) {
		x, err := one(v)
		return &x, err
	}
}

func readMode(v val) (string, error) {
	text, err := readString(v)
	if s := string(text); err == nil && s != "instant" && s != "interval" && s != "manual" {
		err = fmt.Errorf("unknown variant `%s`, expected one of `instant`, `interval`, `manual`", clipText(text))
	}
	return string(text), err
}

// readNanos reads a number of nanoseconds. readNanos accepts a number or a string, for clients
// without 64-bit numbers.
func readNanos(v val) (uint64, error) {
	if v.kind() != kString {
		return readUint64(v)
	}
	text, err := readString(v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid value: string \"%s\", expected u64", clipText(text))
	}
	return n, nil
}
