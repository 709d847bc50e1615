package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Cells of the column Meta. Each belongs to one kind of write, so that commits, folds and collection do not mix.
const (
	cellCommit = "commit" // written by every commit
	cellFold   = "fold"   // by folds and reverts
	cellTail   = "tail"   // by collection
	cellImport = "import" // by Import: present while one is unfinished
)

// commitCell is the state of the chain's tip.
type commitCell struct {
	Head, Final BlockRef
	Log         position // behind the last record that is in the index
}

func (c *commitCell) AppendBorsh(b []byte) []byte {
	return c.Log.AppendBorsh(appendRef(appendRef(b, c.Head), c.Final))
}

func (c *commitCell) DecodeBorsh(r *borsh.Reader) {
	*c = commitCell{Head: readRef(r), Final: readRef(r)}
	c.Log.DecodeBorsh(r)
}

// foldCell is the state of Flat.
type foldCell struct {
	Folded BlockRef // the block whose state Flat holds
	// Log is the end of the log at this fold, which was synced with all commits before it. Open indexes the records from
	// here on again: commits are not synced in the index.
	Log position
	// FrontierLost: a revert went below what the frontier was known for; it must be made from Flat again.
	FrontierLost bool
}

func (c *foldCell) AppendBorsh(b []byte) []byte {
	b = c.Log.AppendBorsh(appendRef(b, c.Folded))
	return borsh.AppendBool(b, c.FrontierLost)
}

func (c *foldCell) DecodeBorsh(r *borsh.Reader) {
	*c = foldCell{Folded: readRef(r)}
	c.Log.DecodeBorsh(r)
	c.FrontierLost = r.Bool()
}

func putCell(b *Batch, name string, v borsh.Appender) {
	raw := Raw(v.AppendBorsh(nil))
	meta.Put(b, name, &raw)
}

// getCell reads a cell; ok is false when it was never written.
func getCell(r Reader, name string, v borsh.Decoder) (ok bool, err error) {
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

// Identity says which chain a folder belongs to.
type Identity struct {
	ChainID   string
	Genesis   primitives.Hash // whatever identifies the genesis to the shell: the same at every start
	Numbering primitives.Numbering
}

const formatVersion = 1

// The format marker is text, for whoever looks into the folder.
const markText = "Troupe data folder. Written by the node; do not edit.\nformat %d\nchain %q\ngenesis %s\nnumbering %q\n"

func (id Identity) mark() []byte {
	return fmt.Appendf(nil, markText, formatVersion, id.ChainID, id.Genesis, id.Numbering)
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
		return id, format, fmt.Errorf("%s: not in its form", markName)
	}
	return id, format, nil
}
