package compiler

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

var requests = []*Request{
	{Limits: Limits{1, 2, 3}, Wasm: []byte{}},
	{Limits: Limits{1, 2, 3}, File: "/a/file", Wasm: []byte("wasm")},
	{Limits: Limits{1, 2, 3}, File: "/another", Wasm: []byte{}},
	{Background: true, Code: primitives.Hash{1, 2}, Limits: Limits{time.Hour, 1 << 40, MaxReply}, Wasm: bytes.Repeat([]byte("wasm"), 1<<19)},
}

var replies = []*Reply{
	{Kind: Hello, Body: []byte("v1")},
	{Kind: Done, Retire: true, CPU: time.Minute, Body: bytes.Repeat([]byte{7}, 3<<20)},
	{Kind: Done, InFile: true, CPU: 1, Body: Written{1 << 40, 7}.append(nil)},
	{Kind: Refused, Body: []byte("no")},
	{Kind: Alive, CPU: 1, Body: []byte{}},
}

// TestFramesAreReadAsWritten checks that consecutive frames are read as they were written, followed
// by io.EOF, and that a truncated, changed or too long frame is an error.
func TestFramesAreReadAsWritten(t *testing.T) {
	var b []byte
	for _, r := range requests {
		b = AppendRequest(b, r)
	}
	in := bytes.NewReader(b)
	for _, want := range requests {
		got, err := ReadRequest(in)
		if err != nil || got.Background != want.Background || got.Code != want.Code || got.Limits != want.Limits || got.File != want.File || !bytes.Equal(got.Wasm, want.Wasm) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, r := range []*Reply{{Kind: Refused, InFile: true, Body: Written{1, 1}.append(nil)}, {Kind: Done, InFile: true, Body: []byte("short")},
		{Kind: Done, InFile: true, Body: Written{-1, 1}.append(nil)}} {
		if _, err := ReadReply(bytes.NewReader(AppendReply(nil, r)), MaxReply); !errors.Is(err, ErrFrame) {
			t.Errorf("%+v: err = %v", r, err)
		}
	}
	if _, err := ReadRequest(in); err != io.EOF {
		t.Errorf("err = %v, want EOF", err)
	}
	for _, want := range replies {
		b := AppendReply(nil, want)
		got, err := ReadReply(bytes.NewReader(b), MaxReply)
		if err != nil || got.Kind != want.Kind || got.Retire != want.Retire || got.InFile != want.InFile || got.size() != want.size() || got.CPU != want.CPU || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("%+v, %v", got, err)
		}
		var long *tooLongError
		if n := int64(len(want.Body)); n > 0 {
			if _, err := ReadReply(bytes.NewReader(b), n-1); !errors.As(err, &long) {
				t.Errorf("err = %v, want too long", err)
			}
		}
		for _, cut := range []int{1, 4, replyHead, len(b) - 1} {
			if _, err := ReadReply(bytes.NewReader(b[:cut]), MaxReply); !errors.Is(err, ErrFrame) && !errors.As(err, &long) {
				t.Errorf("%d of %d bytes: err = %v", cut, len(b), err)
			}
		}
		for _, at := range []int{0, 4, 8, 12, replyHead, len(b) - 1} {
			b[at] ^= 0x10
			if _, err := ReadReply(bytes.NewReader(b), MaxReply); err == nil {
				t.Errorf("byte %d changed: no error", at)
			}
			b[at] ^= 0x10
		}
	}
}

// FuzzFrames checks that bytes are either refused or the only encoding of the decoded frame.
func FuzzFrames(f *testing.F) {
	f.Add(AppendRequest(nil, requests[0]))
	for _, r := range replies {
		f.Add(AppendReply(nil, r)[:min(100, len(AppendReply(nil, r)))])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.NewReader(b)
		if r, err := ReadRequest(in); err == nil && !bytes.Equal(AppendRequest(nil, r), b[:len(b)-in.Len()]) {
			t.Errorf("%x was read as %+v", b, r)
		}
		in = bytes.NewReader(b)
		if r, err := ReadReply(in, MaxReply); err == nil && !bytes.Equal(AppendReply(nil, r), b[:len(b)-in.Len()]) {
			t.Errorf("%x was read as %+v", b, r)
		}
	})
}
