//go:build e2e

package e2e

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// smallDisk is a mounted file system that a test fills and empties.
type smallDisk struct {
	t   *testing.T
	dir string
}

// newSmallDisk mounts a file system of this size over a folder. It skips the test if it lacks the
// permission.
func newSmallDisk(t *testing.T, dir, size string) *smallDisk {
	t.Helper()
	mount(t, dir, "size="+size)
	return &smallDisk{t, dir}
}

func (d *smallDisk) filler() string { return filepath.Join(d.dir, "filler") }

// fill writes a file until about left bytes are free.
func (d *smallDisk) fill(left int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 16, 1 << 12} {
		for b := make([]byte, size); err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Fatal(err)
		}
		err = nil
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size() - left)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// empty removes the file that fill wrote.
func (d *smallDisk) empty() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
}

// halted returns the reason for which a node stores no blocks, from its status; empty if it stores
// them.
func (p *process) halted() string {
	p.t.Helper()
	var s struct {
		Halted *struct{ Reason string }
	}
	if p.get("status", []any{}, &s); s.Halted == nil {
		return ""
	}
	return s.Halted.Reason
}

// until waits until a condition holds.
func until(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// metric returns the value of a metric from a node's /metrics.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	r, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	p.t.Fatalf("no %s in /metrics", name)
	return 0
}

