package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage"
)

// mountEnv makes this binary a process whose data folder is a mount point.
const mountEnv = "TROUPE_TEST_MOUNT"

func init() { children[mountEnv] = runMounted }

// mountedChild restores a snapshot or starts a node, which prints its height and stops.
type mountedChild struct {
	Home     string
	Mount    string // mount point below the data folder; empty: the data folder
	Busy     string // folder below the mount point that cannot be removed; empty: none
	Snapshot string // empty: start the node
	Step     int    // step at which the process is killed; negative: never
}

func runMounted(what string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var c mountedChild
	check(json.Unmarshal([]byte(what), &c))
	data := filepath.Join(c.Home, "data", c.Mount)
	check(os.MkdirAll(data, 0o755))
	check(syscall.Mount(data, data, "", syscall.MS_BIND, "")) // in this process's own namespace
	if busy := filepath.Join(data, c.Busy); c.Busy != "" {
		check(os.MkdirAll(busy, 0o755))
		check(syscall.Mount(busy, busy, "", syscall.MS_BIND, ""))
	}
	if err := os.Rename(data, data+".x"); !errors.Is(err, syscall.EBUSY) {
		check(fmt.Errorf("the mount point was renamed: %w", err))
	}
	step := 0
	hooks.moving = func(string) error {
		if step == c.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		step++
		return nil
	}
	hooks.restoring = hooks.moving
	if c.Snapshot != "" {
		_, err := RestoreSnapshot(context.Background(), RestoreOptions{Home: c.Home, Snapshot: c.Snapshot, Replace: true})
		check(err)
		os.Exit(0)
	}
	hm, err := home.Load(c.Home)
	check(err)
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	check(err)
	fmt.Printf("height %d", h.Engine.Head().Height())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(h.Stop(ctx))
	os.Exit(0)
}

// run runs the process in a mount namespace of its own. The result is what it printed, and whether
// it was killed. The process must not fail.
func (c mountedChild) run(t *testing.T) (said string, killed bool) {
	t.Helper()
	said, killed, err := c.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	return said, killed
}

// ends is run for a process that may fail.
func (c mountedChild) ends(t *testing.T) (said string, killed bool, err error) {
	t.Helper()
	return childInNamespace(t, mountEnv, c)
}

// childInNamespace runs this binary as the child of that environment variable, in a mount namespace of its
// own. The result is what it printed, and whether it was killed.
func childInNamespace(t *testing.T, env string, spec any) (said string, killed bool, err error) {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+string(raw))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), false, nil
	case errors.As(err, &exit):
		if w, is := exit.Sys().(syscall.WaitStatus); is && w.Signal() == syscall.SIGKILL {
			return "", true, nil
		}
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOSPC):
		t.Skipf("this machine forbids mount namespaces: %v", err)
	}
	return "", false, fmt.Errorf("%+v: %w\n%s", spec, err, &failure)
}

// namesIn returns the names in a folder.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// signedUpTo returns the height up to which the chain of a home has signed.
func signedUpTo(t *testing.T, dir string) uint64 {
	t.Helper()
	row, err := validator.ReadRow(filepath.Join(loaded(t, dir).Paths.Data, signedFile))
	if err != nil {
		t.Fatal(err)
	}
	s, err := consensus.ReadSignatures(row)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(s.Target)
}

