package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// eachRecorded calls do for the frames of testdata.
func eachRecorded(t testing.TB, do func(frame []byte)) {
	for _, name := range []string{"frames", "late"} {
		for n, line := range testutil.Lines(t, "testdata/"+name+".jsonl.gz") {
			if n == 1 {
				continue
			}
			var f recorded
			if err := json.Unmarshal(line, &f); err != nil {
				t.Fatal(err)
			}
			do(f.Frame)
		}
	}
}

// FuzzDecode: any frame is refused, or decodes to a message that encodes, decodes and encodes to
// the same bytes.
func FuzzDecode(f *testing.F) {
	seen := map[int]bool{}
	eachRecorded(f, func(frame []byte) {
		if class := int(frame[0])<<16 | len(frame)/64; !seen[class] {
			seen[class] = true
			f.Add(frame)
		}
	})
	f.Add(NewRouted(keyA, ToPeer(keyB.PublicKey()), &Ping{1, keyA.PublicKey()}, 2).AppendV3(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Decode(frame)
		if err != nil {
			return
		}
		once := Append(nil, m)
		again, err := Decode(once)
		if err != nil {
			t.Fatalf("%T written: %v", m, err)
		}
		if twice := Append(nil, again); !bytes.Equal(once, twice) {
			t.Fatalf("%T is written %x, then %x", m, once, twice)
		}
		if r, ok := m.(*Routed); ok {
			if r.Hash() != again.(*Routed).Hash() || r.Verify() != again.(*Routed).Verify() {
				t.Fatal("another hash or another verdict after writing")
			}
		}
	})
}

// FuzzBody: any body is refused, or decodes and encodes to the same bytes unless its borsh is not
// canonical.
func FuzzBody(f *testing.F) {
	seen := map[BodyKind]int{}
	eachRecorded(f, func(frame []byte) {
		if m, err := Decode(frame); err == nil {
			if r, ok := m.(*Routed); ok && seen[r.Body.BodyKind()] < 3 {
				seen[r.Body.BodyKind()]++
				f.Add(r.tagged)
			}
		}
	})
	for _, b := range anchoredBodies() {
		f.Add(NewRouted(keyA, ToPeer(keyB.PublicKey()), b, 0).tagged)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		var m Routed
		r := borsh.NewReaderWithin(in[1:], room(in))
		if m.readBody(r, BodyKind(in[0]), in); r.Close() != nil {
			return
		}
		if out := m.Body.AppendBorsh([]byte{in[0]}); !bytes.Equal(out, m.tagged) || !r.Loose() && !bytes.Equal(out, in) {
			t.Fatalf("%v is written %x, was %x", m.Body.BodyKind(), out, in)
		}
	})
}

// FuzzPayload: any signed payload is refused, or decodes.
func FuzzPayload(f *testing.F) {
	eachRecorded(f, func(frame []byte) {
		m, _ := Decode(frame)
		if d, ok := m.(*AccountsData); ok && len(d.Data) > 0 {
			f.Add(d.appendFields(nil))
		}
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		if accountsData.check(in) != nil {
			return
		}
		if m, err := readAccountsData(in); err == nil {
			for _, d := range m.(*AccountsData).Data {
				_ = d.IsNewer(d)
			}
		}
	})
}
