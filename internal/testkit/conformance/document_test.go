package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-chain/troupe/rpc"
)

// checker checks replies against the server's OpenAPI document: kinds, enums, required members, and
// that there are no members that the document does not name.
type checker struct {
	components map[string]any
	paths      map[string]any
	seen       map[string]int // replies by method, and by method and fault
	strict     *jsonschema.Compiler
}

// newChecker fetches a server's document.
func newChecker(t *testing.T, c Client) *checker {
	t.Helper()
	reply, err := c(Request{Method: "GET", Path: "/openapi.json"})
	var d struct {
		Paths      map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err == nil {
		err = json.Unmarshal([]byte(reply.Body), &d)
	}
	if err != nil || len(d.Paths) < 40 {
		t.Fatalf("%d paths, %v", len(d.Paths), err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(reply.Body))
	if err != nil {
		t.Fatal(err)
	}
	strict := jsonschema.NewCompiler() // draft 2020-12, as OpenAPI 3.1 has it
	if err := strict.AddResource(documentURL, doc); err != nil {
		t.Fatal(err)
	}
	return &checker{d.Components.Schemas, d.Paths, map[string]int{}, strict}
}

const documentURL = "http://localhost/openapi.json"

// validate checks a reply with a validator of JSON Schema. It allows members that the document does
// not name, but of the choices of a oneOf exactly one must fit.
func (c *checker) validate(response, body string) string {
	s, err := c.strict.Compile(documentURL + "#/components/schemas/" + response)
	if err != nil {
		return err.Error()
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err == nil {
		v.(map[string]any)["id"] = "any"
		err = s.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// reply checks the body of a reply and returns the error, "" if it conforms. Requests that name no
// method are not checked.
func (c *checker) reply(r Request, got Reply) string {
	if r.Method != "POST" || !strings.HasPrefix(got.Headers["content-type"], "application/json") {
		return ""
	}
	var call struct{ Method string }
	if r.Path != "/" {
		call.Method = r.Path[1:]
	} else if json.Unmarshal([]byte(r.Body), &call) != nil {
		return ""
	}
	path, ok := c.paths["/"+call.Method].(map[string]any)
	var body map[string]any
	if json.Unmarshal([]byte(got.Body), &body) != nil || !ok {
		return ""
	}
	c.seen[call.Method]++
	if e, ok := body["error"].(map[string]any); ok {
		cause, _ := e["cause"].(map[string]any)
		c.seen[fmt.Sprint(call.Method, " ", cause["name"])]++
	}
	body["id"] = "any" // it echoes the request
	var schema any = path
	for _, k := range []string{"post", "responses", "200", "content", "application/json", "schema"} {
		schema = schema.(map[string]any)[k]
	}
	if why := c.value("reply of "+call.Method, schema, body); why != "" {
		return why
	}
	ref, _ := schema.(map[string]any)["$ref"].(string)
	return c.validate(ref[strings.LastIndexByte(ref, '/')+1:], got.Body)
}

// value checks a value, all of whose members must be named by the schema.
func (c *checker) value(at string, schema, v any) string {
	known := map[string]bool{}
	if why := c.check(at, schema, v, known); why != "" {
		return why
	}
	if o, ok := v.(map[string]any); ok && !known["*"] {
		for _, k := range slices.Sorted(maps.Keys(o)) {
			if !known[k] {
				return at + " has " + k
			}
		}
	}
	return ""
}

// check checks a value against one schema, and records the members that the schema names; "*": all.
func (c *checker) check(at string, schema, v any, known map[string]bool) string {
	s := schema.(map[string]any)
	if r, ok := s["$ref"].(string); ok {
		return c.check(at, c.components[r[strings.LastIndexByte(r, '/')+1:]], v, known)
	}
	if len(s) == 0 {
		known["*"] = true
		return ""
	}
	if n, _ := s["nullable"].(bool); n && v == nil { // OpenAPI 3.0, as nearcore's document has it
		return ""
	}
	if kinds, ok := s["type"].([]any); ok {
		if v == nil && slices.Contains(kinds, any("null")) {
			return ""
		}
		s = maps.Clone(s)
		s["type"] = kinds[0]
	}
	if all, ok := s["allOf"].([]any); ok {
		for _, x := range all {
			if why := c.check(at, x, v, known); why != "" {
				return why
			}
		}
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		choices, ok := s[word].([]any)
		if !ok {
			continue
		}
		fits, last := false, ""
		for _, x := range choices {
			its := map[string]bool{}
			why := c.check(at, x, v, its)
			if why == "" {
				fits = true
				maps.Copy(known, its)
			} else if len(why) > len(last) {
				last = why
			}
		}
		if !fits {
			return fmt.Sprintf("%s is none of %d choices: %s", at, len(choices), last)
		}
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Sprintf("%s is %v, of %v", at, v, enum)
	}
	return c.kind(at, s, v, known)
}

func (c *checker) kind(at string, s map[string]any, v any, known map[string]bool) string {
	wrong := fmt.Sprintf("%s is %.60q, want %v %v", at, fmt.Sprint(v), s["type"], s["format"])
	switch s["type"] {
	case "null":
		if v != nil {
			return wrong
		}
	case "string":
		if _, ok := v.(string); !ok {
			return wrong
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong
		}
	case "integer", "number":
		n, ok := v.(float64)
		least, has := s["minimum"].(float64)
		if !ok || has && n < least || s["type"] == "integer" && n != math.Trunc(n) {
			return wrong
		}
		if most, ok := s["maximum"].(float64); ok && n > most {
			return wrong
		}
	case "array":
		list, ok := v.([]any)
		if size, has := s["minItems"].(float64); !ok || has && len(list) != int(size) {
			return wrong
		}
		for i, x := range list {
			item := s["items"]
			if tuple, ok := s["prefixItems"].([]any); ok {
				item = tuple[i]
			} else if tuple, ok := item.([]any); ok { // OpenAPI 3.0
				item = tuple[i]
			}
			if why := c.value(fmt.Sprintf("%s[%d]", at, i), item, x); why != "" {
				return why
			}
		}
	case "object":
		return c.object(at, s, v, known)
	}
	return ""
}

func (c *checker) object(at string, s map[string]any, v any, known map[string]bool) string {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %.60q, and no object", at, fmt.Sprint(v))
	}
	if extra, ok := s["additionalProperties"].(map[string]any); ok {
		known["*"] = true
		for k, x := range o {
			if why := c.value(at+"."+k, extra, x); why != "" {
				return why
			}
		}
	}
	required, _ := s["required"].([]any)
	for _, k := range required {
		if _, ok := o[k.(string)]; !ok {
			return fmt.Sprintf("%s has no %v", at, k)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(o)) {
		p, ok := properties[k]
		if !ok {
			if s["additionalProperties"] == false {
				return at + " has " + k
			}
			continue
		}
		known[k] = true
		if why := c.value(at+"."+k, p, o[k]); why != "" {
			return why
		}
	}
	return ""
}

// TestCheckerAcceptsNeardsRepliesOnly: neard's own replies conform to the document, and no longer
// if a member is missing, unknown, or of another kind.
func TestCheckerAcceptsNeardsRepliesOnly(t *testing.T) {
	lines, _ := load(t)
	c := newChecker(t, server(t, rpc.Options{}))
	held := 0
	for _, f := range files {
		for i := range lines[f] {
			l := &lines[f][i]
			r := l.Request()
			got := Reply{Status: l.Status, Headers: l.Headers, Body: strings.Replace(l.Body, timeoutRecorded, timeoutNow, 1)}
			if why := c.reply(r, got); why != "" {
				t.Errorf("%v: error %s", l, why)
			}
			var body struct{ Result map[string]any }
			if l.Status != 200 || json.Unmarshal([]byte(l.Body), &body) != nil || len(body.Result) < 2 || c.reply(r, Reply{Headers: l.Headers, Body: `{}`}) == "" {
				continue
			}
			for _, change := range []func(map[string]any, string){
				func(m map[string]any, k string) { m[k+"_"] = m[k] },
				func(m map[string]any, k string) { m[k] = []any{map[string]any{"x": true}} },
			} {
				for k, v := range body.Result {
					change(body.Result, k)
					text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "result": body.Result})
					if err != nil {
						t.Fatal(err)
					}
					if why := c.reply(r, Reply{Headers: l.Headers, Body: string(text)}); why == "" {
						t.Errorf("%v: %s may be anything", l, k)
					}
					delete(body.Result, k+"_")
					body.Result[k] = v
					held++
				}
			}
		}
	}
	if held < 1000 {
		t.Errorf("%d changes", held)
	}
}
