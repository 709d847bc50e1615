package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// TestStoreHasWhatWasAppended: blocks are found by height, and by the hashes of what they contain,
// before and after a restart. Heights without a block have none.
func TestStoreHasWhatWasAppended(t *testing.T) {
	list := testChain(t, 20)
	dir := t.TempDir()
	o := Options{SegmentSize: 4000, GroupBlocks: 3}
	s := mustOpen(t, dir, o)
	checkHas(t, s, list, len(list))
	appendAll(t, s, list[8:])
	checkHas(t, s, list, 8)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, o)
	checkHas(t, s, list, 8)
	appendAll(t, s, list[:8])
	checkHas(t, s, list, 0)
	if _, err := s.Document(103); err != ErrNone {
		t.Errorf("a height without a block: %v", err)
	}
	if text, err := s.JSON(list[3].Block.Header.Height); err != nil || string(text) != string(list[3].AppendJSON(nil)) {
		t.Errorf("%v, %s", err, text)
	}
	names, err := filepath.Glob(filepath.Join(dir, logName, "*.seg"))
	if err != nil || len(names) < 3 || s.Stats().Bytes < 8000 {
		t.Errorf("%v, %v, %+v: the segments did not split", names, err, s.Stats())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(list[0], nil); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if _, err := s.JSON(101); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if err := s.Close(); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}

// TestOnlyTheNextBlockIsAppended: a block that is not the parent of the lowest one is refused, and the
// store stays usable.
func TestOnlyTheNextBlockIsAppended(t *testing.T) {
	list := testChain(t, 6)
	s := mustOpen(t, t.TempDir(), Options{})
	defer func() { _ = s.Close() }()
	appendAll(t, s, list[4:])
	for _, i := range []int{5, 4, 2, 0} {
		if err := s.Append(list[i], nil); !errors.Is(err, storage.ErrOrder) {
			t.Errorf("block %d below block 4: %v", i, err)
		}
	}
	appendAll(t, s, list[:4])
	checkHas(t, s, list, 0)
}

// TestUnprovenOutcomesReplaceNoPlace: an outcome that nothing proves cannot move a transaction or receipt of
// another block, whether that block is stored before or after it.
func TestUnprovenOutcomesReplaceNoPlace(t *testing.T) {
	list := testChain(t, 5)
	s := mustOpen(t, t.TempDir(), Options{})
	defer func() { _ = s.Close() }()
	forged := &list[2].Shards[0] // it claims what block 4 (above) and block 0 (below) have executed
	own := forged.Outcomes[1].ID
	for _, of := range []int{4, 0} {
		x := &list[of].Shards[0]
		forged.Transactions = append([]*blockdoc.Transaction{x.Transactions[0]}, forged.Transactions...)
		forged.Outcomes = append([]view.OutcomeProof{x.Outcomes[0]}, forged.Outcomes...)
		forged.Outcomes = append(forged.Outcomes, x.Outcomes[1])
	}
	for i := len(list) - 1; i >= 0; i-- {
		var unproven []primitives.ShardID
		if i == 2 {
			unproven = []primitives.ShardID{3}
		}
		if err := s.Append(list[i], progressAt(list[i]), unproven...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 3, 4} {
		x, want := &list[i].Shards[0], Place{list[i].Block.Header.Height, 3}
		tx, has, err := s.Transaction(x.Outcomes[0].ID)
		r, hasReceipt, rerr := s.Receipt(x.Outcomes[1].ID)
		if err != nil || rerr != nil || !has || !hasReceipt || tx != want || r != want {
			t.Errorf("block %d: %+v, %+v, %v, %v", want.Height, tx, r, err, rerr)
		}
	}
	if p, has, err := s.Receipt(own); err != nil || !has || p.Height != list[2].Block.Header.Height {
		t.Errorf("what only the forged block has: %+v, %v, %v", p, has, err)
	}
}

// TestReceiptsWithoutOutcomeHaveTheirChunk: data receipts of all blocks have a row, and the action receipts
// of the highest blocks, which blocks above the store may execute.
func TestReceiptsWithoutOutcomeHaveTheirChunk(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer func() { _ = s.Close() }()
	list := testChain(t, 4)
	for i, d := range list {
		if i != 1 {
			d.Shards[0].Receipts[0].Body = &primitives.ActionReceipt{}
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if i == 1 {
			s.writer.Lock()
			s.next.Blocks = sentBlocks
			s.writer.Unlock()
		}
		if err := s.Append(list[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true, true} {
		at, ok, err := s.Sent(list[i].Shards[0].Receipts[0].ID)
		if err != nil || ok != want || ok && at != (Place{list[i].Block.Header.Height, 3}) {
			t.Errorf("the receipt of block %d: %v, %v, %v", i, at, ok, err)
		}
	}
}

// TestFolderOfAnotherChainIsRefused: a store belongs to one chain, one format and one process.
func TestFolderOfAnotherChainIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) || Exists(dir) {
		t.Errorf("no store: %v", err)
	}
	s := mustOpen(t, dir, Options{})
	appendAll(t, s, testChain(t, 2))
	if _, err := Open(dir, Options{Genesis: genesisHash}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a store that is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Genesis: primitives.Hash{1}}); !errors.Is(err, storage.ErrForeign) {
		t.Errorf("another chain: %v", err)
	}
	r := mustOpen(t, dir, Options{ReadOnly: true})
	checkHas(t, r, testChain(t, 2), 0)
	if err := r.Append(testChain(t, 1)[0], nil); err == nil {
		t.Error("a store for reading was written")
	}
	if err := r.Close(); err != nil || !Exists(dir) {
		t.Error(err, Exists(dir))
	}
	if err := os.RemoveAll(filepath.Join(dir, indexName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Genesis: genesisHash}); !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("a lost index: %v", err)
	}
}

