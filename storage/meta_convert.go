package storage

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Conversion of data folders.
//
// Problem: a program with a new format must be able to use the folder that an older one has written,
// whatever interrupts it.
//
// Invariants: before the first row changes, the format marker says that the folder is being converted,
// so that no older program opens it. Each batch of changed rows is atomic and synced, and has the cell
// that says how far the conversion is. So a conversion continues after any crash.
//
// Outline: Open runs the steps from the folder's format to its own one after another. A step visits rows
// in the order of their keys.
//
// Rejected: a copy of the folder (a large index takes hours, and room for all of it); rows of two formats
// at once (each reader would have to know both for ever).

// conversion is a step from a format to the next one.
type conversion struct {
	from int // the step converts format from to format from+1
	run  func(*converter) error
}

// formats are the formats that a program reads.
type formats struct {
	current int
	// steps are ascending by from, without gaps, up to current-1. Older formats are refused.
	steps []conversion
}

// releasedFormats returns the formats of this program. Formats 1 and 2 were in no release, and have no
// step.
func releasedFormats() *formats { return &formats{current: formatVersion} }

// convertingText is a second part of the format marker, while a folder is being converted. Programs that
// know no conversions refuse a marker with it.
const convertingText = "converting from format %d\n"

// markOf returns a marker. from is the format from which the folder is being converted; 0: none.
func markOf(id Identity, format, from int) []byte {
	b := fmt.Appendf(nil, markText, format, id.ChainID, id.Genesis, id.Numbering)
	if from > 0 {
		b = fmt.Appendf(b, convertingText, from)
	}
	return b
}

// read reads a marker. from is the format from which the folder must be converted, with the steps that
// are left; 0: it has the current format. begun says that a conversion has begun. Errors: ErrForeign,
// ErrFormat.
func (f *formats) read(raw []byte) (id Identity, from int, begun bool, err error) {
	var format int
	var genesis, numbering string
	text := string(raw)
	if first, _, cut := strings.Cut(text, "\nconverting"); cut {
		text, begun = first+"\n", true
	}
	n, err := fmt.Sscanf(text, markText, &format, &id.ChainID, &genesis, &numbering)
	if n >= 1 && format > f.current {
		return id, 0, false, fmt.Errorf("%w: it has format %d, this program reads formats up to %d: use the program that wrote it, "+
			"or a newer one", ErrFormat, format, f.current)
	}
	if begun && err == nil {
		_, err = fmt.Sscanf(string(raw[len(text):]), convertingText, &from)
	}
	if oldest := f.oldest(); n >= 1 && (format < oldest || begun && err == nil && from < oldest) {
		return id, 0, begun, fmt.Errorf("%w: it has format %d, this program uses format %d and converts formats from %d on", ErrFormat,
			format, f.current, oldest)
	}
	if err == nil {
		id.Genesis, err = primitives.ParseHash(genesis)
	}
	id.Numbering = primitives.Numbering(numbering)
	if err == nil && !bytes.Equal(markOf(id, format, from), raw) {
		err = fmt.Errorf("malformed content")
	}
	if err != nil {
		return id, 0, false, fmt.Errorf("%w: %s: %w", ErrForeign, markName, err)
	}
	if !begun && format < f.current {
		from = format
	}
	return id, from, begun, nil
}

// oldest returns the oldest format that can be converted, or the current format if none can.
func (f *formats) oldest() int {
	if len(f.steps) == 0 {
		return f.current
	}
	return f.steps[0].from
}

// convertCell says how far the conversion is. It stays after the conversion. Its name is on disk.
type convertCell struct {
	format uint64 // the step that runs is the one from this format
	key    []byte // of the index: the last row that the step has visited; nil: none
}

const cellConvert = "convert"

// AppendBorsh appends a number and a byte string.
func (c *convertCell) AppendBorsh(b []byte) []byte {
	return append(borsh.AppendUint64(b, c.format), c.key...)
}

