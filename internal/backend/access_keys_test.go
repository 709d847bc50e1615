package backend

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
)

// pairsReader is a reader of pairs in ascending order. It counts the pairs that scans have passed.
type pairsReader struct {
	reader
	pairs  []state.Change
	passed int
}

func (r *pairsReader) scan(prefix, after []byte, each func(key, value []byte) bool) error {
	for _, p := range r.pairs {
		if !bytes.HasPrefix(p.Key, prefix) || after != nil && bytes.Compare(p.Key, after) <= 0 {
			continue
		}
		if r.passed++; !each(p.Key, p.Value) {
			break
		}
	}
	return nil
}

// TestAccessKeyPagesSkipGasKeyNonces: the records of gas keys' nonces are no keys, at the end of an
// account's keys and between them, for all page sizes and every place where a page may begin. Those
// of a key with many are not even passed.
func TestAccessKeyPagesSkipGasKeyNonces(t *testing.T) {
	const account = primitives.AccountID("alice.near")
	var handles []primitives.PublicKeyHandle
	r := &pairsReader{}
	put := func(key []byte, value []byte) { r.pairs = append(r.pairs, state.Change{Key: key, Value: value}) }
	types := []primitives.KeyType{primitives.ED25519, primitives.SECP256K1}
	for i := range 9 {
		h := primitives.SecretKeyFromSeed(types[i%2], string(rune('a'+i))).PublicKey().Handle()
		handles = append(handles, h)
		k := primitives.AccessKey{Nonce: primitives.Nonce(i)}
		if i%3 != 0 {
			nonces := [...]uint16{1: manyNonces, 2: 1024}[i%3]
			k = primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: nonces}}
			for n := range nonces {
				put(primitives.AppendGasKeyNonceKey(nil, account, h, n), borsh.AppendUint64(nil, 7))
			}
		}
		put(primitives.AppendAccessKeyKey(nil, account, h), k.AppendBorsh(nil))
	}
	put(primitives.AppendAccessKeyKey(nil, "alice.near2", handles[0]), nil)
	put(primitives.AppendAccessKeyKey(nil, "alice.nea", handles[0]), nil)
	slices.SortFunc(r.pairs, func(x, y state.Change) int { return bytes.Compare(x.Key, y.Key) })
	slices.Sort(handles)

	s := &snapshot{r: r}
	all, more, err := s.AccessKeys(account, "", 0)
	if err != nil || more || len(all) != len(handles) {
		t.Fatalf("%d keys, more %v, %v", len(all), more, err)
	}
	if most := len(handles) * (1 + manyNonces); r.passed > most {
		t.Errorf("%d records were passed, want at most %d", r.passed, most)
	}
	for from := -1; from < len(handles); from++ {
		after := primitives.PublicKeyHandle("")
		if from >= 0 {
			after = handles[from]
		}
		for limit := 1; limit <= len(handles)+1; limit++ {
			got, more, err := s.AccessKeys(account, after, limit)
			want := all[from+1:]
			wantMore := len(want) > limit
			want = want[:min(limit, len(want))]
			if err != nil || more != wantMore || len(got) != len(want) {
				t.Errorf("%d keys after key %d, limit %d: more %v, %v; want %d, %v", len(got), from, limit, more, err, len(want), wantMore)
				continue
			}
			for i := range got {
				if got[i].Handle != want[i].Handle || got[i].Handle != handles[from+1+i] {
					t.Errorf("after key %d, limit %d: key %d is %v", from, limit, i, got[i].Handle)
				}
			}
		}
	}
	// a key that the account does not have, between two that it has
	missing := []byte(handles[3])
	missing[len(missing)-1]++
	if got, _, err := s.AccessKeys(account, primitives.PublicKeyHandle(missing), 2); err != nil || len(got) != 2 || got[0].Handle != handles[4] {
		t.Errorf("after a key that is not there: %v, %v", got, err)
	}
}
