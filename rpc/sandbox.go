package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Methods that control a sandbox. These methods are switched off on chains whose tokens have value.

// MaxMine is the maximum number of blocks of one request.
const MaxMine = 10_000

// sandboxMine is the method sandbox_mine, which nearcore does not have. Parameters are {"blocks":
// n} or [n], or {"until": hash}. Without parameters, one block is produced. Blocks are produced as
// fast as possible, even empty ones. The reply follows when the last block is on disk. If the
// client stops waiting before that, the node still produces the remaining blocks.
var sandboxMine = Method[view.Mine]{
	Name: "sandbox_mine", Doc: `Produces blocks at once, in every production mode: a given number, or until a transaction and all its receipts
have been executed. It returns height and hash of the last block.`,
	Faults: []*Fault{CannotMine, Timeout}, Waits: true,
	Sandbox: true, Own: true, Parse: parseMine,
	Handle: func(c *call, b []byte, p *view.Mine) ([]byte, error) {
		at, err := c.node.Mine(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, CannotMine, "not all of the blocks were made in time; the others still come")
		}
		b = view.AppendString(append(b, `{"hash":`...), at.Hash.String())
		return append(appendInt(append(b, `,"height":`...), int(at.Height)), '}'), nil
	},
}

// sandboxFailure maps an error of a SandboxControl to a fault.
func sandboxFailure(err error, refused *Fault, late string) error {
	var e *view.SandboxError
	switch {
	case errors.As(err, &e):
		text := reason(errors.New(e.Reason))
		return refused.because(text, view.AppendString([]byte(`"reason":`), text))
	case errors.Is(err, view.ErrTimeout):
		return Timeout.because(late, nil)
	}
	return internalAsCause(err)
}

// patchState are the parameters of sandbox_patch_state.
type patchState struct{ records []genesis.Record }

// sandboxPatchState is nearcore's method sandbox_patch_state (chain/jsonrpc/src/lib.rs). In
// addition to nearcore's kinds, it accepts records of all kinds that genesis has, and removals.
var sandboxPatchState = Method[patchState]{
	Name: "sandbox_patch_state",
	Doc: `Writes records into the state, in the format of genesis.json: accounts, keys, code, data, receipts. A null in
place of account, value, code, access_key or nonce removes the entry. The reply is sent when the block with the
changes is on disk.`,
	Faults: []*Fault{CannotPatch, Timeout}, Waits: true, Sandbox: true,
	Parse: parsePatchState,
	Handle: func(c *call, b []byte, p *patchState) ([]byte, error) {
		if err := c.node.PatchState(c.ctx, p.records); err != nil {
			return b, sandboxFailure(err, CannotPatch, "the records were not written in time; they still may be")
		}
		return append(b, "{}"...), nil
	},
}

func parsePatchState(v val) (p patchState, err error) {
	return p, readStruct(v, "RpcSandboxPatchStateRequest", field{"records", false, into(&p.records, readRecords)})
}

func readRecords(v val) ([]genesis.Record, error) {
	if v.kind() != kArray {
		return nil, typeError(v, "a sequence")
	}
	records, err := genesis.ParsePatch(v.raw())
	if err != nil {
		var e *genesis.Error
		if errors.As(err, &e) {
			return nil, e.Err
		}
	}
	return records, err
}

// fastForward are the parameters of sandbox_fast_forward.
type fastForward struct{ delta uint64 }

// forwardPatience is the longest time that a call waits, as in neard (chain/jsonrpc/src/lib.rs
// sandbox_fast_forward).
const forwardPatience = time.Hour

// sandboxFastForward is nearcore's method sandbox_fast_forward.
var sandboxFastForward = Method[fastForward]{
	Name: "sandbox_fast_forward",
	Doc: `Advances the chain by a number of heights. The block time advances accordingly, and epochs begin and end, but
only the blocks needed for that are produced. Concurrent calls run one after the other.`,
	Faults: []*Fault{CannotFastForward, Timeout}, Waits: true, Sandbox: true, Patience: forwardPatience,
	Parse: func(v val) (p fastForward, err error) {
		return p, readStruct(v, "RpcSandboxFastForwardRequest", field{"delta_height", false, into(&p.delta, readUint64)})
	},
	Handle: func(c *call, b []byte, p *fastForward) ([]byte, error) {
		if err := c.node.FastForward(c.ctx, p.delta); err != nil {
			return b, sandboxFailure(err, CannotFastForward, "sandbox failed to fast forward within reasonable time of an hour")
		}
		return append(b, "{}"...), nil
	},
}

func parseMine(v val) (p view.Mine, err error) {
	p.Blocks = 1
	switch {
	case v.isNull(), v.kind() == kArray && v.len() == 0:
		return p, nil
	case v.kind() == kArray && v.len() == 1:
		p.Blocks, err = readMine(v.item(0))
		return p, err
	}
	if err := needObject(v, "RpcSandboxMineRequest"); err != nil {
		return p, err
	}
	return p, readFields(v, []field{{"blocks", true, into(&p.Blocks, readMine)}, {"until", true, into(&p.Until, pointer(readHash))}})
}

func readMine(v val) (uint64, error) {
	n, err := readUint64(v)
	if err == nil && (n < 1 || n > MaxMine) {
		err = fmt.Errorf("invalid value: integer `%d`, expected from 1 to %d blocks", n, MaxMine)
	}
	return n, err
}

// SandboxControl controls a sandbox. A method returns a *view.SandboxError if the node rejects the
// request or fails, and ErrTimeout if the context ends before the method has finished.
type SandboxControl interface {
	view.ProductionControl
	view.StateControl
	view.SnapshotControl
	view.WorldControl
	view.FaultControl
	TagControl
	// DumpTransaction returns the state that a transaction in a block reads and writes. Errors:
	// ErrUnknownTx, ErrGarbageCollected.
	DumpTransaction(context.Context, *view.Trace) (*view.Case, error)
}

// TagControl groups transactions by tags.
type TagControl interface {
	// Tag opens a tag: transactions that are submitted from now on belong to this tag, until the
	// next tag is opened. An empty name closes the open tag. If hashes is not nil, Tag instead adds
	// these transactions to the tag.
	Tag(name string, hashes []primitives.Hash) (view.Tag, error)
	Tags() ([]view.Tag, error)
	DropTag(name string) error
	// ProfileTag returns the gas profile of a tag's transactions as JSON.
	ProfileTag(ctx context.Context, name string, r *view.Simulate) ([]byte, error)
}
