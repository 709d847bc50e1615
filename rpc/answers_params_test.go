package rpc

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// The vectors of testdata/answers are the answers of nearcore f0c7706f1's near-primitives and
// near-jsonrpc-primitives to random input (with serde_json 1.0.143, serde_with 3.0.0, base64
// 0.21.0, borsh 1.5.3).

// eachAnswer calls f for the lines of a file of vectors.
func eachAnswer[T any](t *testing.T, name string, f func(*T)) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "answers", name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		x := new(T)
		if err := json.Unmarshal(lines.Bytes(), x); err != nil {
			t.Fatal(err)
		}
		n++
		f(x)
	}
	if err := lines.Err(); err != nil || n < 1000 {
		t.Fatalf("%s: %d vectors, %v", name, n, err)
	}
}

// said is an error's text, nil for none, as in the vectors.
func said(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func show(s *string) string {
	if s == nil {
		return "no error"
	}
	return *s
}

// TestBase64IsReadAsNeardReadsIt: 4,000 random texts, decoded with strict and with any padding.
func TestBase64IsReadAsNeardReadsIt(t *testing.T) {
	type vector struct {
		Text        string
		Strict, Any *string
	}
	eachAnswer(t, "base64", func(x *vector) {
		out, err := primitives.DecodeBase64([]byte(x.Text))
		if got := said(err); !same(got, x.Strict) {
			t.Errorf("%q: %s, want %s", x.Text, show(got), show(x.Strict))
		}
		if want, e := base64.StdEncoding.DecodeString(x.Text); err == nil && (e != nil || string(want) != string(out)) {
			t.Errorf("%q decodes to %x", x.Text, out)
		}
		var d document
		if d.parse(appendJSONString(nil, []byte(x.Text))) != nil {
			t.Fatalf("%q is no JSON string", x.Text)
		}
		_, err = readBase64(val{&d, 0})
		if got := said(err); !same(got, x.Any) {
			t.Errorf("%q without regard to padding: %s, want %s", x.Text, show(got), show(x.Any))
		}
	})
}

// TestParamsAreReadAsNeardReadsThem: random parameters of each method, with the results of
// nearcore's types.
func TestParamsAreReadAsNeardReadsThem(t *testing.T) {
	type vector struct {
		Method, Params string
		Error          *string
	}
	s := newServer(t, &fakeNode{}, Options{})
	counts := map[string]int{}
	eachAnswer(t, "params", func(x *vector) {
		counts[x.Method]++
		got := parseText(t, s, x.Method, x.Params)
		if !same(got, x.Error) {
			t.Errorf("%s %s: %s, want %s", x.Method, x.Params, show(got), show(x.Error))
		}
	})
	for method, n := range counts {
		if n < 100 {
			t.Errorf("%s: %d vectors", method, n)
		}
	}
}

// parseText is the error text of a method's parser, without its prefix.
func parseText(t *testing.T, s *Server, method, params string) *string {
	t.Helper()
	var d document
	if err := d.parse([]byte(params)); err != nil {
		t.Fatal(err.text)
	}
	err := byName[method].parse(val{&d, 0})
	var plain *plainError
	if errors.As(err, &plain) { // nearcore checks it after decoding
		return nil
	}
	return said(err)
}

// TestTransactionsAreReadAsNeardReadsThem: transactions of every action, damaged in 120 ways each.
func TestTransactionsAreReadAsNeardReadsThem(t *testing.T) {
	type vector struct {
		Tx          string
		Error, Hash *string
	}
	eachAnswer(t, "tx", func(x *vector) {
		raw, err := base64.StdEncoding.DecodeString(x.Tx)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := decodeTx(raw)
		if got := said(err); !same(got, x.Error) {
			t.Errorf("%x: %s, want %s", raw, show(got), show(x.Error))
			return
		}
		if err != nil {
			return
		}
		if got := tx.Hash().String(); !same(&got, x.Hash) {
			t.Errorf("%x: hash %s, want %s", raw, got, show(x.Hash))
		}
	})
}
