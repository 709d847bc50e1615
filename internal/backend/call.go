package backend

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
	"github.com/troupe-chain/troupe/storage"
)

// CallFunction runs a view method of a contract in the pool Views. It first runs the method as a
// short call, unless an earlier call of this method by the same client took long. Without a pool,
// CallFunction returns view.ErrContractsUnsupported.
func (b *Backend) CallFunction(block primitives.Hash, c *view.Call) (*view.CallResult, error) {
	if b.Views == nil {
		return nil, &view.LookupError{Kind: view.ErrContractsUnsupported}
	}
	var out *view.CallResult
	run, key := b.Views.Run, longKey{c.Client.Address, c.Account, c.Method}
	if b.long.has(&key, b.Now) {
		run = b.Views.RunLong
	}
	err := run(c.Client, func(short bool, interrupt func() error) (err error) {
		switch out, err = b.callFunction(block, c, short, interrupt); {
		case errors.Is(err, action.ErrLong):
			b.long.add(key, b.Now())
			return viewpool.ErrLong
		case errors.Is(err, action.ErrNotReady):
			return viewpool.ErrLong
		}
		return err
	}, c.Gone)
	return out, err
}

// longCalls records, by client address, which contract methods took long. Such a call then runs
// as a long call at once, instead of first using up the time of a short call. An entry affects
// only the address whose call took long. Safe for concurrent use.
type longCalls struct {
	mu sync.Mutex
	at map[longKey]time.Time
	n  atomic.Int64 // len(at), readable without the lock
}

type longKey struct {
	address [16]byte
	account primitives.AccountID
	method  string
}

// Bounds of longCalls. A full map is emptied.
const (
	maxLong  = 4096
	longKept = 10 * time.Second
)

func (l *longCalls) has(k *longKey, clock func() time.Time) bool {
	if l.n.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.at[*k]
	if ok && clock().Sub(at) > longKept {
		delete(l.at, *k)
		l.n.Store(int64(len(l.at)))
		ok = false
	}
	return ok
}

func (l *longCalls) add(k longKey, now time.Time) {
	if len(k.method) > 256 { // do not record such a long name
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) >= maxLong {
		l.at = map[longKey]time.Time{}
	}
	l.at[k] = now
	l.n.Store(int64(len(l.at)))
}

func (b *Backend) callFunction(block primitives.Hash, c *view.Call, short bool, interrupt func() error) (*view.CallResult, error) {
	at, err := b.Engine.StateUntil(interrupt, block)
	switch {
	// Garbage collection has deleted the state meanwhile.
	case errors.Is(err, storage.ErrGone), errors.Is(err, engine.ErrUnknown):
		return nil, &view.LookupError{Kind: view.ErrUnknownBlock, Hash: block}
	case err != nil:
		return nil, err
	}
	defer at.Release()
	shard := at.Layout.ShardOf(c.Account)
	if i, err := at.Layout.Index(shard); err != nil || !at.Shards[i].Held() {
		return nil, cmp.Or(err, unavailable(shard))
	}
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
		if link, ok := out.Cause.(*action.LinkError); ok {
			r.Missing = link.Missing
		}
	}
	return r, nil
}
