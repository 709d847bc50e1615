package home

import (
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/internal/config"
)

// Names that config.json cannot change.
const (
	ConfigFile = "config.json"
	// ForkFile is in the home of a fork and contains the block at which the fork begins. Package
	// fork writes this file.
	ForkFile     = "fork.json"
	epochConfigs = "epoch_configs"
	dataDir      = "data"
	contractDir  = "contract.cache"
)

// Paths are the paths of a home folder's files. Relative names in config.json are relative to the
// folder.
type Paths struct {
	Dir          string
	Config       string
	Genesis      string
	Records      string // empty: the records are in the genesis
	ValidatorKey string
	NodeKey      string
	Data         string // folder of the store; below the configured one if that is a mount point
	Contracts    string // compiled contracts; may be lost
	EpochConfigs string
	History      string // folder of imported older blocks; need not exist
}

// PathsOf returns the paths for the folder dir and its configuration c.
func PathsOf(dir string, c *config.Config) Paths {
	p := Paths{
		Dir:          dir,
		Config:       filepath.Join(dir, ConfigFile),
		Genesis:      in(dir, c.GenesisFile),
		ValidatorKey: in(dir, c.ValidatorKeyFile),
		NodeKey:      in(dir, c.NodeKeyFile),
		Data:         filepath.Join(dir, dataDir),
		EpochConfigs: filepath.Join(dir, epochConfigs),
	}
	if c.RecordsFile != "" {
		p.Records = in(dir, c.RecordsFile)
	}
	if c.StorePath != "" {
		p.Data = in(dir, c.StorePath)
	}
	p.Data = chainFolder(p.Data)
	p.History = in(dir, c.History.Path)
	if p.Contracts = filepath.Join(p.Data, contractDir); c.ContractCachePath != "" {
		p.Contracts = in(dir, c.ContractCachePath)
	}
	return p
}

// in returns the path of a file named in dir's config.json.
func in(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// DefaultDir is $NEAR_HOME, else ~/.near, as neard's.
func DefaultDir() string {
	if dir := os.Getenv("NEAR_HOME"); dir != "" {
		return dir
	}
	if user, err := os.UserHomeDir(); err == nil {
		return filepath.Join(user, ".near")
	}
	return ".near"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
