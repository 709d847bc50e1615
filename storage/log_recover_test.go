package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// journalOf names the newest journal of an index among a folder's files.
func journalOf(files map[string]string) (newest string) {
	for name := range files {
		if strings.HasPrefix(name, indexName+"/") && strings.HasSuffix(name, ".log") {
			newest = max(newest, name)
		}
	}
	return newest
}

// wholeHead opens a folder and wants the crash chain up to a height in it.
func wholeHead(t *testing.T, files map[string]string, what string, height primitives.Height) {
	t.Helper()
	dir := t.TempDir()
	writeDir(t, dir, files)
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer func() { _ = s.Close() }()
	head := s.Tip().Head
	if head.Height != height {
		t.Fatalf("%s: head %v, want height %d", what, head, height)
	}
	for i := range crashKeys {
		shard, key := crashKey(i)
		got, err := s.ValueAt(head, shard, key)
		want := crashValue(i, height)
		if !bytes.Equal(got, want) || want == nil != errors.Is(err, ErrNotFound) {
			t.Fatalf("%s: key %d = %q, %v, want %q", what, i, got, err, want)
		}
	}
}

// TestInterruptedRecoveryCanBeRepeated starts from an index with two journals, as a kill in the
// middle of a flush leaves it. Its recovery is interrupted at any moment because the disk is full.
// Afterwards the store opens with everything that was stored.
func TestInterruptedRecoveryCanBeRepeated(t *testing.T) {
	dir := t.TempDir()
	if _, err := growCrashChain(t, osDisk{dir}, 30); err != nil {
		t.Fatal(err)
	}
	first := readDir(t, dir)
	height, err := growCrashChain(t, osDisk{dir}, 10)
	if err != nil {
		t.Fatal(err)
	}
	both := readDir(t, dir)
	// These files have what the second run wrote to its journal and to the log, appended to what
	// the first run left, as if nothing had been flushed.
	files := maps.Clone(first)
	files[journalOf(both)] = both[journalOf(both)]
	for name, b := range both {
		if strings.HasPrefix(name, logName+"/") {
			files[name] = b
		}
	}
	if journalOf(first) == journalOf(both) {
		t.Fatal("one journal")
	}
	wholeHead(t, files, "two journals", height)
	cut := 0
	for left := int64(0); ; left += 200 {
		dir := t.TempDir()
		writeDir(t, dir, files)
		d := &faultDisk{disk: osDisk{dir}}
		d.left.Store(left)
		s, err := open(d, testOptions())
		if err == nil {
			_ = s.Close()
			break
		}
		cut++
		wholeHead(t, readDir(t, dir), fmt.Sprintf("cut off after %d bytes", left), height)
	}
	if cut < 10 {
		t.Errorf("cut off %d times only", cut)
	}
}

// TestLostIndexPageIsRebuilt: a power cut may destroy any unsynced page of the index. Open rebuilds
// all that was on it.
func TestLostIndexPageIsRebuilt(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.NoSync, o.WriteBuffer = false, 1<<20
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := newModel(t, 9)
	importGenesis(t, s, m)
	for range 40 {
		m.commit(s, m.head, true)
	}
	synced := readDir(t, dir)
	journal := journalOf(synced)
	v := s.view.Load()
	chain, err := finalChain(v, v.final)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range chain { // an advance of the flat head that did not reach its sync
		var batch Batch
		keys := p.body.Load().keys
		for j := range keys {
			undo.Put(&batch, undoKey{0, keys[j].flat, p.ref.Height}, &undoValue{keys[j].shard, keys[j].item})
		}
		pad := Raw(make([]byte, 2000))
		Misc.Put(&batch, fmt.Sprint("pad ", i), &pad)
		if err := s.db.write(&batch, false); err != nil {
			t.Fatal(err)
		}
	}
	files := readDir(t, dir)
	from, to := len(synced[journal]), len(files[journal])
	if to-from < 4*4096 {
		t.Fatalf("%d bytes that are not synced", to-from)
	}
	for page := from/4096 + 1; (page+1)*4096 <= to; page++ {
		broken := maps.Clone(files)
		b := []byte(files[journal])
		clear(b[page*4096 : (page+1)*4096])
		broken[journal] = string(b)
		dir := t.TempDir()
		writeDir(t, dir, broken)
		again, err := Open(dir, o)
		if err != nil {
			t.Fatalf("page %d lost: %v", page, err)
		}
		m.check(again)
		if err := again.AdvanceFlatHead(m.final, nil); err == nil {
			m.check2(again)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// check2 is check after an advance to the last final block, if the model allows one.
func (m *model) check2(s *Store) {
	m.t.Helper()
	was := *m
	m.blocks = maps.Clone(m.blocks)
	m.folded = s.Tip().FlatHead
	for ref := range m.blocks {
		if !m.isAncestor(ref, m.folded) && !m.isAncestor(m.folded, ref) {
			delete(m.blocks, ref)
		}
	}
	m.check(s)
	*m = was
}

// lastSegment returns the name of the newest log segment among a folder's files, and that of the
// segment after it.
func lastSegment(files map[string]string) (last, next string) {
	n := -1
	for name := range files {
		var k int
		if _, err := fmt.Sscanf(name, logName+"/%d"+segmentSufix, &k); err == nil {
			n = max(n, k)
		}
	}
	return logName + "/" + segmentName(uint32(n)), logName + "/" + segmentName(uint32(n+1))
}

// TestReappearedEmptySegmentIsAccepted: a power cut may bring back, empty, a segment whose creation
// failed, although the segment before it has got more records and reserved space since. The folder
// opens then, and also after the empty segment has got records.
func TestReappearedEmptySegmentIsAccepted(t *testing.T) {
	dir := t.TempDir()
	if _, err := growCrashChain(t, osDisk{dir}, 10); err != nil {
		t.Fatal(err)
	}
	files := readDir(t, dir)
	last, next := lastSegment(files)
	files[last] += strings.Repeat("\x00", 5000)
	files[next] = ""
	dir = t.TempDir()
	writeDir(t, dir, files)
	for _, n := range []int{1, 0, 7} { // with one block, recovery still begins in the segment before
		height, err := growCrashChain(t, osDisk{dir}, n)
		if err != nil {
			t.Fatalf("%d more blocks: %v", n, err)
		}
		wholeHead(t, readDir(t, dir), "it has grown", height)
	}
	if got := readDir(t, dir); len(got[next]) == 0 {
		t.Errorf("%s has no record", next)
	}
}

// TestBrokenSegmentBeforeLastIsDamage: a segment is complete and synced before the next one gets a
// record. So if the last record of a segment before the last one is broken, that is damage, even if
// the index does not know of the records.
func TestBrokenSegmentBeforeLastIsDamage(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := newModel(t, 9)
	importGenesis(t, s, m)
	for s.log.end.Segment < 3 {
		m.commit(s, m.head, true)
	}
	files := readDir(t, dir) // as a kill leaves it
	name := logName + "/" + segmentName(2)
	for what, broken := range map[string]string{
		"a byte":   files[name][:len(files[name])-1] + "\xff",
		"the end":  files[name][:len(files[name])-100] + strings.Repeat("\x00", 100),
		"appended": files[name] + "\x00",
	} {
		t.Run(what, func(t *testing.T) {
			bad := maps.Clone(files)
			bad[name] = broken
			dir := t.TempDir()
			writeDir(t, dir, bad)
			again, err := Open(dir, o)
			if err == nil {
				_ = again.Close()
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), segmentName(2)) {
				t.Errorf("got %v, want ErrDamaged of %s", err, segmentName(2))
			}
		})
	}
}
