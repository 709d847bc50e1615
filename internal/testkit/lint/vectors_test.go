package lint

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVectorsPageNamesExistingTests: every test that docs/dev/vectors.md names stands in the folder
// it names.
func TestVectorsPageNamesExistingTests(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/dev/vectors.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{} // "folder Test"
	for _, p := range packages(t) {
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			f, _ := parse(t, filepath.Join(p.Dir, file), 0)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					tests[strings.TrimSuffix(folder(p.ImportPath), "/")+" "+fn.Name.Name] = true
				}
			}
		}
	}
	// a folder with one or more of its tests: "chain/epoch TestMainnetSeatsMatchVectorA3, TestReplayMatchesRecordedChains"
	const test = `(?:Test|Fuzz)[A-Z]\w*`
	var named [][2]string
	for _, m := range regexp.MustCompile(`([a-z][a-z/0-9]*) (`+test+`(?:, `+test+`)*)`).FindAllStringSubmatch(string(doc), -1) {
		for _, name := range strings.Split(m[2], ", ") {
			named = append(named, [2]string{m[1], name})
		}
	}
	if len(named) < 70 {
		t.Errorf("docs/dev/vectors.md names %d tests, want 70 or more", len(named))
	}
	for _, n := range named {
		if !tests[n[0]+" "+n[1]] {
			t.Errorf("docs/dev/vectors.md: there is no %s in %s", n[1], n[0])
		}
	}
}
