package dump

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/troupe-chain/troupe/primitives/genesis"
)

// ErrBroken is returned if a stream ends before the dump does, or is not a dump.
var ErrBroken = errors.New("dump: the stream is incomplete or invalid")

// maxLine is the maximum length in bytes of a line of a stream. The largest record is code, about 6
// MB.
const maxLine = 64 << 20

// last is the last line of a stream: the number of records, or the error that ended the stream.
type last struct {
	End   *uint64 `json:"end,omitempty"`
	Error string  `json:"error,omitempty"`
}

// Send writes the dump to w. An error is returned, and written as the last line.
func (d *Dump) Send(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	line := append(genesis.AppendConfig(nil, d.Genesis), '\n')
	n := uint64(0)
	_, err := out.Write(line)
	if err == nil {
		err = d.Records(func(r genesis.Record) error {
			n++
			line = append(genesis.AppendRecord(line[:0], r), '\n')
			_, err := out.Write(line)
			return err
		})
	}
	if err == nil {
		err = writeLast(out, last{End: &n})
	} else {
		_ = writeLast(out, last{Error: err.Error()})
	}
	return errors.Join(err, out.Flush())
}

// Refuse writes an error in place of a dump.
func Refuse(w io.Writer, err error) { _ = writeLast(w, last{Error: err.Error()}) }

func writeLast(w io.Writer, l last) error {
	line, err := json.Marshal(l)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// Received is a dump that is read from a stream.
type Received struct {
	Genesis *genesis.Config
	in      *bufio.Reader
}

// Receive reads the genesis of a dump. Records reads the rest.
func Receive(r io.Reader) (*Received, error) {
	d := &Received{in: bufio.NewReaderSize(r, 64<<10)}
	line, err := d.line()
	if err != nil {
		return nil, err
	}
	if _, err := endOf(line); err != nil {
		return nil, err
	}
	d.Genesis, _, err = genesis.ReadConfig(bytes.NewReader(line))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return d, nil
}

// Records calls yield for each record. A nil error means that the dump is complete.
func (d *Received) Records(yield func(genesis.Record) error) error {
	for n := uint64(0); ; n++ {
		line, err := d.line()
		if err != nil {
			return err
		}
		end, err := endOf(line)
		switch {
		case err != nil:
			return err
		case end == nil:
		case *end != n:
			return fmt.Errorf("%w: %d records arrived, %d were sent", ErrBroken, n, *end)
		default:
			return nil
		}
		r, err := genesis.ParseRecord(line)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		if err := yield(r); err != nil {
			return err
		}
	}
}

// endOf parses the last line of a dump and returns the number of records in the dump. nil: the line
// is a record.
func endOf(line []byte) (*uint64, error) {
	if !bytes.HasPrefix(line, []byte(`{"end"`)) && !bytes.HasPrefix(line, []byte(`{"error"`)) {
		return nil, nil
	}
	var l last
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if l.Error != "" {
		return nil, errors.New(l.Error)
	}
	return l.End, nil
}

func (d *Received) line() ([]byte, error) {
	var line []byte
	for {
		part, err := d.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		case len(line) > maxLine:
			return nil, fmt.Errorf("%w: a line has more than %d bytes", ErrBroken, maxLine)
		}
	}
}
