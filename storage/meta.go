package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Cells of column meta. The names are on disk.
const (
	cellFlatHead = "fold" // row that is written when the flat head advances
	cellTail     = "tail" // row that garbage collection writes
	// The height at which the store begins, written by ImportAt. Blocks below that height have no
	// state.
	cellBegin  = "begin"
	cellImport = "import" // exists while an Import is not complete
)

// flatHeadCell is the flat head of the index: the index holds everything of the canonical blocks up
// to Block.
type flatHeadCell struct {
	Block BlockRef // block after which Flat holds the state
	// From is the position of the first record above the flat head, where Open starts to read the
	// log. To was the end of the log when the cell was written; the log was synced up to it.
	From, To position
}

// AppendBorsh appends 64 bytes.
func (c *flatHeadCell) AppendBorsh(b []byte) []byte {
	return c.To.AppendBorsh(c.From.AppendBorsh(appendRef(b, c.Block)))
}

// DecodeBorsh reads 64 bytes.
func (c *flatHeadCell) DecodeBorsh(r *borsh.Reader) {
	*c = flatHeadCell{Block: readRef(r)}
	c.From.DecodeBorsh(r)
	c.To.DecodeBorsh(r)
}

func putCell(b *Batch, name string, v borsh.Appender) {
	raw := Raw(v.AppendBorsh(nil))
	meta.Put(b, name, &raw)
}

// getCell reads a cell. ok is false if the cell was never written.
func getCell(r Getter, name string, v borsh.Decoder) (ok bool, err error) {
	raw, err := meta.Get(r, name)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err == nil {
		if uerr := borsh.Unmarshal(raw, v); uerr != nil {
			err = fmt.Errorf("%s %s: %w", meta.name, name, damaged("%w", uerr))
		}
	}
	return err == nil, err
}

// Identity names the chain to which a folder belongs.
type Identity struct {
	ChainID   string
	Genesis   primitives.Hash // hash that identifies the genesis and is the same at every start
	Numbering primitives.Numbering
}

const formatVersion = 3

// FormatVersion is the version of the data folder's format that this program reads and writes.
const FormatVersion = formatVersion

// markText is the format marker: readable text, for an operator.
const markText = "Troupe data folder. Written by the node; do not edit.\nformat %d\nchain %q\ngenesis %s\nnumbering %q\n"

func (id Identity) mark() []byte {
	return markOf(id, formatVersion, 0)
}

// ReadIdentity returns the identity of the data folder dir without opening it. It returns
// fs.ErrNotExist if dir has no format marker, ErrForeign if the marker is malformed, and ErrFormat
// if this program neither reads nor converts the folder's format.
func ReadIdentity(dir string) (Identity, error) {
	raw, err := osDisk{dir: dir}.readMark()
	if err != nil {
		return Identity{}, err
	}
	id, _, _, err := releasedFormats().read(raw)
	if err != nil {
		return id, fmt.Errorf("%s: %w", dir, err)
	}
	return id, nil
}

func parseMark(b []byte) (id Identity, format int, err error) {
	var genesis, numbering string
	n, err := fmt.Sscanf(string(b), markText, &format, &id.ChainID, &genesis, &numbering)
	if n >= 1 && format != formatVersion {
		return id, format, nil
	}
	if err == nil {
		id.Genesis, err = primitives.ParseHash(genesis)
	}
	if err != nil {
		return id, format, fmt.Errorf("%s: %w", markName, err)
	}
	id.Numbering = primitives.Numbering(numbering)
	if string(id.mark()) != string(b) {
		return id, format, fmt.Errorf("%s: malformed content", markName)
	}
	return id, format, nil
}
