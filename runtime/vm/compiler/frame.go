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

// Request asks a child to compile a module.
type Request struct {
	Background bool            // compile with a low priority
	Code       primitives.Hash // hash of the contract, for messages
	Limits     Limits
	File       string // name of the file for the artifact; empty: the artifact is the reply's body
	Wasm       []byte // the prepared module
}

// Kind is the kind of a reply.
type Kind uint32

const (
	Hello   Kind = iota + 1 // sent once when the child has started; Body: the version of the child's artifacts
	Done                    // Body: the artifact; if Reply.InFile is set, a Written that describes the file
	Refused                 // Body: the error of the code generator
	Alive                   // sent twice a second during a compilation
)

// Reply is a reply of a child.
type Reply struct {
	Kind   Kind
	Retire bool          // the child's memory has grown, so the parent should end it
	InFile bool          // the artifact is in Request.File
	CPU    time.Duration // processor time used for the request so far
	Body   []byte
}

// Flags of a reply.
const (
	flagRetire = 1 << iota
	flagInFile
	flagsEnd
)

// written returns length and checksum of an artifact that is in a file.
func (r *Reply) written() Written { return written(r.Body) }

// size returns the artifact's size in bytes.
func (r *Reply) size() int64 {
	if r.InFile {
		return r.written().Size
	}
	return int64(len(r.Body))
}

// A frame holds a request or a reply. It has a magic number, fields of fixed length, the length of
// the body, the checksum of everything else, and the body.
const (
	requestMagic = 0x31717274 // "trq1" in little-endian
	replyMagic   = 0x31727274 // "trr1" in little-endian
	requestHead  = 4 + 4 + 32 + 8 + 8 + 8 + 4 + 4
	replyHead    = 4 + 4 + 4 + 8 + 4
	sumLen       = 4

	// MaxRequest bounds a prepared module, in bytes. Preparation can make a contract of at most 4
	// MiB up to 20 times as large (a chain of memory.grow). If a prepared module exceeded
	// MaxRequest, no block could call its contract.
	MaxRequest = 256 << 20
	// MaxReply bounds an artifact, in bytes.
	MaxReply = 512 << 20
)

// ErrFrame is the error of input that is not a valid frame.
var ErrFrame = errors.New("compiler: invalid message between the node and a compiler process")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendRequest appends a request's frame.
func AppendRequest(b []byte, r *Request) []byte {
	return append(appendRequestHead(b, r), r.Wasm...)
}

// mostPath is the maximum length of Request.File, in bytes.
const mostPath = 4096

// appendRequestHead appends the frame of a request without the module. The module may be large, so
// appendRequestHead does not copy it.
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

// appendReplyHead appends the frame of a reply without the body. The body may be large, so it is
// not copied.
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

// sealHead appends to a head the length of the body and the checksum of head and body.
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

// ReadRequest reads a request. It returns io.EOF if the input ends before the request.
func ReadRequest(in io.Reader) (*Request, error) {
	head, body, err := open(in, requestMagic, requestHead, MaxRequest+mostPath)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	path := int64(le.Uint32(head[64:]))
	if path > mostPath || path > int64(len(body)) {
		return nil, fmt.Errorf("%w: malformed request", ErrFrame)
	}
	r := &Request{Background: le.Uint32(head[4:]) == 1, File: string(body[:path]), Wasm: body[path:]}
	copy(r.Code[:], head[8:])
	r.Limits = Limits{time.Duration(le.Uint64(head[40:])), int64(le.Uint64(head[48:])), int64(le.Uint64(head[56:]))}
	if le.Uint32(head[4:]) > 1 || r.Limits.CPU <= 0 || r.Limits.Memory <= 0 || r.Limits.Output <= 0 {
		return nil, fmt.Errorf("%w: malformed request", ErrFrame)
	}
	return r, nil
}

// ReadReply reads a reply with a body of at most `most` bytes.
func ReadReply(in io.Reader, most int64) (*Reply, error) {
	head, body, err := open(in, replyMagic, replyHead, min(most, MaxReply))
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	r := &Reply{Kind: Kind(le.Uint32(head[4:])), Retire: le.Uint32(head[8:])&flagRetire != 0,
		InFile: le.Uint32(head[8:])&flagInFile != 0, CPU: time.Duration(le.Uint64(head[12:])), Body: body}
	if r.Kind < Hello || r.Kind > Alive || le.Uint32(head[8:]) >= flagsEnd || r.CPU < 0 || r.InFile &&
		(r.Kind != Done || len(body) != writtenLen || r.written().Size < 0) {
		return nil, fmt.Errorf("%w: malformed reply", ErrFrame)
	}
	return r, nil
}

// open reads a frame. open checks the checksum before it uses any field except the length.
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
		return nil, nil, fmt.Errorf("%w: it begins with %x, not with the magic number", ErrFrame, head[:4])
	}
	n := int64(le.Uint32(head[size-4:]))
	if n > most {
		return nil, nil, &tooLongError{n, most}
	}
	if body, err = readBody(in, int(n)); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if crc32.Update(crc32.Checksum(head[:size], castagnoli), castagnoli, body) != le.Uint32(head[size:]) {
		return nil, nil, fmt.Errorf("%w: wrong checksum", ErrFrame)
	}
	return head[:size], body, nil
}

// readBody allocates n bytes at once, so that nothing is copied while the body arrives. A page of
// these bytes takes only address space until it is written.
func readBody(in io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(in, b)
	return b, err
}

// tooLongError is the error of a body that is longer than allowed.
type tooLongError struct{ n, most int64 }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("compiler: a frame of %d bytes, at most %d are possible", e.n, e.most)
}
