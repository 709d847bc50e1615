package validator

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// readOld reads a slot like the code before slots were padded to slotGrain.
func readOld(t *testing.T, name string) (uint64, string) {
	b, err := os.ReadFile(filepath.Clean(name))
	if err != nil || len(b) < slotHead || len(b) > slotHead+maxRow {
		return 0, ""
	}
	n := binary.LittleEndian.Uint64(b[8:])
	if n > uint64(len(b)-slotHead) {
		return 0, ""
	}
	row := b[slotHead : slotHead+n]
	if sum := sumOf(b[:16], row); string(sum[:]) != string(b[16:slotHead]) {
		return 0, ""
	}
	return binary.LittleEndian.Uint64(b), string(row)
}

// TestJournalSlotsHoldRowsOfAnyLength: slots of any length can be read and overwritten by longer
// and shorter ones, and older code can read padded slots. A write that is cut anywhere leaves the
// previous row readable.
func TestJournalSlotsHoldRowsOfAnyLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signed")
	row := make([]byte, 3*slotGrain/2)
	for i := range row {
		row[i] = byte(i)
	}
	for seq, n := range []int{5000, 5100} { // sequence number 1 is in slot 1
		b := binary.LittleEndian.AppendUint64(nil, uint64(seq+1))
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
		sum := sumOf(b, row[:n])
		if err := os.WriteFile([]string{path + ".1", path + ".0"}[seq], append(append(b, sum[:]...), row[:n]...),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenJournal(path)
	if err != nil || string(f.Row()) != string(row[:5100]) {
		t.Fatal(err, len(f.Row()))
	}
	for i, n := range []int{10, 6000, slotGrain - slotHead, slotGrain - slotHead + 1, 0} {
		before := string(f.Row())
		if err := f.Write(row[:n]); err != nil {
			t.Fatal(err)
		}
		name := []string{path + ".0", path + ".1"}[f.seq%2]
		if seq, got := readOld(t, name); seq != f.seq || got != string(row[:n]) {
			t.Errorf("write %d is not readable by code without padding: %d", i, seq)
		}
		whole, err := os.ReadFile(filepath.Clean(name))
		if err != nil || len(whole)%slotGrain != 0 && n > 5100 {
			t.Error(err, len(whole))
		}
		for _, cut := range []int{0, 1, 8, 17, slotHead - 1, slotHead + n/2} {
			if n == 0 && cut >= slotHead {
				continue
			}
			torn := append([]byte{}, whole...)
			for k := cut; k < len(torn); k++ {
				torn[k] ^= 0x5a
			}
			if err := os.WriteFile(name, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			if g, err := OpenJournal(path); err != nil || string(g.Row()) != before {
				t.Errorf("write %d cut at %d: %v", i, cut, err)
			} else {
				g.Close()
			}
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
}
