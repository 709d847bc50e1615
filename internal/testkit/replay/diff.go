package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
)

// Difference is a value that differs between this node and the recording of neard.
type Difference struct {
	Where string // the compared item, e.g. a block, chunk or transaction
	Path  string // inside the view, e.g. .header.hash
	Got   string
	Want  string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s%s\n  got  %s\n  want %s", d.Where, d.Path, d.Got, d.Want)
}

// DiffJSON compares two JSON texts, key by key, and returns at most limit differences. Numbers are
// compared as text.
func DiffJSON(where string, got, want []byte, limit int) []Difference {
	if bytes.Equal(got, want) {
		return nil
	}
	g, err := decode(got)
	if err != nil {
		return []Difference{{Where: where, Got: fmt.Sprintf("%.200s (%v)", got, err), Want: clip(want)}}
	}
	w, err := decode(want)
	if err != nil {
		return []Difference{{Where: where, Got: clip(got), Want: fmt.Sprintf("%.200s (%v)", want, err)}}
	}
	var out []Difference
	walk("", g, w, func(path string, g, w any) bool {
		out = append(out, Difference{Where: where, Path: path, Got: show(g), Want: show(w)})
		return len(out) < limit
	})
	return out
}

func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

type absent struct{}

func show(v any) string {
	if _, ok := v.(absent); ok {
		return "(absent)"
	}
	b, _ := json.Marshal(v)
	return clip(b)
}

func clip(b []byte) string {
	if len(b) > 400 {
		return fmt.Sprintf("%s... (%d bytes)", b[:400], len(b))
	}
	return string(b)
}

// walk calls found for each leaf that differs. It stops when found returns true.
func walk(path string, g, w any, found func(string, any, any) bool) bool {
	switch wv := w.(type) {
	case map[string]any:
		gv, ok := g.(map[string]any)
		if !ok {
			return found(path, g, w)
		}
		keys := make([]string, 0, len(wv))
		for k := range wv {
			keys = append(keys, k)
		}
		for k := range gv {
			if _, both := wv[k]; !both {
				keys = append(keys, k)
			}
		}
		sort.Strings(keys)
		for _, k := range keys {
			a, okA := gv[k]
			b, okB := wv[k]
			if !okA {
				a = absent{}
			}
			if !okB {
				b = absent{}
			}
			if !walk(path+"."+k, a, b, found) {
				return false
			}
		}
		return true
	case []any:
		gv, ok := g.([]any)
		if !ok {
			return found(path, g, w)
		}
		for i := range max(len(gv), len(wv)) {
			var a, b any = absent{}, absent{}
			if i < len(gv) {
				a = gv[i]
			}
			if i < len(wv) {
				b = wv[i]
			}
			if !walk(fmt.Sprintf("%s[%d]", path, i), a, b, found) {
				return false
			}
		}
		return true
	default:
		switch g.(type) { // a map or slice never equals a scalar, and == on maps or slices panics
		case map[string]any, []any:
			return found(path, g, w)
		}
		if g == w {
			return true
		}
		return found(path, g, w)
	}
}
