package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var mdLink = regexp.MustCompile(`\]\(([^)\s#:]+)(#[^)]*)?\)`)

// TestLinksLeadToExistingFiles: links from pages to files of the repository are checked.
func TestLinksLeadToExistingFiles(t *testing.T) {
	links := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mdLink.FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links only", links)
	}
}

// TestPagesAreNarrowAndShort: lines of prose have at most 120 columns, and the pages that are
// written by hand stay short enough to be read as a whole.
func TestPagesAreNarrowAndShort(t *testing.T) {
	const widest, most = 120, 300 << 10
	bytes := 0
	for _, page := range pages(t) {
		if strings.Contains(page, filepath.Join("docs", "rpc")) || strings.HasSuffix(page, filepath.Join("operate", "config.md")) {
			continue // generated
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page, "docs") {
			bytes += len(text)
		}
		fence := false
		for i, line := range strings.Split(string(text), "\n") {
			fence = fence != strings.HasPrefix(line, "```")
			if n := utf8.RuneCountInString(line); n > widest && !fence && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns, at most %d", page, i+1, n, widest)
			}
		}
	}
	if bytes > most {
		t.Errorf("docs has %d bytes without generated pages, at most %d", bytes, most)
	}
}

// pages are the Markdown files of the root and of docs.
func pages(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
