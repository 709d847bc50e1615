package rpc

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestUnknownMembersOfOwnMethodsAreRefused: each method of our own refuses an unknown member
// without any effect; nearcore's methods ignore it, as in nearcore.
func TestUnknownMembersOfOwnMethodsAreRefused(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	own := 0
	for i := range methods {
		r := &methods[i]
		nearcores := r.name == "sandbox_patch_state" || r.name == "sandbox_fast_forward"
		if ours := strings.HasPrefix(r.name, "sandbox_") || strings.HasPrefix(r.name, "troupe_"); ours && !nearcores && !r.own {
			t.Errorf("%s takes whatever is sent", r.name)
		}
		if !r.own {
			continue
		}
		own++
		good := goodParams[r.name]
		if good == "" {
			good = "null"
		}
		var d document
		if err := d.parse([]byte(good)); err != nil {
			t.Fatalf("%s: text %s", r.name, err.text)
		}
		if err := r.parse(val{&d, 0}); err != nil {
			t.Errorf("%s %s: error %v", r.name, good, err)
		}
		params := `{"zzzzzzzz":1}`
		if strings.HasPrefix(good, "{") && good != "{}" {
			params = `{"zzzzzzzz":1,` + good[1:]
		}
		text := parseText(t, s, r.name, params)
		if text == nil || !strings.HasPrefix(*text, "unknown field `zzzzzzzz`, ") && !strings.HasPrefix(*text, "unknown variant `zzzzzzzz`, ") && !strings.Contains(*text, "map with a single key") {
			t.Errorf("%s %s: show %s", r.name, params, show(text))
		}
	}
	if own < 30 {
		t.Errorf("%d methods of our own", own)
	}
	for _, x := range []struct{ method, params, want string }{
		{"sandbox_mine", `{"block":3}`, "unknown field `block`, did you mean `blocks`?"},
		{"sandbox_set_production", `{"mod":"manual"}`, "unknown field `mod`, did you mean `mode`?"},
		{"sandbox_set_clock", `{"timestamp":5}`, "unknown field `timestamp`, did you mean `timestamp_nanosec`?"},
		{"sandbox_revert", `{"idd":"a"}`, "unknown field `idd`, did you mean `id`?"},
		{"sandbox_deal", `{"token":"a.near","account_id":"b.near","amount":"1"}`, "unknown field `token`, did you mean `token_id`?"},
		{"sandbox_snapshots", `{"id":1}`, "unknown field `id`, there are no fields"},
		{"sandbox_snapshot", `{"quiet":1}`, "unknown field `quiet`, expected `name`"},
		{"sandbox_worlds", `[1]`, "invalid length 1, expected fewer elements in array"},
		{"sandbox_worlds", `5`, "invalid type: integer `5`, expected no parameters"},
	} {
		if got := parseText(t, s, x.method, x.params); show(got) != x.want {
			t.Errorf("%s %s: %s, want %s", x.method, x.params, show(got), x.want)
		}
	}
}

// TestReasonKeepsTextAfterThePrefix: only leading package names are removed, of an error and of the
// errors that it wraps.
func TestReasonKeepsTextAfterThePrefix(t *testing.T) {
	panicked := "Smart contract panicked: wrong: state: closed"
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"package name in the middle", panicked, errors.New(panicked)},
		{"prefixes before it", panicked, errors.New("engine: storage: " + panicked)},
		{"wrapped", "apply block 7: " + panicked, fmt.Errorf("engine: apply block 7: %w", errors.New("vm: "+panicked))},
		{"wrapped twice, prefix only", panicked, fmt.Errorf("engine: %w", fmt.Errorf("state: %w", errors.New(panicked)))},
		{"inner text not at the end", "no trie: state: 5 (retry)", fmt.Errorf("trie: no trie: %w (retry)", errors.New("state: 5"))},
		{"prefix alone", "state", errors.New("engine: state")},
		{"joined", panicked + "\nvm: x", errors.Join(errors.New("engine: "+panicked), errors.New("vm: x"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reason(c.err); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestReasonsNameNoPackages: no text for a client begins with the name of a package, for every
// method and error.
func TestReasonsNameNoPackages(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{})
	const want = "the clock can't be set so: no trie: 5"
	for _, err := range []error{
		fmt.Errorf("engine: storage: the clock can't be set so: %w", errors.New("trie: no trie: 5")),
		&view.SandboxError{Reason: "producer: the clock can't be set so: no trie: 5"},
	} {
		n.err = err
		for i := range methods {
			r := &methods[i]
			_, reply := callMethod(s, r.name, goodParams[r.name])
			if strings.Contains(reply, "clock") && (!strings.Contains(reply, want) || strings.Contains(reply, "engine: ") || strings.Contains(reply, "producer: ")) {
				t.Errorf("%s: reply %s", r.name, reply)
			}
		}
	}
	// The names are those of this module's packages.
	names := map[string]bool{}
	const root = ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err == nil && f.Name.Name != "main" {
			names[f.Name.Name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range names {
		if !packages[name] {
			t.Errorf("package %s is not among those whose names reasons lose", name)
		}
	}
	for name := range packages {
		if !names[name] {
			t.Errorf("there is no package %s", name)
		}
	}
}
