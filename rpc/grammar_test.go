package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// grammar generates requests from the OpenAPI document, as bytes decide: valid ones, and ones with
// an error.
type grammar struct {
	*schemas
	in      []byte
	spoils  bool // it may insert errors
	spoiled bool // it has, or cannot know whether it has
}

// pick chooses one of n.
func (g *grammar) pick(n int) int {
	if len(g.in) == 0 {
		return 0
	}
	b := g.in[0]
	g.in = g.in[1:]
	return int(b) % n
}

// odd are values that are valid nowhere, or almost nowhere.
var odd = []string{
	`null`, `[]`, `{}`, `-1`, `0`, `1.5`, `1e400`, `18446744073709551616`, `true`, `""`, `"x"`, `"\ud83d"`, `"\u0000"`, `[[]]`, `[null]`, `{"":{}}`,
	`"11111111111111111111111111111111"`, `"ed25519:"`, `"AAAA"`, `"latest"`, `{"block_id":1}`, `[1,2,3]`, `{"a":{"b":{"c":[{}]}}}`, "nul", "",
}

// samples are texts of types that do not accept every text.
var samples = map[string][]string{
	"AccountId": {`"a.near"`, `"b.near"`}, "CryptoHash": {`"` + zeroHash + `"`}, "ChunkHash": {`"` + zeroHash + `"`}, "EpochId": {`"` + zeroHash + `"`},
	"Signature": {`"` + primitives.ZeroED25519Signature.String() + `"`}, "PublicKey": {`"` + testKey.String() + `"`}, "PublicKeyHandle": {`"` + testKey.String() + `"`}, "StoreKey": {`"YQ=="`}, "FunctionArgs": {`""`, `"e30="`},
	"NearToken": {`"1000"`}, "Secp256k1PublicKey": {`"secp256k1:5ftgm7wYK5gtVqq1kxMGy7gSudkrfYCbpsjL6sH1nwx2oj5NR2JktohjzB6fbEhhRERQpiwJcpwnQjxtoX3GS3cQ"`}, "Nanoseconds": {`7`, `"1000"`}, "SnapshotName": {`"a"`, `7`},
}

// value generates a value of a schema; members are its members if it is an object.
func (g *grammar) value(schema any) (text string, members map[string]string) {
	if g.spoils && g.pick(24) == 23 {
		g.spoiled = true
		return odd[g.pick(len(odd))], nil
	}
	m := schema.(map[string]any)
	if r, ok := m["$ref"].(string); ok {
		name := r[strings.LastIndexByte(r, '/')+1:]
		if name == "SignedTransaction" {
			return `"` + signedText() + `"`, nil
		}
		if name == "StateRecord" { // checked in more detail than the schema has
			g.spoiled = true
		}
		if s := samples[name]; s != nil {
			return s[g.pick(len(s))], nil
		}
		return g.value(g.components[name])
	}
	if enum, ok := m["enum"].([]any); ok {
		b, _ := json.Marshal(enum[g.pick(len(enum))])
		return string(b), nil
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if list, ok := m[word].([]any); ok {
			return g.value(list[g.pick(len(list))])
		}
	}
	if list, ok := m["allOf"].([]any); ok {
		all := map[string]string{}
		for _, x := range list {
			text, members := g.value(x)
			if members == nil {
				return text, nil
			}
			maps.Copy(all, members)
		}
		return g.object(all), all
	}
	kind := m["type"]
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0] // the other one is null
	}
	switch kind {
	case "null":
		return "null", nil
	case "string":
		return `"YQ=="`, nil
	case "boolean":
		return []string{"false", "true"}[g.pick(2)], nil
	case "integer", "number":
		return []string{"1", "7", "20"}[g.pick(3)], nil
	case "array":
		var items []string
		if tuple, ok := m["prefixItems"].([]any); ok {
			for _, x := range tuple {
				text, _ := g.value(x)
				items = append(items, text)
			}
			return "[" + strings.Join(items, ",") + "]", nil
		}
		for range 1 + g.pick(3) {
			text, _ := g.value(m["items"])
			items = append(items, text)
		}
		return "[" + strings.Join(items, ",") + "]", nil
	case "object":
		members = map[string]string{}
		required, _ := m["required"].([]any)
		properties, _ := m["properties"].(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(properties)) {
			if needed := slices.Contains(required, any(k)); needed && g.spoils && g.pick(32) == 31 {
				g.spoiled = true
			} else if needed || g.pick(2) == 1 {
				members[k], _ = g.value(properties[k])
			}
		}
		return g.object(members), members
	}
	g.spoiled = true // anything
	return odd[g.pick(len(odd))], nil
}

