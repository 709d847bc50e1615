package blockdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives/view"
)

// members calls f for the first member of a decoded document at each path. set replaces the member, or
// removes it.
func members(v any, path string, seen map[string]bool, f func(path string, set func(x any, remove bool))) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if at := path + "." + k; !seen[at] {
				seen[at] = true
				f(at, func(x any, remove bool) {
					if v[k] = x; remove {
						delete(v, k)
					}
				})
				v[k] = x
			}
			members(x, path+"."+k, seen, f)
		}
	case []any:
		for i, x := range v {
			if at := path + "[]"; !seen[at] {
				seen[at] = true
				f(at, func(x any, _ bool) { v[i] = x })
				v[i] = x
			}
			members(x, path+"[]", seen, f)
		}
	}
}

// shown returns the text of all that a node shows of a document.
func shown(d *Document) (b []byte) {
	b = view.AppendBlock(nil, d.Author, d.Block)
	for i := range d.Shards {
		s := &d.Shards[i]
		if author, c := d.ViewedChunk(s.ID); c != nil {
			b = view.AppendChunk(b, author, c)
		}
		for k := range s.Outcomes {
			b = view.AppendOutcomeProof(b, &s.Outcomes[k])
		}
		for _, x := range s.Executed {
			b = view.AppendReceipt(b, x.Receipt)
		}
	}
	return b
}

// TestCheckedDocumentCanBeStored: whatever a feed writes into any member of a document, a document that
// passes Check is the same after it has been stored and read again. Otherwise a feed could fill a
// history with blocks that no reader can decode.
func TestCheckedDocumentCanBeStored(t *testing.T) {
	t.Parallel()
	var docs [][]byte
	for _, text := range realDocuments(t) {
		if len(text) < 16_000 {
			docs = append(docs, text)
		}
	}
	for i, line := range readStream(t).lines {
		if len(line) > 6000 && len(line) < 16_000 && i%60 == 0 {
			docs = append(docs, line)
		}
	}
	values := []any{nil, map[string]any{}, []any{}, "", "aa", json.Number("0"), []any{nil}, map[string]any{"a": nil}}
	seen, passed := map[string]bool{}, 0
	for _, text := range docs {
		v, err := generic(text)
		if err != nil {
			t.Fatal(err)
		}
		members(v, "", seen, func(path string, set func(any, bool)) {
			for i := range len(values) + 1 {
				what := fmt.Sprintf("%s removed", path)
				if i < len(values) {
					set(values[i], false)
					what = fmt.Sprintf("%s = %v", path, values[i])
				} else {
					set(nil, true)
				}
				altered, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				d, err := Parse(altered)
				if err != nil {
					continue
				}
				if _, err := d.Check(Known{}); err != nil {
					continue
				}
				passed++
				again, err := Parse(d.AppendJSON(nil))
				if err == nil {
					err = again.GatherChunks()
				}
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if text := shown(again); !bytes.Equal(text, shown(d)) {
					t.Errorf("%s: another document", what)
				}
			}
		})
	}
	t.Logf("%d members of %d documents, %d altered documents pass", len(seen), len(docs), passed)
	if passed < 100 {
		t.Errorf("only %d altered documents pass", passed)
	}
}
