package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	maxKept = 64 << 20 // largest number of bytes of a frame that are recorded
	maxLine = 128 << 20
)

// Line is a line of a recording: a frame, a note, or (the first lines of neard's recordings) the
// participants.
type Line struct {
	T     float64 `json:"t"`
	Conn  int     `json:"conn"`
	From  string  `json:"from,omitempty"` // names, keys, or addresses if there was no handshake
	To    string  `json:"to,omitempty"`
	Kind  string  `json:"kind,omitempty"`
	Frame []byte  `json:"frame,omitempty"`
	Note  string  `json:"note,omitempty"`
	Nodes []struct {
		Name string
		Key  struct {
			Public primitives.PublicKey `json:"public_key"`
		} `json:"node_key"`
		Validator struct {
			Account primitives.AccountID `json:"account_id"`
			Public  primitives.PublicKey `json:"public_key"`
		} `json:"validator_key"`
	} `json:"nodes,omitempty"`
}

// LineError names the invalid line of a recording.
type LineError struct {
	Number int
	Err    error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Number, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Lines reads a recording, compressed or not. The sequence ends with the first error. A truncated
// recording, as after a crash, ends with io.ErrUnexpectedEOF in a *LineError.
func Lines(in io.Reader) iter.Seq2[*Line, error] {
	return func(yield func(*Line, error) bool) {
		r := bufio.NewReaderSize(in, 1<<20)
		if head, _ := r.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
			z, err := gzip.NewReader(r)
			if err != nil {
				yield(nil, err)
				return
			}
			r = bufio.NewReaderSize(z, 1<<20)
		}
		for n := 1; ; n++ {
			text, err := readLine(r)
			if len(bytes.TrimSpace(text)) == 0 && errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, &LineError{n, err})
				return
			}
			l := new(Line)
			if bad := json.Unmarshal(text, l); bad != nil {
				if errors.Is(err, io.EOF) { // a line without a line feed
					bad = io.ErrUnexpectedEOF
				}
				yield(nil, &LineError{n, bad})
				return
			}
			if !yield(l, nil) || err != nil {
				return
			}
		}
	}
}

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, fmt.Errorf("a line has more than %d bytes, the limit", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// kindOf returns the kind of the message in a frame from its first bytes, without decoding the
// frame.
func kindOf(frame []byte) string {
	tag, n := binary.Uvarint(frame)
	if n <= 0 || tag>>3 > 1<<20 {
		return "rubbish"
	}
	return wire.Kind(tag >> 3).String()
}

// Names maps keys of nodes to names.
type Names map[primitives.PublicKey]string

// Add adds the nodes that a line of a recording names, each with its name.
func (n Names) Add(l *Line) {
	for _, node := range l.Nodes {
		n[node.Key.Public] = node.Name
	}
}

// Of returns a node's name, or the first characters of its key.
func (n Names) Of(key primitives.PublicKey) string {
	if name, ok := n[key]; ok {
		return name
	}
	if key == "" {
		return "nobody"
	}
	return short(key.String())
}

// End returns the name of a connection's end. A recording has a name, a key or an address.
func (n Names) End(end string) string {
	if !strings.HasPrefix(end, "ed25519:") {
		return end
	}
	if key, err := primitives.ParsePublicKey(end); err == nil {
		return n.Of(key)
	}
	return end
}

// short returns the first characters of a key or hash, enough to distinguish keys or hashes of one
// recording.
func short(text string) string {
	prefix, rest, ok := strings.Cut(text, ":")
	if !ok {
		prefix, rest = "", text
	}
	if prefix == "ed25519" {
		prefix = ""
	}
	if len(rest) > 8 {
		rest = rest[:8]
	}
	if prefix != "" {
		return prefix + ":" + rest
	}
	return rest
}
