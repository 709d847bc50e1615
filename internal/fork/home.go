package fork

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// PinFile is the file in a fork's home that records the pinned block.
const PinFile = home.ForkFile

// Validator is the account that produces a fork's blocks. Validator is the only account that the
// fork's genesis adds.
const Validator primitives.AccountID = "validator.troupe-fork"

// epochLength is the length of a fork's epochs in blocks, as in init. Transactions are valid for
// twice as many blocks.
const epochLength = 43_200

// ReadPin reads the pin of a home; nil if the home is no fork's.
func ReadPin(dir string) (*Pin, error) {
	path := filepath.Join(dir, PinFile)
	in, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(Pin)
	if err := json.Unmarshal(in, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if p.Hash.IsZero() || p.ChainID == "" || p.Layout.IsZero() {
		return nil, fmt.Errorf("%s: block_hash, chain_id or shard_layout is missing: remove the folder and make the fork again", path)
	}
	return p, nil
}

// ErrHome is returned if a home belongs to a chain other than the one in the spec.
var ErrHome = errors.New("the home folder is of another chain")

// Make makes dir the home of a fork. An existing home of a fork stays as it is if the spec names
// the block that the fork is pinned to. The URL of the spec may have changed to a different node of
// the same chain.
func Make(ctx context.Context, dir string, s Spec, o Options) (*Pin, error) {
	old, err := ReadPin(dir)
	if err != nil {
		return nil, err
	}
	made := exists(filepath.Join(dir, home.ConfigFile))
	if old != nil && made {
		same := s.any() || s.Block == old.Hash || s.Height != 0 && s.Height == old.Height ||
			!s.Tx.IsZero() && old.Tx != nil && *old.Tx == s.Tx
		if !same {
			return nil, fmt.Errorf("%w: %s is a fork of block %d (%v) of chain %s; choose another --home",
				ErrHome, dir, old.Height, old.Hash, old.ChainID)
		}
		if s.URL != old.URL {
			old.URL = s.URL
			return old, writePin(dir, old)
		}
		return old, nil
	}
	if made {
		return nil, fmt.Errorf("%w: the chain in %s is not a fork; choose another --home", ErrHome, dir)
	}
	c := NewClient(o)
	defer c.Close()
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	pin, err := c.Resolve(s)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := writePin(dir, pin); err != nil {
		return nil, err
	}
	return pin, makeFiles(ctx, dir, pin)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func writePin(dir string, p *Pin) error {
	out, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, PinFile), append(out, '\n'), 0o600) // the URL may contain an API key
}

// write replaces a file.
func write(path string, content []byte, mode os.FileMode) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, content, mode); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// makeFiles makes the remaining files of the home. config.json is written last.
func makeFiles(ctx context.Context, dir string, pin *Pin) error {
	keyPath := filepath.Join(dir, "validator_key.json")
	key, err := home.ReadKeyFile(keyPath)
	if err != nil {
		secret, err := primitives.GenerateSecretKey(primitives.ED25519, rand.Reader)
		if err != nil {
			return err
		}
		key = &primitives.KeyFile{AccountID: Validator, SecretKey: secret}
		if err := write(keyPath, key.MarshalIndent(), 0o600); err != nil {
			return err
		}
	}
	if key.AccountID != Validator {
		return fmt.Errorf("%w: %s is the key of %s, but %s produces the blocks of a fork; choose another --home",
			ErrHome, keyPath, key.AccountID, Validator)
	}
	g, err := Genesis(pin, key.PublicKey())
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := genesis.Write(&text, &g.Config, slices.Values(g.Records)); err != nil {
		return err
	}
	temp := filepath.Join(dir, "genesis.json.fork")
	if err := os.WriteFile(temp, text.Bytes(), 0o644); err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	_, err = home.Init(ctx, home.InitOptions{Dir: dir, GenesisFile: temp, Now: time.Now, Random: io.Reader(rand.Reader)})
	return err
}

// Genesis returns a fork's genesis: the forked chain's id, height, time and prices, one shard, and
// one account, the validator.
func Genesis(pin *Pin, key primitives.PublicKey) (*genesis.Genesis, error) {
	version := parameters.Release(pin.Protocol)
	if !version.Supported() {
		return nil, fmt.Errorf("fork: chain %s has protocol version %d at block %d, this program runs %d to %d: fork another block",
			pin.ChainID, pin.Protocol, pin.Height,
			parameters.OldestProtocol, parameters.Newest(version.Numbering))
	}
	g, err := genesis.Init(
		genesis.InitOptions{ChainID: pin.ChainID, Time: genesis.Time(pin.Time), Validator: Validator, Key: key, Protocol: pin.Protocol},
	)
	if err != nil {
		return nil, err
	}
	c := &g.Config
	g.Records = slices.DeleteFunc(g.Records, func(r genesis.Record) bool { return r.Owner() != Validator })
	c.TotalSupply = primitives.Balance{}
	for _, r := range g.Records {
		if a, ok := r.(*genesis.AccountRecord); ok {
			c.TotalSupply = c.TotalSupply.SaturatingAdd(a.Account.Amount.SaturatingAdd(a.Account.Locked))
		}
	}
	c.GenesisHeight, c.EpochLength, c.TransactionValidityPeriod = pin.Height, epochLength, 2*epochLength
	c.MinGasPrice, c.MaxGasPrice, c.GasLimit = pin.GasPrice, pin.MaxPrice, pin.GasLimit
	return g, g.Validate()
}
