//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
)

// neardLife is the longest time that a neard process may run, even if the test does not end it.
const neardLife = 15 * time.Minute

// neardProgram returns the neard binary to compare with, from TROUPE_NEARD. If it is not set, the
// test is skipped.
func neardProgram(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TROUPE_NEARD")
	if path == "" || path == "none" {
		t.Skip("skipped: TROUPE_NEARD does not name a neard (docs/interop.md)")
	}
	return path
}

// neardOrNone is neardProgram, but returns an empty string if TROUPE_NEARD is "none". Then all
// validators are troupes, which shows whether a failure has its cause in the test.
func neardOrNone(t *testing.T) string {
	t.Helper()
	if os.Getenv("TROUPE_NEARD") == "none" {
		return ""
	}
	return neardProgram(t)
}

// object is a JSON object that is edited and written back.
type object map[string]any

// at returns the object at a path of keys.
func (o object) at(keys ...string) object {
	for _, k := range keys {
		below, _ := o[k].(map[string]any)
		if below == nil {
			below = map[string]any{}
			o[k] = below
		}
		o = below
	}
	return o
}

// neardVersion returns the newest protocol version of the neard in TROUPE_NEARD; 0 without one.
var neardVersion = sync.OnceValues(func() (int, error) {
	path := os.Getenv("TROUPE_NEARD")
	if path == "" || path == "none" {
		return 0, nil
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	m := regexp.MustCompile(`\(protocol (\d+)\)`).FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s --version: %q has no protocol version", path, out)
	}
	return strconv.Atoi(string(m[1]))
})

// asOldAs sets the protocol version of a new home folder's chain to that of the neard in
// TROUPE_NEARD. Version 86 is taken for nearcore f0c7706f1, whose numbering is june.
func asOldAs(t testing.TB, dir string) {
	t.Helper()
	version, err := neardVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version != 86 {
		return
	}
	change(t, filepath.Join(dir, "genesis.json"), func(g object) { g["protocol_version"] = version })
	change(t, filepath.Join(dir, "config.json"), func(c object) { c.at("troupe")["numbering"] = "june" })
}