// copyDir copies a folder. A store that has it open is seen as a kill leaves it.
func copyDir(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestKillLeavesACommittedState: after a kill at any moment the store has the blocks of the last
// commit, and the import continues there. The log may have any part of what was written after the
// commit, and the journal of the index any part of the last batch.
func TestKillLeavesACommittedState(t *testing.T) {
	list := testChain(t, 9)
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{GroupBlocks: 3, SegmentSize: 2500})
	defer func() { _ = s.Close() }()
	check := func(dir string, from ...int) {
		t.Helper()
		k := mustOpen(t, dir, Options{GroupBlocks: 3, SegmentSize: 2500})
		got := len(list) - int(k.Stats().Blocks)
		if !slices.Contains(from, got) {
			t.Fatalf("blocks from %d on, want one of %v", got, from)
		}
		checkHas(t, k, list, got)
		appendAll(t, k, list[:got])
		checkHas(t, k, list, 0)
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	last := func(dir, pattern string) string {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		return names[len(names)-1]
	}
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	committed := len(list)
	for i := len(list) - 1; i >= 0; i-- {
		before := committed
		journal := size(last(dir, indexName+"/*.log"))
		start := s.at.Offset
		if err := s.Append(list[i], progressAt(list[i])); err != nil {
			t.Fatal(err)
		}
		if (len(list)-i)%3 == 0 {
			committed = i
		}
		check(copyDir(t, dir), committed)
		if committed != before { // the batch is in the journal: cut it
			end := size(last(dir, indexName+"/*.log"))
			for cut := journal; cut < end; cut += max(1, (end-journal)/5) {
				k := copyDir(t, dir)
				if err := os.Truncate(last(k, indexName+"/*.log"), cut); err != nil {
					t.Fatal(err)
				}
				check(k, before)
			}
			continue
		}
		// The record is not committed: cut the segment.
		seg := last(dir, logName+"/*.seg")
		for _, cut := range []int64{0, 1, recordFrame, size(seg) / 2, size(seg) - 1} {
			if filepath.Base(seg) == fmt.Sprintf(segmentName, s.at.Segment) && cut < start {
				continue
			}
			k := copyDir(t, dir)
			if err := os.Truncate(last(k, logName+"/*.seg"), cut); err != nil {
				t.Fatal(err)
			}
			check(k, committed)
		}
	}
}

// TestDamagedIndexIsReported: an index that cannot be read is reported with the folder to remove.
func TestDamagedIndexIsReported(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	appendAll(t, s, testChain(t, 3))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	each := func(dir, pattern string, do func(string) error) error {
		names, err := filepath.Glob(filepath.Join(dir, indexName, pattern))
		if len(names) == 0 {
			t.Fatal("no file is named ", pattern)
		}
		for _, name := range names {
			err = errors.Join(err, do(name))
		}
		return err
	}
	for name, hurt := range map[string]func(dir string) error{
		"manifest removed": func(dir string) error { return each(dir, "MANIFEST-*", os.Remove) },
		"manifest emptied": func(dir string) error {
			return each(dir, "MANIFEST-*", func(name string) error { return os.Truncate(name, 0) })
		},
		"index removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, indexName)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, dir)
			if err := hurt(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir, Options{Genesis: genesisHash})
			if !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "remove the folder "+dir) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDamageIsReported: a segment that is shorter than recorded, is missing, or has other bytes is
// reported with the remedy, and never read as a block.
func TestDamageIsReported(t *testing.T) {
	list := testChain(t, 8)
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{SegmentSize: 2500})
	appendAll(t, s, list)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, logName, "*.seg"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	first, last := filepath.Base(names[0]), filepath.Base(names[len(names)-1])
	at := func(dir, name string) string { return filepath.Join(dir, logName, name) }
	for name, hurt := range map[string]func(dir string) error{
		"last segment cut": func(dir string) error { return os.Truncate(at(dir, last), 40) },
		"segment removed":  func(dir string) error { return os.Remove(at(dir, first)) },
		"foreign file":     func(dir string) error { return os.WriteFile(at(dir, "x"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, dir)
			if err := hurt(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, Options{Genesis: genesisHash}); !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "move") {
				t.Errorf("%v", err)
			}
		})
	}
	for name, hurt := range map[string]func(*os.File) error{
		"a bit":      func(f *os.File) error { _, err := f.WriteAt([]byte{0xff, 0xfe, 0x01}, 70); return err },
		"first half": func(f *os.File) error { return f.Truncate(100) },
		"exchanged": func(f *os.File) error {
			b := make([]byte, 4)
			if _, err := f.ReadAt(b, 0); err != nil {
				return err
			}
			b = make([]byte, recordFrame+int(binary.LittleEndian.Uint32(b)))
			if _, err := f.ReadAt(b, 0); err != nil {
				return err
			}
			binary.LittleEndian.PutUint64(b[recordFrame:], 7) // a whole record, of another height
			binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[recordFrame:], castagnoli))
			_, err := f.WriteAt(b, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, dir)
			s := mustOpen(t, dir, Options{})
			defer func() { _ = s.Close() }()
			f, err := os.OpenFile(at(dir, first), os.O_RDWR, 0)
			if err == nil {
				err = errors.Join(hurt(f), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			top := list[len(list)-1].Block.Header.Height // the first record
			if _, err := s.Document(top); !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "remove the folder "+dir) {
				t.Errorf("%v", err)
			}
			if _, err := s.Document(list[0].Block.Header.Height); err != nil {
				t.Errorf("another block: %v", err)
			}
		})
	}
}

