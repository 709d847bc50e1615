package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// Checked is the result of CheckDB.
type Checked struct {
	Head, FlatHead storage.BlockRef
	Tail           primitives.Height
	Records        int             // number of records in the log
	Shards         int             // number of shards whose state matches its root
	States         bool            // all states match their roots
	History        *CheckedHistory // nil: there is no folder of older blocks, or it was not checked
}

// CheckedHistory is what CheckDB has read of the imported older blocks.
type CheckedHistory struct {
	history.Verified
	Folder string
	Stats  history.Stats
}

// CheckDB reads the whole chain of a home on which no node runs. It reads every record of the log
// and every subtree of the states, and compares the hashes with the roots. Then it reads the imported
// older blocks, if there are any. Opening the store
// repairs the effects of a crash, as at a start. CheckDB changes nothing else. On an error the
// result covers what was checked so far.
func CheckDB(ctx context.Context, hm *home.Home, progress func(part float64, what string)) (*Checked, error) {
	if !storage.Exists(hm.Paths.Data) {
		return nil, fmt.Errorf("%s: no node has run here yet", hm.Paths.Data)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	store, err := openStore(hm, log, false)
	if err != nil {
		return nil, err
	}
	tip := store.Tip()
	c := &Checked{Head: tip.Head, FlatHead: tip.FlatHead, Tail: tip.Tail}
	c.Records, err = store.Log().Check(ctx, func(done, all int64) { progress(float64(done)/float64(max(all, 1)), "log") })
	if err = errors.Join(err, store.Close()); err != nil {
		return c, err
	}
	e, done, err := openFolder(hm)
	if err != nil {
		return c, err
	}
	defer done()
	progress(0, "states")
	if err := e.Preload(func() bool { return ctx.Err() != nil }); err != nil {
		return c, fmt.Errorf("the stored state is damaged: %w; restore a snapshot, or remove the data folder and sync again", err)
	}
	v := e.Verify()
	defer v.Stop()
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		if done, err = v.Step(verifyStep); err != nil {
			return c, fmt.Errorf("the stored state is damaged: %w; restore a snapshot, or remove the data folder and sync again", err)
		}
	}
	for i := range e.Head().Shards {
		if e.Head().Shards[i].Extra != nil {
			c.Shards++
		}
	}
	c.States = true
	return c, checkImported(ctx, hm, e, c, progress)
}

// checkImported checks the imported older blocks, and that they adjoin the chain, if there are any. It
// changes nothing.
func checkImported(ctx context.Context, hm *home.Home, e *engine.Engine, c *Checked, progress func(part float64, what string)) error {
	if !history.Exists(hm.Paths.History) {
		return nil
	}
	s, err := history.Open(hm.Paths.History, history.Options{Genesis: e.Genesis().Hash, ReadOnly: true, CacheBytes: -1})
	if err != nil {
		return fmt.Errorf("%w (troupe.history.path)", err)
	}
	h := &CheckedHistory{Folder: hm.Paths.History, Stats: s.Stats()}
	c.History = h
	h.Verified, err = s.Verify(ctx, func(done, all int64) { progress(float64(done)/float64(max(all, 1)), "older blocks") })
	if err = errors.Join(err, s.Close()); err != nil || h.Stats.Blocks == 0 {
		return err
	}
	if hash, err := e.Store().HashAt(h.Stats.Top.Height); err != nil || hash != h.Stats.Top.Hash {
		return fmt.Errorf("the blocks in %s, up to block %d, %v, do not adjoin the blocks of this node: "+
			"restore the data folder that belongs to them, or remove %s to begin the import again", h.Folder, h.Stats.Top.Height,
			h.Stats.Top.Hash, h.Folder)
	}
	return nil
}