// change edits a JSON file. Numbers keep their text form.
func change(t testing.TB, path string, edit func(object)) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := object{}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%s: error %v", path, err)
	}
	edit(o)
	raw, err = json.MarshalIndent(o, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// nodeHome is the home folder of a node of a network, and its addresses.
type nodeHome struct {
	home, network, rpc string
	by                 []string // command that runs its program; empty: none
}

func (s *nodeHome) peer(t *testing.T) string { t.Helper(); return peerOf(t, s.home, s.network) }

// newNodeHome gives a home folder its addresses and the settings that nodes on one machine need: a
// configured public address, a file limit within the machine's, and no telemetry.
func newNodeHome(t *testing.T, dir string, boot []string) nodeHome {
	t.Helper()
	return newNodeHomeAt(t, nodeHome{home: dir, network: freeAddr(t), rpc: freeAddr(t)}, boot)
}

// newNodeHomeAt is newNodeHome with given addresses.
func newNodeHomeAt(t *testing.T, s nodeHome, boot []string) nodeHome {
	t.Helper()
	change(t, filepath.Join(s.home, "config.json"), func(c object) {
		n := c.at("network")
		n["addr"], n["boot_nodes"] = s.network, strings.Join(boot, ",")
		n["public_addrs"], n["allow_private_ip_in_public_addrs"] = []string{s.peer(t)}, true
		n.at("experimental")["tier3_public_addr"] = s.network
		c.at("rpc")["addr"] = s.rpc
		c.at("store")["max_open_files"] = 1000
		if version, err := neardVersion(); err != nil {
			t.Fatal(err)
		} else if version == 86 {
			c.at("troupe")["numbering"] = "june"
		}
		c.at("telemetry")["endpoints"] = []string{}
	})
	return s
}

// neardNet makes the home folders of a network as neard's localnet does (troupe's localnet without
// a neard), with epochs of a number of blocks, all shards tracked by all nodes, and at least 600 ms
// between blocks.
func neardNet(t *testing.T, program string, validators, shards, epoch int) (homes []nodeHome) {
	t.Helper()
	return neardNetAt(t, program, validators, shards, epoch, func(i int, dir string) nodeHome {
		return nodeHome{home: dir, network: freeAddr(t), rpc: freeAddr(t)}
	})
}

// neardNetAt is neardNet with given addresses.
func neardNetAt(t *testing.T, program string, validators, shards, epoch int, place func(i int, dir string) nodeHome) (homes []nodeHome) {
	t.Helper()
	dir := t.TempDir()
	pace := 600 * time.Millisecond
	if program == "" {
		program, pace = binary, 150*time.Millisecond // without neards its block time need not be kept
	}
	out, err := exec.CommandContext(t.Context(), program, "--home", dir, "localnet", "-v", fmt.Sprint(validators), "-s", fmt.Sprint(shards),
		"--tracked-shards", "all").CombinedOutput()
	if err != nil {
		t.Fatalf("localnet: %v\n%s", err, tail(string(out), 4000))
	}
	var boot []string
	for i := range validators {
		at := filepath.Join(dir, fmt.Sprintf("node%d", i))
		change(t, filepath.Join(at, "genesis.json"), func(g object) { g["epoch_length"] = epoch })
		change(t, filepath.Join(at, "config.json"), func(c object) {
			s := c.at("consensus")
			s["min_block_production_delay"] = map[string]any{"secs": 0, "nanos": pace.Nanoseconds()}
			s["max_block_production_delay"] = map[string]any{"secs": 2, "nanos": 0}
			s["min_num_peers"] = validators - 1
			c["gc_num_epochs_to_keep"] = 20 // blocks must not be collected before they are compared
		})
		s := newNodeHomeAt(t, place(i, at), boot)
		if i == 0 {
			boot = []string{s.peer(t)}
		}
		homes = append(homes, s)
	}
	return homes
}

// neardFollower makes a home folder for a neard without a validator key, on the chain of another
// home folder.
func neardFollower(t *testing.T, program, of string, boot ...string) nodeHome {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "neard")
	out, err := exec.CommandContext(t.Context(), program, "--home", dir, "init", "--chain-id", "interop").CombinedOutput()
	if err != nil {
		t.Fatalf("neard init: %v\n%s", err, tail(string(out), 4000))
	}
	if err := os.Remove(filepath.Join(dir, "validator_key.json")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(of, "genesis.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "genesis.json"), string(raw))
	change(t, filepath.Join(dir, "config.json"), func(c object) {
		c["tracked_shards_config"] = "AllShards"
		c.at("consensus")["min_num_peers"] = 1
		c.at("network")["skip_sync_wait"] = false
	})
	return newNodeHome(t, dir, boot)
}

// runNeard starts a neard and waits until it serves. The test or its time limit ends it.
func runNeard(t *testing.T, program string, s nodeHome) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), neardLife)
	t.Cleanup(cancel)
	p := &process{t: t, home: s.home, addr: s.rpc, ended: make(chan struct{})}
	command := append(slices.Clone(s.by), program, "--home", s.home, "run")
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Env = append(os.Environ(), "NO_COLOR=1")
	if os.Getenv("RUST_LOG") == "" {
		p.cmd.Env = append(p.cmd.Env, "RUST_LOG=warn,network=debug,stats=info")
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		p.logOutput("neard", 6000)
	})
	for deadline := began.Add(2 * time.Minute); ; {
		if r, err := http.Get("http://" + p.addr + "/status"); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				p.ready = time.Since(began)
				return p
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("neard ended: %v\n%s", p.err, tail(p.out.String(), 6000))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("neard does not serve:\n%s", tail(p.out.String(), 6000))
		}
	}
}

// end sends a signal to a process that may have ended, and waits for its end, with any exit code.
func (p *process) end(signal syscall.Signal) {
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// complaints returns the lines of a neard's log about misbehaving peers. Lines that print whole
// messages are left out, since their bytes may contain any word, and those about late responses.
func complaints(log string) (out []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "send routed message") || strings.Contains(line, "a very delayed response") {
			continue
		}
		low := strings.ToLower(strings.ReplaceAll(line, "banned=0", ""))
		for _, word := range []string{"banning", "ban_reason", "baned", "banned", "invalid signature", "invalidsignature", "abusive", "invalid edge", "bad block",
			"failed to decode", "malformed", "dropping handshake", "genesis mismatch", "panicked", "received invalid", "disallowed", "malicious", "double sign"} {
			if strings.Contains(low, word) {
				out = append(out, strings.TrimSpace(line))
				break
			}
		}
	}
	return out
}

// joined makes a home folder for a troupe without a validator key, on the chain of another home
// folder.
func joined(t *testing.T, of string) string {
	t.Helper()
	dir := follow(t, of)
	if err := os.Remove(filepath.Join(dir, "validator_key.json")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if _, err := home.ParseNodeKey(mustRead(t, filepath.Join(dir, "node_key.json"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