// TestFailedWriteIsForgotten: after a write that failed, the store has what was committed, and the
// import continues from there in another segment.
func TestFailedWriteIsForgotten(t *testing.T) {
	list := testChain(t, 9)
	for name, fail := range map[string]func(*Store){
		"segment": func(s *Store) { _ = s.cur.Close() },
		"index":   func(s *Store) { _ = s.db.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{GroupBlocks: 2})
			appendAll(t, s, list[5:])
			fail(s)
			err := s.Append(list[4], progressAt(list[4]))
			if err == nil {
				err = s.Append(list[3], progressAt(list[3]))
			}
			if err == nil {
				t.Fatal("no error")
			}
			if string(s.Progress()) != string(progressAt(list[5])) {
				t.Fatalf("progress %s", s.Progress())
			}
			appendAll(t, s, list[:5])
			checkHas(t, s, list, 0)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, dir, Options{})
			checkHas(t, s, list, 0)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFlushFindsOutWhatIsStored: the write of the index may report an error and yet be on disk. After the
// next Flush, Progress is that of the store, so that the import continues below the stored blocks.
func TestFlushFindsOutWhatIsStored(t *testing.T) {
	list := testChain(t, 6)
	s := mustOpen(t, t.TempDir(), Options{})
	defer func() { _ = s.Close() }()
	appendAll(t, s, list[4:])
	before := s.at
	for _, d := range []int{3, 2} {
		if err := s.Append(list[d], progressAt(list[d])); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	s.at, s.reopen = before, true // what an error of the sync leaves behind
	s.drop()
	if err := s.Flush(); err != nil || string(s.Progress()) != string(progressAt(list[2])) {
		t.Fatalf("progress %s, %v; want %s", s.Progress(), err, progressAt(list[2]))
	}
	appendAll(t, s, list[:2])
	checkHas(t, s, list, 0)
}

// TestReadersSeeWholeBlocks: readers may use the store while it is written.
func TestReadersSeeWholeBlocks(t *testing.T) {
	list := testChain(t, 60)
	s := mustOpen(t, t.TempDir(), Options{GroupBlocks: 2, SegmentSize: 5000, CacheBytes: 40_000})
	defer func() { _ = s.Close() }()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				low, high, ok := s.Bounds()
				for h := low; ok && h <= high; h++ {
					if d, err := s.Document(h); err != nil && err != ErrNone || err == nil && d.Block.Header.Height != h {
						t.Errorf("block %d: %v", h, err)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	appendAll(t, s, list)
	close(done)
	readers.Wait()
	checkHas(t, s, list, 0)
	if s.docs.bytes > s.docs.limit || len(s.docs.by) != s.docs.order.Len() || len(s.docs.by) == 0 {
		t.Errorf("the cache has %d documents with %d bytes", len(s.docs.by), s.docs.bytes)
	}
}

// FuzzRecord: the decoder of records accepts only what appendRecord wrote, and never panics.
func FuzzRecord(f *testing.F) {
	c := new(coder)
	rec := c.appendRecord(nil, 7, primitives.Hash{1}, []byte(strings.Repeat("text ", 50)))
	f.Add(rec)
	f.Add(rec[:recordPrefix])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		height, hash, text, err := c.decodeRecord(b)
		if err != nil {
			if !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("%v", err)
			}
			return
		}
		h, x, again, err := c.decodeRecord(c.appendRecord(nil, height, hash, text))
		if err != nil || h != height || x != hash || string(again) != string(text) {
			t.Errorf("%d, %v, %q, %v; want %d, %v, %q", h, x, again, err, height, hash, text)
		}
	})
}

// TestAlteredRecordIsRefused: each altered byte of a record is noticed.
func TestAlteredRecordIsRefused(t *testing.T) {
	c := new(coder)
	rec := c.appendRecord(nil, 7, primitives.Hash{1}, []byte(strings.Repeat("text ", 50)))
	for i := range rec {
		for _, bit := range []byte{1, 0x80} {
			bad := slices.Clone(rec)
			bad[i] ^= bit
			if _, _, _, err := c.decodeRecord(bad); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("byte %d: %v", i, err)
			}
		}
	}
	big := c.appendRecord(nil, 7, primitives.Hash{}, nil)
	if len(big) > recordPrefix+16 || blockdoc.MaxDocument > maxRecord {
		t.Errorf("%d bytes for an empty text", len(big))
	}
}
