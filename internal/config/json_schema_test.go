package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaAcceptsWhatNodeAccepts checks that the schema accepts the file that init writes, and
// for each key the values that the node accepts. It need not refuse all others: ranges of durations
// are not in it.
func TestSchemaAcceptsWhatNodeAccepts(t *testing.T) {
	text, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, text)
	accepts := func(file []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	if err := accepts(initJSON); err != nil {
		t.Errorf("the file of init is refused: %v", err)
	}
	values := []string{`null`, `true`, `-1`, `0`, `1`, `2`, `18446744073709551615`, `18446744073709551616`, `1.5`, `"x"`, `"near"`, `"instant"`,
		`[]`, `["a"]`, `[1]`, `[1,2]`, `[0,1]`, `{}`, `{"secs":1,"nanos":0}`, `{"secs":1,"nanos":1000000000}`}
	refused := 0
	for _, path := range slices.Sorted(maps.Keys(schema())) {
		r := schema()[path]
		names := strings.Split(path, ".")
		for _, value := range values {
			file := value
			for _, name := range slices.Backward(names) {
				file = fmt.Sprintf("{%q:%s}", name, file)
			}
			doc, err := parseDocument([]byte(file))
			if err != nil {
				t.Fatalf("%s: error %v", file, err)
			}
			v, _ := doc.Get(path)
			node, said := r.allows(v), accepts([]byte(file))
			if node && said != nil && r.kind != kObject {
				t.Errorf("%s: the node accepts %s, the schema does not: %v", path, value, said)
			}
			if !node && said == nil && r.kind != kDuration {
				t.Errorf("%s: the node refuses %s, the schema does not", path, value)
			}
			if said != nil {
				refused++
			}
		}
	}
	if refused < 1000 {
		t.Errorf("%d values were refused, want more", refused)
	}
	var again map[string]any
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
}

// TestSchemaKeyIsIgnoredSilently: editors find the schema by this key.
func TestSchemaKeyIsIgnoredSilently(t *testing.T) {
	c, warnings, err := Parse("config.json", []byte(`{"$schema":"./config.schema.json"}`))
	if err != nil || len(warnings) > 0 || len(c.Inert()) > 0 {
		t.Errorf("error %v, warnings %v, inert %v", err, warnings, c.Inert())
	}
}
