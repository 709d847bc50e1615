package blockdoc

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// alteration describes a value that was changed in a document.
type alteration struct {
	path string // with [] for each index
	what string
}

// alter changes one value somewhere in a JSON tree. At each node the child is chosen with equal
// probability, so small subtrees are changed as often as large ones.
func alter(r *rand.Rand, v any, path string) (any, alteration) {
	switch x := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		if len(keys) == 0 {
			return "x", alteration{path, "an empty object"}
		}
		sort.Strings(keys)
		k := keys[r.IntN(len(keys))]
		at := strings.TrimPrefix(path+"."+k, ".")
		if r.IntN(40) == 0 {
			out := make(map[string]any, len(x))
			for n, y := range x {
				if n != k {
					out[n] = y
				}
			}
			return out, alteration{at, "left out"}
		}
		out := make(map[string]any, len(x))
		for n, y := range x {
			out[n] = y
		}
		var a alteration
		out[k], a = alter(r, x[k], at)
		return out, a
	case []any:
		if len(x) == 0 {
			return []any{json.Number("1")}, alteration{path, "an element in an empty list"}
		}
		out := slices.Clone(x)
		i := r.IntN(len(x))
		switch r.IntN(20) {
		case 0:
			return slices.Delete(out, i, i+1), alteration{path, "one left out"}
		case 1:
			return slices.Insert(out, i, x[i]), alteration{path, "one twice"}
		case 2:
			if k := r.IntN(len(x)); k != i {
				out[i], out[k] = out[k], out[i]
				return out, alteration{path, "two in another order"}
			}
		}
		var a alteration
		out[i], a = alter(r, x[i], path+"[]")
		return out, a
	case json.Number:
		n, err := strconv.ParseUint(x.String(), 10, 64)
		if err != nil {
			return json.Number("7"), alteration{path, "a number"}
		}
		return json.Number(strconv.FormatUint(n^1<<r.IntN(16), 10)), alteration{path, "a bit of a number"}
	case string:
		return alterText(r, x), alteration{path, "a letter"}
	case bool:
		return !x, alteration{path, "the opposite"}
	case nil:
		return json.Number("1"), alteration{path, "something for nothing"}
	}
	panic(fmt.Sprintf("no case for %T", v))
}

// alterText changes, inserts or removes one character. A digit is replaced by a digit, so that more
// of the results can be decoded.
func alterText(r *rand.Rand, s string) string {
	const letters, digits = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ123456789", "0123456789"
	from := letters
	if strings.Trim(s, digits) == "" {
		from = digits
	}
	c := from[r.IntN(len(from))]
	if s == "" {
		return string(c)
	}
	i := r.IntN(len(s))
	switch r.IntN(8) {
	case 0:
		return s[:i] + s[i+1:]
	case 1:
		return s[:i] + string(c) + s[i:]
	}
	for s[i] == c {
		c = from[r.IntN(len(from))]
	}
	return s[:i] + string(c) + s[i+1:]
}

// original is a valid document, with data from other sources.
type original struct {
	name  string
	text  string
	tree  any
	known func() Known
	next  map[primitives.ShardID]primitives.Hash // outcome roots that later blocks contain
	shows *Report                                // the report of the valid document
}

