package state

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrNoFork: the state is of a chain of its own.
var ErrNoFork = errors.New("state: not a fork of another chain")

// goneMark is the value of a mark.
var goneMark = []byte{1}

// markGone leaves a mark for each key that was removed and that the other chain may have. A mark
// stays when the key is written again: what is written here is looked for first.
func (u *TrieUpdate) markGone() {
	for i := range len(u.entries) { // those that it adds are marks
		e := &u.entries[i]
		if e.last == 0 || u.changes[e.last-1].value != nil || !primitives.Inherited([]byte(e.key)) {
			continue
		}
		if a, ok, err := primitives.TrieKeyAccount([]byte(e.key)); ok && err == nil && u.rebased[a] {
			continue
		}
		cause := u.causes[u.changes[e.last-1].cause]
		u.put(primitives.AppendForkGoneKey(nil, []byte(e.key)), goneMark)
		u.Commit(cause.Kind, cause.Hash)
	}
}

// Rebase forgets what a fork has made of an account, its keys, code and data, and has the account
// be as after a block of the other chain from now on; zero: as if that chain had none. keep leaves
// what was made of it. Nothing of the account is to be removed behind it in the same chunk.
func (u *TrieUpdate) Rebase(id primitives.AccountID, base primitives.Hash, keep bool) error {
	f, ok := u.trie.(Forked)
	if !ok {
		return ErrNoFork
	}
	u.Set(primitives.AppendForkBaseKey(nil, id), append([]byte{}, base[:]...))
	if keep {
		return nil
	}
	if u.rebased == nil {
		u.rebased = map[primitives.AccountID]bool{}
	}
	u.rebased[id] = true
	var gone [][]byte
	prefixes := [][]byte{primitives.AppendAccessKeyPrefix(nil, id), primitives.AppendContractDataKey(nil, id, nil)}
	for _, key := range [][]byte{primitives.AppendAccountKey(nil, id), primitives.AppendCodeKey(nil, id)} {
		gone = append(gone, key, primitives.AppendForkGoneKey(nil, key))
	}
	for _, p := range prefixes {
		for _, p := range [][]byte{p, primitives.AppendForkGoneKey(nil, p)} {
			err := u.keysOf(f.Local(), p, func(key []byte) error {
				gone = append(gone, key)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, key := range gone {
		u.put(key, nil)
	}
	return nil
}
