package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/doctor"
	"github.com/troupe-chain/troupe/internal/home"
)

// examine runs doctor on a home and returns what it prints and finds.
func examine(t *testing.T, dir string, more ...string) (code int, text string, found []doctor.Finding) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(append([]string{"--home", dir, "doctor"}, more...), strings.NewReader(""), &out, &errs)
	var all bytes.Buffer
	if again := execute(append([]string{"--home", dir, "doctor", "--json"}, more...), strings.NewReader(""), &all, &errs); again != code {
		t.Errorf("exit codes %d and %d", code, again)
	}
	var reply struct {
		Status doctor.Status
		Checks []doctor.Finding
	}
	if err := json.Unmarshal(all.Bytes(), &reply); err != nil {
		t.Fatalf("%v in %s", err, all.String())
	}
	if (reply.Status == doctor.Fail) != (code == exitFailure) || (errs.Len() > 0) != (code != exitOK) {
		t.Errorf("status %s, exit code %d, %s", reply.Status, code, errs.String())
	}
	for _, r := range out.String() + all.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("control character %U printed", r)
		}
	}
	return code, out.String(), reply.Checks
}

// has returns the finding with a part of a message.
func has(list []doctor.Finding, text string) (doctor.Finding, bool) {
	i := slices.IndexFunc(list, func(f doctor.Finding) bool { return strings.Contains(f.Message, text) })
	if i < 0 {
		return doctor.Finding{}, false
	}
	return list[i], true
}

