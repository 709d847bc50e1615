package rpc

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// schemaLine is a method with the schemas of its parameters, result and errors, or a type that
// these name, as near-jsonrpc-primitives 0.38.0 derives them.
type schemaLine struct {
	Method                string // "GET status": of a path that is got; empty: of the envelope
	Params, Result, Error map[string]any
	Type                  string
	Schema                map[string]any
}

// TestSchemasAreThoseOfNearcoresTypes compares the document with the types of nearcore 2.14: members,
// required members, enums, what may be null. The differences are those of
// testdata/schema-differences.txt, each with its reason.
func TestSchemasAreThoseOfNearcoresTypes(t *testing.T) {
	text, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	ours := readSchemas(t, text)
	theirs := &schemas{components: map[string]any{}, done: map[string]normal{}}
	var lines []*schemaLine
	for l := range testutil.Values[schemaLine](t, "testdata/answers/schemas.jsonl.gz") {
		if l.Type != "" {
			theirs.components[l.Type] = l.Schema
		} else {
			lines = append(lines, l)
		}
	}
	var found []string
	say := func(d string) { found = append(found, d) }
	compared := map[string]bool{}
	for _, l := range lines {
		if l.Method == "" || strings.HasPrefix(l.Method, "GET ") {
			continue
		}
		r := byName[l.Method]
		if r == nil {
			found = append(found, "- "+l.Method)
			continue
		}
		compared[r.name] = true
		if l.Params["type"] != "null" { // else whatever is sent is ignored
			differ(l.Method+" params", theirs.norm(l.Params), ours.norm(dig(ours.components["Request_"+l.Method], "properties", "params")), say)
		}
		reply := ours.components["Response_"+r.name].(map[string]any)["oneOf"].([]any)
		differ(l.Method+" result", theirs.norm(l.Result), ours.norm(dig(reply[0], "properties", "result")), say)
		if l.Error["type"] != "null" { // else the method cannot fail
			differ(l.Method+" error", theirs.norm(l.Error), ours.norm(ours.components["Cause_"+r.name]), say)
		}
	}
	for i := range methods {
		if r := &methods[i]; !compared[r.name] {
			found = append(found, "+ "+r.name)
		}
	}
	if len(theirs.components) < 200 || len(compared) < 38 {
		t.Errorf("%d types, %d methods", len(theirs.components), len(compared))
	}
	explain(t, found, "testdata/schema-differences.txt")
}
