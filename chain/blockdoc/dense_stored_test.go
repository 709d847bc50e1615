package blockdoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestUnreadableDocumentIsNotStored: content that no hash covers can be written so that a document passes
// Check, although the text of its values without spaces, or within one more value, exceeds the bounds of
// Parse. Stored refuses such a document. Otherwise a history would have a block that no reader can decode.
func TestUnreadableDocumentIsNotStored(t *testing.T) {
	t.Parallel()
	var text, failure []byte
	for _, line := range readStream(t).lines {
		d, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = d.Check(Known{}); err != nil || len(line) > 30_000 {
			continue
		}
		if f := failureOf(d); f != nil && bytes.Count(line, f) == 1 {
			text, failure = line, f
			break
		}
	}
	if failure == nil {
		t.Fatal("no block has a failure")
	}
	type altered struct {
		name, failure string
		stored        bool // false: refused by any function
	}
	const n = 4 * freeValues
	many := `{"x":[` + strings.Repeat("0,"+strings.Repeat(" ", 16), n) + `0`
	list := []altered{
		{"few values", `{"x":[0,1]}`, true},
		{"many values", many + `]}`, false},
		{"many values and a long text", many + `,"` + strings.Repeat("a", 16*n) + `"]}`, true},
	}
	for depth := maxDepth - 12; depth < maxDepth; depth++ {
		list = append(list, altered{fmt.Sprint("depth ", depth), strings.Repeat("[", depth) + strings.Repeat("]", depth), depth == maxDepth-12})
	}
	late := 0 // documents that Stored refuses
	for _, x := range list {
		d, err := asLake(text, failure, []byte(x.failure))
		var stored []byte
		if err == nil {
			if stored, err = d.Stored(); err != nil {
				late++
			}
		}
		if err != nil {
			if x.stored || !errors.Is(err, ErrForm) {
				t.Errorf("%s: %v", x.name, err)
			}
			continue
		}
		again, err := Parse(stored)
		if err != nil {
			t.Errorf("%s: the stored text is not readable: %v", x.name, err)
		} else if !bytes.Equal(shown(again), shown(d)) {
			t.Errorf("%s: another document", x.name)
		}
		if strings.HasPrefix(x.name, "many") && !x.stored {
			t.Errorf("%s: stored", x.name)
		}
	}
	if late < 2 {
		t.Errorf("%d documents pass Check and are refused by Stored", late)
	}
}

// failureOf returns the first failure in a document, or nil.
func failureOf(d *Document) []byte {
	for i := range d.Shards {
		for k := range d.Shards[i].Outcomes {
			if f := d.Shards[i].Outcomes[k].Outcome.Status.Failure; len(f) > 20 {
				return f
			}
		}
	}
	return nil
}

// asLake parses and checks a StreamerMessage, as the files of a Lake bucket, with a part of it replaced.
func asLake(text, from, to []byte) (*Document, error) {
	var j struct {
		Block  json.RawMessage   `json:"block"`
		Shards []json.RawMessage `json:"shards"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, err
	}
	d, err := ParseBlock(j.Block)
	if err != nil {
		return nil, err
	}
	for _, s := range j.Shards {
		if err := d.AddShard(bytes.Replace(s, from, to, 1)); err != nil {
			return nil, err
		}
	}
	_, err = d.Check(Known{})
	return d, err
}
