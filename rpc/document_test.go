package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/openapi"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// schemas reads an OpenAPI document and normalises its schemas, so that two that allow the same
// values are equal, whatever their names and structure.
type schemas struct {
	paths      map[string]any
	components map[string]any
	done       map[string]normal
}

// normal is the set of alternatives of a value, by their text.
type normal map[string]*alternative

// alternative is a text or number of a kind, a list, or an object.
type alternative struct {
	kind    string // "string", "u64", `"text"`, "null", "any", "list", "object", "map"
	items   []normal
	members map[string]memberOf
	closed  bool
}

type memberOf struct {
	required bool
	of       normal
	standing string // JSON of the default; empty: none is stated
}

func (n normal) String() string { return strings.Join(slices.Sorted(maps.Keys(n)), " | ") }

func (a *alternative) String() string {
	var b strings.Builder
	b.WriteString(a.kind)
	for _, it := range a.items {
		fmt.Fprintf(&b, "[%v]", it)
	}
	if a.closed {
		b.WriteString("!")
	}
	for _, k := range slices.Sorted(maps.Keys(a.members)) {
		m := a.members[k]
		fmt.Fprintf(&b, "{%s %v: %v = %s}", k, m.required, m.of, m.standing)
	}
	return b.String()
}

func one(a *alternative) normal { return normal{a.String(): a} }

