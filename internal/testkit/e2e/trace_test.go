//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// TestTraceCommandShowsCallAndProfiles runs `troupe trace` as a developer does: for an executed
// call, with profiles in both formats, and for a call that is not signed yet.
func TestTraceCommandShowsCallAndProfiles(t *testing.T) {
	home := newHome(t)
	p := start(t, home)
	s := p.signer()
	encode := func(sign bool, actions ...primitives.Action) (string, primitives.Hash) {
		s.nonce++
		tx := primitives.Transaction{
			SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: s.nonce},
			ReceiverID: s.key.AccountID, BlockHash: s.base, Actions: actions,
		}
		hash, sig := tx.Hash(), primitives.ZeroED25519Signature
		if sign {
			sig = s.key.SecretKey.Sign(hash[:])
		}
		return base64.StdEncoding.EncodeToString(primitives.NewSignedTransaction(tx, sig).AppendBorsh(nil)), hash
	}
	call := &primitives.FunctionCall{Method: "new", Gas: 100e12,
		Args: []byte(`{"owner_id":"test.near","total_supply":"10","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`)}
	signed, hash := encode(true, &primitives.DeployContract{Code: contracts.C("ft")}, call)
	p.send(signed, "FINAL")

	dir := t.TempDir()
	speedscope, pprof := filepath.Join(dir, "gas.json"), filepath.Join(dir, "gas.pb.gz")
	said, err := troupe(t, "trace", hash.String(), "--url", "http://"+p.addr, "--flame", speedscope)
	if err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, said)
	}
	for _, want := range []string{hash.String(), "call new", "storage_write", "EVENT_JSON"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	var file struct{ Profiles []struct{ Name string } }
	if b, err := os.ReadFile(speedscope); err != nil || json.Unmarshal(b, &file) != nil || len(file.Profiles) != 1 {
		t.Errorf("%s: error %v, file %+v", speedscope, err, file)
	}
	if said, err := troupe(t, "trace", hash.String(), "--url", "http://"+p.addr, "--flame", pprof); err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, said)
	}
	f, err := os.Open(pprof)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if prof, err := profile.Parse(f); err != nil || len(prof.Sample) < 10 {
		t.Errorf("%s: error %v", pprof, err)
	}
	unsigned, _ := encode(false, call)
	said, err = troupe(t, "trace", "--signed", unsigned, "--skip-signature-check", "--url", "http://"+p.addr)
	if err != nil || !strings.Contains(said, "would do") || !strings.Contains(said, "Already initialized") {
		t.Errorf("error %v\noutput:\n%s", err, said)
	}
}
