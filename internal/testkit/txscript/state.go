package txscript

import (
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
)

// read calls do with the state, at the head, of the shard of account id.
func (w *World) read(id primitives.AccountID, do func(state.Trie) error) error {
	s, err := w.Engine.StateAt(w.Engine.Head().Hash)
	if err != nil {
		return err
	}
	defer s.Release()
	i, err := s.Layout.Index(s.Layout.ShardOf(id))
	if err != nil {
		return err
	}
	return do(s.Trie(i))
}

// Data returns the storage of a contract as text, one line for each key.
func (w *World) Data(id primitives.AccountID) (string, error) {
	var b strings.Builder
	prefix := primitives.AppendContractDataKey(nil, id, nil)
	err := w.read(id, func(t state.Trie) error {
		return t.Scan(prefix, nil, t.NewRecording(), func(key, v []byte) bool {
			fmt.Fprintf(&b, "%s = %s\n", value(key[len(prefix):]), value(v))
			return true
		})
	})
	return b.String(), err
}

// Account returns a text that describes an account at the head.
func (w *World) Account(id primitives.AccountID) (text string, err error) {
	err = w.read(id, func(t state.Trie) error {
		raw, err := t.Get(primitives.AppendAccountKey(nil, id), t.NewRecording())
		if err != nil {
			return err
		}
		if text = "no account " + string(id) + "\n"; raw == nil {
			return nil
		}
		var a primitives.Account
		err = borsh.Unmarshal(raw, &a)
		text = fmt.Sprintf("%s: %v, locked %v, storage %d bytes, code %s\n", id, a.Amount, a.Locked, a.StorageUsage, contract(&a.Contract))
		if !a.IsInitialized() {
			text = fmt.Sprintf("%s: %v, storage %d bytes, uninitialized\n", id, a.Amount, a.StorageUsage)
		}
		return err
	})
	return text, err
}

// account returns an account at the head; nil: it does not exist.
func (w *World) account(id primitives.AccountID) (a *primitives.Account, err error) {
	err = w.read(id, func(t state.Trie) error {
		raw, err := t.Get(primitives.AppendAccountKey(nil, id), nil)
		if raw == nil || err != nil {
			return err
		}
		a = new(primitives.Account)
		return borsh.Unmarshal(raw, a)
	})
	return a, err
}

func contract(c *primitives.AccountContract) string {
	switch {
	case c.Account != "":
		return "of " + string(c.Account)
	case c.Hash != primitives.Hash{}:
		return c.Hash.String()
	}
	return "none"
}
