package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// accounts is a feed that is asked for single accounts.
type accounts interface {
	Account(ctx context.Context, block, root primitives.Hash, id primitives.AccountID) (*blockfeed.Account, error)
}

// TestContradictingAccountProofsAreRefused: accounts and keys are returned with a proof by the
// state root in the next block's chunk header. Feeds that contradict their proof, or spoil it, are
// refused. A feed without proofs is reported as such.
func TestContradictingAccountProofsAreRefused(t *testing.T) {
	dir := made(t)
	a := mustStart(t, dir)
	defer stop(t, a)
	key := a.home.ValidatorKey
	for n := range primitives.Nonce(3) {
		act(t, a, key, n+1, &primitives.Transfer{Deposit: primitives.NEAR(1)})
	}
	mine(t, a, 2)
	head := a.Engine.Head()
	prev := head.Header().PrevHash
	root := head.Block.Body.Chunks[0].PrevStateRoot
	honest := "rpc:http://" + a.Addr.String()
	of := func(url string) (*blockfeed.Account, error) {
		t.Helper()
		s, err := blockfeed.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		return s.(accounts).Account(t.Context(), prev, root, key.AccountID)
	}
	got, err := of(honest)
	if err != nil || !got.Proven || got.Amount.IsZero() {
		t.Fatalf("got %+v, error %v", got, err)
	}
	want := *got
	if got, err = of("rpc:" + lyingFeed(t, a, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		at := bytes.Index(body, []byte(`,"proof":[`))
		_, _ = w.Write(append(append([]byte(nil), body[:at]...), body[bytes.IndexByte(body[at:], ']')+at+1:]...))
	})); err != nil || got.Proven || got.Amount != want.Amount {
		t.Errorf("without a proof: %+v, %v", got, err)
	}
	lie := (*blockdoc.MismatchError)(nil)
	for name, spoiled := range map[string]func(body []byte) []byte{
		"another amount": func(body []byte) []byte { return bytes.Replace(body, []byte(`"amount":"`), []byte(`"amount":"1`), 1) },
		"a spoilt proof": func(body []byte) []byte {
			at := bytes.Index(body, []byte(`"proof":["`)) + 40
			out := bytes.Clone(body)
			if out[at] == 'A' {
				out[at] = 'B'
			} else {
				out[at] = 'A'
			}
			return out
		},
		"half a proof": func(body []byte) []byte {
			at := bytes.Index(body, []byte(`"proof":["`)) + len(`"proof":[`)
			end := bytes.IndexByte(body[at:], ',') + at
			return append(append([]byte(nil), body[:at]...), body[end+1:]...)
		},
	} {
		if got, err := of("rpc:" + lyingFeed(t, a, func(w http.ResponseWriter, _ *http.Request, body []byte) { _, _ = w.Write(spoiled(body)) })); !errors.As(err, &lie) {
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}

	var reply struct {
		Nonce uint64
		Proof [][]byte
	}
	if fault := rpcOf(t, a, "query", fmt.Sprintf(`{"request_type":"view_access_key","block_id":%q,"account_id":%q,"public_key":%q,"include_proof":true}`, prev, key.AccountID, key.PublicKey()), &reply); fault != "" {
		t.Fatal(fault)
	}
	value, err := blockfeed.Proven(root, primitives.AppendAccessKeyKey(nil, key.AccountID, key.PublicKey().Handle()), reply.Proof)
	if err != nil || value == nil {
		t.Fatalf("the key: %x, %v", value, err)
	}
	var k primitives.AccessKey
	if err := borsh.Unmarshal(value, &k); err != nil || uint64(k.Nonce) != reply.Nonce {
		t.Errorf("the key: %+v, %v; the answer has nonce %d", k, err, reply.Nonce)
	}
	var plain json.RawMessage
	if fault := rpcOf(t, a, "query", fmt.Sprintf(`{"request_type":"view_account","block_id":%q,"account_id":%q}`, prev, key.AccountID), &plain); fault != "" || bytes.Contains(plain, []byte("proof")) {
		t.Errorf("a reply has a proof that was not requested: %s %s", plain, fault)
	}
}
