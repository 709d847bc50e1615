package backend

import (
	"context"
	"errors"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// forkReader reads the state of a fork. It reads the local state first, and then the state of the
// forked chain.
type forkReader struct {
	reader
	over engine.ForkOverlay
}

// over adds the forked chain's state below r. If the chain is no fork, over returns r unchanged.
func (b *Backend) over(r reader) reader {
	base := b.Engine.Fork()
	if base == nil {
		return r
	}
	return forkReader{r, engine.ForkOverlay{Base: base, Get: r.get, Scan: r.scan}}
}

func (f forkReader) get(key []byte) ([]byte, error) { return f.over.Value(key) }

func (f forkReader) scan(prefix, after []byte, each func(key, value []byte) bool) error {
	return f.over.Each(prefix, after, each)
}

// proveKey returns an error, because no block's state root covers the remote part of a fork's
// state.
func (f forkReader) proveKey(key []byte) ([][]byte, error) { return f.prove(key) }

func (f forkReader) prove([]byte) ([][]byte, error) {
	return nil, errors.New("a fork's state cannot be proven: part of it is on the forked chain, which no state root of the fork covers")
}

// forerun runs a fork's transaction before the node submits it, and discards the outcome. In this
// way the node fetches the remote state that the transaction reads before a block needs that state.
// forerun returns an error only if the remote state cannot be fetched.
func (b *Backend) forerun(ctx context.Context, tx *primitives.SignedTransaction) error {
	if b.Engine.Fork() == nil {
		return nil
	}
	at, err := b.Engine.StateAt(b.Engine.Head().Hash)
	if err != nil {
		return nil // garbage collection has deleted the state meanwhile
	}
	defer at.Release()
	if _, err := b.Engine.Simulate(ctx, at, tx, engine.SimulateOptions{Signature: verify.Checked}); errors.Is(err, state.ErrAway) {
		return err
	}
	return nil
}
