package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/storage"
)

// made returns a home folder made by init.
func made(t testing.TB) (dir string) {
	t.Helper()
	return testnode.Home(t, home.InitOptions{ChainID: "sandbox"})
}

func start(t testing.TB, dir string) (*Daemon, error) {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Start(Options{Home: hm, Listen: "127.0.0.1:0"})
}

func mustStart(t testing.TB, dir string) *Daemon {
	t.Helper()
	h, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func stop(t testing.TB, h *Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// chainID requests a node's status and returns the chain id.
func chainID(t *testing.T, h *Daemon) string {
	t.Helper()
	r, err := http.Get("http://" + h.Addr.String() + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var status struct {
		ChainID string `json:"chain_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&status); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("/status: %d, %v", r.StatusCode, err)
	}
	return status.ChainID
}

// TestSecondNodeOnFolderIsRefused also starts a node after another one on the same folder has
// stopped.
func TestSecondNodeOnFolderIsRefused(t *testing.T) {
	dir := made(t)
	for range 2 {
		h := mustStart(t, dir)
		if got := chainID(t, h); got != "sandbox" {
			t.Errorf("chain_id = %q, want sandbox", got)
		}
		if other, err := start(t, dir); !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), dir) {
			t.Errorf("a second node on the folder: %v, %v; want ErrLocked with the folder's name", other, err)
		}
		stop(t, h)
		if _, err := http.Get("http://" + h.Addr.String() + "/status"); err == nil {
			t.Error("RPC is still served after Stop")
		}
	}
}

// TestFolderOfAnotherGenesisIsRefused: the folder stays as it was.
func TestFolderOfAnotherGenesisIsRefused(t *testing.T) {
	dir := made(t)
	stop(t, mustStart(t, dir))
	path := filepath.Join(dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change := func(to []byte) {
		t.Helper()
		if err := os.WriteFile(path, to, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change([]byte(strings.Replace(string(text), "1000000000000000000000000000000000", "1000000000000000000000000000000001", 1)))
	if h, err := start(t, dir); !errors.Is(err, storage.ErrForeign) || !strings.Contains(err.Error(), "remove") {
		t.Errorf("with another genesis: %v, %v; want ErrForeign and what to do", h, err)
	}
	change(text)
	stop(t, mustStart(t, dir))
}

func TestTakenPortErrorNamesAddressAndKey(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	hm, err := home.Load(made(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(Options{Home: hm, Listen: h.Addr.String()})
	if err == nil || !strings.Contains(err.Error(), h.Addr.String()) || !strings.Contains(err.Error(), "--rpc-addr") {
		t.Errorf("on a taken port: %v", err)
	}
}
