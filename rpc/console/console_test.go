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

// TestFilesAreTypedAndSmall: each file has its type, its compressed form has the same content, and
// all together are small.
func TestFilesAreTypedAndSmall(t *testing.T) {
	sum, whole := 0, 0
	for name, f := range files() {
		r, err := gzip.NewReader(bytes.NewReader(f.Packed))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, f.Body) {
			t.Errorf("%s: error %v", name, err)
		}
		if f.Type == "" || len(f.Tag) != 18 {
			t.Errorf("%s: type %q, tag %q", name, f.Type, f.Tag)
		}
		sum += len(f.Packed)
		whole += len(f.Body)
	}
	if n := len(files()); n < 15 || sum > 100<<10 || whole > 300_000 {
		t.Errorf("%d files, %d bytes, %d compressed", n, whole, sum)
	}
	if Get("") != Get("index.html") || Get("none") != nil || Get("../console.go") != nil {
		t.Error("names")
	}
}

// forbidden is code that would make markup or code from a string, or load something from another
// host.
var forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|setHTML|javascript:|@import|url\(|\bimport\(|<style|style="|\son[a-z]+="`)

// TestPageLoadsNothingForeign: the page cannot turn a string into markup or code, loads nothing
// from elsewhere, and every module and file that it names exists.
func TestPageLoadsNothingForeign(t *testing.T) {
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

// hostile is a script that tests the modules with hostile texts. Each line that it prints is an
// error.
const hostile = `
globalThis.location = { href: 'http://127.0.0.1:1/console/', host: '127.0.0.1:1' };
globalThis.matchMedia = () => ({ addEventListener() {} });
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

// logic is a script that tests the modules' logic. Each line that it prints is an error.
const logic = `
globalThis.location = { href: 'http://127.0.0.1:1/console/', host: '127.0.0.1:1' };
globalThis.matchMedia = () => ({ addEventListener() {} });
const { height, kinds } = await import('./search.js');
const { worldOf, consoleOf } = await import('./place.js');
const { Feed } = await import('./blocks.js');
const { Tree, measured } = await import('./tree.js');
const is = (what, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) console.log(what + ': ' + JSON.stringify(got) + ', want ' + JSON.stringify(want)); };

for (const [s, want] of [['1,065', '1065'], ['1065', '1065'], ['12,345,678', '12345678'], ['1.065', '1065'], ['1 065', '1065'], ['1\u202f065', '1065'], ['1,06', null], ['1,0655', null],
  ['1,065.000', null], [',065', null], ['alice.near', null], ['1,065x', null], ['', null]]) is('the height ' + s, height(s), want);
is('system is an account', kinds('system').map(([page]) => page), ['account']);
is('a height is a block first', kinds('1065').map(([page]) => page), ['block', 'account']);

for (const [path, want] of [['/', null], ['/world/7/', '7'], ['/key/world/7/', '7'], ['/key/', null], ['/world/a%22b/', null], ['/world/7/x/', null]]) is('the world of ' + path, worldOf(path), want);
for (const [id, from, want] of [['7', 'http://x:1/', 'http://x:1/world/7/console/'], ['7', 'http://x:1/world/2/', 'http://x:1/world/7/console/'], ['7', 'http://x:1/key/', 'http://x:1/key/world/7/console/'],
  [null, 'http://x:1/key/world/2/', 'http://x:1/key/console/'], ['../7', 'http://x:1/', null], ['//evil', 'http://x:1/', null]]) is('the console of ' + id + ' from ' + from, consoleOf(id, from)?.href ?? null, want);

const feed = new Feed();
const block = (h) => ({ author: 'a', chunks: [], header: { height: h, hash: 'h' + h, prev_hash: 'h' + (h - 1), last_final_block: 'h' + (h - 2), timestamp_nanosec: '1', gas_price: '1', chunks_included: 0 } });
for (let h = 10; h < 20; h++) feed.add(block(h));
is('final with the head', feed.finalHeight(feed.blocks.at(-1)), 17);
is('final with an earlier block', feed.finalHeight(feed.blocks[3]), 11);
is('final that came before the page', feed.finalHeight(feed.blocks[0]), null);
feed.learn('h8', 8);
is('and once it is known', feed.finalHeight(feed.blocks[0]), 8);
feed.reverted([18, 19].map((h) => ({ block_hash: 'h' + h })));
is('final after blocks were reverted', feed.finalHeight(feed.blocks.at(-1)), 15);

const names = ['chain', 'rpc', 'session', 'waiter'];
const list = (sessions) => ({ uptime_ns: 1e9, total: 0, bounds_ns: [1000, 2000],
  kinds: names.map((kind) => ({ kind, shard: null, alive: kind === 'session' ? sessions : kind === 'waiter' ? 2 : 1, mailbox: 1, messages: 10, busy_ns: 5, oldest_ns: 0, since_ns: 0, restarts: 0, waited: [4, 4, 0], handled: [4, 4, 0] })),
  actors: [['chain', 0, 0, 1, 0, 0], ['rpc', 1, 0, 1, 0, 0]].concat(Array.from({ length: sessions }, (_, i) => ['rpc/session-' + i, 2, 0, 1, 0, 0]), [['rpc/session-0/waiter-1', 3, 0, 1, 0, 0], ['rpc/session-0/waiter-2', 3, 0, 1, 0, 0]]) });
const tree = new Tree();
const rows = (n) => { for (const step of tree.update(list(n), 1000 * n)) void step; return tree.rows().map((r) => [r.name, r.level, r.group ? null : measured(r) != null]); };
is('latencies stand at all of a kind', rows(3), [['node', 0, null], ['chain', 1, true], ['rpc', 1, true], ['all 3 of kind session', 2, true], ['session-0', 2, false],
  ['all 2 of kind waiter', 3, true], ['waiter-1', 3, false], ['waiter-2', 3, false], ['session-1', 2, false], ['session-2', 2, false]]);
is('one of a kind has its own', rows(1), [['node', 0, null], ['chain', 1, true], ['rpc', 1, true], ['session-0', 2, true], ['all 2 of kind waiter', 3, true], ['waiter-1', 3, false], ['waiter-2', 3, false]]);
is('the row of all is found', tree.get('kind:waiter').kind.alive, 2);
tree.search('session-');
is('a filter leaves it out', tree.rows().map((r) => r.name), ['node', 'rpc', 'session-0', 'waiter-1', 'waiter-2']);
`

// TestSearchAndWorldLogicOfConsole: which inputs the search accepts, which world a page belongs to,
// which earlier blocks a block makes final, and which actors have latencies. It needs Node.js.
func TestSearchAndWorldLogicOfConsole(t *testing.T) { runScript(t, logic) }

// TestHostileTextIsShownSafely: untrusted text is bounded before it is shown, and invisible
// characters become visible. It needs Node.js.
func TestHostileTextIsShownSafely(t *testing.T) { runScript(t, hostile) }

// runScript runs a script beside the modules; anything that it prints is an error.
func runScript(t *testing.T, script string) {
	t.Helper()
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
	put("script.js", []byte(script))
	c := exec.CommandContext(t.Context(), node, "script.js")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("error %v\noutput:\n%s", err, out)
	}
}
