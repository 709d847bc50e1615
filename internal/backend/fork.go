package backend

import (
	"context"
	"errors"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// forkReader reads the state of a fork: what is here, and beneath it what the other chain has.
type forkReader struct {
	reader
	over engine.ForkOverlay
}

// over shows what lies beneath a state, where there is something.
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

// prove proves nothing: no block says what is beneath.
func (f forkReader) proveKey(key []byte) ([][]byte, error) { return f.prove(key) }

func (f forkReader) prove([]byte) ([][]byte, error) {
	return nil, errors.New("the state of a fork can't be proven: it is partly another chain's")
}

// forerun tries a transaction of a fork before it is submitted, so that what it needs of the other chain is here when a block has it. What
// can't be had is told to who submits; whatever else comes of it is not looked at.
func (b *Backend) forerun(ctx context.Context, tx *primitives.SignedTransaction) error {
	if b.Engine.Fork() == nil {
		return nil
	}
	at, err := b.Engine.StateAt(b.Engine.Head().Hash)
	if err != nil {
		return nil // the head has moved on, far
	}
	defer at.Release()
	if _, err := b.Engine.Simulate(ctx, at, tx, engine.SimulateOptions{Signature: verify.Checked}); errors.Is(err, state.ErrAway) {
		return err
	}
	return nil
}
