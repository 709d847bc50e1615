package storage

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

var update = flag.Bool("update", false, "write golden files")

// TestColumnTableMatchesGoldenFile compares the table of columns and section kinds with a printed
// copy, so that an ID that changes shows up in a diff.
func TestColumnTableMatchesGoldenFile(t *testing.T) {
	var b strings.Builder
	for _, c := range columnTable {
		if c != nil && c.id != testColumn.id {
			fmt.Fprintf(&b, "%#02x %s %s %s -> %s\n", c.id, c.name, c.rule, c.key, c.value)
		}
	}
	for k := range kind(255) {
		if name := k.String(); !strings.HasPrefix(name, "kind ") && name != "" {
			fmt.Fprintf(&b, "section %d %s\n", k, name)
		}
	}
	const golden = "testdata/columns.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("columns:\n%s\nwant:\n%s", b.String(), want)
	}
}

var testColumn = column[uint64, Raw](0xfe, "Test", Replace, func(b []byte, k uint64) []byte { return append(b, byte(k)) })

func TestColumnWithReusedIDPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second column with the same ID did not panic")
		}
	}()
	column[string, Raw](0xfe, "Other", Replace, appendText)
}

func TestColumnErrorNamesKey(t *testing.T) {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	_, err = blockHeight.Get(s.db, 7)
	if !errors.Is(err, ErrNotFound) || err.Error() != "BlockHeight 7: not found" {
		t.Errorf("err = %v, want %q", err, "BlockHeight 7: not found")
	}
	var b Batch
	hash := hashOf("x")
	blockHeight.Put(&b, 7, &hash)
	b.put([]byte{blockHeight.id, 0, 0, 0, 0, 0, 0, 0, 8}, []byte{1, 2})
	if err := s.db.write(&b, false); err != nil {
		t.Fatal(err)
	}
	if got, err := blockHeight.Get(s.db, 7); err != nil || got != hash {
		t.Errorf("Get = %v, %v, want %v", got, err, hash)
	}
	if _, err := blockHeight.Get(s.db, 8); !errors.Is(err, ErrDamaged) {
		t.Errorf("short value: err = %v, want ErrDamaged", err)
	}
	var seen []primitives.Height
	err = blockHeight.Scan(s.db, nil, nil, func(key []byte, _ primitives.Hash) bool { seen = append(seen, heightOf(key)); return true })
	if !errors.Is(err, ErrDamaged) || len(seen) != 1 {
		t.Errorf("Scan saw %v, %v", seen, err)
	}
}
