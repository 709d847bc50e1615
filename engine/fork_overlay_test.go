package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// stillBase is a RemoteState in memory. It returns state.ErrAway while away is set.
type stillBase struct {
	pinned primitives.Hash
	blocks map[primitives.Hash]map[string]string
	proof  *trie.Partial // of the pinned block
	asked  int
	away   bool
}

func (b *stillBase) Pinned() primitives.Hash { return b.pinned }

func (b *stillBase) Get(at primitives.Hash, key []byte) ([]byte, error) {
	if b.asked++; b.away {
		return nil, fmt.Errorf("%w: test", state.ErrAway)
	}
	if v, ok := b.blocks[at][string(key)]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (b *stillBase) Scan(at primitives.Hash, prefix []byte) (out []state.Change, err error) {
	for _, k := range slices.Sorted(maps.Keys(b.blocks[at])) {
		if strings.HasPrefix(k, string(prefix)) {
			out = append(out, state.Change{Key: []byte(k), Value: []byte(b.blocks[at][k])})
		}
	}
	return out, nil
}

func (b *stillBase) Forks(_ primitives.Hash, key []byte) (trie.Forks, bool, error) {
	f, err := b.proof.Forks(key)
	return f, true, err
}

func (b *stillBase) Height(primitives.Hash) (primitives.Height, bool, error) { return 0, false, nil }
func (b *stillBase) Again(error) bool                                        { return false }

// grown returns a trie that contains the pairs.
func grown(t *testing.T, f *trie.Forest, pairs map[string]string) *trie.Root {
	t.Helper()
	var changes []trie.Change
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		changes = append(changes, trie.Change{Key: []byte(k), Value: []byte(pairs[k])})
	}
	root, err := f.Update(f.Empty(), changes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// newStillBase returns a stillBase whose pinned block has the pairs, with a proof of all of them.
func newStillBase(t *testing.T, pairs map[string]string) *stillBase {
	t.Helper()
	b := &stillBase{pinned: primitives.Hash{1}, blocks: map[primitives.Hash]map[string]string{{1}: pairs}}
	root := grown(t, trie.New(trie.Options{}), pairs)
	s := root.ScanProven(nil)
	var list [][]byte
	for s.Next() {
		list = append(list, bytes.Clone(s.Value()))
	}
	var err error
	if b.proof, err = trie.NewPartial(append(list, s.Proof()...), root.Hash()); err != nil {
		t.Fatal(err)
	}
	return b
}

// forkOf returns the state of a fork of b. Its own trie contains only the bandwidth scheduler's
// state, which every shard has.
func forkOf(t *testing.T, b *stillBase) state.Trie {
	t.Helper()
	return rooted(grown(t, trie.New(trie.Options{UserData: b}), map[string]string{string(primitives.BandwidthSchedulerKey): "x"}))
}

// forkKey returns a random key from a small set with long common prefixes.
func forkKey(r *rand.Rand) []byte {
	id := []primitives.AccountID{"app.near", "app", "zoe.near"}[r.IntN(3)]
	if r.IntN(12) == 0 {
		return primitives.AppendAccountKey(nil, id)
	}
	key := make([]byte, r.IntN(4))
	for i := range key {
		key[i] = "\x00\x01\x10\x11ab"[r.IntN(6)]
	}
	return primitives.AppendContractDataKey(nil, id, key)
}

// TestForkTrieMergesOwnAndRemoteValues: a fork has the values of both chains in key order, and its
// own value hides the remote one. Each key's path has as many nodes as in one trie of both chains,
// as long as the fork has not removed a remote key.
func TestForkTrieMergesOwnAndRemoteValues(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		removals := seed%2 == 1
		beneath := map[string]string{string(primitives.BandwidthSchedulerKey): "x"}
		for range r.IntN(40) {
			beneath[string(forkKey(r))] = fmt.Sprint("there ", r.IntN(1000))
		}
		base := newStillBase(t, beneath)
		now, truth := forkOf(t, base), maps.Clone(beneath)
		for range 4 {
			u := state.NewUnrecorded(now)
			if seed%3 == 0 {
				u = state.New(now, 1<<30)
			}
			for range r.IntN(12) {
				key := forkKey(r)
				if _, there := truth[string(key)]; removals && there && r.IntN(2) == 0 {
					if _, err := u.Get(key); err != nil {
						t.Fatal(err)
					}
					u.Remove(key)
					delete(truth, string(key))
					continue
				}
				value := fmt.Sprint("here ", r.IntN(1000))
				u.Set(key, []byte(value))
				truth[string(key)] = value
			}
			u.Commit(primitives.CauseReceiptProcessing, primitives.Hash{2})
			f, err := u.Finalize()
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(f.Olds, func(o state.OldValue) bool { return o.Known }) {
				t.Fatal("an old value is returned that may be the other chain's")
			}
			now = f.Trie
			whole := stateTrie{grown(t, trie.New(trie.Options{}), truth)}
			for range 60 {
				key := forkKey(r)
				want, there := truth[string(key)]
				got, err := now.Get(key, nil)
				if err != nil || string(got) != want || there != (got != nil) {
					t.Fatalf("seed %d: %q is %q (%v), want %q %v", seed, key, got, err, want, there)
				}
				path, ref, found, err := now.Path(key, nil, nil)
				if err != nil || found != there || found && ref.Hash != primitives.HashBytes([]byte(want)) {
					t.Fatalf("seed %d: path of %q: %v, %v, %v", seed, key, ref, found, err)
				}
				real, _, _, err := whole.Path(key, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !removals && len(path) != len(real) {
					t.Fatalf("seed %d: %q is %d nodes deep, want %d", seed, key, len(path), len(real))
				}
				prefix := key
				if prefix[0] != byte(primitives.ColContractData) {
					continue
				}
				list := func(x state.Trie, after []byte) (out []string) {
					if err := x.Scan(prefix, after, nil, func(k, v []byte) bool {
						out = append(out, string(k)+"="+string(v))
						return len(out) < 7
					}); err != nil {
						t.Fatal(err)
					}
					return out
				}
				if got, want := list(now, nil), list(whole, nil); !slices.Equal(got, want) {
					t.Fatalf("seed %d: under %q %q, want %q", seed, prefix, got, want)
				}
				after := append(bytes.Clone(prefix), 'a')
				if got, want := list(now, after), list(whole, after); !slices.Equal(got, want) {
					t.Fatalf("seed %d: behind %q %q, want %q", seed, after, got, want)
				}
			}
		}
	}
}

// TestForkRebaseKeepsRemovedAccounts: a removed account stays removed. A detached account has only
// its own values. A reset account has the values of the remote chain again. An account that was
// moved to another block has the values of that block.
func TestForkRebaseKeepsRemovedAccounts(t *testing.T) {
	account := func(n uint64) string {
		a := primitives.Account{Version: primitives.AccountV1, Amount: primitives.Yocto(n), StorageUsage: 100}
		return string(a.AppendBorsh(nil))
	}
	of := func(id primitives.AccountID) string { return string(primitives.AppendAccountKey(nil, id)) }
	data := func(id primitives.AccountID, k string) string {
		return string(primitives.AppendContractDataKey(nil, id, []byte(k)))
	}
	base := newStillBase(t, map[string]string{of("a.near"): account(1), of("a.near2"): account(2), data("a.near", "k"): "old", data("a.near", "l"): "old"})
	base.blocks[primitives.Hash{2}] = map[string]string{of("a.near"): account(3), data("a.near", "k"): "new"}
	now := forkOf(t, base)
	step := func(f func(u *state.TrieUpdate) error) {
		t.Helper()
		u := state.NewUnrecorded(now)
		if err := f(u); err != nil {
			t.Fatal(err)
		}
		u.Commit(primitives.CauseMigration, primitives.Hash{})
		done, err := u.Finalize()
		if err != nil {
			t.Fatal(err)
		}
		now = done.Trie
	}
	show := func() (out string) {
		t.Helper()
		for _, key := range []string{of("a.near"), data("a.near", "k"), data("a.near", "l"), data("a.near", "m"), of("a.near2")} {
			v, err := now.Get([]byte(key), nil)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case v == nil:
				out += "- "
			case key[0] == 0:
				out += fmt.Sprint(v[0], " ") // the first byte of the account's amount
			default:
				out += string(v) + " "
			}
		}
		return strings.TrimSpace(out)
	}
	is := func(what, want string) {
		t.Helper()
		if got := show(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	is("at first", "1 old old - 2")
	write := func(u *state.TrieUpdate) error {
		u.Set([]byte(data("a.near", "k")), []byte("mine"))
		u.Set([]byte(data("a.near", "m")), []byte("mine"))
		u.Remove([]byte(data("a.near", "l")))
		return nil
	}
	step(write)
	is("written", "1 mine - mine 2")
	step(func(u *state.TrieUpdate) error { return u.Rebase("a.near", primitives.Hash{}, true) })
	is("cut off", "- mine - mine 2")
	step(func(u *state.TrieUpdate) error { return u.Rebase("a.near", base.pinned, false) })
	is("reset", "1 old old - 2")
	step(func(u *state.TrieUpdate) error { return u.Rebase("a.near", primitives.Hash{2}, false) })
	is("of another block", "3 new - - 2")
	step(write)
	is("written on that", "3 mine - mine 2")
	step(func(u *state.TrieUpdate) error { _, err := u.RemoveAccount("a.near"); return err })
	is("removed", "- - - - 2")
	step(func(u *state.TrieUpdate) error { return u.Rebase("a.near", base.pinned, false) })
	is("reset again", "1 old old - 2")
	step(func(u *state.TrieUpdate) error { _, err := u.RemoveAccount("a.near2"); return err })
	is("its neighbour removed", "1 old old - -")
	plain := state.NewUnrecorded(stateTrie{grown(t, trie.New(trie.Options{}), map[string]string{"\x00a": "x"})})
	if err := plain.Rebase("a", primitives.Hash{}, true); !errors.Is(err, state.ErrNoFork) {
		t.Errorf("of no fork: %v", err)
	}
	base.away = true
	if _, err := state.NewUnrecorded(now).Get([]byte(of("new.near"))); !errors.Is(err, state.ErrAway) {
		t.Errorf("what is not to be had: %v", err)
	}
}
