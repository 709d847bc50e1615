package lint

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns bounds comments in Go; TestPagesAreNarrowAndShort bounds Markdown.
const maxColumns = 120

// banned are constructions that docs/dev/style.md rules out, with what to write instead.
var banned = []struct {
	re      *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(who|whom|whoever)\b`), "name the peer, client, validator or caller"},
	{regexp.MustCompile(`\b(he|him|his|He|His)\b`), "it, or the peer, client, validator"},
	{regexp.MustCompile(`(?i)\b(somebody|nobody|anybody|everybody)\b`), "name the peer, client, validator or caller"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix"},
	{regexp.MustCompile(`(?i)\btells? whether\b`), "returns whether"},
	{regexp.MustCompile(`\bMust show\b`), "what the test or the page shows"},
	{regexp.MustCompile(`\b[Ii]ssues? #?[0-9]+\b`), "why, in a sentence"},
	{regexp.MustCompile(`\.\./shared\b`), "the folder that TROUPE_DATA names"},
}

// commitID is an abbreviated commit id: hex of 7 or 8 with a digit and a letter. nearcore's f0c7706f1 has nine.
var commitID = regexp.MustCompile(`\b[0-9a-f]{7,8}\b`)

func isCommitID(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdef") && s != "ed25519"
}

var pageName = regexp.MustCompile(`[\w./-]+\.md\b`)

// exemptProse are files whose subject is the banned words themselves, or texts that are quoted from neard.
var exemptProse = map[string]bool{"internal/testkit/lint/prose_test.go": true, "docs/dev/style.md": true}

func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	list := exec.Command("git", append([]string{"ls-files", "-z", "--"}, patterns...)...)
	list.Dir = filepath.Join("..", "..", "..")
	out, err := list.Output()
	if err != nil {
		t.Skipf("git ls-files: %v: not a checkout", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

func checkProse(t *testing.T, where, line string) {
	t.Helper()
	for _, b := range banned {
		if m := b.re.FindString(line); m != "" {
			t.Errorf("%s: %q: write %s", where, m, b.instead)
		}
	}
	for _, m := range commitID.FindAllString(line, -1) {
		if isCommitID(m) {
			t.Errorf("%s: abbreviated commit id %s", where, m)
		}
	}
}

// TestCommentsKeepTheStyle checks every comment of every Go file, build tags or not.
func TestCommentsKeepTheStyle(t *testing.T) {
	for _, name := range tracked(t, "*.go") {
		if exemptProse[name] {
			continue
		}
		path := filepath.Join("..", "..", "..", name)
		fset := token.NewFileSet()
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range f.Comments {
			for _, c := range g.List {
				if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "/*") {
					continue
				}
				p := fset.PositionFor(c.Pos(), false)
				where := name + ":" + strconv.Itoa(p.Line)
				checkProse(t, where, c.Text)
				if n := p.Column - 1 + utf8.RuneCountInString(c.Text); n > maxColumns && fullLine(text, p) {
					t.Errorf("%s: %d columns, at most %d", where, n, maxColumns)
				}
				for _, page := range pageName.FindAllString(c.Text, -1) {
					if !strings.Contains(c.Text, "://") && !exists(page) && !exists(filepath.Join(filepath.Dir(name), page)) {
						t.Errorf("%s: %s is no page of this repository", where, page)
					}
				}
			}
		}
	}
}

// fullLine returns whether nothing but the comment is on the line.
func fullLine(text []byte, p token.Position) bool {
	return strings.TrimSpace(string(text[p.Offset-p.Column+1:p.Offset])) == ""
}

// exists returns whether a page is in the repository, by its path from the root.
func exists(page string) bool {
	_, err := os.Stat(filepath.Join("..", "..", "..", page))
	return err == nil
}

// TestPagesKeepTheStyle checks README, CONTRIBUTING, CHANGELOG, SECURITY and docs.
func TestPagesKeepTheStyle(t *testing.T) {
	for _, page := range pages(t) {
		name := strings.TrimPrefix(filepath.ToSlash(page), "../../../")
		if exemptProse[name] {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
				continue
			}
			if !code {
				checkProse(t, name+":"+strconv.Itoa(i+1), line)
			}
		}
	}
}

// TestReadmeIsShort: README is short enough that a newcomer reads it to the end.
func TestReadmeIsShort(t *testing.T) {
	info, err := os.Stat(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 9<<10 {
		t.Errorf("README.md has %d bytes, at most %d", info.Size(), 9<<10)
	}
}