// TestValidatorsGoOnWhileOneDiskIsFull: the disk of one of four validators is full. The other three
// produce blocks and finalize them. The node with the full disk reports why it stores no blocks,
// answers reads and handles a SIGHUP. Once there is space it catches up without a restart and
// produces blocks again.
func TestValidatorsGoOnWhileOneDiskIsFull(t *testing.T) {
	const full, within, further = 3, 2 * time.Minute, 20
	var disk *smallDisk
	seen := 0
	c := newClusterOf(t, 4, 4, 100_000, func(home string) {
		if seen == full {
			disk = newSmallDisk(t, filepath.Join(home, "data"), "64m")
		}
		seen++
	})
	c.together(5, within)
	disk.fill(0)
	p := c.p[full]
	until(t, "the node with the full disk says so", within, func() bool { return strings.Contains(p.halted(), "the disk is full") })
	requireWords(t, p.out.String(), "the disk is full")
	stopped, others := p.final(), c.p[0].final()
	for i := range full {
		until(t, "the others finalize blocks", within, func() bool { return c.p[i].final() >= others+further })
		if why := c.p[i].halted(); why != "" {
			t.Errorf("node %d has disk space but reports: %s", i, why)
		}
	}
	encoded, _ := c.p[0].signer().next()
	if got := c.p[0].send(encoded, "FINAL").Level; got != "FINAL" {
		t.Errorf("transaction at the other nodes: level %s, want FINAL", got)
	}

	// reads and SIGHUP while the disk is full
	alter(t, filepath.Join(c.homes[full], "config.json"), map[string]any{"gc_blocks_limit": 7})
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the log says that gc_blocks_limit is taken up", within, func() bool { return strings.Contains(p.out.String(), "gc_blocks_limit") })
	if !strings.Contains(p.halted(), "the disk is full") {
		t.Errorf("after SIGHUP: halted for %q", p.halted())
	}
	if now := p.final(); now > stopped+5 {
		t.Errorf("node with a full disk moved from block %d to %d, want no progress", stopped, now)
	}

	disk.empty()
	room := time.Now()
	until(t, "with room the node catches up", within, func() bool { return p.halted() == "" && p.final()+5 >= c.p[0].final() })
	t.Logf("%d blocks without the node; with room it was back after %v", c.p[0].final()-stopped, time.Since(room))
	c.together(further, within)
	var v struct {
		Current []struct {
			Account  string `json:"account_id"`
			Produced uint64 `json:"num_produced_blocks"`
		} `json:"current_validators"`
	}
	produced := func() uint64 {
		c.p[0].get("validators", []any{nil}, &v)
		for _, x := range v.Current {
			if x.Account == "node3" {
				return x.Produced
			}
		}
		return 0
	}
	was := produced()
	until(t, "the node makes blocks again", within, func() bool { return produced() > was })
	for _, p := range c.p {
		p.stop(syscall.SIGTERM)
	}
	if out, err := troupe(t, "--home", c.homes[full], "check"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// TestSnapshotOnFullDiskLeavesNoFiles: a snapshot that does not fit on the disk fails and names the
// folder, both with a running and a stopped node, and whether no file fits or half of them do. The
// node continues. Once there is space the same command succeeds. The same holds for a restore.
func TestSnapshotOnFullDiskLeavesNoFiles(t *testing.T) {
	home := newHome(t)
	p := start(t, home)
	s := p.signer()
	for range 30 {
		encoded, _ := s.next()
		p.send(encoded, "FINAL")
	}
	half := int64(0) // half of a snapshot's bytes
	// fails runs a command on a full disk, and again with free space. The first run must leave no
	// files.
	fails := func(what string, disk *smallDisk, args ...string) {
		t.Helper()
		for _, left := range []int64{0, half} {
			disk.fill(left)
			out, err := troupe(t, args...)
			if err == nil {
				t.Fatalf("%s: succeeded with %d bytes free, want an error:\n%s", what, left, out)
			}
			t.Logf("%s, room for %d bytes: %s", what, left, out)
			requireWords(t, out, "no space left on device")
			requireWords(t, out, disk.dir)
			if there, err := os.ReadDir(disk.dir); err != nil || len(there) != 1 {
				t.Errorf("%s, %d bytes free: got error %v, files left %v, want no file", what, left, err, there)
			}
			disk.empty()
		}
		if out, err := troupe(t, args...); err != nil {
			t.Fatalf("%s, with disk space: %v\n%s", what, err, out)
		}
	}
	to := newSmallDisk(t, filepath.Join(t.TempDir(), "backups"), "64m")
	snap := filepath.Join(to.dir, "snap")
	create := []string{"--home", home, "snapshot", "create", snap}
	remove := func() {
		t.Helper()
		if err := os.RemoveAll(snap); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := troupe(t, create...); err != nil {
		t.Fatalf("error %v\noutput:\n%s", err, out)
	}
	for _, path := range files(t, snap) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		half += info.Size() / 2
	}
	remove()
	fails("the node runs", to, create...)
	encoded, _ := s.next()
	if got := p.send(encoded, "FINAL").Level; got != "FINAL" || p.halted() != "" {
		t.Errorf("the node afterwards: level %s, halted %q", got, p.halted())
	}
	p.stop(syscall.SIGTERM)
	remove()
	fails("no node runs", to, create...)
	other := newSmallDisk(t, filepath.Join(t.TempDir(), "other"), "64m")
	fails("restore", other, "--home", other.dir, "snapshot", "restore", snap)
	if out, err := troupe(t, "--home", other.dir, "check"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// TestContractsRunIfCacheDiskIsFull: if the disk of the contract cache is full, contracts are
// compiled, called and served from memory. The log reports once that they are not stored, and no
// partial file is left. Once there is space, contracts that are compiled later are stored again.
func TestContractsRunIfCacheDiskIsFull(t *testing.T) {
	home := newHome(t)
	disk := newSmallDisk(t, filepath.Join(t.TempDir(), "contracts"), "64m")
	alter(t, filepath.Join(home, "config.json"), map[string]any{"contract_cache_path": disk.dir})
	p := start(t, home)
	s := p.signer()
	me := s.key.AccountID
	deploy := func(seed uint64) {
		t.Helper()
		p.send(s.sign(me, &primitives.DeployContract{Code: contracts.Large(300_000, seed)}), "FINAL")
		p.send(s.sign(me, &primitives.FunctionCall{Method: "run", Gas: 300e12}), "FINAL")
	}
	kept := func() (names []string) {
		t.Helper()
		out, err := exec.Command("find", disk.dir, "-type", "f").Output()
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if name != disk.filler() {
				names = append(names, name)
			}
		}
		return names
	}
	deploy(1)
	before := kept()
	if len(before) < 2 {
		t.Fatalf("cached files %v, want at least one contract", before)
	}
	disk.fill(0)
	deploy(2)
	deploy(3)
	if n := p.metric("troupe_contract_cache_disk_errors"); n == 0 {
		t.Error("troupe_contract_cache_disk_errors is 0, want more")
	}
	if now := kept(); len(now) != len(before) {
		t.Errorf("cached files on the full disk: got %v, want %v", now, before)
	}
	if n := strings.Count(p.out.String(), "no space left on device"); n != 1 {
		t.Errorf("the log reports the full disk %d times, want once:\n%s", n, tail(p.out.String(), 1500))
	}
	if why := p.halted(); why != "" {
		t.Errorf("halted: %s, want a running node", why)
	}
	disk.empty()
	deploy(4)
	if now := kept(); len(now) <= len(before) {
		t.Errorf("cached files with disk space: got %v, want more than %v", now, before)
	}
	disk.fill(0)
	deploy(5)
	if n := strings.Count(p.out.String(), "no space left on device"); n != 2 {
		t.Errorf("disk full again: the log reports it %d times, want twice:\n%s", n, tail(p.out.String(), 1500))
	}
	p.stop(syscall.SIGTERM)
}
