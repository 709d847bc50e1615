package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// TestNewValidatorKeyWaits: a validator key that is new to the data folder signs nothing for as many
// blocks as config.json says. Status, the metrics, validate-config and the reason why no blocks are
// made show that. Reloading config.json ends the wait, and a key that has signed does not wait
// again.
func TestNewValidatorKeyWaits(t *testing.T) {
	dir := made(t)
	path := filepath.Join(dir, "config.json")
	plain, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(blocks int) {
		t.Helper()
		text := fmt.Sprintf(`%s,"troupe":{"network":{"enabled":true},"validator":{"new_key_wait_blocks":%d}}}`,
			strings.TrimSuffix(strings.TrimSpace(string(plain)), "}"), blocks)
		text = strings.Replace(text, `"0.0.0.0:24567"`, `"127.0.0.1:0"`, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(from primitives.Height) *Daemon {
		t.Helper()
		hm := loaded(t, dir)
		v := hm.Genesis.Validators[0]
		v.AccountID, v.PublicKey = "near", primitives.SecretKeyFromSeed(primitives.ED25519, "other").PublicKey()
		hm.Genesis.Validators = append(hm.Genesis.Validators, v)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true, SignFrom: from})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	// becomes waits until status shows the wait want, and the node has the reason.
	becomes := func(h *Daemon, want, reason string) {
		t.Helper()
		got := ""
		for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			if got = "none"; (obstacles{h.Node}).KeyWait() != nil {
				got = fmt.Sprintf("%+v", *(obstacles{h.Node}).KeyWait())
			}
			if obstacle := h.Obstacle(); got == want && strings.Contains(obstacle, reason) && (reason == "") == (obstacle == "") {
				return
			}
		}
		t.Fatalf("the wait is %s, want %s; obstacle %q, want %q", got, want, h.Obstacle(), reason)
	}
	warned := func() bool {
		return strings.Contains(strings.Join(CheckHome(dir, false).Warnings, "\n"), "signs nothing for 100 new blocks")
	}
	wait(100)
	if !warned() {
		t.Errorf("validate-config does not warn: %+v", CheckHome(dir, false))
	}
	h := begin(0)
	becomes(h, "{From:0 Left:100}", "counted from the next new block")
	if text := string(h.server.AppendMetrics(nil)); !strings.Contains(text, "\ntroupe_validator_key_wait_blocks 100\n") {
		t.Error("the metric of the wait is missing")
	}
	if s, err := h.back.Status(); err != nil || s.KeyWait == nil || s.KeyWait.Left != 100 {
		t.Errorf("status: %+v, %v", s, err)
	}
	stop(t, h)
	journal := filepath.Join(loaded(t, dir).Paths.Data, signedFile)
	row, err := validator.ReadRow(journal)
	if err != nil || row == nil {
		t.Fatalf("the time at which the wait began is not stored: %x, %v", row, err)
	}

	h = begin(0) // a restart
	becomes(h, "{From:0 Left:100}", "counted from the next new block")
	wait(0)
	if r, err := h.Reload(); err != nil || strings.Join(r.Taken, " ") != keyWaitKey {
		t.Fatalf("%+v, %v", r, err)
	}
	becomes(h, "none", "")
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now, err := validator.ReadRow(journal)
		if err == nil && string(now) != string(row) {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the validator signs nothing after the wait")
		}
	}
	stop(t, h)

	wait(100)
	if warned() {
		t.Error("validate-config warns of a key that has signed")
	}
	h = begin(0)
	becomes(h, "none", "")
	stop(t, h)
	h = begin(50)
	becomes(h, "{From:49 Left:49}", "signs nothing up to block 49")
	wait(200)
	if r, err := h.Reload(); err != nil || strings.Join(r.Taken, " ") != keyWaitKey {
		t.Fatalf("%+v, %v", r, err)
	}
	becomes(h, "{From:49 Left:49}", "signs nothing up to block 49") // Options.SignFrom still counts
	keyFile := loaded(t, dir).Paths.ValidatorKey
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, removed := range []bool{true, false} { // the key may have signed elsewhere
		if removed {
			err = os.Remove(keyFile)
		} else {
			err = os.WriteFile(keyFile, key, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	becomes(h, "none", "")
	stop(t, h)
}

// TestPublicNetworksWaitAnEpoch: without a setting, a new key waits only on mainnet and testnet, and
// not on a private chain with such a name.
func TestPublicNetworksWaitAnEpoch(t *testing.T) {
	hm := loaded(t, made(t))
	hm.Genesis.EpochLength = 77
	newest := hm.Genesis.ProtocolVersion
	for chain, want := range map[string]primitives.Height{"sandbox": 0, "localnet": 0, "mainnet": 77, "testnet": 77} {
		hm.Genesis.ChainID, hm.Genesis.ProtocolVersion = chain, newest
		if got := hm.KeyWait(hm.Config); got != 0 {
			t.Errorf("a private chain with the name %s: %d blocks", chain, got)
		}
		if want > 0 {
			hm.Genesis.ProtocolVersion = primitives.ProdGenesisProtocolVersion
		}
		if got := hm.KeyWait(hm.Config); got != want {
			t.Errorf("%s: %d blocks, want %d", chain, got, want)
		}
		set := uint64(5)
		c := *hm.Config
		c.NewKeyWait = &set
		if got := hm.KeyWait(&c); got != 5 {
			t.Errorf("%s with a setting: %d blocks", chain, got)
		}
	}
	hm.Genesis.ChainID, hm.Genesis.ProtocolVersion = "mainnet", primitives.ProdGenesisProtocolVersion
	if err := os.WriteFile(filepath.Join(hm.Paths.Dir, home.ForkFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := hm.KeyWait(hm.Config); got != 0 {
		t.Errorf("a fork of mainnet: %d blocks", got)
	}
}
