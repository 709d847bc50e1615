package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// restoreEnv makes this binary a process that restores a snapshot and is killed at a step.
const restoreEnv = "TROUPE_TEST_RESTORE"

type restoreChild struct {
	Home, Snapshot string
	Step           int
}

func restoreAndDie(what string) {
	var c restoreChild
	if err := json.Unmarshal([]byte(what), &c); err != nil {
		panic(err)
	}
	step := 0
	hooks.restoring = func(string) error {
		if step == c.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		step++
		return nil
	}
	_, err := RestoreSnapshot(context.Background(), RestoreOptions{Home: c.Home, Snapshot: c.Snapshot, Replace: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// restoreKilled runs a restore in a process and returns whether it was killed at that step; false:
// it ended before.
func restoreKilled(t *testing.T, dir, snap string, step int) bool {
	t.Helper()
	raw, err := json.Marshal(restoreChild{dir, snap, step})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), restoreEnv+"="+string(raw))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if w, is := exit.Sys().(syscall.WaitStatus); is && w.Signal() == syscall.SIGKILL {
			return true
		}
	}
	t.Fatalf("step %d: %v\n%s", step, err, out)
	return false
}

// TestSIGKILLDuringRestoreStartsNoNewChain: a process that restores is killed with SIGKILL at each
// of its steps, and again at each step of a second attempt after a kill between the two renames.
// The node that is started next has the previous chain or that of the snapshot, never a new one. If
// neither is complete, it does not start and says what to do. The signing journal is complete in
// all cases.
func TestSIGKILLDuringRestoreStartsNoNewChain(t *testing.T) {
	of := made(t)
	if err := os.Remove(filepath.Join(of, "validator_key.json")); err != nil {
		t.Fatal(err)
	}
	stop(t, mustStart(t, of))
	snap := filepath.Join(t.TempDir(), "snap")
	sign(t, of, 4)
	create(t, of, snap)
	sign(t, of, 9)
	last := 0
	for first := range 2 {
		for step := 0; ; step++ {
			dir := filepath.Join(t.TempDir(), "home")
			if err := os.CopyFS(dir, os.DirFS(of)); err != nil {
				t.Fatal(err)
			}
			if first == 1 && !restoreKilled(t, dir, snap, last) { // between the renames
				t.Fatal("it was not killed")
			}
			killed := restoreKilled(t, dir, snap, step)
			hm, err := home.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			whole := storage.Exists(hm.Paths.Data) || storage.Exists(hm.Paths.Data+restoringEnd)
			h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
			switch {
			case err != nil && (whole || !strings.Contains(err.Error(), "troupe snapshot restore")):
				t.Fatalf("try %d, step %d: %v", first, step, err)
			case err == nil:
				if !whole {
					t.Fatalf("try %d, step %d: the node starts a new chain", first, step)
				}
				stop(t, h)
			default: // follow the advice in the error
				if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dir, Snapshot: snap, Replace: true}); err != nil {
					t.Fatalf("try %d, step %d: %v", first, step, err)
				}
				stop(t, mustStart(t, dir))
			}
			row, err := validator.ReadRow(filepath.Join(hm.Paths.Data, signedFile))
			if err != nil {
				t.Fatal(err)
			}
			if s, err := consensus.ReadSignatures(row); err != nil || s.Target != 9 {
				t.Fatalf("try %d, step %d: signed up to %d, %v", first, step, s.Target, err)
			}
			if !killed {
				if last = step - 1; last < 5 {
					t.Errorf("killed at only %d steps", step)
				}
				break
			}
		}
	}
}

// TestRestoreKeepsSymbolicLink: if the data folder is a symbolic link, the link is kept. A state
// that was downloaded for another chain does not replace the restored one.
func TestRestoreKeepsSymbolicLink(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 3)
	want := h.Engine.Head().Hash
	stop(t, h)
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, dir, snap)
	h = mustStart(t, dir)
	mine(t, h, 3)
	stop(t, h)
	data, elsewhere := filepath.Join(dir, "data"), filepath.Join(t.TempDir(), "disk", "chain")
	if err := errors.Join(os.Mkdir(filepath.Dir(elsewhere), 0o755), os.CopyFS(elsewhere, os.DirFS(data)), os.RemoveAll(data), os.Symlink(elsewhere, data)); err != nil {
		t.Fatal(err)
	}
	coming := elsewhere + ".coming"
	if err := errors.Join(os.CopyFS(coming, os.DirFS(elsewhere)), os.WriteFile(filepath.Join(coming, completeFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dir, Snapshot: snap, Replace: true})
	if err != nil || filepath.Dir(r.Aside) != filepath.Dir(r.Data) {
		t.Fatalf("got %+v, error %v", r, err)
	}
	if to, err := os.Readlink(data); err != nil || to != elsewhere {
		t.Errorf("the link leads to %s, %v", to, err)
	}
	h = mustStart(t, dir)
	if h.Engine.Head().Hash != want {
		t.Errorf("the head is %v, want %v", h.Engine.Head().Hash, want)
	}
	stop(t, h)
}

// sign records an approval of a validator for a height in the signing journal.
func sign(t *testing.T, dir string, target primitives.Height) {
	t.Helper()
	f, err := validator.OpenJournal(filepath.Join(loaded(t, dir).Paths.Data, signedFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Write((&consensus.Signatures{Target: target}).AppendBorsh(nil)); err != nil {
		t.Fatal(err)
	}
}

// TestBackUpHomeEndsWithItsContext: copying genesis and records, which may be long, ends with its
// context.
func TestBackUpHomeEndsWithItsContext(t *testing.T) {
	hm, err := home.Load(made(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := backUpHome(ctx, hm, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
