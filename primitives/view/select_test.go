package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// trieKey returns the trie key and value of a change.
func trieKey(c *Change) (key, value []byte) {
	switch c.Kind {
	case AccountChange:
		c.Account.Version = primitives.AccountV1
		c.Account.SetContract(c.Account.Contract)
		key, value = primitives.AppendAccountKey(nil, c.AccountID), c.Account.AppendBorsh(nil)
	case ContractCodeChange:
		key, value = primitives.AppendCodeKey(nil, c.AccountID), c.Value
	case AccessKeyChange:
		key, value = primitives.AppendAccessKeyKey(nil, c.AccountID, c.Handle), c.AccessKey.AppendBorsh(nil)
	case GasKeyNonceChange:
		key = primitives.AppendGasKeyNonceKey(nil, c.AccountID, c.Handle, c.Index)
		value = borsh.AppendUint64(nil, uint64(c.Nonce))
	case DataChange:
		key, value = primitives.AppendContractDataKey(nil, c.AccountID, c.Key), c.Value
	}
	if c.Deletion {
		value = nil
	}
	return key, value
}

// TestSelectMatchesRecordedChanges converts the recorded changes of each block to the storage form,
// and selects them from it.
func TestSelectMatchesRecordedChanges(t *testing.T) {
	t.Parallel()
	kinds := map[string]ChangesKind{"account_changes": AccountChanges, "all_access_key_changes": AllAccessKeyChanges,
		"contract_code_changes": ContractCodeChanges, "data_changes": DataChanges}
	eachLine(t, func(t *testing.T, in []byte) {
		var l struct {
			Effects []struct {
				AccountID primitives.AccountID `json:"account_id"`
				Type      string               `json:"type"`
			}
			Changes map[string][]json.RawMessage
		}
		if !bytes.Contains(in[:min(len(in), 40)], []byte(`"effects"`)) {
			return
		}
		parse(t, in, &l)
		var block []primitives.KeyChanges
		for _, name := range []string{"account_changes", "all_access_key_changes", "contract_code_changes", "data_changes"} {
			for _, raw := range l.Changes[name] {
				var j changeJSON
				parse(t, raw, &j)
				c := j.value(t)
				key, value := trieKey(c)
				i := slices.IndexFunc(block, func(k primitives.KeyChanges) bool { return bytes.Equal(k.Key, key) })
				if i < 0 {
					block = append(block, primitives.KeyChanges{Key: key})
					i = len(block) - 1
				}
				block[i].Changes = append(block[i].Changes, primitives.StateChange{Cause: c.Cause, Value: value})
			}
		}
		slices.SortFunc(block, func(a, b primitives.KeyChanges) int { return bytes.Compare(a.Key, b.Key) })

		effects, err := Effects(block)
		if err != nil {
			t.Fatal(err)
		}
		var accounts []primitives.AccountID
		for i, e := range l.Effects {
			if i >= len(effects) || effects[i].AccountID != e.AccountID || effects[i].Kind.String()+"_touched" != e.Type {
				t.Fatalf("effects = %v, want %v", effects, l.Effects)
			}
			accounts = append(accounts, e.AccountID)
		}
		slices.Sort(accounts)
		accounts = slices.Compact(accounts)
		for name, want := range l.Changes {
			r := ChangesRequest{Kind: kinds[name], Accounts: accounts}
			got, err := r.Select(block)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d changes, want %d", name, len(got), len(want))
			}
			for i := range got {
				same(t, name, AppendChange(nil, &got[i]), want[i])
			}
		}
	})
}

// TestSelectedChangesAreBounded: an account that is named repeatedly is shown repeatedly, as in
// neard, up to the bound. Beyond it, and for prefixes that are no key's, selecting costs little.
func TestSelectedChangesAreBounded(t *testing.T) {
	code := make([]byte, 30_000)
	block := []primitives.KeyChanges{{Key: primitives.AppendCodeKey(nil, "a.near"), Changes: []primitives.StateChange{{Value: code}}}}
	r := ChangesRequest{Kind: ContractCodeChanges, Accounts: slices.Repeat([]primitives.AccountID{"a.near"}, 150)}
	got, err := r.Select(block)
	if err != nil || len(got) != 150 || r.Size < 150*40_000 {
		t.Errorf("without a bound: %d changes of %d bytes, %v", len(got), r.Size, err)
	}
	r.Max = 1 << 20
	if got, err = r.Select(block); !errors.Is(err, ErrTooLarge) || len(got) > 27 {
		t.Errorf("with 1 MiB: %d changes, %v", len(got), err)
	}
	r = ChangesRequest{Kind: DataChanges, Accounts: r.Accounts, Prefix: make([]byte, 1<<20)}
	if cost := testing.AllocsPerRun(1, func() { got, err = r.Select(block) }); err != nil || len(got) > 0 || cost > 10 {
		t.Errorf("a prefix of 1 MiB: %d changes, %v, %v allocations", len(got), err, cost)
	}
}
