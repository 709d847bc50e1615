package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage"
)

// fullEnv makes this binary a process that starts a node on a full disk.
const fullEnv = "TROUPE_TEST_FULL"

func init() { children[fullEnv] = runOnFullDisk }

// fullChild starts nodes in a copy of a home folder on a small disk, until one of them can write. The
// copied home has an old chain and a complete synced state.
type fullChild struct {
	From  string // the home folder
	At    string // empty folder over which the disk is mounted
	Mount bool   // the data folder is a mount point
	Free  int64  // bytes that are free on the disk when the node starts
	Stop  int    // step of the replacement at which the first start fails; negative: none
}

// fullReport is what the process prints.
type fullReport struct {
	Errors   []string // errors of starts that found no room; after each, 4 MiB are freed
	ReadOnly bool     // a node ran for reading only until the old chain was removed
	Height   uint64   // height of the head
	Names    []string // names in the folder that has the data folder, or in the mount point
	Signed   string   // content of the signing journal's second file
}

// fullPadding is the size of a file in the old chain, so that its removal makes room.
const fullPadding = 16 << 20

// fillDisk fills the disk of a folder. free makes room for n bytes again. check ends the process at an
// error.
func fillDisk(dir string, check func(error)) (free func(n int64)) {
	filler, err := os.Create(filepath.Join(dir, "filler"))
	check(err)
	for piece := make([]byte, 4<<10); err == nil; {
		_, err = filler.Write(piece)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		check(fmt.Errorf("the disk is not full: %w", err))
	}
	return func(n int64) {
		info, err := filler.Stat()
		check(err)
		check(filler.Truncate(info.Size() - n))
	}
}

func runOnFullDisk(what string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var c fullChild
	check(json.Unmarshal([]byte(what), &c))
	if err := syscall.Mount("none", c.At, "tmpfs", 0, "size=512m"); err != nil {
		fmt.Print("no mounting here: ", err)
		os.Exit(0)
	}
	dir := filepath.Join(c.At, "home")
	data := filepath.Join(dir, "data")
	check(os.CopyFS(dir, os.DirFS(c.From)))
	check(os.WriteFile(filepath.Join(data, "padding"), make([]byte, fullPadding), 0o600))
	incoming := data + ".coming"
	if c.Mount {
		check(syscall.Mount(data, data, "", syscall.MS_BIND, ""))
		check(os.CopyFS(filepath.Join(data, home.BelowMount+".coming"), os.DirFS(incoming)))
		check(os.RemoveAll(incoming))
	}
	free := fillDisk(c.At, check)
	free(c.Free)
	stopped := errors.New("the first start ends here")
	step := 0
	hooks.moving = func(string) error {
		step++
		if step == c.Stop+1 {
			return stopped
		}
		return nil
	}
	var r fullReport
	for tries := 0; ; tries++ {
		hm, err := home.Load(dir)
		check(err)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true})
		switch {
		case errors.Is(err, stopped):
			continue
		case storage.IsFull(err) && tries < 5:
			r.Errors = append(r.Errors, err.Error())
			free(4 << 20)
			continue
		}
		check(err)
		r.Height = uint64(h.Engine.Head().Height())
		_, full := h.store.DiskSpace().Full()
		if full {
			r.ReadOnly = true
			select {
			case err := <-h.Failed():
				if !errors.Is(err, ErrDiskFreed) {
					check(err)
				}
			case <-time.After(time.Minute):
				check(errors.New("the removal of the old chain made no room"))
			}
		} else {
			var batch storage.Batch
			raw := storage.Raw("a row")
			storage.Misc.Put(&batch, "written", &raw)
			check(h.store.Write(&batch))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		check(h.Stop(ctx))
		if cancel(); !full {
			break
		}
	}
	hm, err := home.Load(dir)
	check(err)
	signed, err := os.ReadFile(filepath.Join(hm.Paths.Data, signedFile+".1"))
	check(err)
	r.Signed = string(signed)
	in := dir
	if c.Mount {
		in = data
	}
	entries, err := os.ReadDir(in)
	check(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "data") || c.Mount {
			r.Names = append(r.Names, e.Name())
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(&r))
	os.Exit(0)
}

// TestSyncedStateIsInstalledOnFullDisk: a synced state replaces the old chain although the disk has
// no room, also if the first start ends between two steps. The node then reads until the removal of
// the old chain has made room, and writes after a restart. The signing journal is kept. If a start
// fails, its error says what to do, and the next start with room continues.
func TestSyncedStateIsInstalledOnFullDisk(t *testing.T) {
	of := made(t)
	data := filepath.Join(of, "data")
	h := mustStart(t, of)
	mine(t, h, 3)
	stop(t, h)
	low := filepath.Join(t.TempDir(), "low")
	copyTree(t, data, low)
	h = mustStart(t, of)
	mine(t, h, 2)
	stop(t, h)
	synced := uint64(h.Engine.Head().Height())
	if err := errors.Join(os.Rename(data, data+".coming"), markComplete(data+".coming"),
		os.Remove(filepath.Join(of, "validator_key.json"))); err != nil {
		t.Fatal(err)
	}
	copyTree(t, low, data)
	if err := os.WriteFile(filepath.Join(data, signedFile+".1"), []byte("this too"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]fullChild{"data folder is a mount point": {Mount: true, Stop: -1}}
	for _, free := range []int64{0, 4 << 10, 64 << 10, 512 << 10, 4 << 20, 64 << 20} {
		cases[fmt.Sprintf("%d KiB free", free>>10)] = fullChild{Free: free, Stop: -1}
	}
	for step := range 3 {
		cases[fmt.Sprintf("first start ends at step %d", step)] = fullChild{Stop: step}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.From, c.At = of, t.TempDir()
			said, _, err := childInNamespace(t, fullEnv, c)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(said, "no mounting here") {
				t.Skip(said)
			}
			var r fullReport
			if err := json.Unmarshal([]byte(said), &r); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			want := []string{"data"}
			if c.Mount {
				want = []string{home.BelowMount}
			}
			if r.Height != synced || r.Signed != "this too" || !slices.Equal(r.Names, want) {
				t.Errorf("height %d, journal %q, left %q; want height %d and only %q", r.Height, r.Signed, r.Names, synced, want)
			}
			if len(r.Errors) > 0 {
				t.Errorf("%d starts failed: %q", len(r.Errors), r.Errors)
			}
			if c.Free == 0 && !r.ReadOnly {
				t.Error("no node was read-only, so the disk was not full")
			}
		})
	}
}