func (o *original) take(t testing.TB, name string, text []byte, known func() Known) {
	t.Helper()
	var err error
	if o.tree, err = generic(text); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(o.tree)
	if err != nil {
		t.Fatal(err)
	}
	o.text = string(again)
	d, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if o.shows, err = d.Check(known()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	o.name, o.known, o.next = name, known, o.shows.Outcomes
}

// accepts returns nil if an altered document would be accepted, else the reason why not. It would
// be if it decodes, passes Check, has the hash of the original, proves as much as the original, and
// has the outcome roots that the next block contains.
func (o *original) accepts(text []byte, hash primitives.Hash) error {
	d, err := Parse(text)
	if err != nil {
		return err
	}
	if d.Hash != hash {
		return fmt.Errorf("another block")
	}
	r, err := d.Check(o.known())
	if err != nil {
		return err
	}
	for id, root := range o.next {
		if r.Outcomes[id] != root {
			return fmt.Errorf("outcomes of shard %d", id)
		}
	}
	for _, x := range []struct{ is, was map[primitives.ShardID]bool }{{r.Transactions, o.shows.Transactions}, {r.Receipts, o.shows.Receipts}, {r.Whole, o.shows.Whole}} {
		for id, ok := range x.was {
			if ok && !x.is[id] {
				return fmt.Errorf("shard %d: not proven any more", id)
			}
		}
	}
	return nil
}

// unprovenHere returns whether a path is not proven even in the unaltered document, because code or
// ancestors are unknown.
func (o *original) unprovenHere(path string) bool {
	all := func(of map[primitives.ShardID]bool) bool {
		for id := range o.shows.Outcomes {
			if !of[id] {
				return false
			}
		}
		return true
	}
	switch {
	case strings.HasPrefix(path, "shards[].chunk.transactions[].transaction"):
		return !all(o.shows.Transactions)
	case strings.HasPrefix(path, "shards[].chunk.receipts"):
		return !all(o.shows.Receipts)
	case path == "shards[].receipt_execution_outcomes", path == "shards[].chunk.transactions":
		return !all(o.shows.Whole)
	}
	return false
}

// sameMeaning returns whether an altered document that passes Check has the same contents as the
// original. This is so if an empty list was removed, or a part that is present twice and is
// verified by roots (the chunk headers, which earlier feeds have only in the shards).
func (o *original) sameMeaning(t testing.TB, text []byte) bool {
	read := func(text []byte) *Document {
		d, err := Parse(text)
		if err == nil {
			_, err = d.Check(o.known())
		}
		if err != nil {
			t.Fatal(err)
		}
		d.raw, d.size = nil, 0
		for i := range d.Shards {
			d.Shards[i].raw = shardJSON{}
		}
		withoutEmpty(reflect.ValueOf(d))
		return d
	}
	return reflect.DeepEqual(read(text), read([]byte(o.text)))
}

// withoutEmpty replaces empty lists in v by nil.
func withoutEmpty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			withoutEmpty(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			withoutEmpty(v.Field(i))
		}
	case reflect.Slice:
		if v.Len() == 0 && v.CanSet() {
			v.SetZero()
		}
		if k := v.Type().Elem().Kind(); k == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			withoutEmpty(v.Index(i))
		}
	}
}

// TestSameMeaningSeesThroughRemovals: sameMeaning recognises three removals that do not change the
// contents, and a change that no check can detect.
func TestSameMeaningSeesThroughRemovals(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	look := func(name string, text []byte, known func() Known) {
		o := new(original)
		o.take(t, name, text, known)
		for _, x := range []struct {
			name  string
			alter func(tree map[string]any) bool
			same  bool
		}{
			{"no chunks", func(tree map[string]any) bool { delete(tree["block"].(map[string]any), "chunks"); return true }, true},
			{"no logs", func(tree map[string]any) bool { return leaveOut(tree, "logs") }, true},
			{"no proof", func(tree map[string]any) bool { return leaveOut(tree, "proof") }, true},
			{"another author", func(tree map[string]any) bool {
				tree["block"].(map[string]any)["author"] = "somebody.near"
				return true
			}, false},
		} {
			tree, err := generic(text)
			if err != nil {
				t.Fatal(err)
			}
			if said[x.name] || !x.alter(tree.(map[string]any)) {
				continue
			}
			other, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			was := o.tree.(map[string]any)["block"].(map[string]any)["header"].(map[string]any)["hash"].(string)
			if o.accepts(other, mustHash(t, was)) == nil {
				if said[x.name] = true; o.sameMeaning(t, other) != x.same {
					t.Errorf("%s with %s: the same %v", name, x.name, !x.same)
				}
			}
		}
	}
	s, b := readStream(t), newBooks()
	b.blocks = s.before
	for i, line := range s.lines[:80] {
		d, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if b.learn(d); i%8 == 0 || len(line) > 14_000 {
			look(fmt.Sprintf("block %d", d.Block.Header.Height), line, func() Known { return b.known(&s.layout) })
		}
	}
	for name, text := range realDocuments(t) {
		if len(text) < maxAltered {
			look(name, text, func() Known { return newBooks().known(nil) })
		}
	}
	if len(said) != 4 {
		t.Errorf("only %v is accepted anywhere", slices.Sorted(maps.Keys(said)))
	}
}

// leaveOut deletes the first member with this name whose value is an empty list.
func leaveOut(v any, name string) bool {
	switch x := v.(type) {
	case map[string]any:
		if list, ok := x[name].([]any); ok && len(list) == 0 {
			delete(x, name)
			return true
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if leaveOut(x[k], name) {
				return true
			}
		}
	case []any:
		for _, y := range x {
			if leaveOut(y, name) {
				return true
			}
		}
	}
	return false
}

