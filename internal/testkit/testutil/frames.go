package testutil

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"iter"
	"testing"
)

// NetKey is a key as key files contain it.
type NetKey struct {
	AccountID string `json:"account_id"`
	PublicKey string `json:"public_key"`
	SecretKey string `json:"secret_key"`
}

// NetNode is a node of a recorded network, with its secret keys as text.
type NetNode struct {
	Name         string
	Port         int
	NodeKey      NetKey `json:"node_key"`
	ValidatorKey NetKey `json:"validator_key"`
}

// Frame is a recorded message from one neard to another: a PeerMessage in protobuf, without its
// length prefix.
type Frame struct {
	Line     int
	Time     float64 `json:"t"`
	Conn     int
	From, To string
	Kind     string // name of the field of PeerMessage that is set
	Base64   string `json:"frame"`
	Bytes    []byte `json:"-"`
	Text     []byte `json:"-"` // recorded line; valid until the next frame
}

// Frames reads a recorded network: first its nodes, then the frames in order. It decodes only
// frames of kinds that want accepts.
func Frames(t testing.TB, path string, want func(kind string) bool) (nodes []NetNode, frames iter.Seq[*Frame]) {
	t.Helper()
	var first struct{ Nodes []NetNode }
	for _, line := range Lines(t, path) {
		if err := json.Unmarshal(line, &first); err != nil {
			t.Fatal(err)
		}
		break
	}
	return first.Nodes, func(yield func(*Frame) bool) {
		for n, line := range Lines(t, path) {
			if n == 1 {
				continue
			}
			f := &Frame{Line: n, Text: line}
			if err := json.Unmarshal(line, f); err != nil {
				t.Fatalf("%s:%d: %v", path, n, err)
			}
			if !want(f.Kind) {
				continue
			}
			var err error
			if f.Bytes, err = base64.StdEncoding.DecodeString(f.Base64); err != nil {
				t.Fatalf("%s:%d: %v", path, n, err)
			}
			if !yield(f) {
				return
			}
		}
	}
}

// ProtoField returns the first length-delimited field with a number in a protobuf message; nil if
// there is none.
func ProtoField(b []byte, number uint64) []byte {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil
		}
		b = b[n:]
		length, n := binary.Uvarint(b)
		if n <= 0 || tag&7 != 2 && tag&7 != 0 {
			return nil
		}
		if b = b[n:]; tag&7 == 0 {
			continue
		}
		if length > uint64(len(b)) {
			return nil
		}
		if tag>>3 == number {
			return b[:length]
		}
		b = b[length:]
	}
	return nil
}

// Message returns the first field of the frame's message, which must be the field with this number
// of PeerMessage. For 17 that is the borsh encoding of a routed message.
func (f *Frame) Message(number uint64) []byte {
	return ProtoField(ProtoField(f.Bytes, number), 1)
}

// Routed returns the tag and the payload of a routed message's body; ok is false if the frame has
// none.
func (f *Frame) Routed() (tag byte, payload []byte, ok bool) {
	raw := f.Message(17)
	if len(raw) == 0 {
		return 0, nil, false
	}
	at := 1 + 32 // offset after the tag and a hash, if the target is a hash
	if raw[0] == 0 {
		at++ // a public key is one byte longer than a hash
	}
	if at += 33 + 65 + 1; at >= len(raw) { // skip author, signature and ttl
		return 0, nil, false
	}
	return raw[at], raw[at+1:], true
}
