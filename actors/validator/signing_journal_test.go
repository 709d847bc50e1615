package validator

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTornJournalRowFallsBackToPrevious: a row is read after a restart. If the newest write was
// torn, the previous row is read. If both slots are corrupt, opening fails.
func TestTornJournalRowFallsBackToPrevious(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signed")
	open := func() *Journal {
		t.Helper()
		f, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	if f.Row() != nil {
		t.Fatalf("a new file has %q", f.Row())
	}
	long := bytes.Repeat([]byte{7}, 5000)
	rows := [][]byte{[]byte("one"), long, []byte("three"), []byte("four")}
	for _, row := range rows {
		if err := f.Write(row); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if f = open(); !bytes.Equal(f.Row(), row) {
			t.Fatalf("row %.20q, want %.20q", f.Row(), row)
		}
	}
	f.Close()
	if row, err := ReadRow(path); err != nil || string(row) != "four" {
		t.Errorf("%q is read, %v", row, err)
	}
	newest := path + ".0" // the fourth write
	raw, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range [][]byte{nil, raw[:10], raw[:slotHead], append(append([]byte{}, raw[:slotHead]...), 'F'),
		append([]byte{raw[0] ^ 1}, raw[1:]...)} {
		if err := os.WriteFile(newest, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		f := open()
		if string(f.Row()) != "three" {
			t.Errorf("after %d torn bytes: row %.20q", len(torn), f.Row())
		}
		if err := f.Write([]byte("five")); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if f = open(); string(f.Row()) != "five" {
			t.Errorf("row after a write that follows a torn one: %.20q", f.Row())
		}
		f.Close()
	}
	for _, name := range []string{path + ".0", path + ".1"} {
		if err := os.WriteFile(name, []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("rubbish is taken for a validator that has signed nothing")
	}
	if row, err := ReadRow(path); err == nil {
		t.Errorf("rubbish is read as %q", row)
	}
	if err := os.Remove(path + ".0"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("a corrupt file beside a missing one opens as an empty journal")
	}
}

// TestJournalTornAtFirstWriteIsEmpty: a power failure during the first write leaves one torn and
// one empty file. The journal opens as empty, because nothing was sent before.
func TestJournalTornAtFirstWriteIsEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signed")
	f, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	raw, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) != slotGrain {
		t.Errorf("a slot of %d bytes", len(raw))
	}
	for n := range slotHead + len("one") {
		if err := os.WriteFile(path+".1", raw[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if row, err := ReadRow(path); err != nil || row != nil {
			t.Fatalf("first write torn after %d bytes: row %q, %v", n, row, err)
		}
		f, err := OpenJournal(path)
		if err != nil || f.Row() != nil {
			t.Fatalf("first write torn after %d bytes: %v", n, err)
		}
		f.Close()
	}
	if f, err = OpenJournal(path); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"one", "two"} {
		if err := f.Write([]byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	for _, name := range []string{".0", ".1"} {
		if err := os.WriteFile(path+name, raw[:3], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("two files torn at the second write open as an empty journal")
	}
}
