package action

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// oneEntry is a trie in which every key has the same value, except keys that end in "none". It logs the
// calls of its methods.
type oneEntry struct {
	state.Trie
	asked *[]string
}

var entryHash = primitives.HashBytes([]byte("old"))

func (t oneEntry) note(what string)              { *t.asked = append(*t.asked, what) }
func (t oneEntry) NewRecording() state.Recording { return nil }

func (t oneEntry) Get([]byte, state.Recording) ([]byte, error) {
	t.note("value")
	return []byte("old"), nil
}

func (t oneEntry) Lookup(key []byte, _ state.Recording) (state.ValueRef, bool, error) {
	t.note("lookup")
	return state.ValueRef{Hash: entryHash, Len: 3}, !strings.HasSuffix(string(key), "none"), nil
}

func (t oneEntry) Path(key []byte, rec state.Recording, path []state.Visit) ([]state.Visit, state.ValueRef, bool, error) {
	v, found, err := t.Lookup(key, rec)
	return append(path, state.Visit{Hash: primitives.Hash{1}, Len: 50}, state.Visit{Hash: primitives.Hash{2}, Len: 60}), v, found, err
}

// TestStorageAccessIsChargedBeforeValueRead checks when a storage access charges gas. The moment is
// consensus, because earlier effects remain if the gas runs out there. The charge comes after the
// entry is found and before its value is read, counted or changed. There is no charge if the entry
// does not exist.
func TestStorageAccessIsChargedBeforeValueRead(t *testing.T) {
	t.Parallel()
	broke := errors.New("no gas")
	block := &Block{Config: parameters.MustGet(parameters.June(86))}
	for _, c := range []struct {
		name, key string
		do        func(x *External, key []byte, pay func(uint32) error) (NodeCount, error)
		asked     string    // calls of the trie if the gas suffices
		counted   NodeCount // then
		unpaid    string    // what was asked by the time that it is not paid; empty: it is never asked
		changed   bool
	}{
		{"read", "key", read, "lookup pay 3 value", NodeCount{Touched: 1}, "lookup pay 3", false},
		{"read nothing", "none", read, "lookup", NodeCount{}, "", false},
		{"write", "key", write, "lookup pay 3 value", NodeCount{Touched: 3}, "lookup pay 3", true},
		{"write a new one", "none", write, "lookup", NodeCount{Touched: 2}, "", true},
		{"remove", "key", remove, "lookup pay 3 value", NodeCount{Touched: 3}, "lookup pay 3", true},
		{"remove nothing", "none", remove, "lookup", NodeCount{Touched: 2}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pays := range []bool{true, false} {
				var asked []string
				u := state.NewUnrecorded(oneEntry{asked: &asked})
				x := NewExternal(block, u, "alice", primitives.Hash{})
				n, err := c.do(x, []byte(c.key), func(n uint32) error {
					asked = append(asked, "pay "+string('0'+rune(n)))
					if !pays {
						return broke
					}
					return nil
				})
				want, counted, wantErr := c.asked, c.counted, error(nil)
				if !pays && c.unpaid != "" {
					want, counted, wantErr = c.unpaid, NodeCount{}, broke
				}
				if got := strings.Join(asked, " "); got != want || n != counted || err != wantErr {
					t.Errorf("paid %v: asked %q, counted %v, error %v; want %q, %v, %v", pays, got, n, err, want, counted, wantErr)
				}
				asked = nil
				if _, err := x.Has([]byte(c.key)); err != nil {
					t.Fatal(err)
				}
				// A key that was written is not looked up in the trie.
				if changed := len(asked) == 0; changed != (c.changed && wantErr == nil) {
					t.Errorf("paid %v: changed is %v", pays, changed)
				}
				if wantErr == nil || c.name == "read" { // the nodes on the way are seen, paid or not
					continue
				}
				if n, err := c.do(x, []byte(c.key), func(uint32) error { return nil }); err != nil || n != (NodeCount{Touched: 1, Cached: 2}) {
					t.Errorf("second read counted %v, %v", n, err)
				}
			}
		})
	}
}

func read(x *External, key []byte, pay func(uint32) error) (NodeCount, error) {
	_, _, n, err := x.Read(key, pay)
	return n, err
}

func write(x *External, key []byte, pay func(uint32) error) (NodeCount, error) {
	_, n, err := x.Write(key, []byte("new"), pay)
	return n, err
}

func remove(x *External, key []byte, pay func(uint32) error) (NodeCount, error) {
	_, n, err := x.Remove(key, pay)
	return n, err
}