// TestChainInMountPointIsReplaced: the data folder is a mount point with a chain. A
// synced state of a later block replaces that chain, also if the process is killed with SIGKILL between
// any two steps and at any step of the start after that. The same holds for the restore of a
// snapshot. The signing journal and an operator's folder lost+found are kept.
func TestChainInMountPointIsReplaced(t *testing.T) {
	of := made(t)
	data := filepath.Join(of, "data")
	h := mustStart(t, of)
	mine(t, h, 3)
	stop(t, h)
	old := fmt.Sprintf("height %d", h.Engine.Head().Height())
	low := filepath.Join(t.TempDir(), "low")
	copyTree(t, data, low)
	h = mustStart(t, of)
	mine(t, h, 2)
	stop(t, h)
	synced := fmt.Sprintf("height %d", h.Engine.Head().Height())
	if old == synced {
		t.Fatal("both chains have", old)
	}
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, of, snap)
	high := filepath.Join(t.TempDir(), "high")
	copyTree(t, data, high)
	if err := markComplete(high); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(data), os.Remove(filepath.Join(of, "validator_key.json"))); err != nil {
		t.Fatal(err)
	}
	// homeAt returns a home with the old chain in its data folder, or in a folder below it.
	homeAt := func(below string) (dir string) {
		dir = filepath.Join(t.TempDir(), "home")
		copyTree(t, of, dir)
		copyTree(t, low, filepath.Join(dir, "data", below))
		if err := os.Mkdir(filepath.Join(dir, "data", below, lostFound), 0o700); err != nil {
			t.Fatal(err)
		}
		sign(t, dir, 9)
		return dir
	}
	for name, mount := range map[string]string{"synced state": "", "synced state, chain is the mount point": home.BelowMount} {
		t.Run(name, func(t *testing.T) {
			for first := range 100 {
				dir := homeAt(mount)
				copyTree(t, high, filepath.Join(dir, "data", mount, "chain.coming"))
				said, killed := mountedChild{Home: dir, Mount: mount, Step: first}.run(t)
				if killed {
					mountedChild{Home: dir, Mount: mount, Step: first % 3}.run(t) // killed again or not
					said, _ = mountedChild{Home: dir, Mount: mount, Step: -1}.run(t)
				}
				if said != synced || signedUpTo(t, dir) != 9 {
					t.Fatalf("killed at step %d: %s, signed up to %d", first, said, signedUpTo(t, dir))
				}
				if names := namesIn(t, filepath.Join(dir, "data", mount)); !slices.Equal(names, []string{"chain", lostFound}) {
					t.Fatalf("killed at step %d: left %q", first, names)
				}
				if !killed {
					if first < 8 {
						t.Errorf("killed at only %d steps", first)
					}
					break
				}
			}
		})
	}
	t.Run("no free name for the old chain", func(t *testing.T) {
		dir := homeAt("")
		at := filepath.Join(dir, "data")
		copyTree(t, high, filepath.Join(at, "chain.coming"))
		if said, _, err := (mountedChild{Home: dir, Busy: "chain" + replacedEnd + "/x", Step: -1}).ends(t); err == nil || !strings.Contains(err.Error(), "cannot replace") {
			t.Fatalf("%s, error %v", said, err)
		}
		if !storage.Exists(at) || !slices.Equal(namesIn(t, low), slices.DeleteFunc(namesIn(t, at), func(name string) bool {
			return home.IsBelowMount(name) || name == lostFound || strings.HasPrefix(name, signedFile)
		})) {
			t.Errorf("the old chain was moved: %q", namesIn(t, at))
		}
		if said, _ := (mountedChild{Home: dir, Step: -1}).run(t); said != synced || signedUpTo(t, dir) != 9 {
			t.Errorf("with a free name: %s, signed up to %d", said, signedUpTo(t, dir))
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		for step := 0; ; step++ {
			dir := homeAt("")
			_, killed := mountedChild{Home: dir, Snapshot: snap, Step: step}.run(t)
			said, _ := mountedChild{Home: dir, Step: -1}.run(t)
			if said != synced && (said != old || !killed) || signedUpTo(t, dir) != 9 {
				t.Fatalf("killed at step %d: %s, signed up to %d", step, said, signedUpTo(t, dir))
			}
			if said == old {
				mountedChild{Home: dir, Snapshot: snap, Step: -1}.run(t)
				if said, _ := (mountedChild{Home: dir, Step: -1}).run(t); said != synced || signedUpTo(t, dir) != 9 {
					t.Fatalf("restored after a kill at step %d: %s, signed up to %d", step, said, signedUpTo(t, dir))
				}
			}
			names := namesIn(t, filepath.Join(dir, "data"))
			if len(names) != 3 || names[0] != "chain" || !strings.HasPrefix(names[1], "chain"+asideEnd) || strings.HasSuffix(names[1], movingEnd) ||
				!storage.Exists(filepath.Join(dir, "data", names[1])) || names[2] != lostFound {
				t.Fatalf("killed at step %d: left %q", step, names)
			}
			if !killed {
				if step < 8 {
					t.Errorf("killed at only %d steps", step)
				}
				break
			}
		}
	})
	t.Run("empty mount point", func(t *testing.T) {
		dir := homeAt("")
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "data")), os.Mkdir(filepath.Join(dir, "data"), 0o755)); err != nil {
			t.Fatal(err)
		}
		if said, _ := (mountedChild{Home: dir, Step: -1}).run(t); said != "height 0" || !storage.Exists(filepath.Join(dir, "data", home.BelowMount)) {
			t.Errorf("%s, in %q", said, namesIn(t, filepath.Join(dir, "data")))
		}
		h := joined(t, dir, "")
		defer stop(t, h)
		var o blocksync.Options
		if err := h.limitSync(h.home, &o); o.Horizon == 0 || o.ProofBelow != 0 || err != nil {
			t.Errorf("the node never uses state sync: %+v, %v", o, err)
		}
	})
}
