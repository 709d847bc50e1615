package home

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Chains with a published genesis, which Init does not make.
const (
	mainnet = "mainnet"
	testnet = "testnet"
)

// ConfigKinds are the kinds of config.json that can be downloaded.
var ConfigKinds = []string{"validator", "rpc", "archival"}

const (
	telemetryURL = "https://telemetry.nearone.org/nodes" // neard adds this endpoint on public chains

	// plainEpochLength and plainValidity are longer than neard's 500 and 100. Transactions name a
	// recent block, and a chain that makes a block for each transaction advances fast. With neard's
	// values, transactions would expire before clients have sent them
	// (docs/design/sandbox-and-forks.md).
	plainEpochLength = 43_200
	plainValidity    = 86_400

	// MaxShards bounds --num-shards. neard stops at 10, because above that number the names of
	// neard's boundaries are no longer in order.
	MaxShards = 256

	defaultRecords = "records.json"
)

// InitOptions are the options of init. A zero field means that the flag is absent.
type InitOptions struct {
	Dir       string
	ChainID   string // empty: test-chain- and five random characters
	AccountID primitives.AccountID
	TestSeed  *string // seed of the validator's key; nil: a random key
	NumShards int     // 0: 1
	// EpochLength is the epoch length of a new genesis, in blocks. 0: the default. Transactions are
	// valid for at most two epochs.
	EpochLength uint64
	// Boundaries are the first accounts of all shards but the first shard, in ascending order.
	// Boundaries override NumShards. nil: nearcore's boundaries, test1, test2 and so on.
	Boundaries []primitives.AccountID
	Fast       bool

	GenesisFile     string
	DownloadGenesis bool
	GenesisURL      string
	RecordsURL      string
	ConfigKind      string // one of ConfigKinds; empty: none is downloaded
	ConfigURL       string

	BootNodes       string
	MaxGasBurntView *primitives.Gas

	Now        func() time.Time
	Random     io.Reader
	Downloader *Downloader
}

// given returns whether the genesis exists already (a file, a download or a public network), so
// that Init does not make one.
func (o *InitOptions) given() bool { return o.GenesisFile != "" || o.downloads() || public(o.ChainID) }

func (o *InitOptions) downloads() bool { return o.DownloadGenesis || o.GenesisURL != "" }

func public(chainID string) bool { return chainID == mainnet || chainID == testnet }

// check returns an error if two options contradict each other.
func (o *InitOptions) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrUsage, fmt.Sprintf(format, args...))
	}
	switch {
	case o.downloads() && o.GenesisFile != "":
		return bad("give either --genesis or --download-genesis, not both")
	case public(o.ChainID) && o.TestSeed != nil:
		return bad("--test-seed derives keys that anyone can derive; it is not allowed for %s", o.ChainID)
	case o.ConfigKind != "" && !slices.Contains(ConfigKinds, o.ConfigKind):
		return bad("--download-config is %q, must be one of %s", o.ConfigKind, strings.Join(ConfigKinds, ", "))
	case o.ConfigKind != "" && o.ConfigURL == "" && !public(o.ChainID):
		return bad("--download-config works with --chain-id mainnet or testnet only; for another chain give --download-config-url")
	case o.DownloadGenesis && o.GenesisURL == "" && !public(o.ChainID):
		return bad("--download-genesis works with --chain-id mainnet or testnet only; for another chain give --download-genesis-url")
	case o.NumShards < 0 || o.NumShards > MaxShards:
		return bad("--num-shards is %d, must be from 1 to %d", o.NumShards, MaxShards)
	}
	if err := config.CheckBootNodes(o.BootNodes); err != nil {
		return bad("--boot-nodes must be node_key@host:port, several separated by commas: %v", err)
	}
	return nil
}

// InitResult reports what Init did.
type InitResult struct {
	ChainID   string
	Validator *primitives.KeyFile // nil: no key was requested
	Made      []string            // names of new files
	Kept      []string            // names of files that existed already
	Completed []string            // keys that were added to config.json
	Notes     []string            // what the user should know
}

func (r *InitResult) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// initializer is one run of Init.
type initializer struct {
	InitOptions
	paths   Paths
	stage   stage
	config  *config.Document
	genesis *genesis.Config
	result  InitResult
}

