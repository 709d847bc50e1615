package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// schemaKey is the key in which an editor finds the JSON schema of a file. The node ignores that
// key.
const schemaKey = "$schema"

// jsonSchema is a JSON schema, or the part for one value.
type jsonSchema struct {
	Schema      string                 `json:"$schema,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        any                    `json:"type,omitempty"` // a name or a list of names; nil: any
	Enum        []any                  `json:"enum,omitempty"`
	Minimum     *uint64                `json:"minimum,omitempty"`
	Maximum     *uint64                `json:"maximum,omitempty"`
	Items       *jsonSchema            `json:"items,omitempty"`
	MinItems    int                    `json:"minItems,omitempty"`
	MaxItems    int                    `json:"maxItems,omitempty"`
	Properties  map[string]*jsonSchema `json:"properties,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Default     any                    `json:"default,omitempty"`
}

// JSONSchema returns the JSON schema (draft 2020-12) of config.json, for editors: every known key
// with its type, range, default and description. Unknown keys are allowed, as the node only warns
// of them. JSONSchema makes it from the rules by which the node checks the file.
func JSONSchema() ([]byte, error) {
	whole, _, err := Parse("config.json", []byte("{}"))
	if err != nil {
		return nil, err
	}
	root := &jsonSchema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "config.json of a troupe node", Type: "object",
		Description: "A missing key has its default. Comments (//) are allowed.",
	}
	rules := schema()
	parts := map[string]*jsonSchema{"": root}
	// Paths are sorted, so an object comes before its keys.
	for _, path := range slices.Sorted(maps.Keys(rules)) {
		r := rules[path]
		s := r.jsonSchema()
		if r.kind != kObject {
			if v, ok := whole.Document.Get(path); ok {
				s.Default = v
				if d, ok := v.(*Document); ok {
					s.Default = json.RawMessage(d.Format())
				}
			}
		}
		s.Description = strings.ReplaceAll(r.doc, "`", "")
		for i := range limits.Table {
			if l := &limits.Table[i]; path == "troupe.rpc."+l.Key && s.Default == nil {
				s.Description += " (default: " + strings.ReplaceAll(l.Shown(), "`", "") + ")"
			}
		}
		if why, ok := withoutEffect(path); ok && path != schemaKey {
			s.Description = "no effect: " + why
		}
		above, name := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			above, name = path[:i], path[i+1:]
		}
		p := parts[above]
		if p == nil {
			continue // the object above may have any content
		}
		if p.Properties == nil {
			p.Properties = map[string]*jsonSchema{}
		}
		p.Properties[name] = s
		if r.kind == kObject {
			parts[path] = s
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(root)
	return b.Bytes(), err
}

// jsonSchema returns what JSON schema can say of the rule.
func (r rule) jsonSchema() *jsonSchema {
	s := &jsonSchema{}
	name := ""
	switch r.kind {
	case kBool:
		name = "boolean"
	case kU64:
		name = "integer"
		low, high := r.min, r.max
		if high == 0 {
			high = math.MaxUint64
		}
		s.Minimum, s.Maximum = &low, &high
	case kString:
		name = "string"
		for _, c := range r.choices {
			s.Enum = append(s.Enum, c)
		}
	case kList:
		name = "array"
	case kStrings:
		name, s.Items = "array", &jsonSchema{Type: "string"}
	case kRational:
		low, high := uint64(1), uint64(1<<31-1)
		name, s.Items, s.MinItems, s.MaxItems = "array", &jsonSchema{Type: "integer", Minimum: &low, Maximum: &high}, 2, 2
	case kObject:
		name = "object"
	case kDuration:
		zero, seconds, nanos := uint64(0), uint64(maxSeconds), uint64(999_999_999)
		name, s.Required = "object", []string{"secs", "nanos"}
		s.Properties = map[string]*jsonSchema{
			"secs":  {Type: "integer", Minimum: &zero, Maximum: &seconds},
			"nanos": {Type: "integer", Minimum: &zero, Maximum: &nanos},
		}
	case kAny:
		return s
	}
	s.Type = name
	if r.nullable {
		s.Type = []string{name, "null"}
		if s.Enum != nil {
			s.Enum = append(s.Enum, nil)
		}
	}
	return s
}
