package daemon

import (
	"errors"
	"fmt"
	"io"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage"
)

// openFolder opens the chain of a home on which no node runs, for reading. done closes the chain.
func openFolder(hm *home.Home) (e *engine.Engine, done func(), err error) {
	if !storage.Exists(hm.Paths.Data) {
		return nil, nil, fmt.Errorf("%s: no node has run here yet; the state is that of %s", hm.Paths.Data, hm.Paths.Genesis)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	store, err := openStore(hm, log, false)
	if err != nil {
		return nil, nil, err
	}
	of, err := (&Daemon{Instance: Instance{log: log}}).openFork(&Options{Home: hm}, false)
	var base engine.RemoteState
	end := func() {}
	if of != nil {
		base, end = of, of.Close
	}
	var chain *engine.ChainSpec
	if err == nil {
		chain, err = chainOf(hm, of)
	}
	if err == nil {
		var hold holding
		if hold, err = holdings(hm, true); err == nil {
			e, err = engine.Open(engine.Options{Chain: chain, Store: store, Tracks: hold.tracks, Scheduled: hold.scheduled,
				Assigned: hold.assigned, StateBytes: stateMemory(hm.Config.StateMemory), Inspect: true, Base: base})
		}
	}
	if err != nil {
		end()
		_ = store.Close()
		return nil, nil, checkTracked(hm, err)
	}
	return e, func() {
		end()
		_ = e.Close()
		_ = store.Close()
	}, nil
}

func isLocked(err error) bool { return errors.Is(err, storage.ErrLocked) }
