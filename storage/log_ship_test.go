package storage

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// TestShippedLogIsEqual: a replica that applies the log stores the same records in the same order,
// on all branches and over rewinds, from any position on. An unpacked record packs to the same
// bytes.
func TestShippedLogIsEqual(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		m := newModel(t, seed)
		s, err := OpenMemory(NewMemDisk(), testOptions())
		if err != nil {
			t.Fatal(err)
		}
		importGenesis(t, s, m)
		follower, err := OpenMemory(NewMemDisk(), testOptions())
		if err != nil {
			t.Fatal(err)
		}
		importGenesis(t, follower, m)
		var at LogPlace
		var all []LogRecord
		follow := func(most int) {
			t.Helper()
			n := 0
			next, err := s.Log().Records(at, func(x LogRecord) bool {
				if x.At.Compare(at) < 0 || x.Next.Compare(x.At) <= 0 {
					t.Fatalf("a record from %v to %v behind %v", x.At, x.Next, at)
				}
				all = append(all, x)
				n++
				if x.Rewind {
					to, err := RewindTarget(x.Payload)
					if err != nil || to != x.Ref {
						t.Fatalf("a way back to %v, want %v: %v", to, x.Ref, err)
					}
					if err := follower.Rewind(to); err != nil {
						t.Fatal(err)
					}
					return n < most
				}
				b, err := Unpack(x.Payload)
				if err != nil {
					t.Fatal(err)
				}
				if b.Ref != x.Ref || b.Prev != x.Prev {
					t.Fatalf("block %v on %v, want %v on %v", b.Ref, b.Prev, x.Ref, x.Prev)
				}
				if again, _ := b.encode().bytes(); !bytes.Equal(again, x.Payload) {
					t.Fatalf("block %v packs to another record", b.Ref)
				}
				if err := follower.Commit(b); err != nil {
					t.Fatal(err)
				}
				return n < most
			})
			if err != nil {
				t.Fatal(err)
			}
			at = next
		}
		for range 12 {
			for range m.rng.IntN(12) {
				b := m.overlay(s.Tip().Head, true)
				if err := s.Commit(b); err != nil {
					t.Fatal(err)
				}
				m.add(b)
				if m.rng.IntN(4) == 0 {
					if side := m.overlay(b.Prev, false); side.Ref.Height > s.Tip().FlatHead.Height {
						_ = s.Commit(side)
					}
				}
				if m.rng.IntN(6) == 0 {
					name := Raw("row")
					var rows Batch
					Misc.Put(&rows, "a row of its own", &name)
					if err := s.Write(&rows); err != nil {
						t.Fatal(err)
					}
				}
			}
			if m.rng.IntN(2) == 0 {
				follow(1 + m.rng.IntN(4))
			}
			if m.rng.IntN(3) == 0 {
				tip := s.Tip()
				back, err := s.Block(tip.Head)
				if err != nil {
					t.Fatal(err)
				}
				if tip.Head != tip.FlatHead && s.Rewind(back.Prev()) == nil {
					m.head, m.final = back.Prev(), s.Tip().Final
				}
			}
		}
		follow(1 << 20)
		if got, want := follower.Tip(), s.Tip(); got.Head != want.Head || got.Final != want.Final {
			t.Fatalf("seed %d: the follower stands at %v, final %v; want %v, %v", seed, got.Head, got.Final, want.Head, want.Final)
		}
		if end, err := s.Log().End(); err != nil || end != at {
			t.Fatalf("the log ends at %v, followed to %v: %v", end, at, err)
		}
		for i := range all { // from each place on the same comes
			var got []LogRecord
			if _, err := s.Log().Records(all[i].At, func(x LogRecord) bool { got = append(got, x); return len(got) < 3 }); err != nil {
				t.Fatal(err)
			}
			if want := all[i:min(i+3, len(all))]; !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: from %v on comes something else", seed, all[i].At)
			}
			if p, err := ParseLogPlace(all[i].At.String()); err != nil || p != all[i].At {
				t.Fatalf("%v is read as %v: %v", all[i].At, p, err)
			}
		}
		if _, err := s.Log().Records(LogPlace{at.Segment, at.Offset + 8}, func(LogRecord) bool { return true }); !errors.Is(err, ErrDamaged) {
			t.Errorf("behind the end: %v", err)
		}
		if len(all) > 0 {
			p := all[0].At
			p.Offset++
			if _, err := s.Log().Records(p, func(LogRecord) bool { return true }); !errors.Is(err, ErrDamaged) {
				t.Errorf("in the middle of a record: %v", err)
			}
		}
	}
}

// TestUnpackDetectsChangedBytes: every changed byte of a record is detected, except in the parts of
// its head that no checksum covers. A change there leads to another block or to an error.
func TestUnpackDetectsChangedBytes(t *testing.T) {
	m := newModel(t, 7)
	g := m.genesis
	b := m.overlay(g, true)
	payload, headLen := b.encode().bytes()
	for i := range payload {
		bad := bytes.Clone(payload)
		bad[i] ^= 1 << (i % 8)
		got, err := Unpack(bad)
		if err != nil {
			continue
		}
		if i >= recordPrefix+headLen {
			t.Fatalf("byte %d of the frames changed without an error", i)
		}
		if again, _ := got.encode().bytes(); bytes.Equal(again, payload) {
			t.Fatalf("byte %d of the head changed and the record packs to the same bytes", i)
		}
	}
	for n := range payload {
		if _, err := Unpack(payload[:n]); err == nil {
			t.Fatalf("a record of %d bytes was cut to %d and nobody noticed", len(payload), n)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	m := newModel(&testing.T{}, 9)
	payload, _ := m.overlay(m.genesis, true).encode().bytes()
	f.Add(payload)
	f.Fuzz(func(t *testing.T, in []byte) {
		if b, err := Unpack(in); err == nil && b.Ref.IsZero() && len(in) == 0 {
			t.Error("a block of nothing")
		}
	})
}
