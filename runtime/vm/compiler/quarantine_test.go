package compiler

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestFailedCodeIsBarredAfterRestart checks that code which failed, or which was being compiled
// when the process ended, is barred in the next process, and that it is not barred in a process of
// another build.
func TestFailedCodeIsBarredAfterRestart(t *testing.T) {
	dir := t.TempDir()
	barred := func(build string, want ...string) *Quarantine {
		t.Helper()
		q := OpenQuarantine(dir, build)
		for _, name := range []string{"failed", "here", "child", "done", "nothing"} {
			_, is := q.Barred(name)
			wanted := false
			for _, w := range want {
				wanted = wanted || w == name
			}
			if is != wanted {
				t.Errorf("%s: barred %v, want %v", name, is, wanted)
			}
		}
		return q
	}
	q := barred("v1")
	q.Bar("failed", "a reason\nof two lines")
	q.Mark("here", InProcess)
	q.Mark("child", InChild)
	q.Mark("done", InProcess)
	q.Clear("done")
	q.Mark("nothing", InProcess)
	q.Unmark("nothing")
	q.Mark("failed", InProcess) // a block tries again, and the process ends: it stays barred
	q = barred("v1", "failed", "here")
	if why, _ := q.Barred("failed"); why != "a reason\nof two lines" {
		t.Errorf("why = %q", why)
	}
	for range maxInterrupted - 2 { // once more, and again
		q.Mark("child", InChild)
		q = barred("v1", "failed", "here")
	}
	q.Mark("child", InChild)
	q = barred("v1", "failed", "here", "child")
	q.Clear("here")
	q = barred("v1", "failed", "child")
	if q.Len() != 2 {
		t.Errorf("%d barred", q.Len())
	}
	barred("v2")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v: another build's marks are still there", files, err)
	}
}

// TestQuarantineIgnoresTwoKills checks that a node that was killed twice while a child compiled the
// same code compiles it again, and that success removes the mark.
func TestQuarantineIgnoresTwoKills(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		OpenQuarantine(dir, "v1").Mark("child", InChild)
	}
	q := OpenQuarantine(dir, "v1")
	if why, is := q.Barred("child"); is {
		t.Fatalf("barred: %s", why)
	}
	q.Mark("child", InChild)
	q.Clear("child")
	for range maxInterrupted - 1 {
		OpenQuarantine(dir, "v1").Mark("child", InChild)
	}
	if why, is := OpenQuarantine(dir, "v1").Barred("child"); is {
		t.Errorf("marks from before a success are counted: %s", why)
	}
}

// TestQuarantineIsBounded checks that marks are bounded in memory and on disk.
func TestQuarantineIsBounded(t *testing.T) {
	dir := t.TempDir()
	q := OpenQuarantine(dir, "v1")
	for i := range mostMarks + 10 {
		q.Bar(fmt.Sprint(i), "why")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != mostMarks || q.Len() != mostMarks {
		t.Errorf("%d files, %d barred, %v", len(files), q.Len(), err)
	}
	if _, is := q.Barred("9"); is {
		t.Error("the oldest is still barred")
	}
}

// TestQuarantineWorksWithoutDisk checks that a quarantine without a folder works in memory.
func TestQuarantineWorksWithoutDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", filepath.Join(file, "no")} {
		q := OpenQuarantine(dir, "v1")
		q.Mark("a", InProcess)
		q.Bar("a", "why")
		if why, is := q.Barred("a"); !is || why != "why" {
			t.Errorf("%q, %v", why, is)
		}
		q.Clear("a")
		if _, is := q.Barred("a"); is {
			t.Error("still barred")
		}
	}
}

// TestFailedMarkLeavesNoPartialFile checks that a mark that cannot be written, as on a full disk,
// leaves no partial file.
func TestFailedMarkLeavesNoPartialFile(t *testing.T) {
	dir := t.TempDir()
	q := OpenQuarantine(dir, "v1")
	if err := os.MkdirAll(filepath.Join(dir, "a", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	q.Mark("a", InChild)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v; want only the obstacle", files, err)
	}
}

// FuzzMark checks that bytes are either refused or the only encoding of the decoded mark.
func FuzzMark(f *testing.F) {
	f.Add((&mark{InChild, 1, "v1", "why"}).bytes())
	f.Add((&mark{"", 0, "\n", "why\n"}).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := parseMark(b); ok && !bytes.Equal(m.bytes(), b) {
			again, ok := parseMark(m.bytes())
			if !ok || again != m {
				t.Errorf("%q is read as %+v, and that as %+v", b, m, again)
			}
		}
	})
}
