package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	goPath   = regexp.MustCompile(`^[a-z0-9_/]+\.go$`)
)

// TestLayoutPageNamesEveryPackage compares the packages that docs/dev/layout.md names in its first
// section with those that exist, and checks that every file it names exists.
func TestLayoutPageNamesEveryPackage(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "dev", "layout.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables, where, ok := strings.Cut(string(text), "## Where do I change")
	if !ok {
		t.Fatalf("%s has no section \"Where do I change\"", page)
	}
	named := map[string]bool{}
	for _, line := range strings.Split(tables, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			named[m[1]] = true
		}
	}
	for _, p := range packages(t) {
		path := strings.TrimSuffix(folder(p.ImportPath), "/")
		if !named[path] {
			t.Errorf("%s does not name package %s", page, path)
		}
		delete(named, path)
	}
	for path := range named {
		t.Errorf("%s names %s, which is no package", page, path)
	}
	for _, m := range codeSpan.FindAllStringSubmatch(where, -1) {
		if !goPath.MatchString(m[1]) {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "..", "..", m[1])); err != nil {
			t.Errorf("%s names %s: %v", page, m[1], err)
		}
	}
}