// sameLists returns whether every shard gets the same receipts in the same order as in the
// original.
func (o *original) sameLists(t testing.TB, text []byte) bool {
	layout := o.known().Layout
	if layout == nil {
		return false
	}
	lists := func(text []byte) (out []primitives.Hash) {
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Shards {
			var list []*primitives.Receipt
			for _, r := range d.Shards[i].Receipts {
				list = append(list, r.Receipt)
			}
			for _, g := range chain.GroupReceipts(list, *layout) {
				for _, r := range g.Receipts {
					out = append(out, r.ID)
				}
				out = append(out, primitives.Hash{}) // marks the end of a shard's list
			}
		}
		return out
	}
	return slices.Equal(lists(text), lists([]byte(o.text)))
}

// maxAltered is the size in bytes above which documents are not altered: one such document costs as
// much time as hundreds of others.
const maxAltered = 200_000

// TestAlteredDocumentIsNotAccepted changes one value anywhere in blocks of the recorded stream and of public networks.
// No altered document may be accepted, except if the path is in Uncovered or not proven by the
// unaltered document either. TROUPE_ALTERED is the number of alterations; by default some
// thousands.
//
// The altered outcomes are compared with the root in the next block, which an attacker may know.
// For single blocks, the block's own root is taken for it.
func TestAlteredDocumentIsNotAccepted(t *testing.T) {
	t.Parallel()
	n := 1000
	if text := os.Getenv("TROUPE_ALTERED"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var list []*original
	s := readStream(t)
	b := newBooks()
	b.blocks = s.before
	for i, line := range s.lines {
		d, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		b.learn(d)
		if busy := len(line) > 14_000; i > 0 && (busy || i%40 == 0) {
			o := new(original)
			at := len(b.blocks)
			o.take(t, fmt.Sprintf("stream %d", d.Block.Header.Height), line, func() Known {
				k := b.known(&s.layout)
				k.Ancestors = func(yield func(primitives.Hash) bool) {
					for i := at - 1; i >= max(0, at-120); i-- {
						if !yield(b.blocks[i]) {
							return
						}
					}
				}
				return k
			})
			list = append(list, o)
		}
	}
	recorded := len(list)
	for name, text := range realDocuments(t) {
		if len(text) > maxAltered {
			continue
		}
		one := newBooks()
		if d, err := Parse(text); err == nil {
			one.learn(d)
		}
		o := new(original)
		o.take(t, name, text, func() Known { return one.known(nil) })
		list = append(list, o)
	}
	slices.SortFunc(list[recorded:], func(a, b *original) int { return strings.Compare(a.name, b.name) })
	r := rand.New(rand.NewPCG(1, 2))
	refused, uncovered, unproven := 0, map[string]int{}, 0
	for range n {
		of := list[:recorded]
		if r.IntN(10) == 0 { // rarely, because these are large
			of = list[recorded:]
		}
		o := of[r.IntN(len(of))]
		tree, a := alter(r, o.tree, "")
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) == o.text { // two equal values were exchanged
			continue
		}
		was := o.tree.(map[string]any)["block"].(map[string]any)["header"].(map[string]any)["hash"].(string)
		if o.accepts(text, mustHash(t, was)) != nil {
			refused++
			continue
		}
		switch {
		case IsUnproven(a.path):
			uncovered[a.path]++
		case o.unprovenHere(a.path):
			unproven++
		// The root covers one list per shard, so the order between shards does not matter.
		case a.path == "shards[].chunk.receipts" && a.what == "two in another order" && o.sameLists(t, text):
			uncovered["in another order: "+a.path]++
		case a.what == "left out" && o.sameMeaning(t, text):
			uncovered["left out: "+a.path]++
		default:
			t.Errorf("%s: accepted with %s at %s", o.name, a.what, a.path)
		}
	}
	t.Logf("%d altered documents of %d: %d refused, %d parts of which that document proves nothing", n, len(list), refused, unproven)
	var paths []string
	for p, k := range uncovered {
		paths = append(paths, fmt.Sprintf("%6d %s", k, p))
	}
	slices.Sort(paths)
	t.Logf("accepted, as no hash covers them:\n%s", strings.Join(paths, "\n"))
	if refused < n/3 {
		t.Errorf("%d of %d refused: too much is altered that nobody looks at", refused, n)
	}
}

func mustHash(t testing.TB, text string) primitives.Hash {
	h, err := primitives.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
