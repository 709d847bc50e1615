package rpc

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestKeyPages: a list of keys is complete unless pages are requested; each page has the key where
// the next one begins.
func TestKeyPages(t *testing.T) {
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

// TestNoProof: a request for a proof that no longer exists gets the first height that has proofs.
func TestNoProof(t *testing.T) {
	n := &fakeNode{}
	n.state.account = &primitives.Account{}
	n.state.proof = &view.LookupError{Kind: view.ErrNoProof, Height: 77}
	s := newServer(t, n, Options{})
	for _, method := range []string{"EXPERIMENTAL_view_state", "query"} {
		status, got := callMethod(s, method, `{"request_type":"view_state","block_id":5,"account_id":"a.near","prefix_base64":"","include_proof":true}`)
		if status != 200 || !strings.Contains(got, `"name":"PROOF_UNAVAILABLE"`) || !strings.Contains(got, `"earliest_provable_height":77`) ||
			!strings.Contains(got, `"data":"Proofs are to be had from block #77 on;`) {
			t.Errorf("%s: %d %s", method, status, got)
		}
	}
}
