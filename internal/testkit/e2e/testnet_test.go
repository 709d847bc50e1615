//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/mainnetpeer"
	"github.com/troupe-chain/troupe/primitives"
)

// TestNodeBeginsOnTestnet: a node starts from testnet's genesis, whose records it reads once. It
// answers for the genesis block, looks for peers, and takes a proof of epochs from one after a
// kill. It does not start from another genesis of that name.
// TROUPE_TESTNET_RECORDS is a number of megabytes of records; then the test logs what the first start
// takes.
func TestNodeBeginsOnTestnet(t *testing.T) {
	o := mainnetpeer.Options{ChainID: "testnet", Epochs: 8, EpochLength: 60, Extra: 10, Accounts: 100, File: filepath.Join(t.TempDir(), "headers")}
	if text := os.Getenv("TROUPE_TESTNET_RECORDS"); text != "" {
		mb, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Accounts = mb * 1_000_000 / 1500
	}
	c, err := mainnetpeer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := newMainnetNode(t, c)
	n.refuses(t, c)

	n.slowly(t)
	n.requireSyncing(t, c)
	t.Logf("first start with a genesis of %d bytes: %v, %s", len(c.Genesis), n.ready.Round(time.Millisecond), n.used(t))
	for _, params := range []any{map[string]any{"block_id": c.Start()}, map[string]any{"block_id": c.GenesisHash}} {
		var b struct {
			Header struct {
				Hash   primitives.Hash   `json:"hash"`
				Height primitives.Height `json:"height"`
			} `json:"header"`
		}
		if n.get("block", params, &b); b.Header.Hash != c.GenesisHash || b.Header.Height != c.Start() {
			t.Errorf("block %v: %+v, want %v at %d", params, b, c.GenesisHash, c.Start())
		}
	}
	if out := n.out.String(); !strings.Contains(out, "only the genesis of testnet") {
		t.Errorf("the log does not say what is missing:\n%s", tail(out, 4000))
	}
	n.kills(t)

	p, err := c.Serve(mainnetpeer.PeerOptions{Name: "neard", Proof: c.Packed})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n.slowly(t, bootFlags(p)...)
	t.Logf("second start: %v, %s", n.ready.Round(time.Millisecond), n.used(t))
	n.waits(t, "the proof is accepted", 10*time.Minute, func() bool { return strings.Contains(n.out.String(), "epoch sync proof accepted") })
	n.requireSyncing(t, c)
	n.requireUnbanned(t)
	if got := p.Proofs.Load(); got != 1 {
		t.Errorf("%d requests for a proof, want 1", got)
	}
}

// slowly starts a node whose first start may take minutes.
func (n *mainnetNode) slowly(t *testing.T, flags ...string) {
	t.Helper()
	began, addr := time.Now(), freeAddr(t)
	args := append([]string{"GOMAXPROCS=1", n.binary, "--home", n.dir, "run", "--rpc-addr", addr, "--network-addr", n.network}, flags...)
	n.process = launchAs(t, n.dir, addr, "env", args...)
	n.waits(t, "the start", 30*time.Minute, func() bool {
		r, err := http.Get("http://" + addr + "/status")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	n.ready = time.Since(began)
}

// refuses requires that the node does not start with the genesis of another testnet, and that the
// error has the expected hash. It removes the data folder, as the error of a start with the right
// genesis then asks for.
func (n *mainnetNode) refuses(t *testing.T, c *mainnetpeer.Chain) {
	t.Helper()
	path := filepath.Join(n.dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(text, fmt.Appendf(nil, `"genesis_height": %d`, c.Start()), fmt.Appendf(nil, `"genesis_height": %d`, c.Start()+1), 1)
	if bytes.Equal(other, text) {
		t.Fatal("the genesis has no height")
	}
	if err := os.WriteFile(path, other, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), n.binary, "--home", n.dir, "run", "--rpc-addr", freeAddr(t), "--network-addr", n.network).CombinedOutput()
	want := fmt.Sprintf("the genesis block of chain %q is %v", c.ID(), c.GenesisHash)
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("start with another genesis: %v, output %s, want %q", err, tail(string(out), 4000), want)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
