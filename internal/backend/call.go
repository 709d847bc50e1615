package backend

import (
	"errors"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/viewer"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
	"github.com/troupe-chain/troupe/storage"
)

// CallFunction runs a method of a contract as a read, on a thread of the views' own.
func (b *Backend) CallFunction(block primitives.Hash, c *view.Call) (*view.CallResult, error) {
	if b.Views == nil {
		return nil, &view.LookupError{Kind: view.ErrContractsUnsupported}
	}
	var out *view.CallResult
	err := b.Views.Run(c.Client, func(short bool, interrupt func() error) (err error) {
		if out, err = b.callFunction(block, c, short, interrupt); errors.Is(err, action.ErrLong) {
			return viewer.ErrLong
		}
		return err
	}, c.Gone)
	return out, err
}

func (b *Backend) callFunction(block primitives.Hash, c *view.Call, short bool, interrupt func() error) (*view.CallResult, error) {
	at, err := b.Engine.StateAt(block)
	switch {
	case errors.Is(err, storage.ErrGone), errors.Is(err, engine.ErrUnknown): // collected since it was looked for
		return nil, &view.LookupError{Kind: view.ErrUnknownBlock, Hash: block}
	case err != nil:
		return nil, err
	}
	defer at.Release()
	out, found, err := b.Engine.CallView(at, &action.View{
		Account: c.Account, Method: c.Method, Args: c.Args, Gas: b.MaxGasBurntView, Interrupt: interrupt, Short: short,
	})
	if err != nil || !found {
		return nil, err
	}
	r := &view.CallResult{Logs: out.Logs, Err: out.Err}
	switch {
	case out.Err == nil:
		r.Result = out.Return.Value
	case out.Err.Tag == primitives.CallExecution:
		r.Debug = logic.DebugExecution(out.Err, out.Cause)
	}
	return r, nil
}