// DecodeBorsh reads what AppendBorsh appends.
func (c *convertCell) DecodeBorsh(r *borsh.Reader) {
	c.format = r.Uint64()
	c.key = bytes.Clone(r.Take(r.Remaining()))
}

// convertBatch is the number of bytes after which changed rows are written.
const convertBatch = 1 << 20

// converter is a running conversion.
type converter struct {
	s     *Store
	at    convertCell
	from  int // the folder's format at the beginning
	rows  int64
	bytes int // in one batch, about
}

// convert converts the index from a format to the current one. begun says that a conversion was
// interrupted. Errors: ErrFull if there is no room for a second index, and those of reads and writes. The
// next Open continues.
func (s *Store) convert(from int, begun bool) error {
	f := s.o.formats
	c := &converter{s: s, from: from, bytes: convertBatch}
	if s.o.convertBytes > 0 {
		c.bytes = s.o.convertBytes
	}
	if err := s.readSteps(); err != nil {
		return err
	}
	if !begun {
		if err := wrapWrite("convert the data folder: room for a second index", s.disk.probe(s.disk.indexSize())); err != nil {
			return err
		}
	}
	if err := wrapWrite("write "+markName, s.disk.writeMark(markOf(s.o.Identity, f.current, from))); err != nil {
		return err
	}
	if _, err := getCell(s.db, cellConvert, &c.at); err != nil {
		return err
	}
	if c.at.format < uint64(from) { // of an earlier conversion
		c.at = convertCell{format: uint64(from)}
	}
	c.report()
	for _, step := range f.steps {
		if uint64(step.from) < c.at.format {
			continue
		}
		if err := step.run(c); err != nil {
			return fmt.Errorf("convert format %d to %d: %w", step.from, step.from+1, err)
		}
		c.at = convertCell{format: uint64(step.from) + 1}
		var batch Batch
		if err := c.write(&batch); err != nil {
			return err
		}
	}
	return wrapWrite("write "+markName, s.disk.writeMark(markOf(s.o.Identity, f.current, 0)))
}

func (c *converter) report() {
	if c.s.o.Converting != nil {
		c.s.o.Converting(c.from, c.s.o.formats.current, c.rows)
	}
}

// write writes a batch with the cell, synced, as a step of the store.
func (c *converter) write(b *Batch) error {
	putCell(b, cellConvert, &c.at)
	n := c.s.steps + 1
	steps.Put(b, n, &Nothing{})
	if n > keptSteps {
		steps.Delete(b, n-keptSteps)
	}
	if err := c.s.db.write(b, true); err != nil {
		return err
	}
	if c.s.steps = n; n%journalSteps == 0 {
		return c.s.db.rotate()
	}
	return nil
}

// replace gives each row of a range of keys the key and value that f returns; it may return its arguments.
// The ranges of a step must be ascending. A new key must not sort above the old one: the row would be
// visited twice.
func (c *converter) replace(lo, hi []byte, f func(key, value []byte) (newKey, newValue []byte, err error)) error {
	if c.at.key != nil && bytes.Compare(lo, c.at.key) <= 0 {
		lo = append(slices.Clone(c.at.key), 0)
	}
	if bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	for {
		var batch Batch
		var n int64
		cur := c.s.db.iterate(lo, hi)
		for batch.Size() < c.bytes && cur.next() {
			old := slices.Clone(cur.key())
			k, v, err := f(old, slices.Clone(cur.value()))
			if err == nil && bytes.Compare(k, old) > 0 {
				err = fmt.Errorf("row %x would become %x, which is above it", old, k)
			}
			if err != nil {
				_ = cur.done()
				return err
			}
			batch.delete(old)
			batch.put(k, append([]byte{}, v...))
			c.at.key = old
			n++
		}
		if err := cur.done(); err != nil || n == 0 {
			return err
		}
		if err := c.write(&batch); err != nil {
			return err
		}
		lo = append(slices.Clone(c.at.key), 0)
		c.rows += n
		c.report()
	}
}
