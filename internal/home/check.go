package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Report is the result of Check.
type Report struct {
	Files    []string // files that were read without an error
	Warnings []string // problems with which a node still runs
	Errors   []string // problems with which a node does not start
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// fail adds an error, one entry for each of its lines, and returns true. If err is nil, fail adds
// path to Files and returns false.
func (r *Report) fail(path string, err error) bool {
	if err == nil {
		r.Files = append(r.Files, path)
		return false
	}
	r.Errors = append(r.Errors, strings.Split(err.Error(), "\n")...) // config.Parse joins its errors by lines
	return true
}

// Check reads a home folder and reports everything that is wrong with the folder, not only the
// first error.
func Check(dir string) *Report {
	r := new(Report)
	c, warnings, err := LoadConfig(dir)
	path := filepath.Join(dir, ConfigFile)
	for _, w := range warnings {
		r.warn("%s: %v", path, w)
	}
	if c != nil {
		for _, line := range c.Inert() {
			r.warn("%s: %s", path, line)
		}
	}
	if r.fail(path, err) {
		// Check looks for the other files under the names that init gives them.
		if c, _, err = config.Parse(ConfigFile, config.Default(false).Format()); err != nil {
			r.fail(ConfigFile, err)
			return r
		}
	}
	h := &Home{Paths: PathsOf(dir, c), Config: c}
	h.NodeKey, err = readNodeKey(&h.Paths)
	r.key(h.Paths.NodeKey, h.NodeKey, err)
	h.ValidatorKey, err = optionalKey(h.Paths.ValidatorKey)
	if h.ValidatorKey == nil && err == nil {
		defer func() { // after joinPublicNetwork, if the genesis can be read
			if meansValidator(h.Config) {
				r.warn("%s does not exist: the node follows the chain and produces no blocks", h.Paths.ValidatorKey)
			}
		}()
	} else {
		r.key(h.Paths.ValidatorKey, h.ValidatorKey, err)
	}
	h.EpochConfigFiles, err = readEpochConfigs(h.Paths.EpochConfigs)
	if err != nil {
		r.fail(h.Paths.EpochConfigs, err)
	}
	g := h.Paths.Genesis
	h.Genesis, h.Paths.Records, err = readGenesis(&h.Paths)
	if err != nil {
		r.fail(g, err)
		return r
	}
	if h.Numbering, err = h.numbering(); err != nil {
		r.fail("", err)
		return r
	}
	h.joinPublicNetwork()
	r.genesis(h)
	return r
}

// meansValidator returns whether a config is that of a validator: the node is alone with its chain, or
// it tracks no shards of its network, which only a validator does. RPC nodes and archives need no
// validator key (nearcore/src/config.rs load_validator_key accepts its absence silently).
func meansValidator(c *config.Config) bool {
	return !c.Network.On() && c.Replica.Of == "" || c.TrackedShards.None && !c.Archive
}

// key reports on a key file: the content of the file, and whether other users of the machine can
// read it.
func (r *Report) key(path string, k *primitives.KeyFile, err error) {
	if r.fail(path, err) {
		return
	}
	if k.SecretKey.Type() != primitives.ED25519 {
		r.Errors = append(r.Errors, fmt.Sprintf("%s: the key is %v, must be ed25519", path, k.SecretKey.Type()))
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		r.warn("%s: other users can read the secret key: run chmod 600 %s", path, path)
	}
}

// genesis reports on the genesis, its records, the epoch configs, and the parts of config.json and
// the key files that depend on these.
func (r *Report) genesis(h *Home) {
	g := h.Paths.Genesis
	err := h.Records(func(genesis.Record) error { return nil })
	var invalid *genesis.InvalidError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			r.Errors = append(r.Errors, g+": "+p)
		}
		if invalid.More > 0 {
			r.Errors = append(r.Errors, fmt.Sprintf("%s: and %d more problems", g, invalid.More))
		}
	} else if !r.fail(g, err) && h.Paths.Records != "" {
		r.Files = append(r.Files, h.Paths.Records)
	}
	if err := h.CheckVersion(); err != nil {
		r.Errors = append(r.Errors, err.Error())
	}
	if _, err := epoch.NewConfigs(engine.EpochParams(h.Genesis), h.EpochConfigFiles, parameters.Newest(h.Numbering)); err != nil {
		where := g
		if h.EpochConfigFiles != nil {
			where += " with " + h.Paths.EpochConfigs
		}
		r.Errors = append(r.Errors, fmt.Sprintf("%s: %v", where, err))
	} else if h.EpochConfigFiles != nil {
		r.Files = append(r.Files, h.Paths.EpochConfigs)
	}
	if h.ValidatorKey != nil {
		if problem := validatorProblem(h.Genesis, h.ValidatorKey); problem != "" {
			r.warn("%s", problem)
		}
	}
	r.shards(h)
}

// shards warns of tracked shards that are not in the genesis layout. A later layout of the chain
// may have these shards.
func (r *Report) shards(h *Home) {
	uids := h.Genesis.ShardLayout.ShardUIDs()
	var names []string
	for _, u := range uids {
		names = append(names, u.String())
	}
	for _, s := range h.Config.TrackedShards.Shards {
		if !slices.Contains(uids, s) {
			r.warn("%s: tracked_shards_config: the genesis has no shard %v, only %s", h.Paths.Config, s, strings.Join(names, ", "))
		}
	}
}

// CheckVersion returns an error if this node does not support the genesis's protocol version.
func (h *Home) CheckVersion() error {
	version := parameters.Version{Protocol: h.Genesis.ProtocolVersion, Numbering: h.Numbering}
	if version.Supported() || version.GenesisOnly() && public(h.Genesis.ChainID) {
		return nil
	}
	return fmt.Errorf("%s: protocol_version is %d, but this program runs %d to %d (numbering %q): use another version of troupe",
		h.Paths.Genesis, version.Protocol,
		parameters.OldestProtocol, parameters.Newest(version.Numbering), version.Numbering)
}
