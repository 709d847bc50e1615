package daemon

import (
	"fmt"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// GenesisID returns how peers identify the chain of a home folder. It reads no data folder, so a node
// may run in it. For a chain that is not public, GenesisID makes the genesis state in memory.
func GenesisID(hm *home.Home) (id wire.GenesisID, err error) {
	id.ChainID = hm.Genesis.ChainID
	if pin, err := fork.ReadPin(hm.Paths.Dir); err != nil || pin != nil {
		if err == nil {
			err = fmt.Errorf("%s: a fork has no peers", hm.Paths.Dir)
		}
		return id, err
	}
	chain, err := chainOf(hm, nil)
	if err != nil {
		return id, err
	}
	if hash, public := engine.PublicGenesis(chain); public {
		id.Hash = hash
		return id, nil
	}
	store, err := storage.OpenMemory(storage.NewMemDisk(), storage.Options{Identity: storage.Identity{
		ChainID: chain.ID, Genesis: primitives.HashBytes([]byte(hm.Paths.Genesis)), Numbering: hm.Numbering}})
	if err != nil {
		return id, err
	}
	defer func() { _ = store.Close() }()
	e, err := engine.Open(engine.Options{Chain: chain, Store: store})
	if err != nil {
		return id, err
	}
	id.Hash = e.Genesis().Hash
	return id, e.Close()
}
