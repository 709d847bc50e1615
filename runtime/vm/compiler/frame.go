package compiler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Request asks a child for an artifact.
type Request struct {
	Background bool            // at a low priority
	Code       primitives.Hash // of the contract, to be named in messages
	Limits     Limits
	File       string // that the artifact is to be written to; empty: it is the reply's body
	Wasm       []byte // the prepared module
}

// Kind is what a reply says.
type Kind uint32

// The kinds.
const (
	Hello   Kind = iota + 1 // Body: the version of what the child makes; the first reply, without a request
	Done                    // Body: the artifact, or of which file it is all, and how it is Written
	Refused                 // Body: what the code generator says
	Alive                   // still at it; comes twice a second
)

// Reply is an answer of a child.
type Reply struct {
	Kind   Kind
	Retire bool          // the child has grown, and is to be ended
	InFile bool          // the artifact is in the request's file
	CPU    time.Duration // processor time that the child has used for the request until now
	Body   []byte
}

// The flags of a reply.
const (
	flagRetire = 1 << iota
	flagInFile
	flagsEnd
)

// written is how the artifact is in its file.
func (r *Reply) written() Written { return written(r.Body) }

// size is the artifact's.
func (r *Reply) size() int64 {
	if r.InFile {
		return r.written().Size
	}
	return int64(len(r.Body))
}

// Both frames: a magic number, the fixed part, the length of what follows, the checksum of all of
// it but itself.
const (
	requestMagic = 0x31717274 // "trq1"
	replyMagic   = 0x31727274
	requestHead  = 4 + 4 + 32 + 8 + 8 + 8 + 4 + 4
	replyHead    = 4 + 4 + 4 + 8 + 4
	sumLen       = 4

	// MaxRequest is what a prepared module has at most. One of the 4 MiB that a contract may have
	// becomes up to 20 times as much (memory.grow over memory.grow); a contract that is too long
	// for a request would be one that no block can call.
	MaxRequest = 256 << 20
	// MaxReply is the most that any contract's artifact may have.
	MaxReply = 512 << 20
)

// ErrFrame is the error of bytes that are no frame.
var ErrFrame = errors.New("compiler: not a frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendRequest appends a request's frame.
func AppendRequest(b []byte, r *Request) []byte {
	return append(appendRequestHead(b, r), r.Wasm...)
}

// mostPath is the longest name of a file.
const mostPath = 4096

// appendRequestHead appends all but the module, which is not copied where it is large.
func appendRequestHead(b []byte, r *Request) []byte {
	le, start := binary.LittleEndian, len(b)
	b = le.AppendUint32(b, requestMagic)
	var flags uint32
	if r.Background {
		flags = 1
	}
	b = append(le.AppendUint32(b, flags), r.Code[:]...)
	b = le.AppendUint64(b, uint64(r.Limits.CPU))
	b = le.AppendUint64(b, uint64(r.Limits.Memory))
	b = le.AppendUint64(b, uint64(r.Limits.Output))
	b = le.AppendUint32(b, uint32(len(r.File)))
	return append(sealHead(b, start, []byte(r.File), r.Wasm), r.File...)
}

// AppendReply appends a reply's frame.
func AppendReply(b []byte, r *Reply) []byte {
	return append(appendReplyHead(b, r), r.Body...)
}

// appendReplyHead appends all but the body, which is not copied where it is large.
func appendReplyHead(b []byte, r *Reply) []byte {
	le, start := binary.LittleEndian, len(b)
	b = le.AppendUint32(b, replyMagic)
	var flags uint32
	if r.Retire {
		flags |= flagRetire
	}
	if r.InFile {
		flags |= flagInFile
	}
	b = le.AppendUint32(le.AppendUint32(b, uint32(r.Kind)), flags)
	return sealHead(le.AppendUint64(b, uint64(r.CPU)), start, r.Body)
}

// sealHead ends a head: with the length of the body, and the checksum of both.
func sealHead(b []byte, start int, body ...[]byte) []byte {
	le, n := binary.LittleEndian, 0
	for _, part := range body {
		n += len(part)
	}
	b = le.AppendUint32(b, uint32(n))
	sum := crc32.Checksum(b[start:], castagnoli)
	for _, part := range body {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return le.AppendUint32(b, sum)
}

// ReadRequest reads a request. io.EOF: there is none, and nothing else.
func ReadRequest(in io.Reader) (*Request, error) {
	head, body, err := open(in, requestMagic, requestHead, MaxRequest+mostPath)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	path := int64(le.Uint32(head[64:]))
	if path > mostPath || path > int64(len(body)) {
		return nil, fmt.Errorf("%w: request", ErrFrame)
	}
	r := &Request{Background: le.Uint32(head[4:]) == 1, File: string(body[:path]), Wasm: body[path:]}
	copy(r.Code[:], head[8:])
	r.Limits = Limits{time.Duration(le.Uint64(head[40:])), int64(le.Uint64(head[48:])), int64(le.Uint64(head[56:]))}
	if le.Uint32(head[4:]) > 1 || r.Limits.CPU <= 0 || r.Limits.Memory <= 0 || r.Limits.Output <= 0 {
		return nil, fmt.Errorf("%w: request", ErrFrame)
	}
	return r, nil
}

// ReadReply reads a reply whose body has at most most bytes.
func ReadReply(in io.Reader, most int64) (*Reply, error) {
	head, body, err := open(in, replyMagic, replyHead, min(most, MaxReply))
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	r := &Reply{Kind: Kind(le.Uint32(head[4:])), Retire: le.Uint32(head[8:])&flagRetire != 0, InFile: le.Uint32(head[8:])&flagInFile != 0, CPU: time.Duration(le.Uint64(head[12:])), Body: body}
	if r.Kind < Hello || r.Kind > Alive || le.Uint32(head[8:]) >= flagsEnd || r.CPU < 0 || r.InFile && (r.Kind != Done || len(body) != writtenLen || r.written().Size < 0) {
		return nil, fmt.Errorf("%w: reply", ErrFrame)
	}
	return r, nil
}

// open reads a frame. What has no right checksum is not believed in anything but that.
func open(in io.Reader, magic uint32, size int, most int64) (head, body []byte, err error) {
	head = make([]byte, size+sumLen)
	if n, err := io.ReadFull(in, head); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return nil, nil, io.EOF
		}
		return nil, nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	le := binary.LittleEndian
	if le.Uint32(head) != magic {
		return nil, nil, fmt.Errorf("%w: it begins with %x", ErrFrame, head[:4])
	}
	n := int64(le.Uint32(head[size-4:]))
	if n > most {
		return nil, nil, &tooLongError{n, most}
	}
	if body, err = readBody(in, int(n)); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if crc32.Update(crc32.Checksum(head[:size], castagnoli), castagnoli, body) != le.Uint32(head[size:]) {
		return nil, nil, fmt.Errorf("%w: checksum", ErrFrame)
	}
	return head[:size], body, nil
}

// readBody takes room for the whole body at once: of what does not come only addresses are taken,
// and nothing is copied as it grows.
func readBody(in io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(in, b)
	return b, err
}

// tooLongError is a body that is longer than it may be.
type tooLongError struct{ n, most int64 }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("compiler: a frame of %d bytes, at most %d are possible", e.n, e.most)
}