// object writes members in a random order, sometimes with a duplicate or an extra one.
func (g *grammar) object(members map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, fmt.Sprintf("%q:%s", k, members[k]))
	}
	if g.spoils && g.pick(32) == 31 {
		g.spoiled = true
		parts = append(parts, `"zzz":`+odd[g.pick(len(odd))])
		parts = append(parts, parts[g.pick(len(parts))])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// grammarRequest is one call and its path.
type grammarRequest struct{ path, body, method string }

func (g *grammar) request(names []string) grammarRequest {
	name := names[(g.pick(256)*256+g.pick(256))%len(names)]
	properties := g.components["Request_"+name].(map[string]any)["properties"].(map[string]any)
	params, members := g.value(properties["params"])
	if g.spoils && members != nil && g.pick(8) == 7 { // by position
		g.spoiled = true
		params = "[" + strings.Join(slices.Collect(maps.Values(members)), ",") + "]"
	}
	id := []string{`1`, `"x"`, `null`, `{"a":[1]}`, `-1.5`}[g.pick(5)]
	r := grammarRequest{"/", `{"jsonrpc":"2.0","id":` + id + `,"method":"` + name + `","params":` + params + `}`, name}
	switch g.pick(6) {
	case 1:
		r.body = `{"params":` + params + `,"method":"` + name + `"}`
	case 2:
		r.path, r.body = "/"+name, params
	case 3:
		r.path = "/" + name
	case 4:
		r.path, r.body = "/"+name, `{"params":`+params+`}`
	}
	// It may be taken for an envelope.
	if _, bare := members["method"]; bare || r.path != "/" && members == nil && g.spoiled {
		g.spoiled = true
	}
	if g.spoils && g.pick(16) == 15 && len(r.body) > 0 {
		g.spoiled = true
		i := g.pick(len(r.body))
		r.body = r.body[:i] + odd[g.pick(len(odd))] + r.body[i:]
	}
	return r
}

// refusals are refusals of valid requests, for combinations of members.
var refusals = []string{"include_proof is not supported with paginated", "only one of block_id, finality and sync_checkpoint", "requires block_height",
	"exclude each other"}

// held checks a reply: it is JSON, its status fits, its faults are declared by the method, and it
// is not 5xx.
func (g *grammar) held(r grammarRequest, status int, reply string) error {
	switch status {
	case 200, 400, 404, 408, 422:
	default:
		return fmt.Errorf("status %d", status)
	}
	if status == 404 && reply == "" {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(reply), &list) != nil {
		list = []json.RawMessage{json.RawMessage(reply)}
	}
	for _, one := range list {
		var got struct {
			JSONRPC string
			Result  json.RawMessage
			ID      json.RawMessage
			Error   *struct {
				Name, Message string
				Code          int
				Cause         struct{ Name string }
				Data          json.RawMessage
			}
		}
		if err := json.Unmarshal(one, &got); err != nil || got.JSONRPC != "2.0" || got.ID == nil || (got.Error == nil) == (got.Result == nil) {
			return fmt.Errorf("no envelope: %v", err)
		}
		e := got.Error
		switch {
		case e == nil:
			if status != 200 {
				return fmt.Errorf("a result with %d", status)
			}
		case e.Name == "REQUEST_VALIDATION_ERROR" && (e.Cause.Name == "PARSE_ERROR" || e.Cause.Name == "METHOD_NOT_FOUND"):
			if !g.spoiled && !slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(string(e.Data), s) }) {
				return fmt.Errorf("a request that conforms to the document is refused: %s", e.Data)
			}
		case e.Name == "HANDLER_ERROR":
			if m := byName[r.method]; m != nil && !slices.ContainsFunc(m.faults, func(f *Fault) bool { return f.Name == e.Cause.Name }) {
				return fmt.Errorf("%s declares no %s", r.method, e.Cause.Name)
			}
		default:
			return fmt.Errorf("%s", e.Name)
		}
	}
	return nil
}

// grammarRun generates and sends a request from bytes.
func grammarRun(t *testing.T, s *Server, doc *schemas, names []string, in []byte) (whole bool) {
	g := &grammar{schemas: doc, in: in}
	g.spoils = g.pick(4) > 0
	r := g.request(names)
	if g.spoils && g.pick(8) == 7 {
		other := g.request(names)
		g.spoiled = g.spoiled || r.path != "/" || other.path != "/"
		r = grammarRequest{"/", "[" + r.body + "," + other.body + "]", ""}
	}
	began := time.Now()
	status, reply := post(s, r.path, r.body)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%v for %s %s", took, r.path, r.body)
	}
	if err := g.held(r, status, reply); err != nil {
		t.Errorf("%v\nPOST %s %.600s\n%d %.600s", err, r.path, r.body, status, reply)
	}
	return !g.spoiled
}

// grammarNode is a fake without chunks.
type grammarNode struct{ fakeNode }

func (*grammarNode) Chunk(_ context.Context, ref view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error) {
	return "", nil, &view.LookupError{Kind: view.ErrUnknownChunk, Hash: ref.Hash}
}

// newGrammar returns a server, its document, and the methods that it describes completely.
func newGrammar(tb testing.TB) (*Server, *schemas, []string) {
	text, err := openAPI()
	if err != nil {
		tb.Fatal(err)
	}
	var d struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		tb.Fatal(err)
	}
	var names []string
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	s, err := New(&grammarNode{}, Options{PollingTimeout: time.Second, IndexerRequests: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return s, &schemas{components: d.Components.Schemas}, names
}

// TestGeneratedRequestsGetAllowedAnswers sends requests generated from the document. Valid ones are
// accepted, and every other one gets an answer that the method table allows.
func TestGeneratedRequestsGetAllowedAnswers(t *testing.T) {
	s, doc, names := newGrammar(t)
	rng := rand.New(rand.NewSource(1))
	whole := 0
	for range 20_000 {
		in := make([]byte, 8+rng.Intn(100))
		rng.Read(in)
		if grammarRun(t, s, doc, names, in) {
			whole++
		}
		if t.Failed() {
			return
		}
	}
	if whole < 5000 {
		t.Errorf("%d of 20,000 requests were whole", whole)
	}
}

// FuzzGrammar is TestGeneratedRequestsGetAllowedAnswers on the fuzzer's bytes.
func FuzzGrammar(f *testing.F) {
	s, doc, names := newGrammar(f)
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x07 the quick brown fox jumps over the lazy dog"))
	f.Fuzz(func(t *testing.T, in []byte) { grammarRun(t, s, doc, names, in) })
}
