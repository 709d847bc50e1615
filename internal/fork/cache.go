package fork

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/primitives"
)

// diskCache stores replies as files: a folder for each block, a file for each question. A file
// begins with the hash of the rest; a truncated or altered file counts as absent. Several processes
// may share a folder.
type diskCache struct{ dir string }

func (d diskCache) path(at primitives.Hash, question string) string {
	name := sha256.Sum256([]byte(question))
	return filepath.Join(d.dir, at.String(), hex.EncodeToString(name[:16]))
}

// get returns the stored reply; nil if no reply is stored or the stored reply is damaged.
func (d diskCache) get(at primitives.Hash, question string) []byte {
	if d.dir == "" {
		return nil
	}
	in, err := os.ReadFile(d.path(at, question))
	if err != nil || len(in) < sha256.Size {
		return nil
	}
	sum, rest := in[:sha256.Size], in[sha256.Size:]
	if h := sha256.Sum256(rest); !bytes.Equal(h[:], sum) {
		return nil
	}
	own := append([]byte(question), 0)
	if !bytes.HasPrefix(rest, own) {
		return nil
	}
	return rest[len(own):]
}

// put stores a reply.
func (d diskCache) put(at primitives.Hash, question string, reply []byte) error {
	if d.dir == "" {
		return nil
	}
	rest := append(append([]byte(question), 0), reply...)
	sum := sha256.Sum256(rest)
	path := d.path(at, question)
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "new-*")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			f, err = os.CreateTemp(dir, "new-*")
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(sum[:], rest...))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
