//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// follow makes a home folder for a node without a validator key, on the chain of another home
// folder.
func follow(t *testing.T, of string) string {
	t.Helper()
	return newHome(t, "--genesis", filepath.Join(of, "genesis.json"))
}

// peerOf returns the boot node address of a node: key@address.
func peerOf(t *testing.T, dir, addr string) string {
	t.Helper()
	return fmt.Sprintf("%v@%s", keyOf(t, dir), addr)
}

// quicOf returns the libp2p multiaddr of a node over QUIC. The peer id is the node's key with
// libp2p's prefix for its type.
func quicOf(t *testing.T, dir, addr string) string {
	t.Helper()
	at := netip.MustParseAddrPort(addr)
	name := base58.Encode(append([]byte("\x00\x24\x08\x01\x12\x20"), keyOf(t, dir).Raw()...))
	return fmt.Sprintf("/ip4/%s/udp/%d/quic-v1/p2p/%s", at.Addr(), at.Port(), name)
}

// keyOf returns a node's public key.
func keyOf(t *testing.T, dir string) primitives.PublicKey {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "node_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := home.ParseNodeKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return k.PublicKey()
}

// syncing is the sync state in a node's status.
type syncing struct {
	Sync struct {
		Height  uint64 `json:"latest_block_height"`
		Syncing bool   `json:"syncing"`
	} `json:"sync_info"`
}

func (p *process) place() (s syncing) {
	p.t.Helper()
	p.get("status", []any{}, &s)
	return s
}

// reaches waits until a node has synced to a height.
func (p *process) reaches(height uint64, within time.Duration) time.Duration {
	p.t.Helper()
	begun := time.Now()
	for {
		s := p.place()
		if s.Sync.Height >= height && !s.Sync.Syncing {
			return time.Since(begun)
		}
		if time.Since(begun) > within {
			p.t.Fatalf("height %d, syncing %v, want height %d", s.Sync.Height, s.Sync.Syncing, height)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// same requires that two nodes reply with the same bytes.
func same(t *testing.T, a, b *process, method string, params any) {
	t.Helper()
	x, err := a.call(method, params)
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.call(method, params)
	if err != nil {
		t.Fatal(err)
	}
	if x.Error != nil || !bytes.Equal(x.Result, y.Result) {
		t.Errorf("%s %v:\nresult %s, error %+v\n%s, %+v", method, params, x.Result, x.Error, y.Result, y.Error)
	}
}

// load submits transfers to a node until stop is closed. It calls done with each that is final.
func load(p *process, clients int, stop <-chan struct{}, done func(primitives.Hash)) *sync.WaitGroup {
	var group sync.WaitGroup
	var mu sync.Mutex
	s := p.signer()
	for range clients {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				encoded, hash := s.next()
				mu.Unlock()
				if r, err := p.call("send_tx", map[string]any{"signed_tx_base64": encoded, "wait_until": "EXECUTED"}); err == nil && r.Error == nil {
					done(hash)
				}
			}
		})
	}
	return &group
}

// TestFollowersCatchUpWithValidator: a validator produces blocks under load. A second node syncs
// from the genesis, gives byte-identical replies, forwards transactions of its clients, is killed
// and continues after the restart. A third node follows the second, and both continue after the
// validator was stopped for a while.
func TestFollowersCatchUpWithValidator(t *testing.T) { three(t, "near") }

// TestFollowersCatchUpOverLibp2p is TestFollowersCatchUpWithValidator over libp2p.
func TestFollowersCatchUpOverLibp2p(t *testing.T) { three(t, "libp2p") }

