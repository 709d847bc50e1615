package lint

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// widestLine is the largest number of columns of a line of code, with a tab as one.
const widestLine = 140

// wide lists the folders whose code is not wrapped yet.
const wide = "internal/blockfeed internal/backend internal/testkit/refmodel chain/blockdoc storage/history " +
	"actors/historyimport"

// TestLinesOfCodeAreNotTooWide: apart from generated files, lines that are within a raw string and
// lines with a string of 80 columns or more, code has at most widestLine columns.
func TestLinesOfCodeAreNotTooWide(t *testing.T) {
	files := 0
	for _, p := range packages(t) {
		if within(strings.TrimSuffix(folder(p.ImportPath), "/"), wide) {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(text), "// Code generated") {
				continue
			}
			files++
			exempt := longStrings(text)
			for i, line := range strings.Split(string(text), "\n") {
				if n := utf8.RuneCountInString(line); n > widestLine && !exempt[i+1] {
					t.Errorf("%s:%d has %d columns, at most %d", path, i+1, n, widestLine)
				}
			}
		}
	}
	if files < 500 {
		t.Errorf("only %d files were read", files)
	}
}

// longStrings returns the lines, counted from 1, that a string of at least 80 columns or of several
// lines is on.
func longStrings(text []byte) map[int]bool {
	out, fset := map[int]bool{}, token.NewFileSet()
	f := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out
		}
		lines := strings.Count(lit, "\n")
		if tok != token.STRING || lines == 0 && utf8.RuneCountInString(lit) < 80 {
			continue
		}
		first := f.Line(pos)
		for i := range lines + 1 {
			out[first+i] = true
		}
	}
}
