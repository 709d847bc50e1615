package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// recordsName is the records file of neard's streamed dump.
const recordsName = "records.json"

// WriteFile writes the genesis with its records to one file. WriteFile replaces an existing file
// only when the new file is complete.
func (d *Received) WriteFile(path string) error {
	return replace(path, 0o644, func(w io.Writer) error {
		var failed error
		records := func(yield func(genesis.Record) bool) {
			failed = d.Records(func(r genesis.Record) error {
				if !yield(r) {
					return errors.New("dump: writing the genesis file failed")
				}
				return nil
			})
		}
		err := genesis.Write(w, d.Genesis, records)
		return errors.Join(failed, err)
	})
}

// WriteFolder writes genesis, records, config and keys to a folder, as `neard view-state dump-state
// --stream` does: a home of a chain that begins with this chain's state. WriteFolder writes each
// record when it arrives.
func (d *Received) WriteFolder(dir string, hm *home.Home) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	err := replace(in(recordsName), 0o644, func(w io.Writer) error {
		next := []byte("[")
		err := d.Records(func(r genesis.Record) error {
			_, err := w.Write(genesis.AppendRecord(next, r))
			next = append(next[:0], ',')
			return err
		})
		if err == nil && next[0] == '[' {
			_, err = w.Write(next)
		}
		if err == nil {
			_, err = w.Write([]byte("]"))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := replace(in("genesis.json"), 0o644, func(w io.Writer) error { return genesis.WriteConfig(w, d.Genesis) }); err != nil {
		return err
	}
	config, _, err := home.LoadConfig(hm.Paths.Dir)
	if err != nil {
		return err
	}
	for key, name := range map[string]string{"genesis_file": "genesis.json", "genesis_records_file": recordsName,
		"validator_key_file": "validator_key.json", "node_key_file": "node_key.json"} {
		config.Document.Set(key, name)
	}
	if err := replace(in(home.ConfigFile), 0o644, func(w io.Writer) error {
		_, err := w.Write(config.Document.Format())
		return err
	}); err != nil {
		return err
	}
	for name, from := range map[string]string{"node_key.json": hm.Paths.NodeKey, "validator_key.json": hm.Paths.ValidatorKey} {
		if err := copyKey(in(name), from); err != nil {
			return err
		}
	}
	return nil
}

// copyKey copies a key file, if there is one.
func copyKey(to, from string) error {
	f, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return replace(to, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// replace writes a temporary file and renames that file to path when the file is complete.
func replace(path string, mode os.FileMode, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".dump-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	out := bufio.NewWriterSize(f, 64<<10)
	err = errors.Join(fill(out), out.Flush(), f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