// over sets network.transport in the configuration of a home folder.
func over(t *testing.T, dir, transport string) string {
	t.Helper()
	path, c := filepath.Join(dir, "config.json"), map[string]any{}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	c["network"].(map[string]any)["transport"] = transport
	if raw, err = json.Marshal(c); err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func three(t *testing.T, transport string) {
	homeA := over(t, newHome(t, "--num-shards", "2", "--chain-id", "localnet", "--fast"), transport)
	addrA, addrB := freeAddr(t), freeAddr(t)
	a := start(t, homeA, "--network-addr", addrA, "--block-production", "interval")
	var mu sync.Mutex
	var sent []primitives.Hash
	stop := make(chan struct{})
	group := load(a, 16, stop, func(h primitives.Hash) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, h)
	})
	time.Sleep(3 * time.Second)
	homeB := over(t, follow(t, homeA), transport)
	b := start(t, homeB, "--network-addr", addrB, "--boot-nodes", peerOf(t, homeA, addrA))
	first := a.head("final").Header.Height
	t.Logf("%d blocks from nothing under load in %v", first, b.reaches(first, 60*time.Second))

	b.stop(syscall.SIGKILL)
	time.Sleep(time.Second)
	b = start(t, homeB, "--network-addr", addrB, "--boot-nodes", peerOf(t, homeA, addrA))
	first = a.head("final").Header.Height
	t.Logf("after kill -9: at %d in %v", first, b.reaches(first, 60*time.Second))

	homeC := over(t, follow(t, homeA), transport)
	c := start(t, homeC, "--boot-nodes", peerOf(t, homeB, addrB))
	first = a.head("final").Header.Height
	t.Logf("a third by the second: at %d in %v", first, c.reaches(first, 60*time.Second))
	close(stop)
	group.Wait()
	end := a.head("final").Header
	b.reaches(end.Height, 30*time.Second)
	c.reaches(end.Height, 30*time.Second)
	if len(sent) < 50 {
		t.Fatalf("%d transactions", len(sent))
	}
	s := a.signer()
	base := a.head("final").Header.Height // transactions are signed on this block or an earlier one
	for _, other := range []*process{b, c} {
		other.reaches(base, 30*time.Second)
		for _, h := range []uint64{1, end.Height / 2, end.Height} {
			same(t, a, other, "block", map[string]any{"block_id": h})
			for shard := range 2 {
				same(t, a, other, "chunk", map[string]any{"block_id": h, "shard_id": shard})
			}
			same(t, a, other, "EXPERIMENTAL_changes", map[string]any{"block_id": h, "changes_type": "account_changes", "account_ids": []string{"near", string(s.key.AccountID)}})
		}
		for _, id := range []string{"near", string(s.key.AccountID)} {
			same(t, a, other, "query", map[string]any{"request_type": "view_account", "block_id": end.Height, "account_id": id})
		}
		for i := 0; i < len(sent); i += 1 + len(sent)/10 {
			same(t, a, other, "EXPERIMENTAL_tx_status", map[string]any{"tx_hash": sent[i].String(), "sender_account_id": s.key.AccountID, "wait_until": "FINAL"})
		}
		encoded, hash := s.next()
		begun := time.Now()
		if got := other.send(encoded, "FINAL").Level; got != "FINAL" {
			t.Errorf("transaction sent to a follower: level %s, want FINAL", got)
		}
		t.Logf("submitted to a follower, FINAL in %v", time.Since(begun))
		same(t, a, other, "EXPERIMENTAL_tx_status", map[string]any{"tx_hash": hash.String(), "sender_account_id": s.key.AccountID, "wait_until": "FINAL"})
	}

	var info struct {
		Peers []struct {
			ID   string  `json:"id"`
			Addr *string `json:"addr"`
		} `json:"active_peers"`
		Known []struct {
			PeerID string `json:"peer_id"`
		} `json:"known_producers"`
	}
	b.get("network_info", []any{}, &info)
	boot := ""
	for _, p := range info.Peers {
		for _, k := range info.Known {
			if k.PeerID == p.ID && p.Addr != nil {
				boot = p.ID + "@" + *p.Addr
			}
		}
	}
	if want := peerOf(t, homeA, addrA); boot != want || len(info.Peers) != 2 {
		t.Errorf("a boot node as network_info has it is %q, want %q; %d peers", boot, want, len(info.Peers))
	}
	for _, m := range []string{"sandbox_fast_forward", "sandbox_patch_state"} {
		params := map[string]any{"delta_height": 5}
		if m == "sandbox_patch_state" {
			params = map[string]any{"records": []any{}}
		}
		if r, err := a.call(m, params); err != nil || r.Error == nil {
			t.Errorf("%s of a node with peers: %s, %v", m, r.Result, err)
		}
	}

	a.stop(syscall.SIGKILL)
	a = start(t, homeA, "--network-addr", addrA, "--block-production", "interval")
	encoded, _ := a.signer().next()
	if got := a.send(encoded, "FINAL").Level; got != "FINAL" {
		t.Errorf("transaction after the kill: level %s, want FINAL", got)
	}
	end = a.head("final").Header
	t.Logf("the validator is back: followed in %v and %v", b.reaches(end.Height, 60*time.Second), c.reaches(end.Height, 60*time.Second))
	same(t, b, c, "block", map[string]any{"block_id": end.Height})

	// The peers that it has stored are enough to find the others again.
	b.stop(syscall.SIGTERM)
	b = start(t, homeB, "--network-addr", addrB)
	encoded, _ = a.signer().next()
	a.send(encoded, "FINAL")
	b.reaches(a.head("final").Header.Height, 60*time.Second)
	if r, err := http.Get("http://" + b.addr + "/metrics"); err != nil {
		t.Error(err)
	} else {
		text, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if !bytes.Contains(text, []byte("near_peer_connections_total 2")) && !bytes.Contains(text, []byte("near_peer_connections_total 1")) {
			t.Error("no peers in /metrics")
		}
	}
	for _, p := range []*process{c, b, a} {
		if took := p.stop(syscall.SIGTERM); took > 2*time.Second {
			t.Errorf("ended after %v", took)
		}
	}
}
