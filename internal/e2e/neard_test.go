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

// neardLife is how long a neard lives at most, whatever becomes of the test.
const neardLife = 15 * time.Minute

// neardProgram is the neard that judges, from TROUPE_NEARD; without it the test is skipped, and
// says so.
func neardProgram(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TROUPE_NEARD")
	if path == "" || path == "none" {
		t.Skip("skipped: TROUPE_NEARD does not name a neard (docs/interop.md)")
	}
	return path
}

// neardOrNone is neardProgram, but empty where TROUPE_NEARD is "none": validators are troupes then,
// which shows what in a script is the script's own.
func neardOrNone(t *testing.T) string {
	t.Helper()
	if os.Getenv("TROUPE_NEARD") == "none" {
		return ""
	}
	return neardProgram(t)
}

// object is a JSON object that is changed and written again.
type object map[string]any

// at is the object below these keys.
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

// neardVersion is the newest protocol version of the neard of TROUPE_NEARD; 0: there is none.
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

// asOldAs makes the chain of a home that was not run yet as old as the neard of TROUPE_NEARD. One
// of 86 is taken for nearcore f0c7706f1, whose numbering is june.
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

// change edits a JSON file. Numbers stay as they are written.
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
		t.Fatalf("%s: %v", path, err)
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

// seat is a home of a network, and where it listens.
type seat struct {
	home, network, rpc string
	by                 []string // what runs its program, if anything does
}

func (s *seat) peer(t *testing.T) string { t.Helper(); return peerOf(t, s.home, s.network) }

// seated gives a home its addresses, and what all nodes of one machine need: an address of its own
// that it believes, no more files than the limit allows, and no telemetry.
func seated(t *testing.T, dir string, boot []string) seat {
	t.Helper()
	return seatedAt(t, seat{home: dir, network: freeAddr(t), rpc: freeAddr(t)}, boot)
}

// seatedAt is seated at addresses that are given.
func seatedAt(t *testing.T, s seat, boot []string) seat {
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

// neardNet makes the homes of a network of neards as neard's localnet makes them (troupe's, without
// a neard), with epochs of so many blocks, all shards tracked by all, and blocks every 600 ms at
// the earliest.
func neardNet(t *testing.T, program string, validators, shards, epoch int) (seats []seat) {
	t.Helper()
	return neardNetAt(t, program, validators, shards, epoch, func(i int, dir string) seat {
		return seat{home: dir, network: freeAddr(t), rpc: freeAddr(t)}
	})
}

// neardNetAt is neardNet with places that are given.
func neardNetAt(t *testing.T, program string, validators, shards, epoch int, place func(i int, dir string) seat) (seats []seat) {
	t.Helper()
	dir := t.TempDir()
	pace := 600 * time.Millisecond
	if program == "" {
		program, pace = binary, 150*time.Millisecond // what is shown then is not of neard's pace
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
			c["gc_num_epochs_to_keep"] = 20 // what is compared is still there
		})
		s := seatedAt(t, place(i, at), boot)
		if i == 0 {
			boot = []string{s.peer(t)}
		}
		seats = append(seats, s)
	}
	return seats
}

// neardFollower makes a home for a neard that makes no blocks, on the chain of a home.
func neardFollower(t *testing.T, program, of string, boot ...string) seat {
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
	return seated(t, dir, boot)
}

// runNeard starts a neard and waits until it answers. It is ended by the test, or by its limit of
// time.
func runNeard(t *testing.T, program string, s seat) *process {
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
		p.said("neard", 6000)
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

// end sends a signal to a process that may have ended, and waits for its end, whatever its code.
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

// complaints are the lines of a neard's log that say that a peer did wrong. What it sends is shown
// with all its bytes, in which every word comes.
func complaints(log string) (out []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "send routed message") {
			continue
		}
		low := strings.ToLower(strings.ReplaceAll(line, "banned=0", ""))
		for _, word := range []string{"banning", "ban_reason", "baned", "banned", "invalid signature", "invalidsignature", "abusive", "invalid edge", "bad block",
			"failed to decode", "malformed", "dropping handshake", "genesis mismatch", "panicked", "received invalid", "disallowed"} {
			if strings.Contains(low, word) {
				out = append(out, strings.TrimSpace(line))
				break
			}
		}
	}
	return out
}

// joined makes a home for a troupe on the chain of a home, without a validator's key.
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
