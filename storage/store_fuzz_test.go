package storage

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// value is what every column holds.
type value interface {
	borsh.Appender
	borsh.Decoder
}

// fuzzBlock is a block with something of everything.
func fuzzBlock() *Block {
	m := newModel(new(testing.T), 4)
	for {
		b := m.overlay(m.head, true)
		if m.add(b); b.Prev != m.genesis && len(b.Splits) > 0 {
			return b
		}
	}
}

// FuzzRecord passes arbitrary bytes to the readers of the log. They must not panic or allocate
// much, and must read back what a writer made.
func FuzzRecord(f *testing.F) {
	w := fuzzBlock().encode()
	payload, _ := w.bytes()
	f.Add(payload)
	f.Fuzz(func(t *testing.T, in []byte) {
		h, raw, data, err := parseRecord(in)
		if err != nil {
			return
		}
		if again := h.AppendBorsh(nil); !bytes.Equal(again, raw) {
			t.Errorf("head: %x became %x", raw, again)
		}
		for i := range h.Sections {
			s := &h.Sections[i]
			offset := s.offset
			for _, fr := range s.Frames {
				if offset < 0 || offset+fr.Stored > len(data) || fr.Raw > 1<<20 { // large zeros are legal, and slow
					break
				}
				fr.CRC = checksum(data[offset : offset+fr.Stored])
				items, err := unpackFrame(fr, data[offset:offset+fr.Stored])
				if err == nil && len(items) != fr.Items {
					t.Errorf("%d items, want %d", len(items), fr.Items)
				}
				offset += fr.Stored
			}
		}
	})
}

// FuzzItems feeds items of sections to their parsers; what parses must encode to the same again.
func FuzzItems(f *testing.F) {
	b := fuzzBlock()
	for i := range b.Shards {
		s := &b.Shards[i]
		for j := range s.Changes {
			f.Add(appendChange(nil, &s.Changes[j], nil))
		}
		for _, r := range s.Outgoing {
			f.Add(appendInside(nil, r.ID, r.Value))
		}
	}
	f.Add(appendNamed(nil, hashOf("x"), []byte("tx"), nil))
	ids := append(bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)...)
	f.Fuzz(func(t *testing.T, in []byte) {
		if c, err := parseChange(in, ids); err == nil {
			again, err := parseChange(appendChange(nil, &c, nil), nil)
			if err != nil || !bytes.Equal(again.Key, c.Key) || !bytes.Equal(again.Old, c.Old) || len(again.Changes) != len(c.Changes) {
				t.Errorf("change %+v became %+v, %v", c, again, err)
			}
		}
		if tx, outcome, err := parseNamed(in, ids); err == nil {
			again, _, err := parseNamed(appendNamed(nil, tx.Hash, tx.Value, nil), nil)
			if err != nil || again.Hash != tx.Hash || !bytes.Equal(again.Value, tx.Value) || outcome >= 2 {
				t.Errorf("transaction %+v became %+v, %v", tx, again, err)
			}
		}
		if r, err := parseInside(in); err == nil {
			again, err := parseInside(appendInside(nil, r.ID, r.Value))
			if err != nil || again.ID != r.ID || !bytes.Equal(again.Value, r.Value) {
				t.Errorf("receipt %+v became %+v, %v", r, again, err)
			}
		}
	})
}

// FuzzCells feeds bytes to the decoders of the index's values and keys.
func FuzzCells(f *testing.F) {
	e := entry{at: position{1, 2}, head: fuzzBlock().encode().head}
	for kind, v := range []borsh.Appender{&e, packed(make([]byte, 80)), undoValue{3, 4}, frontierValue{hashOf("x"), 5}, segmentInfo{6},
		&flatHeadCell{Block: BlockRef{1, hashOf(1)}, From: position{2, 3}, To: position{4, 5}}, Uint64(7), &Split{1, 2, 3}} {
		f.Add(byte(kind), v.AppendBorsh(nil))
	}
	f.Add(byte(8), appendUndoKey(nil, undoKey{7, "a\x00b", 9}))
	f.Add(byte(9), appendPointer(nil, pointer{hashOf("id"), 1 << 40, 300, 1 << 20}))
	f.Add(byte(10), testIdentity.mark())
	var rows Batch
	rows.put([]byte("key"), nil)
	rows.delete([]byte("another"))
	f.Add(byte(11), rows.b)
	f.Fuzz(func(t *testing.T, which byte, in []byte) {
		switch which {
		case 8:
			if k, ok := parseUndoKey(in); ok && !bytes.Equal(appendUndoKey(nil, k), in) {
				t.Errorf("undo key %x became %x", in, appendUndoKey(nil, k))
			}
			return
		case 9:
			if p, ok := parsePointer(in); ok && len(in) < 30 {
				if q, ok := parsePointer(appendPointer(nil, p)); !ok || q != p {
					t.Errorf("pointer %+v became %+v", p, q)
				}
			}
			return
		case 10:
			if id, format, err := parseMark(in); err == nil && format == formatVersion && !bytes.Equal(id.mark(), in) {
				t.Errorf("marker %q became %q", in, id.mark())
			}
			return
		case 11:
			if b, err := parseBatch(in); err == nil {
				again := new(Batch)
				b.each(func(key, value []byte) {
					if value == nil {
						again.delete(key)
					} else {
						again.put(key, value)
					}
				})
				if !bytes.Equal(again.b, in) || again.n != b.n {
					t.Errorf("batch %x became %x", in, again.b)
				}
			}
			return
		}
		values := []value{&entry{}, new(packed), &undoValue{}, &frontierValue{}, &segmentInfo{}, &flatHeadCell{}, new(Uint64), new(Split)}
		v := values[int(which)%len(values)]
		if borsh.Unmarshal(in, v) != nil {
			return
		}
		again := v.AppendBorsh(nil)
		if _, ok := v.(*packed); ok { // another compressor may have made it
			w := new(packed)
			if err := borsh.Unmarshal(again, w); err != nil || !bytes.Equal(*w, *v.(*packed)) {
				t.Errorf("packed %x became %x, %v", *v.(*packed), *w, err)
			}
		} else if !bytes.Equal(again, in) {
			t.Errorf("%T: %x became %x", v, in, again)
		}
	})
}

func TestFlatRangesCoverOneShard(t *testing.T) {
	got := flatRanges(3, AccountRange{Lo: "m"}, []byte("\x05"), []byte("\x09n"))
	want := []flatRange{{"\x05m", "\x06"}, {"\x06m", "\x07"}, {"\x07\x00\x00\x00\x00\x00\x00\x00\x03", "\x07\x00\x00\x00\x00\x00\x00\x00\x04"}, {"\x08m", "\x09"}, {"\x09m", "\x09n"}}
	if len(got) != len(want) {
		t.Fatalf("ranges = %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("range %d = %q, want %q", i, got[i], want[i])
		}
	}
	if got := flatRanges(0, AccountRange{}, []byte{byte(primitives.ColContractData)}, []byte{byte(primitives.ColContractData)}); len(got) != 0 {
		t.Errorf("empty range = %q", got)
	}
}
