package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives/view"
)

// The methods that steer a chain of one's own: no chain that others rely on has them.

// MaxMine is how many blocks one request may ask for.
const MaxMine = 10_000

// mineBlocks are the parameters of sandbox_mine.
type mineBlocks struct{ blocks uint64 }

// sandboxMine is our own. Parameters are {"blocks": n} or [n]; without them it is one block. The blocks are made as fast as they can
// be, also empty ones, and the reply comes when the last of them is on disk. What a wait that ends before that has asked for is
// made all the same.
var sandboxMine = Method[mineBlocks]{
	Name: "sandbox_mine", Doc: `Makes blocks where troupe.block_production is "manual", and returns height and hash of the last.`,
	Faults: []*Fault{CannotMine, Timeout}, Waits: true,
	Parse: parseMine,
	Handle: func(c *call, b []byte, p *mineBlocks) ([]byte, error) {
		at, err := c.node.Mine(c.ctx, p.blocks)
		var refused *view.MineError
		switch {
		case err == nil:
			b = view.AppendString(append(b, `{"hash":`...), at.Hash.String())
			return append(appendInt(append(b, `,"height":`...), int(at.Height)), '}'), nil
		case errors.As(err, &refused):
			return b, CannotMine.because(refused.Reason, view.AppendString([]byte(`"reason":`), refused.Reason))
		case errors.Is(err, view.ErrTimeout):
			return b, Timeout.because("not all of the blocks were made in time; the others still come", nil)
		}
		return b, internal("", err)
	},
}

func parseMine(v val) (p mineBlocks, err error) {
	p.blocks = 1
	switch {
	case v.isNull(), v.kind() == kArray && v.len() == 0:
		return p, nil
	case v.kind() == kArray && v.len() == 1:
		p.blocks, err = readMine(v.item(0))
		return p, err
	}
	if err := needObject(v, "RpcSandboxMineRequest"); err != nil {
		return p, err
	}
	return p, readFields(v, []field{{"blocks", true, into(&p.blocks, readMine)}})
}

func readMine(v val) (uint64, error) {
	n, err := readUint64(v)
	if err == nil && (n < 1 || n > MaxMine) {
		err = fmt.Errorf("invalid value: integer `%d`, expected from 1 to %d blocks", n, MaxMine)
	}
	return n, err
}

// Miner makes blocks on request.
type Miner interface {
	// Mine makes so many blocks more and returns the last: *view.MineError for a node that makes none on request, ErrTimeout when
	// the context ends before they are made.
	Mine(ctx context.Context, blocks uint64) (view.At, error)
}
