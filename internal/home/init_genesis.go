package home

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// findGenesis sets n.genesis to the existing, given or downloaded genesis. n.genesis stays nil if a
// genesis has to be made, which needs the validator's key.
func (n *initializer) findGenesis(ctx context.Context) error {
	if exists(n.paths.Genesis) {
		return n.keepGenesis()
	}
	if used(n.paths.Data) {
		return &FileError{Path: n.paths.Genesis, Err: fmt.Errorf("%w: the genesis is missing, but %s contains a chain that started from it",
			ErrConflict, n.paths.Data),
			Hint: "restore the file, or remove the data folder to start again"}
	}
	if !n.given() {
		return nil
	}
	if n.GenesisFile == "" && !n.downloads() && n.ChainID != mainnet {
		return fmt.Errorf("%w: the genesis of chain %s is not built in: give --genesis FILE, --download-genesis, or --download-genesis-url URL",
			ErrUsage, n.ChainID)
	}
	if err := n.fetchRecords(ctx); err != nil {
		return err
	}
	temp, err := n.stage.write(n.paths.Genesis, modePublic, func(w io.Writer) error { return n.copyGenesis(ctx, w) })
	if err != nil {
		return err
	}
	source := n.GenesisFile
	switch {
	case source != "":
	case n.downloads():
		source = n.genesisURL()
	default:
		source = "the built-in genesis"
	}
	n.genesis, err = n.checkGenesis(source, temp)
	if err != nil {
		return err
	}
	n.result.Made = append(n.result.Made, filepath.Base(n.paths.Genesis))
	return n.sameChain(source)
}

func (n *initializer) genesisURL() string {
	if n.GenesisURL != "" {
		return n.GenesisURL
	}
	return genesisURL(n.ChainID)
}

// copyGenesis copies the given, downloaded or built-in genesis byte by byte, so that unknown keys
// are kept.
func (n *initializer) copyGenesis(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	if n.GenesisFile == "" && !n.downloads() {
		if err := unpack(out, bytes.NewReader(genesis.Mainnet), maxGenesis); err != nil {
			return err
		}
		return out.Flush()
	}
	if n.GenesisFile == "" {
		if err := n.Downloader.Fetch(ctx, n.genesisURL(), out, maxGenesis); err != nil {
			return err
		}
		return out.Flush()
	}
	f, err := os.Open(n.GenesisFile)
	if err != nil {
		return fmt.Errorf("--genesis %s: %w", n.GenesisFile, bare(err))
	}
	defer func() { _ = f.Close() }()
	if err := unpack(out, f, maxGenesis); err != nil {
		return fmt.Errorf("--genesis %s: %w", n.GenesisFile, err)
	}
	return out.Flush()
}

// fetchRecords downloads the records file that config.json names, if a URL is known.
func (n *initializer) fetchRecords(ctx context.Context) error {
	if n.paths.Records == "" || exists(n.paths.Records) {
		return nil
	}
	url := n.RecordsURL
	if url == "" && n.DownloadGenesis {
		url = recordsURL(n.ChainID)
	}
	if url == "" {
		return &FileError{Path: n.paths.Records, Err: os.ErrNotExist,
			Hint: "genesis_records_file in config.json names it: copy the file there, or give --download-records-url"}
	}
	_, err := n.stage.write(n.paths.Records, modePublic, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		if err := n.Downloader.Fetch(ctx, url, out, maxGenesis); err != nil {
			return err
		}
		return out.Flush()
	})
	n.result.Made = append(n.result.Made, filepath.Base(n.paths.Records))
	return err
}

// staged returns the path where the content of final can be read before commit.
func (n *initializer) staged(final string) string {
	for _, f := range n.stage.files {
		if f.final == final {
			return f.temp
		}
	}
	return final
}

