package state

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrNoFork means that the state does not belong to a fork of another chain.
var ErrNoFork = errors.New("state: not a fork of another chain")

// goneMark is the value of a removal mark. On a fork of another chain, a removal mark is an entry
// of the local trie which means that the fork has removed a key. Without the mark, a read would
// return the other chain's value.
var goneMark = []byte{1}

// markGone writes a removal mark for each key that this chunk removed and that the other chain may
// have. If the fork writes the key again, the mark stays; reads look for a local value first.
func (u *TrieUpdate) markGone() {
	for i := range len(u.entries) { // the length is evaluated once, because the loop appends marks to u.entries
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

// Rebase drops the local changes of an account, its keys, code and data on a fork of another chain.
// From then on, the account reads as it was after block base of the other chain; a zero base means
// that the other chain does not have the account. With keep, the local changes stay. The chunk must
// not remove the account after Rebase.
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
