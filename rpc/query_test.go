package rpc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestKeyListIsCompleteUnlessPaged: a list of keys is complete unless pages are requested; each
// page has the key where the next one begins.
func TestKeyListIsCompleteUnlessPaged(t *testing.T) {
	n := &fakeNode{}
	var handles []string
	for _, seed := range []string{"a", "b", "c"} {
		n.state.keys = append(n.state.keys, view.KeyInfo{Handle: primitives.SecretKeyFromSeed(primitives.ED25519, seed).PublicKey().Handle()})
	}
	for i := range n.state.keys { // in the order of the trie
		for k := range i {
			if x := n.state.keys; x[i].Handle < x[k].Handle {
				x[i], x[k] = x[k], x[i]
			}
		}
	}
	for _, k := range n.state.keys {
		handles = append(handles, strings.Trim(string(view.AppendHandle(nil, k.Handle)), `"`))
	}
	s := newServer(t, n, Options{})
	for _, c := range []struct {
		more       string
		want, none []string
	}{
		{``, handles, []string{"last_key"}},
		{`,"limit":2`, append([]string{`"last_key":"` + handles[1] + `"`}, handles[:2]...), handles[2:]},
		{`,"limit":2,"after_key":"` + handles[1] + `"`, handles[2:], []string{handles[0], handles[1], "last_key"}},
		{`,"limit":3`, handles, []string{"last_key"}},
		{`,"limit":null,"after_key":null`, handles, []string{"last_key"}},
		{`,"limit":0`, []string{"integer `0`, expected a nonzero u32"}, nil},
		{`,"after_key":"rsa:1"`, []string{"PARSE_ERROR"}, nil},
	} {
		for _, method := range []string{"EXPERIMENTAL_view_access_key_list", "query"} {
			_, got := callMethod(s, method, `{"request_type":"view_access_key_list","finality":"final","account_id":"a.near"`+c.more+`}`)
			for _, text := range c.want {
				if !strings.Contains(got, text) {
					t.Errorf("%s%s: no %s in %s", method, c.more, text, got)
				}
			}
			for _, text := range c.none {
				if strings.Contains(got, text) {
					t.Errorf("%s%s: %s in %s", method, c.more, text, got)
				}
			}
		}
	}
}

// TestManyAccessKeysAreServedInPages: with more keys than view_access_keys_limit only pages are
// answered, of at most that many keys; exactly that many are listed.
func TestManyAccessKeysAreServedInPages(t *testing.T) {
	n := &fakeNode{}
	for _, seed := range []string{"a", "b", "c", "d", "e"} {
		n.state.keys = append(n.state.keys, view.KeyInfo{Handle: primitives.SecretKeyFromSeed(primitives.ED25519, seed).PublicKey().Handle()})
	}
	slices.SortFunc(n.state.keys, func(x, y view.KeyInfo) int { return strings.Compare(string(x.Handle), string(y.Handle)) })
	key := func(i int) string { return n.state.keys[i].Handle.String() }
	for _, c := range []struct {
		name         string
		most         uint32
		more         string
		first, count int // -1: refused
		last         string
	}{
		{"all, above the limit", 4, "", 0, -1, ""},
		{"all, at the limit", 5, "", 0, 5, ""},
		{"null asks for no page", 4, `,"limit":null,"after_key":null`, 0, -1, ""},
		{"limit below", 4, `,"limit":2`, 0, 2, key(1)},
		{"limit above is lowered", 4, `,"limit":100`, 0, 4, key(3)},
		{"after_key alone", 3, `,"after_key":"` + key(0) + `"`, 1, 3, key(3)},
		{"the last page", 3, `,"after_key":"` + key(1) + `"`, 2, 3, ""},
		{"both", 4, `,"limit":1,"after_key":"` + key(1) + `"`, 2, 1, key(2)},
		{"after the last key", 4, `,"after_key":"` + key(4) + `"`, 5, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, n, Options{ViewKeysLimit: c.most})
			for _, method := range []string{"EXPERIMENTAL_view_access_key_list", "query"} {
				status, got := callMethod(s, method, `{"request_type":"view_access_key_list","finality":"final","account_id":"a.near"`+c.more+`}`)
				if c.count < 0 {
					want := fmt.Sprintf(`{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{"block_hash":%q,"block_height":100,"limit":%d,`+
						`"requested_account_id":"a.near"},"name":"TOO_MANY_ACCESS_KEYS"},"code":-32000,"message":"Server error","data":"Account a.near has more `+
						`than %d access keys; use a paginated view_access_key_list request"},"id":1}`, testHash, c.most, c.most)
					if status != 200 || got != want {
						t.Errorf("%s, %s: %d %s\nwant %s", c.name, method, status, got, want)
					}
					continue
				}
				var r struct {
					Result struct {
						Keys []struct {
							Key string `json:"public_key"`
						}
						Last string `json:"last_key"`
					}
				}
				if err := json.Unmarshal([]byte(got), &r); err != nil || status != 200 {
					t.Fatalf("%s, %s: status %d, got %s, error %v", c.name, method, status, got, err)
				}
				if len(r.Result.Keys) != c.count || r.Result.Last != c.last || strings.Contains(got, "last_key") != (c.last != "") {
					t.Errorf("%s, %s: %s, want %d keys and last_key %q", c.name, method, got, c.count, c.last)
				}
				for i, k := range r.Result.Keys {
					if k.Key != key(c.first+i) {
						t.Errorf("%s, %s: key %d is %s, want %s", c.name, method, i, k.Key, key(c.first+i))
					}
				}
			}
		})
	}
}

// TestMissingProofErrorHasFirstHeight: a request for a proof that no longer exists gets the first
// height that has proofs.
func TestMissingProofErrorHasFirstHeight(t *testing.T) {
	n := &fakeNode{}
	n.state.account = &primitives.Account{}
	n.state.proof = &view.LookupError{Kind: view.ErrNoProof, Height: 77}
	s := newServer(t, n, Options{})
	for _, method := range []string{"EXPERIMENTAL_view_state", "query"} {
		status, got := callMethod(s, method, `{"request_type":"view_state","block_id":5,"account_id":"a.near","prefix_base64":"","include_proof":true}`)
		if status != 200 || !strings.Contains(got, `"name":"PROOF_UNAVAILABLE"`) || !strings.Contains(got, `"earliest_provable_height":77`) ||
			!strings.Contains(got, `"data":"Proofs are to be had from block #77 on;`) {
			t.Errorf("%s: status %d, got %s", method, status, got)
		}
	}
}