// checkGenesis reads the genesis at path with all records. source is the name of the genesis in
// errors.
func (n *initializer) checkGenesis(source, path string) (*genesis.Config, error) {
	h := Home{Paths: n.paths}
	h.Paths.Genesis = path
	if h.Paths.Records != "" {
		h.Paths.Records = n.staged(h.Paths.Records)
	}
	var err error
	if h.Genesis, h.Paths.Records, err = readGenesis(&h.Paths); err == nil {
		err = h.Records(func(genesis.Record) error { return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid genesis: %w", source, reason(err))
	}
	return h.Genesis, nil
}

// reason removes the name of a temporary file from an error.
func reason(err error) error {
	if f, ok := err.(*FileError); ok {
		return f.Err
	}
	return err
}

// keepGenesis reads the existing genesis, and returns an error if it contradicts the options.
func (n *initializer) keepGenesis() error {
	var err error
	var records string
	if n.genesis, records, err = readGenesis(&n.paths); err != nil {
		return err
	}
	name := filepath.Base(n.paths.Genesis)
	n.result.Kept = append(n.result.Kept, name)
	if err := n.sameChain(n.paths.Genesis); err != nil {
		return err
	}
	if n.GenesisFile != "" {
		mine, err := digest(n.paths.Genesis, records)
		if err != nil {
			return err
		}
		theirs, err := digest(n.GenesisFile, "")
		if err != nil {
			return err
		}
		if mine != theirs {
			return &FileError{Path: n.paths.Genesis, Err: fmt.Errorf("%w: the file differs from --genesis %s", ErrConflict, n.GenesisFile),
				Hint: "choose another --home, or remove genesis.json and data/ to start again"}
		}
	}
	if n.downloads() || n.Fast || n.NumShards > 1 {
		n.result.note("%s exists and is not changed: remove it and data/ to create another", name)
	}
	return nil
}

// sameChain returns an error if the genesis is not of --chain-id.
func (n *initializer) sameChain(source string) error {
	if n.ChainID == "" || n.ChainID == n.genesis.ChainID {
		return nil
	}
	return &FileError{Path: source, Err: fmt.Errorf("%w: this is the genesis of chain %q, not of --chain-id %q",
		ErrConflict, n.genesis.ChainID, n.ChainID),
		Hint: "omit --chain-id, or choose another --home or genesis"}
}

// digest hashes the content of a genesis, independent of spaces, comments and key order. records
// may be empty.
func digest(path, records string) (out [32]byte, err error) {
	p := Paths{Genesis: path, Records: records}
	c, records, err := readGenesis(&p)
	if err != nil {
		return out, err
	}
	if records == "" {
		records = path
	}
	h := sha256.New()
	h.Write(genesis.AppendConfig(nil, c))
	var buf []byte
	err = streamRecords(records, func(r genesis.Record) error {
		buf = genesis.AppendRecord(buf[:0], r)
		h.Write(buf)
		return nil
	})
	return [32]byte(h.Sum(nil)), err
}

// used returns whether dir exists and is not empty, so that a store may be in it.
func used(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// makeGenesis makes the genesis of a chain with one validator, unless there is one.
func (n *initializer) makeGenesis(context.Context) error {
	if n.genesis != nil {
		return nil
	}
	k := n.result.Validator
	id := n.ChainID
	if id == "" {
		var err error
		if id, err = randomChainID(n.Random); err != nil {
			return err
		}
	}
	g, err := genesis.Init(genesis.InitOptions{
		ChainID: id, Time: genesis.Time(n.Now().UnixNano()), Validator: k.AccountID, Key: k.PublicKey(), Shards: 1, Fast: n.Fast,
		Protocol: parameters.Newest(primitives.NumberingRelease),
	})
	if err != nil {
		return err
	}
	layout, err := shardLayout(max(n.NumShards, 1))
	if n.Boundaries != nil {
		layout, err = primitives.MultiShardLayoutAt(n.Boundaries)
	}
	if err != nil {
		return err
	}
	g.Config.ShardLayout = layout
	if !n.Fast {
		g.Config.EpochLength, g.Config.TransactionValidityPeriod = plainEpochLength, plainValidity
	}
	if n.EpochLength != 0 {
		g.Config.EpochLength = n.EpochLength
		g.Config.TransactionValidityPeriod = min(g.Config.TransactionValidityPeriod, 2*n.EpochLength)
	}
	if err := g.Validate(); err != nil {
		return fmt.Errorf("%w: no genesis can be created with validator %s, probably because init adds an account "+
			"of that name itself: choose another --account-id (%w)", ErrUsage, k.AccountID, err)
	}
	n.genesis = &g.Config
	n.result.Made = append(n.result.Made, filepath.Base(n.paths.Genesis))
	_, err = n.stage.write(n.paths.Genesis, modePublic, func(w io.Writer) error {
		return genesis.Write(w, &g.Config, slices.Values(g.Records))
	})
	return err
}

// shardLayout returns nearcore's shard layout for up to 10 shards: boundaries test1, test2, ... For
// more shards nearcore's boundaries would not be in ascending order, so shardLayout sorts the
// boundaries.
func shardLayout(shards int) (primitives.ShardLayout, error) {
	boundaries := make([]primitives.AccountID, shards-1)
	for i := range boundaries {
		boundaries[i] = primitives.AccountID("test" + strconv.Itoa(i+1))
	}
	slices.Sort(boundaries)
	return primitives.MultiShardLayoutAt(boundaries)
}

// randomChainID is neard's: test-chain- and five letters and digits.
func randomChainID(random io.Reader) (string, error) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	out := []byte("test-chain-")
	var b [1]byte
	for len(out) < len("test-chain-")+5 {
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("generate a chain id: %w", err)
		}
		// draw again if i is too large, so that all letters are equally likely
		if i := int(b[0] & 63); i < len(letters) {
			out = append(out, letters[i])
		}
	}
	return string(out), nil
}
