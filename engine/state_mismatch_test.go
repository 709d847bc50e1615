package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestStateMismatchNamesWrongData: if a stored block does not lead to its state root, the start
// fails with an error that names the wrong data, and leaves the data folder unchanged.
func TestStateMismatchNamesWrongData(t *testing.T) {
	for what, change := range map[string]func(j *Job){
		"the stored changes are wrong": func(j *Job) {
			c := &j.result.Changes[len(j.result.Changes)-1]
			c.Changes[len(c.Changes)-1].Value = []byte("another value")
		},
		"1 of": func(j *Job) { j.result.Olds[0].Known, j.result.Olds[0].Value = true, []byte("another value") },
	} {
		t.Run(what, func(t *testing.T) {
			g, disk := testGenesis(t, "aa"), storage.NewMemDisk()
			n := openOn(t, g, disk, storage.Options{})
			n.accept(n.make(n.Head().Hash, 1, false))
			b, chunks := n.make(n.Head().Hash, 2, false, transfer(n.Head().Hash, 1))
			p := n.applied(b, chunks)
			change(&p.Jobs()[0])
			if what == "1 of" { // also change a value, so that the state does not have the block's root
				c := &p.Jobs()[0].result.Changes[0]
				c.Changes[len(c.Changes)-1].Value = []byte("another value")
			}
			if _, err := n.Commit(p); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(n.Close(), n.store.Close()); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a second start finds the same
				s, err := storage.OpenMemory(disk, storage.Options{Identity: storage.Identity{ChainID: n.chain.ID,
					Numbering: primitives.NumberingRelease}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = Open(Options{Chain: n.chain, Store: s, Tries: trie.Options{Poison: true}})
				if !errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), " of block 2 ") {
					t.Errorf("got %v", err)
				}
				_ = s.Close()
			}
			dir := t.TempDir()
			if err := disk.Save(dir); err != nil {
				t.Fatal(err)
			}
			s, err := storage.Open(dir, storage.Options{Identity: storage.Identity{ChainID: n.chain.ID, Numbering: primitives.NumberingRelease}})
			if err != nil {
				t.Fatal(err)
			}
			if s.Tip() != n.store.Tip() {
				t.Errorf("saved is %+v, want %+v", s.Tip(), n.store.Tip())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStateMismatchTextIsBounded: of large values a diagnosis prints only the beginnings, the
// lengths and the place where they begin to differ.
func TestStateMismatchTextIsBounded(t *testing.T) {
	large := bytes.Repeat([]byte{0xab}, 1<<20)
	g, disk := testGenesis(t, "aa"), storage.NewMemDisk()
	n := openOn(t, g, disk, storage.Options{})
	n.accept(n.make(n.Head().Hash, 1, false))
	p := n.applied(n.make(n.Head().Hash, 2, false, transfer(n.Head().Hash, 1)))
	r := p.Jobs()[0].result
	r.Olds[0].Known, r.Olds[0].Value = true, large
	c := &r.Changes[0]
	c.Changes[len(c.Changes)-1].Value = large
	if _, err := n.Commit(p); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.Close(), n.store.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := storage.OpenMemory(disk, storage.Options{Identity: storage.Identity{ChainID: n.chain.ID, Numbering: primitives.NumberingRelease}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	_, err = Open(Options{Chain: n.chain, Store: s, Tries: trie.Options{Poison: true}})
	if text := fmt.Sprint(err); !errors.Is(err, ErrInconsistent) || len(text) > 8<<10 || strings.Count(text, "(1048576 bytes)") != 2 {
		t.Errorf("%d bytes: %.3000s", len(text), text)
	}
	other := bytes.Clone(large)
	other[1000] = 0xcd
	if got, want := firstDifference(large[:1002], other[:1001]), " (from byte 1000 on: abab and cd)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := firstDifference(large, large) + firstDifference(large, other[999:]); got != "" {
		t.Errorf("%q of two that are equal, or differ in their excerpts", got)
	}
}
