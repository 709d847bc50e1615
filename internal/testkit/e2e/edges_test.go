//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// snapshot returns the hashes of a folder's files, to detect changes. skip names files that may
// change.
func snapshot(t *testing.T, dir string, skip ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, name := range skip {
			if d.Name() == name {
				return nil
			}
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files[rel] = hex.EncodeToString(h.Sum(nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// requireUnchanged requires that a folder equals its snapshot.
func requireUnchanged(t *testing.T, dir string, before map[string]string, skip ...string) {
	t.Helper()
	after := snapshot(t, dir, skip...)
	for name, hash := range before {
		if after[name] != hash {
			t.Errorf("%s was changed or removed", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was added", name)
		}
	}
}

// requireWords requires that a message contains each of the words.
func requireWords(t *testing.T, message string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(message, w) {
			t.Errorf("the message lacks %q:\n%s", w, message)
		}
	}
}

// usedHome returns a home folder whose chain has some blocks.
func usedHome(t *testing.T) string {
	t.Helper()
	home := newHome(t)
	p := start(t, home)
	s := p.signer()
	for range 3 {
		encoded, _ := s.next()
		p.send(encoded, "FINAL")
	}
	p.stop(syscall.SIGTERM)
	return home
}

func TestSecondNodeOnFolderIsRefused(t *testing.T) {
	home := newHome(t)
	p := start(t, home)
	said := launch(t, home, freeAddr(t)).exits()
	requireWords(t, said, "another node runs on", home)
	// The first node is unaffected.
	s := p.signer()
	encoded, _ := s.next()
	if got := p.send(encoded, "FINAL").Level; got != "FINAL" {
		t.Errorf("level %s, want FINAL", got)
	}
	p.stop(syscall.SIGTERM)
	start(t, home).stop(syscall.SIGTERM)
}

func TestPortInUseIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	home := usedHome(t)
	before := snapshot(t, home)
	requireWords(t, launch(t, home, l.Addr().String()).exits(), l.Addr().String(), "in use")
	requireUnchanged(t, home, before)
	requireWords(t, launch(t, home, "nonsense").exits(), "nonsense")
	requireWords(t, launch(t, home, "127.0.0.1:99999").exits(), "99999")
	requireUnchanged(t, home, before)
}

// rewrite changes a file of a home folder.
func rewrite(t *testing.T, home, name string, change func(string) string) {
	t.Helper()
	path := filepath.Join(home, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := change(string(b))
	if text == string(b) {
		t.Fatalf("%s is not changed", name)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func replace(old, text string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, text, 1) }
}

func cut(s string) string { return s[:len(s)/2] }

// TestChangedHomeFilesAreRefused: a node with an existing chain refuses to start if files of the
// home folder were replaced, damaged or removed.
func TestChangedHomeFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, file string
		change     func(string) string
		says       []string
	}{
		{"genesis: chain id", "genesis.json", replace(`"chain_id": "`, `"chain_id": "other-`), []string{"other-"}},
		{"genesis: epoch length", "genesis.json", replace(`"epoch_length": 43200`, `"epoch_length": 43201`), []string{"genesis"}},
		{"genesis: a record, not its length", "genesis.json", func(s string) string {
			// One yoctoNEAR moves from one account to the other: the total supply and the size of the file
			// stay the same.
			s = strings.Replace(s, `"amount": "1000000000000000000000000000000000"`, `"amount": "1000000000000000000000000000000001"`, 1)
			at := strings.LastIndex(s, `"amount": "1000000000000000000000000000000000"`)
			return s[:at] + strings.Replace(s[at:], `"1000000000000000000000000000000000"`, `"0999999999999999999999999999999999"`, 1)
		}, []string{"genesis"}},
		{"genesis: cut", "genesis.json", cut, []string{"genesis.json"}},
		{"genesis: empty", "genesis.json", func(string) string { return "" }, []string{"genesis.json"}},
		{"config: cut", "config.json", cut, []string{"config.json"}},
		{"config: wrong type", "config.json", replace(`"max_open_files": 10000`, `"max_open_files": "many"`), []string{"config.json", "max_open_files", "many"}},
		{"config: port out of range", "config.json", replace(`0.0.0.0:24567`, `0.0.0.0:345678`), []string{"config.json", "345678"}},
		{"validator key: cut", "validator_key.json", cut, []string{"validator_key.json"}},
		{"validator key: not base58", "validator_key.json", replace(`"secret_key": "ed25519:`, `"secret_key": "ed25519:0OIl`), []string{"validator_key.json"}},
		{"validator key: another's public key", "validator_key.json", func(s string) string {
			at := strings.Index(s, `"public_key": "ed25519:`) + len(`"public_key": "ed25519:`)
			end := at + strings.Index(s[at:], `"`)
			return s[:at] + "5BGSaf6YjVm7565VzWQHNxoyEjwr3jUpRJSGjREvU9dB" + s[end:]
		}, []string{"public key does not correspond to secret key in key file"}},
		{"node key: cut", "node_key.json", cut, []string{"node_key.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := usedHome(t)
			rewrite(t, home, c.file, c.change)
			before := snapshot(t, home)
			said := launch(t, home, freeAddr(t)).exits()
			requireWords(t, said, c.says...)
			t.Logf("%s", said)
			requireUnchanged(t, home, before)
		})
	}
}

func TestMissingHomeFilesAreReported(t *testing.T) {
	for _, file := range []string{"genesis.json", "config.json"} {
		home := usedHome(t)
		if err := os.Remove(filepath.Join(home, file)); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, home)
		requireWords(t, launch(t, home, freeAddr(t)).exits(), file)
		requireUnchanged(t, home, before)
	}
	requireWords(t, launch(t, filepath.Join(t.TempDir(), "nothing"), freeAddr(t)).exits(), "init")
}

// TestForeignOrDamagedDataIsRefused: the node does not change the data folder.
func TestForeignOrDamagedDataIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, data string)
	}{
		{"a folder of something else", func(t *testing.T, data string) {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			// as RocksDB leaves them, and one that a user left
			for _, name := range []string{"CURRENT", "IDENTITY", "OPTIONS-000007", "000004.sst", "notes.txt"} {
				write(t, filepath.Join(data, name), "MANIFEST-000001\n")
			}
		}},
		{"another chain's", func(t *testing.T, data string) {
			other := usedHome(t)
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("cp", "-r", filepath.Join(other, "data"), data).CombinedOutput(); err != nil {
				t.Fatalf("error %v, output %s", err, out)
			}
		}},
		{"a file in its place", func(t *testing.T, data string) {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			write(t, data, "no folder")
		}},
		{"every file cut in half", func(t *testing.T, data string) {
			for _, path := range files(t, data) {
				if b, err := os.ReadFile(path); err != nil {
					t.Fatal(err)
				} else if err := os.WriteFile(path, b[:len(b)/2], 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"the index's files of zeros", func(t *testing.T, data string) {
			for _, path := range files(t, filepath.Join(data, "index")) {
				zero(t, path, 0, 1)
			}
		}},
		{"zeros in the middle of the log", func(t *testing.T, data string) {
			for _, path := range files(t, filepath.Join(data, "log")) {
				zero(t, path, 0.3, 0.6)
			}
		}},
		{"every file of zeros", func(t *testing.T, data string) {
			for _, path := range files(t, data) {
				zero(t, path, 0, 1)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := usedHome(t)
			data := filepath.Join(home, "data")
			c.change(t, data)
			kept := home
			if c.name == "zeros in the middle of the log" {
				kept = filepath.Join(data, "log") // opening the index, which is valid, cleans it up
			}
			before := snapshot(t, kept, "LOCK", "LOG")
			said := launch(t, home, freeAddr(t)).exits()
			requireWords(t, said, "data")
			t.Logf("%s", said)
			requireUnchanged(t, kept, before, "LOCK", "LOG")
		})
	}
}

// zero overwrites a part of a file with zeros.
func zero(t *testing.T, path string, from, to float64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(b))
	clear(b[int(from*n):int(to*n)])
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files in %s, %v", len(paths), dir, err)
	}
	return paths
}

// mount mounts a file system over a folder, or skips the test if it lacks the permission.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", dir).CombinedOutput(); err != nil {
		t.Skipf("skipped: no mounting here: %s", bytes.TrimSpace(out))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

func TestReadOnlyDataFolderIsReported(t *testing.T) {
	home := usedHome(t)
	data := filepath.Join(home, "data")
	kept := filepath.Join(home, "kept")
	if err := os.Rename(data, kept); err != nil {
		t.Fatal(err)
	}
	mount(t, data, "size=64m")
	if out, err := exec.Command("cp", "-rT", kept, data).CombinedOutput(); err != nil {
		t.Fatalf("error %v, output %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "remount,ro", data).CombinedOutput(); err != nil {
		t.Skipf("skipped: no remounting here: %s", out)
	}
	before := snapshot(t, data)
	said := launch(t, home, freeAddr(t)).exits()
	requireWords(t, said, "read-only")
	t.Logf("%s", said)
	requireUnchanged(t, data, before)
}

// TestFullDiskStopsOnlyWrites: if the disk fills up while the node runs, reads continue, and the
// status says why no block is stored. A process that is killed starts again on the full disk and
// serves reads. Once there is space, writing resumes without a restart.
func TestFullDiskStopsOnlyWrites(t *testing.T) {
	home := newHome(t, "--num-shards", "2")
	data := filepath.Join(home, "data")
	mount(t, data, "size=3m")
	p := start(t, home)
	s := p.signer()
	var told []string
	refused := ""
	for refused == "" {
		encoded, hash := s.next()
		r, err := p.call("send_tx", map[string]any{"signed_tx_base64": encoded, "wait_until": "EXECUTED_OPTIMISTIC"})
		if err != nil {
			t.Fatalf("after %d transactions: %v\n%s", len(told), err, tail(p.out.String(), 1500))
		}
		if r.Error != nil {
			refused = string(r.Error.Data)
			break
		}
		if told = append(told, hash.String()); len(told) > 200_000 {
			t.Fatal("the disk did not become full")
		}
	}
	requireWords(t, refused, "the disk is full")
	full := func() {
		t.Helper()
		for i, hash := range told {
			var st status
			p.get("tx", map[string]any{"tx_hash": hash, "sender_account_id": s.key.AccountID, "wait_until": "NONE"}, &st)
			if st.Level == "NONE" {
				t.Fatalf("transaction %d of %d is missing", i, len(told))
			}
		}
	}
	onFull := func() {
		t.Helper()
		full()
		r, err := p.call("sandbox_mine", map[string]any{"blocks": 1})
		if err != nil || r.Error == nil {
			t.Fatalf("sandbox_mine on a full disk: %v, %+v", err, r)
		}
		requireWords(t, string(r.Error.Data), "full")
		var node struct {
			Halted *struct{ Reason string }
		}
		p.get("status", []any{}, &node)
		if node.Halted == nil {
			t.Fatal("status does not report that nothing is written")
		}
		requireWords(t, node.Halted.Reason, "the disk is full")
	}
	onFull()
	requireWords(t, p.out.String(), "the disk is full")
	p.stop(syscall.SIGKILL)
	p = start(t, home)
	onFull()
	if out, err := exec.Command("mount", "-o", "remount,size=64m", data).CombinedOutput(); err != nil {
		t.Skipf("skipped: no remounting here: %s", out)
	}
	until := time.Now().Add(time.Minute)
	for {
		if r, err := p.call("sandbox_mine", map[string]any{"blocks": 1}); err == nil && r.Error == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("with disk space the node stores no blocks\n%s", tail(p.out.String(), 1500))
		}
		time.Sleep(50 * time.Millisecond)
	}
	full()
	encoded, _ := p.signer().next()
	if got := p.send(encoded, "FINAL").Level; got != "FINAL" {
		t.Errorf("level %s, want FINAL", got)
	}
	p.stop(syscall.SIGTERM)
	if out, err := troupe(t, "--home", home, "check"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// TestFullDiskAtFirstStartIsReported: if the disk has no space to create a chain, the error says
// so. Once there is space the node starts.
func TestFullDiskAtFirstStartIsReported(t *testing.T) {
	home := newHome(t)
	data := filepath.Join(home, "data")
	mount(t, data, "size=4k")
	for range 2 { // the second run finds what the first left
		said := launch(t, home, freeAddr(t)).exits()
		t.Logf("%s", said)
		requireWords(t, said, "no space left")
		requireWords(t, said, data)
	}
	if out, err := exec.Command("mount", "-o", "remount,size=64m", data).CombinedOutput(); err != nil {
		t.Skipf("skipped: no remounting here: %s", out)
	}
	p := start(t, home)
	encoded, _ := p.signer().next()
	if got := p.send(encoded, "FINAL").Level; got != "FINAL" {
		t.Errorf("level %s, want FINAL", got)
	}
	p.stop(syscall.SIGTERM)
}

// TestInvalidFlagsExitWithCode2: invalid flags are reported, and the exit code is 2.
func TestInvalidFlagsExitWithCode2(t *testing.T) {
	home := newHome(t)
	for _, args := range [][]string{
		{"run", "--nonsense"}, {"run", "--block-production", "sometimes"}, {"run", "extra"}, {"nonsense"},
		{"init", "--num-shards", "0"}, {"init", "--num-shards", "x"},
	} {
		out, err := troupe(t, append([]string{"--home", home}, args...)...)
		if err == nil {
			t.Errorf("%v: no error\n%s", args, out)
		}
		if !strings.Contains(fmt.Sprint(out), args[len(args)-1]) {
			t.Errorf("%v: the error does not name the flag:\n%s", args, out)
		}
	}
}
