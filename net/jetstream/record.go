package jetstream

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/troupe-chain/troupe/primitives"
)

// Errors of a Follower.
var (
	// ErrGap means that the next messages were dropped by age or size, or never existed.
	ErrGap = errors.New("jetstream: the next records are not in the stream any more")
	// ErrLog means that the stream now contains the records of another log.
	ErrLog = errors.New("jetstream: the stream is not of the block log that this node follows")
	// ErrChanged means that a record differs from what was published, or has the wrong signer.
	ErrChanged = errors.New("jetstream: a record is not what the writer published")
)

// Record is a record of a log.
type Record struct {
	// From is the log position after the record that was published before this record, or the
	// position at which the stream starts. No record between From and this record is omitted.
	From     string
	At, Next string // positions in the log of this record and of the next record
	Height   primitives.Height
	// Hash is the block's hash. If Back is true, Hash is the hash of the block that becomes the
	// head again.
	Hash    primitives.Hash
	Prev    primitives.Hash
	Back    bool // true: the record removes the blocks above Hash; false: the record adds a block
	Payload []byte
	// Of a received record:
	Log       string // name of the log that contains the record
	Seq       uint64 // sequence number in the stream of the record's last message
	Published int64  // publication time by the publisher's clock, in ns since 1970
	Pending   uint64 // number of messages after this record in the stream when the server sent the record
}

// PartSize is the maximum size in bytes of a record's part in one message. NATS servers accept 1
// MiB by default.
const PartSize = 512 << 10

// Header names.
const (
	headLog       = "Troupe-Log"
	headFrom      = "Troupe-From"
	headAt        = "Troupe-At"
	headNext      = "Troupe-Next"
	headHeight    = "Troupe-Height"
	headHash      = "Troupe-Hash"
	headPrev      = "Troupe-Prev"
	headKind      = "Troupe-Kind" // kindBlock or kindBack
	headPart      = "Troupe-Part" // number of the part and number of parts, such as 1/3
	headTime      = "Troupe-Time"
	headDigest    = "Troupe-Digest"    // sha256 of the record and its headers
	headSignature = "Troupe-Signature" // signature of the digest by the publisher's node key

	kindBlock, kindBack = "block", "back"
)

// digest returns a hash of all fields of a record that a follower relies on.
func (r *Record) digest() [32]byte {
	h := sha256.New()
	sum := sha256.Sum256(r.Payload)
	// Writing to a hash never fails.
	_, _ = fmt.Fprintf(h, "%s %s %s %s %d %v %v %t ", r.Log, r.From, r.At, r.Next, r.Height, r.Hash, r.Prev, r.Back)
	_, _ = h.Write(sum[:])
	return [32]byte(h.Sum(nil))
}

// parts returns the messages of a record. A message's id contains the block's height and hash, the
// log position and the part number. The log position is needed because heights and blocks can recur
// after a rollback.
func (r *Record) parts(subject string, now int64, sign func([]byte) primitives.Signature) []*nats.Msg {
	digest := r.digest()
	n := max(1, (len(r.Payload)+PartSize-1)/PartSize)
	kind := kindBlock
	if r.Back {
		kind = kindBack
	}
	list := make([]*nats.Msg, n)
	for i := range list {
		m := nats.NewMsg(subject)
		m.Data = r.Payload[min(i*PartSize, len(r.Payload)):min((i+1)*PartSize, len(r.Payload))]
		h := m.Header
		h[nats.MsgIdHdr] = []string{fmt.Sprintf("%d.%v.%s.%s.%d", r.Height, r.Hash, r.Log, r.At, i+1)}
		for name, value := range map[string]string{headLog: r.Log, headFrom: r.From, headAt: r.At, headNext: r.Next,
			headHeight: strconv.FormatUint(uint64(r.Height), 10),
			headHash:   r.Hash.String(), headPrev: r.Prev.String(), headKind: kind, headPart: fmt.Sprintf("%d/%d", i+1, n),
			headTime:   strconv.FormatInt(now, 10),
			headDigest: hex.EncodeToString(digest[:])} {
			h[name] = []string{value}
		}
		if sign != nil {
			h[headSignature] = []string{sign(digest[:]).String()}
		}
		list[i] = m
	}
	return list
}

// part is a received message.
type part struct {
	Record
	n, of     int
	digest    string
	signature string
}

func parsePart(h nats.Header, data []byte) (p part, err error) {
	get := func(name string) string {
		if v := h[name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	p.From = get(headFrom)
	p.Log, p.At, p.Next, p.digest, p.signature, p.Payload = get(headLog), get(headAt), get(headNext), get(headDigest), get(headSignature), data
	var bad []error
	note := func(err error) {
		if err != nil {
			bad = append(bad, err)
		}
	}
	height, err := strconv.ParseUint(get(headHeight), 10, 64)
	note(err)
	p.Height = primitives.Height(height)
	p.Hash, err = primitives.ParseHash(get(headHash))
	note(err)
	p.Prev, err = primitives.ParseHash(get(headPrev))
	note(err)
	p.Published, err = strconv.ParseInt(get(headTime), 10, 64)
	note(err)
	switch get(headKind) {
	case kindBlock:
	case kindBack:
		p.Back = true
	default:
		note(fmt.Errorf("unknown kind %q", get(headKind)))
	}
	n, of, _ := strings.Cut(get(headPart), "/")
	p.n, err = strconv.Atoi(n)
	note(err)
	p.of, err = strconv.Atoi(of)
	note(err)
	if p.n < 1 || p.of < p.n || p.Log == "" || p.From == "" || p.At == "" || p.Next == "" {
		note(fmt.Errorf("part %q of the record from %q to %q of log %q is malformed, must be NUMBER/COUNT with positions "+
			"and log", get(headPart), p.At, p.Next, p.Log))
	}
	if len(bad) > 0 {
		return p, fmt.Errorf("%w: %w", ErrChanged, errors.Join(bad...))
	}
	return p, nil
}

// check verifies the digest of a complete record, and the record's signature if by is not nil.
func (p *part) check(by *primitives.PublicKey) error {
	digest := p.Record.digest()
	if hex.EncodeToString(digest[:]) != p.digest {
		return fmt.Errorf("%w: the record of block %d (%v), log positions %s to %s, does not match its digest", ErrChanged,
			p.Height, p.Hash, p.At, p.Next)
	}
	if by == nil {
		return nil
	}
	s, err := primitives.ParseSignature(p.signature)
	if err != nil {
		return fmt.Errorf("%w: the record of block %d (%v) is not signed: %w", ErrChanged, p.Height, p.Hash, err)
	}
	if !s.Verify(digest[:], *by) {
		return fmt.Errorf("%w: the record of block %d (%v) is not signed by %v", ErrChanged, p.Height, p.Hash, by)
	}
	return nil
}
