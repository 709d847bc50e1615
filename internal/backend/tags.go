package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// Bounds of tags.
const (
	maxTags   = 256
	maxTagged = 10_000  // maximum number of transactions of one tag; transactions beyond it are only counted
	maxOfAll  = 200_000 // maximum number of transactions of all tags, about 20 MiB
)

// tags are named sets of a sandbox's transactions, which can be profiled together. Safe for
// concurrent use.
type tags struct {
	open atomic.Pointer[tag] // tag to which submitted transactions are added; nil: none
	all  atomic.Int64        // total number of transactions in list
	mu   sync.Mutex
	list []*tag // all tags in order of creation
}

type tag struct {
	name    string
	mu      sync.Mutex
	hashes  []primitives.Hash
	has     map[primitives.Hash]bool
	omitted uint64
	gone    bool // the tag was deleted
}

// add adds a transaction. all counts the transactions of all tags.
func (t *tag) add(hash primitives.Hash, all *atomic.Int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.gone || t.has[hash]:
	case len(t.hashes) >= maxTagged || all.Load() >= maxOfAll:
		t.omitted++
	default:
		t.hashes, t.has[hash] = append(t.hashes, hash), true
		all.Add(1)
	}
}

func (t *tag) look(open *tag) view.Tag {
	t.mu.Lock()
	defer t.mu.Unlock()
	return view.Tag{Name: t.name, Transactions: len(t.hashes), Omitted: t.omitted, Open: t == open}
}

// submitted adds a submitted transaction to the open tag.
func (t *tags) submitted(tx *primitives.SignedTransaction) {
	if open := t.open.Load(); open != nil {
		open.add(tx.Hash(), &t.all)
	}
}

func (t *tags) find(name string) *tag {
	if i := slices.IndexFunc(t.list, func(x *tag) bool { return x.name == name }); i >= 0 {
		return t.list[i]
	}
	return nil
}

var errNoTag = &view.SandboxError{Reason: "the chain has no such tag"}

// Tag opens a tag, which collects the transactions submitted from now on. An empty name closes the
// open tag. If hashes are given, Tag only adds these transactions to the tag.
func (b *Backend) Tag(name string, hashes []primitives.Hash) (out view.Tag, err error) {
	t := &b.tags
	t.mu.Lock()
	defer t.mu.Unlock()
	if name == "" {
		t.open.Store(nil)
		return out, nil
	}
	x := t.find(name)
	if x == nil {
		if len(t.list) >= maxTags {
			return out, &view.SandboxError{Reason: fmt.Sprintf("the chain has %d tags, the maximum; sandbox_drop_tag removes one", maxTags)}
		}
		x = &tag{name: name, has: map[primitives.Hash]bool{}}
		t.list = append(t.list, x)
	}
	if hashes == nil {
		t.open.Store(x)
	}
	for _, h := range hashes {
		x.add(h, &t.all)
	}
	return x.look(t.open.Load()), nil
}

// Tags lists the tags.
func (b *Backend) Tags() (out []view.Tag, err error) {
	t := &b.tags
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.list {
		out = append(out, x.look(t.open.Load()))
	}
	return out, nil
}

// DropTag deletes a tag.
func (b *Backend) DropTag(name string) error {
	t := &b.tags
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.find(name)
	if x == nil {
		return errNoTag
	}
	t.open.CompareAndSwap(x, nil)
	x.mu.Lock()
	x.gone = true
	t.all.Add(-int64(len(x.hashes)))
	x.mu.Unlock()
	t.list = slices.DeleteFunc(t.list, func(y *tag) bool { return y == x })
	return nil
}

// ProfileTag returns the JSON profile of the gas that the transactions of a tag burnt. ProfileTag
// runs in the pool Views as a simulation.
func (b *Backend) ProfileTag(ctx context.Context, name string, r *view.Simulate) (out []byte, err error) {
	b.tags.mu.Lock()
	x := b.tags.find(name)
	b.tags.mu.Unlock()
	if x == nil {
		return nil, errNoTag
	}
	x.mu.Lock()
	hashes := slices.Clone(x.hashes)
	x.mu.Unlock()
	err = b.aside(ctx, r, func(ask func() error) error {
		sum, err := trace.Sums(ctx, b.Engine, b.VM, hashes, ask)
		if err == nil {
			out, err = json.Marshal(sum)
		}
		return err
	})
	if errors.Is(err, storage.ErrGone) {
		return nil, &view.SandboxError{Reason: "the state before one of the transactions was garbage-collected"}
	}
	return out, err
}
