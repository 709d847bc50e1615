package backend

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// TestAccountsByPrefixComeInOrder: accounts are found in all shards, in order, page by page, and no
// others.
func TestAccountsByPrefixComeInOrder(t *testing.T) {
	o := workload.ChainOptions{Options: workload.Options{Seed: 1, Accounts: 20, Shards: 4,
		Names: []primitives.AccountID{"alice.test", "alice.near", "alicea.near", "bob.near", "zoe.near"}}}
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	all, more, err := b.Accounts(t.Context(), "", "", 1000)
	if err != nil || more || len(all) < 20 || !slices.IsSorted(all) || !slices.Contains(all, "zoe.near") {
		t.Fatalf("all %v, more %v, error %v", all, more, err)
	}
	for _, prefix := range []string{"", "alice", "alice.", "bob.near", "zz", "a"} {
		var want, got []primitives.AccountID
		for _, a := range all {
			if strings.HasPrefix(string(a), prefix) {
				want = append(want, a)
			}
		}
		for after, more := "", true; more; {
			var page []primitives.AccountID
			if page, more, err = b.Accounts(t.Context(), prefix, after, 2); err != nil || len(page) > 2 || more && len(page) < 2 {
				t.Fatalf("%q after %q: %v, %v, %v", prefix, after, page, more, err)
			}
			if got = append(got, page...); len(page) > 0 {
				after = string(page[len(page)-1])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", prefix, got, want)
		}
	}
}
