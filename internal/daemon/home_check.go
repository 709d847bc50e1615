package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// CheckHome checks a home folder as home.Check does. If home.Check finds no error, CheckHome also
// creates the genesis chain in memory, with the code that Start uses. So it finds every error in
// the files that Start would find. archive means that the node will run with --archive. CheckHome
// needs twice the memory of the genesis state. It listens on no port and leaves no file.
func CheckHome(dir string, archive bool) *home.Report {
	r := home.Check(dir)
	if len(r.Errors) > 0 {
		return r
	}
	hm, err := home.Load(dir)
	if err == nil {
		hm.Config.Archive = hm.Config.Archive || archive
		var warnings []string
		warnings, err = checkHistory(hm)
		r.Warnings = append(r.Warnings, warnings...)
	}
	if err != nil {
		r.Errors = append(r.Errors, err.Error())
		return r
	}
	if err := beginInMemory(hm); err != nil {
		r.Errors = append(r.Errors, strings.Split(err.Error(), "\n")...)
		return r
	}
	if text, err := keyWaitWarning(dir); err != nil {
		r.Errors = append(r.Errors, err.Error())
	} else if text != "" {
		r.Warnings = append(r.Warnings, text)
	}
	return r
}

// keyWaitWarning says for how long the validator key of a home folder would sign nothing. The result
// is empty if the key would sign at once.
func keyWaitWarning(dir string) (string, error) {
	hm, err := home.Load(dir)
	if err != nil || hm.ValidatorKey == nil || networkAddr(&hm.Config.Network) == "" {
		return "", err
	}
	blocks := hm.KeyWait(hm.Config)
	row, err := validator.ReadRow(filepath.Join(hm.Paths.Data, signedFile))
	if err != nil {
		return "", err
	}
	key := hm.ValidatorKey
	known, err := consensus.IsKnownKey(row, key.AccountID, key.PublicKey(), uint64(time.Now().UnixNano()),
		consensus.KeyWait{Blocks: blocks})
	if err != nil || known || blocks == 0 {
		return "", err
	}
	return fmt.Sprintf("%s: the key of %s is new to %s, or has long not been used there: it signs nothing for %d new "+
		"blocks (docs/operate/upgrade.md)",
		hm.Paths.ValidatorKey, key.AccountID, hm.Paths.Data, blocks), nil
}

func beginInMemory(hm *home.Home) error {
	if err := hm.CheckVersion(); err != nil {
		return err
	}
	if pin, err := fork.ReadPin(hm.Paths.Dir); err != nil || pin != nil { // for a fork, another node provides the state
		return err
	}
	chain, err := chainOf(hm, nil)
	if err != nil {
		return err
	}
	store, err := storage.OpenMemory(storage.NewMemDisk(), storage.Options{Identity: storage.Identity{
		ChainID: chain.ID, Genesis: primitives.HashBytes([]byte(hm.Paths.Genesis)), Numbering: hm.Numbering}})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	h := &Daemon{Instance: Instance{home: hm, store: store}}
	connected := networkAddr(&hm.Config.Network) != ""
	hold, err := holdings(hm, connected)
	if err != nil {
		return err
	}
	if h.Engine, err = engine.Open(engine.Options{Tracks: hold.tracks, Scheduled: hold.scheduled, Assigned: hold.assigned,
		Chain: chain, Store: store}); err != nil {
		return checkTracked(hm, err)
	}
	defer func() { _ = h.Engine.Close() }()
	if err := checkHistoryStore(hm, h.Engine.Genesis().Hash); err != nil {
		return err
	}
	if connected {
		if err := h.needsStateSync(h.stateSyncObstacle(hm)); err != nil {
			return err
		}
	} else {
		if err := checkNeverShared(hm); err != nil {
			return err
		}
		return h.checkDuties()
	}
	return nil
}
