package compiler

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChildWritesArtifactToFile checks that a child writes its artifact to the given file, also in
// a retry after another child died, that an artifact above the limit is not written, that without a
// file the artifact is in the reply, and that a child cannot write a longer file than the limit.
func TestChildWritesArtifactToFile(t *testing.T) {
	dir := t.TempDir()
	limits := func(int, bool) Limits { l := LimitsOf(100, false); l.Output = 1 << 20; return l }
	for _, c := range []struct {
		name, does string
		file       bool
		want       string // of the file, or of what is returned
		fails      bool
	}{
		{"a file", "make", true, "xxxx", false},
		{"none", "make", false, "xxxx", false},
		{"a child that dies", "once " + filepath.Join(dir, "once") + " kill", true, "made", false},
		{"too long", "long", true, "", true},
		{"refused", "refuse", true, "", true},
	} {
		p := newPool(t, func(o *Options) { o.Limits = limits })
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte("what was there before"), 0o600); err != nil {
			t.Fatal(err)
		}
		j, asked, told := job(c.name, c.does), 0, 0
		j.File = func() string {
			if asked++; !c.file {
				return ""
			}
			return path
		}
		var w Written
		j.Wrote = func(of string, got Written) {
			if told++; of != path {
				t.Errorf("%s: %s was written", c.name, of)
			}
			w = got
		}
		code, err := p.Compile(j)
		if (err != nil) != c.fails || asked != 1 {
			t.Errorf("%s: err = %v, %d requests for a file name", c.name, err, asked)
		}
		inFile := c.file && !c.fails
		if inFile != (told == 1) || inFile && code != nil {
			t.Errorf("%s: %d reports of a written file, %d bytes returned", c.name, told, len(code))
		}
		if inFile {
			if code, err = os.ReadFile(path); err != nil || checkFile(path, w) != nil {
				t.Errorf("%s: %v, %v", c.name, err, checkFile(path, w))
			}
			for _, other := range []Written{{w.Size + 1, w.Sum}, {w.Size, w.Sum + 1}} {
				if checkFile(path, other) == nil {
					t.Errorf("%s: checkFile accepts %+v", c.name, other)
				}
			}
		}
		if string(code) != c.want {
			t.Errorf("%s: %q, want %q", c.name, code, c.want)
		}
	}
	for _, background := range []bool{false, true} {
		p, j := newPool(t, func(o *Options) { o.Limits = limits }), job("forgotten", "make")
		j.Background = background
		j.File, j.Wrote = func() string { return os.DevNull }, func(string, Written) { t.Error("told of a file that has nothing") }
		if code, err := p.Compile(j); err != nil || string(code) != "xxxx" {
			t.Errorf("a file that keeps nothing: %q, %v", code, err)
		}
	}
	p, path := newPool(t, func(o *Options) { o.Limits = limits }), filepath.Join(dir, "flood")
	_, err := p.Compile(job("flood", "flood "+path))
	var failed *Error
	if info, e := os.Stat(path); !errors.As(err, &failed) || !strings.Contains(failed.Reason, "file") || e != nil || info.Size() > 1<<20 {
		t.Errorf("a child that writes without end: %v, %v", err, info)
	}
}
