package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// hostile is a script that holds the modules to texts of somebody who means ill. Each line that it prints is something wrong.
const hostile = `
globalThis.location = { href: 'http://127.0.0.1:1/console/' };
const { readable, deep } = await import('./format.js');
const { plain } = await import('./dom.js');
const { exported } = await import('./account.js');
const bytes = (s) => new TextEncoder().encode(s);
const want = (what, ok) => { if (!ok) console.log(what); };
const nested = '['.repeat(2000) + ']'.repeat(2000);
want('brackets in brackets make lines by depth', readable(bytes(nested)).length <= nested.length);
want('and where more is shown', readable(bytes('{"a":'.repeat(9000) + '1' + '}'.repeat(9000)), 65536).length < 70000);
want('JSON is not set out', readable(bytes('{"a":[1]}')) === '{\n "a": [\n  1\n ]\n}');
want('32 deep is deep', !deep('['.repeat(32)) && deep('['.repeat(33)));
const turned = 'ok \u202eliaf\u202c \u2066x\u2069 \u200bzero\ufeff \u2028 é العربية';
want('what turns the direction is not shown by its number: ' + plain(turned), plain(turned) === 'ok \\u202eliaf\\u202c \\u2066x\\u2069 \\u200bzero\\ufeff \\u2028 é العربية');
const leb = (n) => { const out = []; do { out.push(n & 127 | (n > 127 ? 128 : 0)); n >>>= 7; } while (n); return out; };
const section = (...body) => Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 7].concat(leb(body.flat().length), body.flat()));
want('an export', exported(section(1, 1, 104, 0, 0)).join() === 'h');
const long = exported(section(1, leb(100000), new Array(100000).fill(104), 0, 0));
want('a name of 100,000', long.length === 1 && long[0].length === 257);
const many = exported(section(leb(200000), new Array(200000).fill([1, 104, 0, 0]).flat()));
want('200,000 exports: ' + many.length, many.length === 1000);
want('exports that are none', exported(section(leb(2 ** 31 - 1), 255, 255, 255, 255, 15)).length === 0);
`

// TestHostile: what is made of texts of others before they are shown is bounded, and shows what nobody would see. It needs Node.js.
func TestHostile(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: Node.js is not installed")
	}
	dir := t.TempDir()
	put := func(name string, body []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range files() {
		put(name, f.Body)
	}
	put("package.json", []byte(`{"type":"module"}`))
	put("hostile.js", []byte(hostile))
	c := exec.CommandContext(t.Context(), node, "hostile.js")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
