package blockdoc

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// same compares text, the document's JSON, with ours, the JSON that package view wrote from the
// decoded values. same ignores a field that only text has, because nearcore releases after this
// program's may add fields. same accepts a field that is absent or null in text if ours has an
// empty value, because old releases lack the field. skip lists fields that may differ. Errors:
// MismatchError.
func same(where string, text, ours []byte, skip ...string) error {
	got, err := generic(text)
	if err != nil {
		return err
	}
	want, err := generic(ours)
	if err != nil {
		return err
	}
	return differs(where, got, want, skip)
}

func generic(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, formf("%v", err)
	}
	return v, nil
}

func differs(where string, got, want any, skip []string) error {
	// Old nearcore releases leave out the field, or write the number 0 instead of the string "0".
	if got == nil && empty(want) || got == json.Number("0") && want == "0" {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return mismatchf(where, "is %s, want %s by the rest of the document", brief(got), brief(want))
		}
	members:
		for k, x := range w {
			for _, s := range skip {
				if s == k {
					continue members
				}
			}
			if err := differs(where+"."+k, g[k], x, skip); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return mismatchf(where, "is %s, want %s by the rest of the document", brief(got), brief(want))
		}
		for i := range w {
			if err := differs(fmt.Sprintf("%s[%d]", where, i), g[i], w[i], skip); err != nil {
				return err
			}
		}
		return nil
	}
	if got != want {
		return mismatchf(where, "is %s, want %s by the rest of the document", brief(got), brief(want))
	}
	return nil
}

var zeroHash = primitives.Hash{}.String()

// empty returns whether a decoded JSON value is the default of its field.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case json.Number:
		return v == "0"
	case string:
		return v == "0" || v == zeroHash // not "", which is no account and no key
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, x := range v {
			if !empty(x) {
				return false
			}
		}
		return true
	}
	return false
}

func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(text) > 120 {
		text = append(text[:117], "..."...)
	}
	return string(text)
}