// Init makes the missing files of a home folder. Init keeps existing files; to an existing
// config.json it adds missing keys. If existing files contradict the options, Init fails without a
// change.
func Init(ctx context.Context, o InitOptions) (*InitResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, &FileError{Path: o.Dir, Err: bare(err), Hint: "choose another folder with --home"}
	}
	n := &initializer{InitOptions: o}
	defer n.stage.drop()
	// config.json is made first, since it names all other files. But config.json is moved to its
	// final place last, so that a folder with a config.json has all other files.
	changed, err := n.makeConfig(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{n.findGenesis, n.makeKeys, n.makeGenesis} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if changed {
		if err := n.writeConfig(); err != nil {
			return nil, err
		}
	}
	if err := n.stage.commit(); err != nil {
		return nil, err
	}
	n.result.ChainID = n.genesis.ChainID
	n.compareKeys()
	return &n.result, nil
}

// makeConfig sets n.config and n.paths. The result is whether config.json has to be written.
func (n *initializer) makeConfig(ctx context.Context) (changed bool, err error) {
	path := filepath.Join(n.Dir, ConfigFile)
	if !exists(path) {
		return true, n.newConfig(ctx)
	}
	in, err := read(path, maxConfig, "")
	if err != nil {
		return false, err
	}
	doc, _, err := config.Read(path, in)
	if err != nil {
		return false, err
	}
	if n.BootNodes != "" || n.MaxGasBurntView != nil || n.ConfigKind != "" || n.ConfigURL != "" {
		n.result.note("config.json exists and keeps its values: edit it, or remove it to create a new one")
	}
	n.config = doc
	n.result.Kept = append(n.result.Kept, ConfigFile)
	base := config.Default(false)
	base.Yield(doc)
	missing := missingKeys("", base, doc)
	if len(missing) > 0 {
		if clean, err := primitives.StripJSONComments(in); err != nil || !bytes.Equal(clean, in) {
			n.result.note("config.json lacks %s: their defaults apply; they are not written, because the file's comments would be lost",
				strings.Join(missing, ", "))
			missing = nil
		}
	}
	n.result.Completed = missing
	if len(missing) > 0 {
		doc.Complete(base)
	}
	return len(missing) > 0, n.setPaths()
}

// missingKeys lists the paths of base that doc lacks. If doc lacks an object as a whole, the list
// has only the path of that object.
func missingKeys(prefix string, base, doc *config.Document) (out []string) {
	for _, k := range base.Keys() {
		theirs, _ := base.Get(k)
		mine, ok := doc.Get(k)
		if !ok {
			out = append(out, prefix+k)
			continue
		}
		a, ok1 := theirs.(*config.Document)
		b, ok2 := mine.(*config.Document)
		if ok1 && ok2 {
			out = append(out, missingKeys(prefix+k+".", a, b)...)
		}
	}
	return out
}

// newConfig makes a config.json: neard's, or a downloaded one with missing keys added. newConfig
// then applies the flags to it.
func (n *initializer) newConfig(ctx context.Context) error {
	doc := config.Default(n.Fast && !public(n.ChainID))
	if public(n.ChainID) {
		doc.Set("consensus.max_block_production_delay.secs", json.Number("1"))
		doc.Set("consensus.max_block_production_delay.nanos", json.Number("800000000"))
		doc.Set("network.skip_sync_wait", false)
	}
	url := n.ConfigURL
	if url == "" && n.ConfigKind != "" {
		url = configURL(n.ChainID, n.ConfigKind)
	}
	if url != "" {
		var in bytes.Buffer
		if err := n.Downloader.Fetch(ctx, url, &in, maxConfig); err != nil {
			return err
		}
		top, warnings, err := config.Read(url, in.Bytes())
		if err != nil {
			return err
		}
		for _, w := range warnings {
			n.result.note("the downloaded config.json: %v", w)
		}
		doc.Yield(top)
		doc.Overlay(top)
	}
	if n.RecordsURL != "" {
		if v, _ := doc.Get("genesis_records_file"); v == nil {
			doc.Set("genesis_records_file", defaultRecords)
		}
	}
	if n.BootNodes != "" {
		doc.Set("network.boot_nodes", n.BootNodes)
	}
	if n.MaxGasBurntView != nil {
		doc.SetAfter("max_gas_burnt_view", "trie_viewer_state_size_limit", json.Number(strconv.FormatUint(uint64(*n.MaxGasBurntView), 10)))
	}
	if public(n.ChainID) {
		v, _ := doc.Get("telemetry.endpoints")
		if list, ok := v.([]any); ok && !slices.Contains(list, any(telemetryURL)) {
			doc.Set("telemetry.endpoints", append(list, telemetryURL))
		}
	} else {
		doc.Set("network.skip_sync_wait", true)
	}
	n.config = doc
	return n.setPaths()
}