// files lists a folder with sizes and times.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			out[path] = info.ModTime().String() + info.Mode().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDoctorChangesNothing examines a home folder before its node runs and while it runs, and a
// home folder that does not exist. It changes nothing.
func TestDoctorChangesNothing(t *testing.T) {
	dir := newHome(t, `{"rpc":{"addr":"127.0.0.1:0"}}`)
	before := filesOf(t, dir)
	code, text, list := examine(t, dir)
	for _, want := range []string{"files in " + dir + " are valid: chain ", "cores", "free", "rpc.addr: "} {
		if f, ok := has(list, want); !ok || f.Status == doctor.Fail {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if after := filesOf(t, dir); !maps.Equal(before, after) {
		t.Errorf("files before and after differ:\n%v\n%v", before, after)
	}
	_ = code // of the machine on which the test runs

	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := daemon.Start(daemon.Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Stop(t.Context()) }()
	_, text, list = examine(t, dir, "--url", h.Addr.String())
	for _, want := range []string{"http://" + h.Addr.String() + " answers: chain " + hm.Genesis.ChainID, "differs by",
		"the data folder is of chain " + hm.Genesis.ChainID} {
		if f, ok := has(list, want); !ok || f.Status != doctor.OK {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, err := os.Stat("/proc/locks"); err == nil {
		if f, ok := has(list, "a node runs on this home"); !ok || f.Check != "lock" {
			t.Errorf("no lock in\n%s", text)
		}
	}
	if f, ok := has(second(examine(t, filepath.Join(dir, "none"))), "has no config.json"); !ok ||
		f.Status != doctor.Warn || !strings.Contains(f.Advice, "troupe init") {
		t.Errorf("a home that is not there: %+v", f)
	}
	if f, ok := has(second(examine(t, dir, "--url", "127.0.0.1:1")), "refused"); !ok || f.Status != doctor.Fail {
		t.Errorf("a node that is not there: %+v", f)
	}
}

func second(_ int, _ string, list []doctor.Finding) []doctor.Finding { return list }

// TestDoctorReportsHostileHomes: whatever is in a home, doctor ends, says what is wrong, and writes
// nothing that a terminal obeys.
func TestDoctorReportsHostileHomes(t *testing.T) {
	evil := "\x1b[2J\r\n\u202e\xff"
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"config is a pipe":  {func(dir string) error { return replaceBy(dir+"/config.json", mkfifo) }, "config.json is a pipe"},
		"genesis is a pipe": {func(dir string) error { return replaceBy(dir+"/genesis.json", mkfifo) }, "genesis.json is a pipe"},
		"key is a pipe":     {func(dir string) error { return replaceBy(dir+"/validator_key.json", mkfifo) }, "validator_key.json is a pipe"},
		"genesis is /dev/zero": {func(dir string) error {
			return replaceBy(dir+"/genesis.json", func(path string) error { return os.Symlink("/dev/zero", path) })
		}, "genesis.json is a device"},
		"config is a folder": {func(dir string) error {
			return replaceBy(dir+"/config.json", func(path string) error { return os.Mkdir(path, 0o700) })
		}, "config.json is a folder"},
		"config is empty": {func(dir string) error { return os.WriteFile(dir+"/config.json", nil, 0o600) }, "config.json"},
		"config is a loop": {func(dir string) error {
			return replaceBy(dir+"/config.json", func(path string) error { return os.Symlink(path, path) })
		}, "too many levels"},
		"hostile keys": {func(dir string) error {
			return os.WriteFile(dir+"/config.json",
				[]byte(`{"rpc": null, "`+`\u001b[2J\u202e`+`": 1, "genesis_file": "`+`\u001b]0;x\u0007`+`"}`), 0o600)
		}, `\x1b`},
		"hostile names": {func(dir string) error {
			if err := os.Mkdir(dir+"/epoch_configs", 0o700); err != nil {
				return err
			}
			return os.WriteFile(dir+"/epoch_configs/"+evil+".json", []byte(evil), 0o600)
		}, `\x1b[2J`},
		"epoch config is a pipe": {func(dir string) error {
			if err := os.Mkdir(dir+"/epoch_configs", 0o700); err != nil {
				return err
			}
			return mkfifo(dir + "/epoch_configs/86.json")
		}, "86.json is a pipe"},
		"marker is a pipe": {func(dir string) error {
			if err := os.Mkdir(dir+"/data", 0o700); err != nil {
				return err
			}
			return mkfifo(dir + "/data/FORMAT")
		}, "FORMAT is a pipe"},
		"marker is hostile": {func(dir string) error {
			if err := os.Mkdir(dir+"/data", 0o700); err != nil {
				return err
			}
			return os.WriteFile(dir+"/data/FORMAT", []byte(evil), 0o600)
		}, "FORMAT"},
		"data is a file": {func(dir string) error { return os.WriteFile(dir+"/data", []byte(evil), 0o600) }, "data"},
		"unreadable key": {func(dir string) error { return os.Chmod(dir+"/node_key.json", 0) }, "node_key.json"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newHome(t, `{"rpc":{"addr":"127.0.0.1:0"}}`)
			if err := c.spoil(dir); errors.Is(err, errNoPipes) {
				t.Skipf("%s: %v", name, err)
			} else if err != nil {
				t.Fatal(err)
			}
			if name == "unreadable key" && os.Geteuid() == 0 {
				t.Skip("root may read every file: run the test as another user")
			}
			_, text, list := examine(t, dir)
			if !strings.Contains(text, c.want) || doctor.Worst(list) != doctor.Fail {
				t.Errorf("no %q in\n%s", c.want, text)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file"+evil)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, text, _ := examine(t, file); !strings.Contains(text, "it is a file, not a folder") {
		t.Errorf("a home that is a file:\n%s", text)
	}
}

// errNoPipes: the file system of temporary folders has no named pipes.
var errNoPipes = errors.New("the temporary folder is on a file system without named pipes: set TMPDIR to a folder of a local disk")

// mkfifo makes a named pipe. It returns errNoPipes if the file system has none.
func mkfifo(path string) error {
	err := syscall.Mkfifo(path, 0o600)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) {
		err = fmt.Errorf("%w (%w)", errNoPipes, err)
	}
	return err
}

func replaceBy(path string, make func(string) error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return make(path)
}
