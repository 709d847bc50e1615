package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// Home is the content of a home folder.
type Home struct {
	Paths    Paths
	Config   *config.Config
	Warnings []config.Warning // unknown keys of config.json
	Genesis  *genesis.Config
	// Numbering is the numbering of the chain's protocol versions: the numbering in config.json,
	// else the numbering of the data folder, else release.
	Numbering primitives.Numbering
	// ValidatorKey is nil if there is no validator key file: the node then makes no blocks.
	ValidatorKey *primitives.KeyFile
	NodeKey      *primitives.KeyFile
	// EpochConfigFiles holds the files of epoch_configs/ by name; nil without the folder.
	EpochConfigFiles map[string][]byte
}

// Load reads a home folder, except the genesis's records, which Records reads. Load returns the
// first error, whereas Check reports all errors.
func Load(dir string) (*Home, error) { return load(dir, true) }

// LoadChain is Load for a folder that may lack a node key: a restored snapshot that is read and not
// run.
func LoadChain(dir string) (*Home, error) { return load(dir, false) }

func load(dir string, runs bool) (*Home, error) {
	c, warnings, err := LoadConfig(dir)
	if err != nil {
		return nil, err
	}
	h := &Home{Paths: PathsOf(dir, c), Config: c, Warnings: warnings}
	if h.NodeKey, err = readNodeKey(&h.Paths); err != nil && (runs || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if h.ValidatorKey, err = optionalKey(h.Paths.ValidatorKey); err != nil {
		return nil, err
	}
	if h.Genesis, h.Paths.Records, err = readGenesis(&h.Paths); err != nil {
		return nil, err
	}
	if h.Numbering, err = h.numbering(); err != nil {
		return nil, err
	}
	h.joinPublicNetwork()
	h.dropInitStun()
	h.EpochConfigFiles, err = readEpochConfigs(h.Paths.EpochConfigs)
	return h, err
}

// KeyWait returns for how many blocks a validator key that is new to the data folder signs nothing,
// with the configuration c. By default it waits only on the public networks themselves. On a private
// chain with the name of one of them, which begins with a newer version, all keys are new at first.
func (h *Home) KeyWait(c *config.Config) primitives.Height {
	version := parameters.Version{Protocol: h.Genesis.ProtocolVersion, Numbering: h.Numbering}
	switch {
	case c.NewKeyWait != nil:
		return primitives.Height(*c.NewKeyWait)
	case public(h.Genesis.ChainID) && version.GenesisOnly() && !exists(filepath.Join(h.Paths.Dir, ForkFile)):
		return primitives.Height(h.Genesis.EpochLength)
	}
	return 0
}

// joinPublicNetwork turns the network on for a public chain, unless config.json says otherwise: the
// chain's blocks come only from peers. A fork and a replica get their blocks from other sources.
func (h *Home) joinPublicNetwork() {
	n := &h.Config.Network
	if n.Enabled == nil && public(h.Genesis.ChainID) && h.Config.Replica.Of == "" && !exists(filepath.Join(h.Paths.Dir, ForkFile)) {
		on := true
		n.Enabled = &on
	}
}

// dropInitStun removes init's STUN servers on a chain that is not public: its nodes ask no server on
// the internet that config.json does not choose.
func (h *Home) dropInitStun() {
	if n := &h.Config.Network; n.IsInitStun() && !public(h.Genesis.ChainID) {
		n.Stun = nil
	}
}

// numbering returns the numbering of the home's chain. A public network can have only the
// releases' numbering. A fork of a public network is a chain of its own and can have any.
func (h *Home) numbering() (primitives.Numbering, error) {
	numbering, from := h.Config.Numbering, h.Paths.Config+": troupe.numbering"
	if numbering == "" {
		id, err := storage.ReadIdentity(h.Paths.Data)
		if err != nil {
			// Without a data folder there is nothing to keep; a bad one is reported when it is
			// opened.
			return primitives.NumberingRelease, nil
		}
		numbering, from = id.Numbering, h.Paths.Data
	}
	if numbering != primitives.NumberingRelease && public(h.Genesis.ChainID) && !exists(filepath.Join(h.Paths.Dir, ForkFile)) {
		return "", fmt.Errorf("%s: %w: numbering %q is not for chain %s, which has only %q; remove the setting, or "+
			"start with an empty data folder",
			from, ErrConflict, numbering, h.Genesis.ChainID, primitives.NumberingRelease)
	}
	return numbering, nil
}

// LoadConfig reads only config.json.
func LoadConfig(dir string) (*config.Config, []config.Warning, error) {
	path := filepath.Join(dir, ConfigFile)
	in, err := read(path, maxConfig, fmt.Sprintf("run `troupe --home %s init` first", dir))
	if err != nil {
		return nil, nil, err
	}
	return config.Parse(path, in)
}

// optionalKey reads a key file; nil if the file does not exist.
func optionalKey(path string) (*primitives.KeyFile, error) {
	k, err := ReadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return k, err
}

// readGenesis reads genesis.json without its records, and returns the path of the records. A path
// in config.json takes precedence over a path in the genesis.
func readGenesis(p *Paths) (c *genesis.Config, records string, err error) {
	f, err := os.Open(p.Genesis)
	if err != nil {
		return nil, "", missing(p.Genesis, err, "put the chain's genesis there, or run `troupe init` with --genesis or in an empty folder")
	}
	defer func() { _ = f.Close() }()
	c, records, err = genesis.ReadConfig(f)
	if err != nil {
		return nil, "", &FileError{Path: p.Genesis, Err: err}
	}
	if records != "" {
		records = in(filepath.Dir(p.Genesis), records)
	}
	if p.Records != "" {
		records = p.Records
	}
	return c, records, nil
}

// Records calls yield for each record of the genesis, in file order, with one record in memory at a
// time. Records checks the genesis on the way: after the last record an invalid genesis is an error
// that lists its problems.
func (h *Home) Records(yield func(genesis.Record) error) error {
	path := h.Paths.Genesis
	if h.Paths.Records != "" {
		path = h.Paths.Records
	}
	check := genesis.NewChecker(h.Genesis)
	err := streamRecords(path, func(r genesis.Record) error {
		check.Record(r)
		return yield(r)
	})
	if err != nil {
		return err
	}
	if err := check.Finish(); err != nil {
		return &FileError{Path: h.Paths.Genesis, Err: err}
	}
	return nil
}

func streamRecords(path string, yield func(genesis.Record) error) error {
	f, err := os.Open(path)
	if err != nil {
		return missing(path, err, "config.json's genesis_records_file, or the genesis's records_file, names it")
	}
	defer func() { _ = f.Close() }()
	if err := genesis.ReadRecords(f, yield); err != nil {
		return &FileError{Path: path, Err: err}
	}
	return nil
}

// readEpochConfigs reads the files of the folder; nil without one.
func readEpochConfigs(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &FileError{Path: dir, Err: bare(err)}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() || filepath.Ext(e.Name()) != ".json" })
	if len(entries) > maxEpochConfigs {
		return nil, &FileError{Path: dir, Err: fmt.Errorf("the folder has %d .json files, at most %d are read",
			len(entries), maxEpochConfigs)}
	}
	files := make(map[string][]byte, len(entries))
	for _, e := range entries {
		if files[e.Name()], err = read(filepath.Join(dir, e.Name()), maxEpochConfig, ""); err != nil {
			return nil, err
		}
	}
	return files, nil
}
