package blockdoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// doubled returns JSON in which each object has each of its members twice, with spaces between.
func doubled(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		sep := ""
		for range 2 {
			for k, x := range v {
				fmt.Fprintf(b, "%s%q:  ", sep, k)
				doubled(b, x)
				sep = " , "
			}
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteString(",  ")
			}
			doubled(b, x)
		}
		b.WriteByte(']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		b.Write(text)
	}
}

// TestPaddingIsNotStored: members that nothing reads, repeated members and spaces do not reach the stored
// form of a document. Otherwise a feed could fill the disk of each archive that imports from it.
func TestPaddingIsNotStored(t *testing.T) {
	t.Parallel()
	docs := realDocuments(t)
	for name, text := range docs {
		if len(text) > 100_000 {
			delete(docs, name)
		}
	}
	for i, line := range readStream(t).lines {
		if i%60 == 0 {
			docs[fmt.Sprintf("stream %d", i)] = line
		}
	}
	pad, padded, whole := strings.Repeat("pad", 1000), 0, 0
	for name, text := range docs {
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Check(Known{}); err != nil {
			continue
		}
		want := d.AppendJSON(nil)
		stored := func(what string, altered []byte) bool {
			d, err := Parse(altered)
			if err == nil {
				_, err = d.Check(Known{})
			}
			if err == nil && !bytes.Equal(d.AppendJSON(nil), want) {
				t.Errorf("%s: %s changes what is stored", name, what)
			}
			return err == nil
		}
		v, err := generic(text)
		if err != nil {
			t.Fatal(err)
		}
		var twice bytes.Buffer
		if doubled(&twice, v); stored("repeated members", twice.Bytes()) {
			whole++
		} else if strings.HasPrefix(name, "stream") {
			t.Errorf("%s: repeated members are refused", name)
		}
		pads(v, "", map[string]bool{}, func(path string, object map[string]any) {
			if strings.Contains(path, ".Failure") {
				return
			}
			object["unread"] = pad
			altered, err := json.Marshal(v)
			delete(object, "unread")
			if err != nil {
				t.Fatal(err)
			}
			if stored("a member in "+path, altered) {
				padded++
			}
		})
	}
	t.Logf("%d documents, %d with each member twice, %d with one more", len(docs), whole, padded)
	if padded < 300 || whole < 10 {
		t.Errorf("%d padded documents, %d with each member twice", padded, whole)
	}
}

// pads calls f for the first object at each path.
func pads(v any, path string, seen map[string]bool, f func(path string, object map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		if !seen[path] {
			seen[path] = true
			f(path, v)
		}
		for k, x := range v {
			pads(x, path+"."+k, seen, f)
		}
	case []any:
		for _, x := range v {
			pads(x, path+"[]", seen, f)
		}
	}
}
