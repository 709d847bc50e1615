package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

var writeReference = flag.Bool("pages", false, "write docs/CONFIG.md again")

const referenceFile = "../../docs/CONFIG.md"

const referenceHead = `# config.json

Every key that is read, or checked and kept: what it may be, what it is when it is missing, and what it does here. Made of the table that
checks the file (go test ./internal/config -run TestReference -pages). Keys that are not here are warned of and kept. ` + "`//`" + ` comments are allowed. Durations
are ` + "`{\"secs\": n, \"nanos\": n}`" + `. What the keys amount to on a running node is told by the method client_config.

| key | may be | missing | |
|---|---|---|---|
`

var readmeRow = regexp.MustCompile("(?m)^\\| `((?:troupe|network)\\.[^`]*)` \\| [^|]* \\| (.*) \\|$")

// reference is the text of docs/CONFIG.md.
func reference(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]string{}
	for _, m := range readmeRow.FindAllStringSubmatch(string(readme), -1) {
		own[m[1]] = strings.ReplaceAll(m[2], "](docs/", "](") // this page is in docs itself
	}
	whole, _, err := Parse("config.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, path := range slices.Sorted(maps.Keys(schema())) {
		r := schema()[path]
		if r.kind == kObject && !slices.Contains(open, path) {
			continue // its members are told
		}
		missing := ""
		if v, ok := whole.Document.Get(path); ok {
			missing = "`" + compact(v) + "`"
		}
		for i := range limits.Table {
			if l := &limits.Table[i]; path == "troupe.rpc."+l.Key {
				if missing = fmt.Sprintf("`%d`", l.Default); l.Time != nil {
					missing = time.Duration(l.Default).String()
				} else if l.Share != 0 {
					missing += fmt.Sprintf(", or 1/%d of the machine's memory if that is more", l.Share)
				}
			}
		}
		about := own[path]
		if why, inert := withoutEffect(path); inert {
			about = "no effect: " + why
		} else if about == "" {
			about = "as in neard"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", path, r, missing, about)
	}
	return b.String()
}

// TestReference: docs/CONFIG.md says of every key what the table says that checks the file.
func TestReference(t *testing.T) {
	want := reference(t)
	if *writeReference {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current, -pages writes it again: %v", referenceFile, err)
	}
	if n := strings.Count(want, "\n| `"); n < 150 {
		t.Errorf("%d keys", n)
	}
	for _, line := range strings.Split(want, "\n") {
		if strings.HasPrefix(line, "| `troupe.") && strings.HasSuffix(line, "as in neard |") {
			t.Errorf("the README says nothing of %s", line)
		}
	}
}