// setPaths checks n.config as a node would read it, and takes the file names from the
// configuration.
func (n *initializer) setPaths() error {
	path := filepath.Join(n.Dir, ConfigFile)
	c, _, err := config.Parse(path, n.config.Format())
	if err != nil {
		return err
	}
	n.paths = PathsOf(n.Dir, c)
	return nil
}

func (n *initializer) writeConfig() error {
	path := filepath.Join(n.Dir, ConfigFile)
	if _, err := n.stage.write(path, modePublic, func(w io.Writer) error {
		_, err := w.Write(n.config.Format())
		return err
	}); err != nil {
		return err
	}
	if len(n.result.Completed) == 0 {
		n.result.Made = append(n.result.Made, ConfigFile)
	}
	return nil
}

// makeKeys makes the key files that are needed and missing.
func (n *initializer) makeKeys(context.Context) error {
	name := nodeName
	if exists(n.paths.NodeKey) {
		name = "" // any account id is accepted
	}
	if _, err := n.makeKey(n.paths.NodeKey, name, nil, ParseNodeKey); err != nil {
		return err
	}
	id := n.AccountID
	if id == "" {
		// On a chain that already exists, the user's account cannot be guessed, and following the
		// chain needs no key.
		made := n.genesis == nil
		if !made && !exists(n.paths.ValidatorKey) && n.TestSeed == nil && (n.given() || public(n.genesis.ChainID)) {
			return nil
		}
		if !exists(n.paths.ValidatorKey) {
			id = "test.near"
		}
	}
	k, err := n.makeKey(n.paths.ValidatorKey, id, n.TestSeed, primitives.ParseKeyFile)
	n.result.Validator = k
	return err
}

// makeKey reads a key file, or makes the file if there is none. The account id in an existing file
// must be id, unless id is empty.
func (n *initializer) makeKey(path string, id primitives.AccountID, seed *string,
	parse func([]byte) (*primitives.KeyFile, error)) (*primitives.KeyFile, error) {
	if exists(path) {
		k, err := readKey(path, "", parse)
		if err != nil {
			return nil, err
		}
		if id != "" && id != k.AccountID {
			return nil, &FileError{Path: path, Err: fmt.Errorf("%w: the key is of %s, not of %s", ErrConflict, k.AccountID, id),
				Hint: "omit --account-id, or move the file away"}
		}
		n.result.Kept = append(n.result.Kept, filepath.Base(path))
		return k, nil
	}
	k, err := newKey(id, seed, n.Random)
	if err != nil {
		return nil, err
	}
	_, err = n.stage.write(path, modeSecret, func(w io.Writer) error {
		_, err := w.Write(k.MarshalIndent())
		return err
	})
	n.result.Made = append(n.result.Made, filepath.Base(path))
	return k, err
}

// compareKeys adds a note if the genesis does not have the validator key: the node then produces no
// blocks.
func (n *initializer) compareKeys() {
	k := n.result.Validator
	if k == nil {
		n.result.note("no validator_key.json was created: the node will follow the chain and produce no blocks; " +
			"--account-id ACCOUNT creates one")
		return
	}
	if problem := validatorProblem(n.genesis, k); problem != "" {
		n.result.note("%s", problem)
	}
}

// validatorProblem describes how a validator key differs from the genesis; empty: the key agrees
// with the genesis.
func validatorProblem(c *genesis.Config, k *primitives.KeyFile) string {
	for _, v := range c.Validators {
		if v.AccountID != k.AccountID {
			continue
		}
		if v.PublicKey != k.PublicKey() {
			return fmt.Sprintf("the genesis and validator_key.json have different keys of validator %s: unless the "+
				"account has staked with the latter since, the node produces no blocks", k.AccountID)
		}
		return ""
	}
	return fmt.Sprintf("%s of validator_key.json is not a validator of the genesis: until the account stakes with "+
		"this key, the node produces no blocks", k.AccountID)
}
