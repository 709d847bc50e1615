package storage

import (
	"errors"
	"maps"
	"strings"
	"testing"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// fullLog is a disk that fills up, on which the index has room of its own.
type fullLog struct{ *faultDisk }

func (d fullLog) openIndex() (lstorage.Storage, error) { return d.faultDisk.disk.openIndex() }

// TestFullDiskSplitsGroupCommit: if the disk fills up while several blocks are committed together,
// those that fit are stored, and the rest can be committed later.
func TestFullDiskSplitsGroupCommit(t *testing.T) {
	d := fullLog{&faultDisk{disk: osDisk{t.TempDir()}}}
	d.left.Store(1 << 40)
	s, err := open(d, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := newModel(t, 1)
	importGenesis(t, s, m)
	m.commit(s, m.head, true)
	all := []*Block{m.overlay(m.head, true)}
	record, _ := all[0].encode().bytes()
	room := int64(recordHeader + len(record))
	for _, left := range []int64{0, 10, room - 1} { // not even for the first
		d.left.Store(left)
		if n, err := s.CommitAll(all); n != 0 || !errors.Is(err, ErrFull) {
			t.Fatalf("room for %d of %d bytes: %d, %v, want 0, ErrFull", left, room, n, err)
		}
		m.check(s)
	}
	m.add(all[0])
	all = append(all, m.next(m.head, true), m.next(m.head, true))
	d.left.Store(room)
	if n, err := s.CommitAll(all); n != 1 || !errors.Is(err, ErrFull) {
		t.Fatalf("room for one of three: %d, %v, want 1, ErrFull", n, err)
	}
	if got := s.Tip().Head; got != all[0].Ref {
		t.Errorf("head %v, want %v", got, all[0].Ref)
	}
	d.left.Store(1 << 40)
	if n, err := s.CommitAll(all[1:]); n != 2 || err != nil {
		t.Fatalf("with room again: %d, %v", n, err)
	}
	m.check(s)
}

// TestTornGroupIsEndOfLog: after a power cut the later of two records that shared a sync may be
// whole and the earlier one torn. Then the log ends before the torn record. But if the whole record
// was written after the torn one was synced, that is damage.
func TestTornGroupIsEndOfLog(t *testing.T) {
	o := testOptions()
	o.NoSync, o.SegmentSize = false, DefaultSegment
	dir := t.TempDir()
	m := newModel(t, 5)
	reopen := func() *Store {
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := reopen()
	importGenesis(t, s, m)
	m.commit(s, m.head, true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := readDir(t, dir) // the index knows no more than this: it is not synced with the blocks
	s = reopen()
	refs := []BlockRef{m.head}
	var ends []int64
	for _, n := range []int{3, 2} {
		var all []*Block
		for range n {
			b := m.next(m.head, true)
			all, refs = append(all, b), append(refs, b.Ref)
		}
		if n, err := s.CommitAll(all); err != nil || n != len(all) {
			t.Fatalf("CommitAll: %d, %v", n, err)
		}
	}
	for _, ref := range refs {
		e, err := s.entry(ref)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, e.end().Offset)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after := readDir(t, dir)
	segment := ""
	for name := range after {
		if strings.HasPrefix(name, logName) {
			segment = max(segment, name)
		}
	}
	for _, tt := range []struct {
		torn int // the record of this block
		upTo int // the length of what the power cut left, in records
		head int // -1: damaged
	}{
		{torn: 3, upTo: 3, head: 2}, // the last of the first group
		{torn: 2, upTo: 3, head: 1}, // its second, before the third
		{torn: 1, upTo: 3, head: 0},
		{torn: 1, upTo: 4, head: -1}, // the second group was written after the first was synced
		{torn: 3, upTo: 5, head: -1},
		{torn: 4, upTo: 5, head: 3},
	} {
		files := maps.Clone(before)
		log := []byte(after[segment])[:ends[tt.upTo]]
		log[ends[tt.torn]-1] ^= 1
		files[segment] = string(log)
		dir = t.TempDir()
		writeDir(t, dir, files)
		s, err := Open(dir, o)
		if tt.head < 0 {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%+v: %v, want ErrDamaged", tt, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if got := s.Tip().Head; got != refs[tt.head] {
			t.Errorf("%+v: head %v, want %v", tt, got, refs[tt.head])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
