package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"testing"
)

// TestFiles: each file has its type, and its compressed form is the same; all together are light.
func TestFiles(t *testing.T) {
	sum := 0
	for name, f := range files() {
		r, err := gzip.NewReader(bytes.NewReader(f.Packed))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, f.Body) {
			t.Errorf("%s: %v", name, err)
		}
		if f.Type == "" || len(f.Tag) != 18 {
			t.Errorf("%s: type %q, tag %q", name, f.Type, f.Tag)
		}
		sum += len(f.Packed)
	}
	if n := len(files()); n < 15 || sum > 64<<10 {
		t.Errorf("%d files, %d bytes compressed", n, sum)
	}
	if Get("") != Get("index.html") || Get("none") != nil || Get("../console.go") != nil {
		t.Error("names")
	}
}

// forbidden is what would make markup or code of a string, or ask somebody else for something.
var forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|setHTML|javascript:|@import|url\(|\bimport\(|<style|style="|\son[a-z]+="`)

// TestNothingForeign: the page has no way from a string to markup or code, takes nothing from elsewhere, and every module and file that it names is there.
func TestNothingForeign(t *testing.T) {
	named := regexp.MustCompile(`(?:from '\./|href="|src=")([a-z]+\.[a-z]+)`)
	found := 0
	for name, f := range files() {
		text := string(f.Body)
		if m := forbidden.FindString(text); m != "" {
			t.Errorf("%s has %q", name, m)
		}
		for _, m := range regexp.MustCompile(`(?:https?|wss?)://[^'"\s]*`).FindAllString(text, -1) {
			if m != "http://www.w3.org/2000/svg" { // a name, not an address
				t.Errorf("%s leads to %s", name, m)
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			found++
			if Get(m[1]) == nil {
				t.Errorf("%s names %s, which there is not", name, m[1])
			}
		}
		if strings.Count(text, "<script") != strings.Count(text, `<script type="module" src=`) {
			t.Errorf("%s has a script in its text", name)
		}
	}
	if found < 30 {
		t.Errorf("only %d names of files found", found)
	}
}