func readSchemas(t *testing.T, text []byte) *schemas {
	t.Helper()
	var d struct {
		Paths      map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return &schemas{d.Paths, d.Components.Schemas, map[string]normal{}}
}

// norm is the normal form of a schema.
func (s *schemas) norm(v any) normal {
	m, ok := v.(map[string]any)
	if !ok {
		panic(fmt.Sprintf("%v is no schema", v))
	}
	var parts []normal                  // all of them apply
	nullable, _ := m["nullable"].(bool) // as OpenAPI 3.0 has it, in which nearcore's document is
	if kinds, ok := m["type"].([]any); ok {
		m = maps.Clone(m)
		m["type"], nullable = kinds[0], len(kinds) == 2 && kinds[1] == "null"
	}
	if r, ok := m["$ref"].(string); ok {
		name := r[strings.LastIndexByte(r, '/')+1:]
		if s.done[name] == nil {
			if s.components[name] == nil {
				panic("no component " + name)
			}
			s.done[name] = s.norm(s.components[name])
		}
		parts = append(parts, s.done[name])
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if list, ok := m[word].([]any); ok {
			union := normal{}
			for _, x := range list {
				maps.Copy(union, s.norm(x))
			}
			parts = append(parts, union)
		}
	}
	if list, ok := m["allOf"].([]any); ok {
		for _, x := range list {
			parts = append(parts, s.norm(x))
		}
	}
	if own := s.own(m); own != nil {
		parts = append(parts, own)
	}
	if parts == nil {
		return one(&alternative{kind: "any"})
	}
	out := parts[0]
	for _, p := range parts[1:] {
		out = both(out, p)
	}
	if nullable {
		out = maps.Clone(out)
		maps.Copy(out, one(&alternative{kind: "null"}))
	}
	return out
}

// own is the normal form of a schema's own keywords, without its parts.
func (s *schemas) own(m map[string]any) normal {
	if list, ok := m["enum"].([]any); ok {
		out := normal{}
		for _, x := range list {
			a := &alternative{kind: "null"}
			if x != nil {
				a.kind = fmt.Sprintf("%q", x)
			}
			maps.Copy(out, one(a))
		}
		return out
	}
	switch m["type"] {
	case "null":
		return one(&alternative{kind: "null"})
	case "string":
		return one(&alternative{kind: "string"})
	case "boolean":
		return one(&alternative{kind: "bool"})
	case "integer", "number":
		return one(&alternative{kind: fmt.Sprintf("%v from %v to %v", m["format"], m["minimum"], m["maximum"])})
	case "array":
		a := &alternative{kind: fmt.Sprintf("list of %v", m["minItems"])}
		tuple, ok := m["prefixItems"].([]any)
		if !ok {
			tuple, ok = m["items"].([]any) // nearcore's
		}
		if ok {
			for _, x := range tuple {
				a.items = append(a.items, s.norm(x))
			}
		} else {
			a.items = []normal{s.norm(m["items"])}
		}
		return one(a)
	case "object":
		extra, has := m["additionalProperties"].(map[string]any)
		if has {
			return one(&alternative{kind: "map", items: []normal{s.norm(extra)}})
		}
		a := &alternative{kind: "object", closed: m["additionalProperties"] == false, members: map[string]memberOf{}}
		required, _ := m["required"].([]any)
		properties, _ := m["properties"].(map[string]any)
		for k, v := range properties {
			a.members[k] = memberOf{slices.Contains(required, any(k)), s.norm(v), standing(v)}
		}
		if len(a.members) == 0 && (m["oneOf"] != nil || m["anyOf"] != nil || m["allOf"] != nil) {
			return nil
		}
		return one(a)
	}
	return nil
}

// standing is the default that a schema states, without members that are null.
func standing(schema any) string {
	v, ok := schema.(map[string]any)["default"]
	if !ok {
		return ""
	}
	text, err := json.Marshal(withoutNulls(v))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func withoutNulls(v any) any {
	if m, ok := v.(map[string]any); ok {
		maps.DeleteFunc(m, func(_ string, x any) bool { return withoutNulls(x) == nil })
	}
	return v
}

// both is the intersection of two.
func both(x, y normal) normal {
	out := normal{}
	for _, a := range x {
		for _, b := range y {
			switch {
			case a.kind == "any":
				maps.Copy(out, one(b))
			case b.kind == "any":
				maps.Copy(out, one(a))
			case a.kind == "object" && b.kind == "object":
				c := &alternative{kind: "object", closed: a.closed || b.closed, members: maps.Clone(a.members)}
				maps.Copy(c.members, b.members)
				maps.Copy(out, one(c))
			}
		}
	}
	return out
}

// differ reports where two differ: with - what only theirs has, with + what only ours has.
func differ(at string, theirs, ours normal, say func(string)) {
	var lacks, more []*alternative
	for k, a := range theirs {
		if ours[k] == nil {
			lacks = append(lacks, a)
		}
	}
	for k, a := range ours {
		if theirs[k] == nil {
			more = append(more, a)
		}
	}
	byText := func(a, b *alternative) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(lacks, byText)
	slices.SortFunc(more, byText)
	for _, a := range lacks { // similar alternatives are compared in detail
		i := slices.IndexFunc(more, func(b *alternative) bool { return a.like(b) })
		if i < 0 {
			say("- " + at + ": " + a.short())
			continue
		}
		b := more[i]
		more = slices.Delete(more, i, i+1)
		switch {
		case a.kind == "object" && a.closed != b.closed:
			say(fmt.Sprintf("± %s: closed %v, ours %v", at, a.closed, b.closed))
		case len(a.items) > 0:
			for i := range a.items {
				differ(at+"[]", a.items[i], b.items[i], say)
			}
		}
		keys := maps.Clone(a.members)
		maps.Copy(keys, b.members)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			x, in := a.members[k]
			y, here := b.members[k]
			switch {
			case !here:
				say("- " + at + "." + k)
			case !in:
				say("+ " + at + "." + k)
			default:
				if x.required != y.required {
					say(fmt.Sprintf("± %s.%s: required %v, ours %v", at, k, x.required, y.required))
				}
				if x.standing != y.standing {
					say(fmt.Sprintf("± %s.%s: %s if it is missing, ours %s", at, k, x.standing, y.standing))
				}
				differ(at+"."+k, x.of, y.of, say)
			}
		}
	}
	for _, b := range more {
		say("+ " + at + ": " + b.short())
	}
}

// like returns whether two alternatives correspond: objects with the same distinguishing member,
// lists of one length.
func (a *alternative) like(b *alternative) bool {
	if a.kind != b.kind || len(a.items) != len(b.items) {
		return false
	}
	return a.kind != "object" || a.sign() == b.sign()
}

// sign is the text that distinguishes an object within its union.
func (a *alternative) sign() string {
	for _, k := range []string{"name", "request_type", "changes_type", "type"} {
		if m, ok := a.members[k]; ok && len(m.of) == 1 && strings.HasPrefix(m.of.String(), `"`) {
			return k + m.of.String() + a.anchor()
		}
	}
	if a.closed && len(a.members) == 1 {
		return slices.Collect(maps.Keys(a.members))[0]
	}
	return a.anchor()
}

func (a *alternative) anchor() (out string) {
	for _, k := range []string{"block_id", "finality", "sync_checkpoint", "chunk_id", "epoch_id", "latest", "signed_tx_base64", "result", "error"} {
		if m, ok := a.members[k]; ok && m.required {
			out += " " + k
		}
	}
	return out
}

func (a *alternative) short() string {
	if s := a.sign(); s != "" {
		return s
	}
	if s := a.String(); len(s) < 100 {
		return s
	}
	return a.kind + " of " + strings.Join(slices.Sorted(maps.Keys(a.members)), " ")
}

var nearcoreDocument = testutil.Data("openapi.json")

// TestDocumentAgreesWithNearcores compares the generated document with nearcore's: paths, members,
// required members, every enum. The differences are those of testdata/openapi-differences.txt, each
// with its reason.
func TestDocumentAgreesWithNearcores(t *testing.T) {
	text, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	theirText, err := os.ReadFile(nearcoreDocument)
	if err != nil {
		t.Skip("nearcore's document is not part of the repository (docs/dev/testing.md): ", err)
	}
	ours, theirs := readSchemas(t, text), readSchemas(t, theirText)
	var found []string
	for _, path := range slices.Sorted(maps.Keys(theirs.paths)) {
		if ours.paths[path] == nil {
			found = append(found, "- "+path)
			continue
		}
		for _, side := range [][]string{{"requestBody"}, {"responses", "200"}} {
			at := append(append([]string{"post"}, side...), "content", "application/json", "schema")
			differ(path+" "+side[0], theirs.norm(dig(theirs.paths[path], at...)), ours.norm(dig(ours.paths[path], at...)), func(d string) {
				found = append(found, d)
			})
		}
		if id := dig(ours.paths[path], "post", "operationId"); id != path[1:] {
			t.Errorf("%s is called %v", path, id)
		}
	}
	for path := range ours.paths {
		if theirs.paths[path] == nil {
			found = append(found, "+ "+path)
		}
	}
	explain(t, found, "testdata/openapi-differences.txt")
}

// explain fails the test for each difference without a reason in a file, and for each reason
// without a difference.
func explain(t *testing.T, found []string, file string) {
	t.Helper()
	slices.Sort(found)
	reasons := readReasons(t, file)
	used := map[string]bool{}
	for _, f := range slices.Compact(found) {
		ok := false
		for pattern := range reasons {
			if matches(pattern, f) {
				used[pattern], ok = true, true
			}
		}
		if !ok {
			t.Errorf("without a reason: %s", f)
		}
	}
	for pattern := range reasons {
		if !used[pattern] {
			t.Errorf("is no difference (any more): %s", pattern)
		}
	}
}

// TestDocumentDescribesEveryMethod: the document describes the parameters and result of every
// method, and every fault.
func TestDocumentDescribesEveryMethod(t *testing.T) {
	if lacks, err := openapi.Lacks(documented()); err != nil || len(lacks) > 0 {
		t.Errorf("shapes.txt lacks %v, %v", lacks, err)
	}
	if lacks, err := openapi.Lacks([]openapi.Method{{Name: "nope", Faults: []openapi.Fault{{Name: "NOPE", Fields: true}}}}); len(lacks) != 2 {
		t.Errorf("an unknown method lacks %v, %v", lacks, err)
	}
	s := newServer(t, &fakeNode{}, Options{})
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI("/openapi.json")
	s.Handle(&ctx)
	if want, err := openAPI(); err != nil || ctx.Response.StatusCode() != 200 || !bytes.Equal(ctx.Response.Body(), want) {
		t.Errorf("GET /openapi.json: %d, %d bytes, %v", ctx.Response.StatusCode(), len(ctx.Response.Body()), err)
	}
}

// dig returns what is at a path of members.
func dig(v any, path ...string) any {
	for _, k := range path {
		v = v.(map[string]any)[k]
	}
	return v
}

// readReasons reads patterns of differences and their reasons, "pattern  # reason" each on a line.
func readReasons(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, reason, ok := strings.Cut(line, " # ")
		if pattern = strings.TrimSpace(pattern); !ok || reason == "" || out[pattern] != "" {
			t.Errorf("%s: %q has no reason, or occurs twice", file, line)
		}
		out[pattern] = reason
	}
	return out
}

// matches returns whether a text matches a pattern, in which * matches anything.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	if len(parts) == 1 {
		return text == pattern
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// TestDocumentIsJSONSchema: a strict validator of draft 2020-12, which OpenAPI 3.1 uses, accepts
// every schema, and no keyword of OpenAPI 3.0 is left.
func TestDocumentIsJSONSchema(t *testing.T) {
	text, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertVocabs()
	if err := c.AddResource("http://localhost/openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(dig(doc, "components", "schemas").(map[string]any)))
	for _, name := range names {
		if _, err := c.Compile("http://localhost/openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if len(names) < 300 {
		t.Errorf("%d schemas", len(names))
	}
	for _, old := range []string{`"nullable"`, `"items": [`} {
		if bytes.Contains(text, []byte(old)) {
			t.Errorf("the document has %s, which is of OpenAPI 3.0", old)
		}
	}
	if dig(doc, "openapi") != "3.1.0" || len(dig(doc, "servers").([]any)) == 0 {
		t.Errorf("openapi %v, servers %v", dig(doc, "openapi"), dig(doc, "servers"))
	}
}
