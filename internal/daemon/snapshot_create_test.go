package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/storage"
)

// filesOf returns the contents of all files below a folder except goleveldb's LOG files.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || notData(path) {
			return err
		}
		b, err := os.ReadFile(filepath.Clean(path))
		name, _ := filepath.Rel(dir, path)
		out[name] = string(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

// mine makes a sandbox produce blocks with a patch in each, and waits until the last one is final:
// no further block is produced.
func mine(t *testing.T, h *Daemon, n int) {
	t.Helper()
	var height primitives.Height
	for i := range n {
		r, err := genesis.ParseRecord(fmt.Appendf(nil, `{"Data":{"account_id":"test.near","data_key":"a2V5","value":"%08d"}}`, i))
		if err != nil {
			t.Fatal(err)
		}
		if height, _, err = h.Node.PatchState(t.Context(), []genesis.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); h.Engine.TipFinal().Height < height || h.Engine.Head() != h.Engine.Tip(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("block %d is not final, the head is at %d", height, h.Engine.Head().Height())
		}
	}
}

// roots are the states at the head.
func roots(h *Daemon) (head primitives.Hash, all string) {
	e := h.Engine.Head()
	for i := range e.Shards {
		all += fmt.Sprintln(e.Shards[i].ID, e.Shards[i].Extra.StateRoot)
	}
	return e.Block.Hash(), all
}

func create(t *testing.T, dir, to string) *Snapshot {
	t.Helper()
	s, _, err := CreateSnapshot(t.Context(), loaded(t, dir), "test", &BackupRequest{Dir: to}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRestoredNodeEqualsSnapshottedNode: a node restored from a snapshot of a running node has the
// head, the roots and the replies of that moment, in a home folder that contained only keys. The
// same holds for a snapshot of a stopped node's folder.
func TestRestoredNodeEqualsSnapshottedNode(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 30)
	head, state := roots(h)
	height := h.Engine.Head().Height()
	to := filepath.Join(t.TempDir(), "snap")
	if s := create(t, dir, to); s.Head.Hash != head || s.Head.Height != height || s.ChainID != "sandbox" {
		t.Errorf("the snapshot is of %+v, the head was %v", s.Head, head)
	}
	if _, err := os.Stat(to + unfinishedEnd); err == nil {
		t.Error("the unfinished folder is left")
	}
	mine(t, h, 30) // the node continues, its snapshot does not change
	for name := range filesOf(t, to) {
		if strings.Contains(name, "key.json") {
			t.Errorf("the snapshot contains a key: %s", name)
		}
	}
	other := t.TempDir()
	for _, key := range []string{"node_key.json", "validator_key.json"} {
		if err := copyFile(filepath.Join(dir, key), filepath.Join(other, key)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: other, Snapshot: to})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Made) != 2 || r.Aside != "" || len(r.Signed) > 0 || r.NoKey {
		t.Errorf("restored %+v", r)
	}
	again := mustStart(t, other)
	if gotHead, gotState := roots(again); gotHead != head || gotState != state {
		t.Errorf("head %v, want %v; states\n%s, want\n%s", gotHead, head, gotState, state)
	}
	v := again.Engine.Verify()
	for done := false; !done; {
		if done, err = v.Step(1000); err != nil {
			t.Fatal(err)
		}
	}
	v.Stop()
	mine(t, again, 3)
	stop(t, again)
	stop(t, h)

	// of the moved folder
	head, state = roots(h)
	to = filepath.Join(t.TempDir(), "snap")
	if s := create(t, dir, to); s.Head.Hash != head {
		t.Errorf("the snapshot of the folder is of %+v, the head was %v", s.Head, head)
	}
	if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: other, Snapshot: to}); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("over a chain: %v", err)
	}
	if r, err = RestoreSnapshot(t.Context(), RestoreOptions{Home: other, Snapshot: to, Replace: true}); err != nil || !storage.Exists(r.Aside) {
		t.Fatalf("got %+v, error %v", r, err)
	}
	again = mustStart(t, other)
	defer stop(t, again)
	if gotHead, gotState := roots(again); gotHead != head || gotState != state {
		t.Errorf("head %v, want %v; states\n%s, want\n%s", gotHead, head, gotState, state)
	}
	if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: other, Snapshot: to, Replace: true}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("under a node that runs: %v, want ErrLocked", err)
	}
}

// TestSnapshotOverExistingFileIsRefused: an existing file or folder in the way is reported and not
// changed.
func TestSnapshotOverExistingFileIsRefused(t *testing.T) {
	dir := made(t)
	for want, r := range map[string]BackupRequest{"must be an absolute path": {Dir: "x"}, "already exists": {Dir: t.TempDir()}, "no node has run here": {Dir: filepath.Join(t.TempDir(), "x")}} {
		if want == "no node has run here" {
			if _, _, err := CreateSnapshot(t.Context(), loaded(t, dir), "", &r, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: error %v", want, err)
			}
			continue
		}
		h := mustStart(t, dir)
		if _, running, err := CreateSnapshot(t.Context(), loaded(t, dir), "", &r, nil); err == nil || !running || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
		stop(t, h)
		if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	h := mustStart(t, dir)
	defer stop(t, h)
	h.backing.Store(true)
	if _, _, err := CreateSnapshot(t.Context(), loaded(t, dir), "", &BackupRequest{Dir: filepath.Join(t.TempDir(), "x")}, nil); err == nil || err.Error() != errSnapshots.Error() {
		t.Errorf("a second one: %v", err)
	}
	h.backing.Store(false)
	path := filepath.Join(dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := CreateSnapshot(t.Context(), loaded(t, dir), "", &BackupRequest{Dir: filepath.Join(t.TempDir(), "x")}, nil); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("with another genesis: %v", err)
	}
}

// TestAbandonedSnapshotLeavesNoFiles: no files are left if the client disconnects or the node stops
// in the middle.
func TestAbandonedSnapshotLeavesNoFiles(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 5)
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := h.Backup(ctx, &BackupRequest{Dir: filepath.Join(parent, "snap")}, func(int64, int64) {
		if n++; n == 2 {
			cancel()
		}
	})
	if left := filesOf(t, parent); !errors.Is(err, context.Canceled) || len(left) != 0 {
		t.Errorf("%v, left %d files", err, len(left))
	}
	stop(t, h)
	h = mustStart(t, dir)
	conn, err := dialControl(filepath.Join(dir, "data"), map[string]any{"backup": BackupRequest{Dir: filepath.Join(parent, "snap")}})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	stop(t, h) // waits for it
	if left := filesOf(t, parent); len(left) != 0 {
		if _, err := ReadSnapshot(filepath.Join(parent, "snap")); err != nil {
			t.Errorf("left %d files, and no snapshot: %v", len(left), err)
		}
	}
}

// TestChangedSnapshotIsNotRestored: a snapshot of which anything is changed or missing is refused,
// and the home keeps its chain.
func TestChangedSnapshotIsNotRestored(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 5)
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, dir, snap)
	stop(t, h)
	before := filesOf(t, dir)
	files := filesOf(t, snap)
	for name, text := range files {
		path := filepath.Join(snap, name)
		for what, change := range map[string]func() error{
			"removed":   func() error { return os.Remove(path) },
			"cut":       func() error { return os.WriteFile(path, []byte(text[:len(text)/2]), 0o600) },
			"with more": func() error { return os.WriteFile(path, []byte(text+"x"), 0o600) },
			"changed": func() error {
				return os.WriteFile(path, []byte(strings.ToUpper(text[:len(text)/2])+"\x00"+text[min(len(text), len(text)/2+1):]), 0o600)
			},
		} {
			if err := os.RemoveAll(path); err != nil { // it may be a name of the node's own file
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, snapshotHome) { // this home folder has its own
				continue
			}
			if r, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dir, Snapshot: snap, Replace: true}); err == nil {
				t.Fatalf("%s %s: restored %+v", name, what, r.Head)
			}
			if after := filesOf(t, dir); !maps.Equal(before, after) {
				t.Fatalf("%s %s: the home has changed", name, what)
			}
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: made(t), Snapshot: snap, Replace: true}); err == nil || !strings.Contains(err.Error(), "but the snapshot is of") {
		t.Errorf("into a home of another genesis: %v", err)
	}
	if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dir, Snapshot: snap, Replace: true}); err != nil {
		t.Errorf("the unchanged snapshot: %v", err)
	}
}

// TestFailedRestoreLeavesNoFiles: a restore into an empty home that fails in the middle of the
// chain leaves no file of the home either.
func TestFailedRestoreLeavesNoFiles(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 5)
	snap := filepath.Join(t.TempDir(), "snap")
	s := create(t, dir, snap)
	stop(t, h)
	last := s.Files[len(s.Files)-1].Name
	for _, f := range s.Files {
		if strings.HasPrefix(f.Name, snapshotData+"/") {
			last = f.Name
		}
	}
	if err := os.WriteFile(filepath.Join(snap, last), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if r, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: home, Snapshot: snap}); err == nil {
		t.Fatalf("restored %+v", r.Head)
	}
	if left := filesOf(t, home); len(left) > 0 {
		t.Errorf("left %d files: %v", len(left), slices.Sorted(maps.Keys(left)))
	}
}

// TestKilledRestoreLeavesOneWholeChain: a restore that is killed at any point leaves the previous
// chain, that of the snapshot, or none with an error that says so. The next restore succeeds.
func TestKilledRestoreLeavesOneWholeChain(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 5)
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, dir, snap)
	mine(t, h, 5)
	stop(t, h)
	before := filesOf(t, filepath.Join(dir, "data"))
	for kill := 0; ; kill++ {
		steps := 0
		killed := func() (killed bool) {
			defer func() { killed, hooks.restoring = recover() != nil, nil }()
			hooks.restoring = func(string) error {
				if steps++; steps > kill {
					panic("killed")
				}
				return nil
			}
			if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dir, Snapshot: snap, Replace: true}); err != nil {
				t.Fatal(err)
			}
			return false
		}()
		if !killed {
			if kill < 5 {
				t.Errorf("killed at only %d steps", kill)
			}
			break
		}
		if data := filesOf(t, filepath.Join(dir, "data")); len(data) != 0 && !maps.Equal(data, before) {
			t.Fatalf("killed at step %d: the chain has changed", kill)
		} else if len(data) == 0 {
			asides, _ := filepath.Glob(filepath.Join(dir, "data"+asideEnd+"*"))
			if len(asides) != 1 || !maps.Equal(filesOf(t, asides[0]), before) || !storage.Exists(filepath.Join(dir, "data"+restoringEnd)) {
				t.Fatalf("killed at step %d: neither chain is whole, %v", kill, asides)
			}
		}
	}
	stop(t, mustStart(t, dir))
}

// TestSnapshotOfForkIsRefused: a snapshot of a fork is refused, since no node could start from it.
func TestSnapshotOfForkIsRefused(t *testing.T) {
	dir := made(t)
	stop(t, mustStart(t, dir))
	if err := os.WriteFile(filepath.Join(dir, fork.PinFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	snap := filepath.Join(t.TempDir(), "snap")
	if _, _, err := CreateSnapshot(t.Context(), loaded(t, dir), "test", &BackupRequest{Dir: snap}, nil); err == nil || !strings.Contains(err.Error(), "copy the whole home") {
		t.Errorf("error %v", err)
	}
	if left, _ := filepath.Glob(snap + "*"); len(left) > 0 {
		t.Errorf("%s is left", left)
	}
}

// TestRestoreIgnoresPathsOutsideTheHome: paths in a snapshot's config.json that lead outside the
// home folder are ignored, unless the home folder has the same ones.
func TestRestoreIgnoresPathsOutsideTheHome(t *testing.T) {
	dir, outside := made(t), filepath.Join(t.TempDir(), "chain")
	conf, _, err := home.LoadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	conf.Document.Set("store.path", outside)
	c := conf.Document.Format()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), c, 0o600); err != nil {
		t.Fatal(err)
	}
	stop(t, mustStart(t, dir))
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, dir, snap)
	if err := os.RemoveAll(outside); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: other, Snapshot: snap}); err == nil || !strings.Contains(err.Error(), outside) {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(other); len(left) > 0 || storage.Exists(outside) {
		t.Errorf("files written: %v", left)
	}
	if err := os.WriteFile(filepath.Join(other, "config.json"), c, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: other, Snapshot: snap}); err != nil || r.Data != outside {
		t.Errorf("with its own config.json: %+v, %v", r, err)
	}
}

// TestRestoreKeepsSignedMessages: messages that a validator signed after the snapshot are kept,
// also if the snapshot's journal has more writes, if a restore was killed between its two renames,
// and if the folder's files cannot be read.
func TestRestoreKeepsSignedMessages(t *testing.T) {
	dir := made(t)
	if err := os.Remove(filepath.Join(dir, "validator_key.json")); err != nil {
		t.Fatal(err)
	}
	stop(t, mustStart(t, dir))
	data := filepath.Join(dir, "data")
	sign := func(targets ...primitives.Height) {
		t.Helper()
		f, err := validator.OpenJournal(filepath.Join(data, signedFile))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, h := range targets {
			if err := f.Write((&consensus.Signatures{Target: h}).AppendBorsh(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget := func() {
		t.Helper()
		if err := errors.Join(os.RemoveAll(filepath.Join(data, signedFile+".0")), os.RemoveAll(filepath.Join(data, signedFile+".1"))); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want primitives.Height, r *Restored, err error, from ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: error %v", what, err)
		}
		row, err := validator.ReadRow(filepath.Join(data, signedFile))
		if err != nil {
			t.Fatal(err)
		}
		s, err := consensus.ReadSignatures(row)
		if err != nil || s.Target != want || !slices.Equal(r.Signed, from) {
			t.Errorf("%s: signed up to %d, from %q, %v; want %d from %q", what, s.Target, r.Signed, err, want, from)
		}
	}
	sign(1, 2, 3, 4)
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, dir, snap)
	o := RestoreOptions{Home: dir, Snapshot: snap, Replace: true}
	forget()
	sign(9) // one write only
	r, err := RestoreSnapshot(t.Context(), o)
	check("replaced", 9, r, err, data, snap)
	aside := r.Aside

	killed := errors.New("killed")
	sign(11)
	hooks.restoring = func(step string) error {
		if step == "aside" {
			return killed
		}
		return nil
	}
	if _, err := RestoreSnapshot(t.Context(), o); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	hooks.restoring = nil
	between, err := replacedDirs(data)
	if err != nil || len(between) != 2 || between[0] != aside {
		t.Fatalf("between %q, error %v", between, err)
	}
	r, err = RestoreSnapshot(t.Context(), o)
	check("behind a kill", 11, r, err, between[0], between[1], snap)

	hooks.restoring = func(step string) error {
		if step == "aside" {
			return os.RemoveAll(data + restoringEnd) // there is nothing to rename
		}
		return nil
	}
	if _, err := RestoreSnapshot(t.Context(), o); err == nil || !storage.Exists(data) {
		t.Errorf("the old chain was not restored: %v", err)
	}
	hooks.restoring = nil

	for _, name := range []string{".0", ".1"} {
		if err := os.WriteFile(filepath.Join(data, signedFile+name), []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := RestoreSnapshot(t.Context(), o); err == nil || !strings.Contains(err.Error(), "neither can be read") || !storage.Exists(data) {
		t.Errorf("an unreadable folder counts as empty: %v", err)
	}
	for _, gone := range append(between, data) {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
	}
	r, err = RestoreSnapshot(t.Context(), o)
	check("without the old folders", 4, r, err, snap)
}

// TestRestoredKeyWaits: a key that only the snapshot's signing journal has may have signed on another
// machine since, so it is new.
func TestRestoredKeyWaits(t *testing.T) {
	dir := made(t)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "validator_key.json")); err != nil {
		t.Fatal(err)
	}
	stop(t, mustStart(t, dir))
	journal := filepath.Join(dir, "data", signedFile)
	f, err := validator.OpenJournal(journal)
	if err != nil {
		t.Fatal(err)
	}
	// This version of the row has no keys, so the first key is taken for the one that signed.
	err = f.Write((&consensus.Signatures{Target: 7}).AppendBorsh(nil))
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	known := func(what string, want bool) {
		t.Helper()
		row, err := validator.ReadRow(journal)
		if err != nil {
			t.Fatal(err)
		}
		got, err := consensus.IsKnownKey(row, key.AccountID, key.PublicKey(), 1, consensus.KeyWait{Blocks: 100})
		if err != nil || got != want {
			t.Errorf("%s: the key is known: %v, %v", what, got, err)
		}
		if s, err := consensus.ReadSignatures(row); err != nil || s.Target != 7 {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	known("before the snapshot", true)
	snap := filepath.Join(t.TempDir(), "snap")
	create(t, dir, snap)
	for _, what := range []string{"another machine", "again"} { // the second restore merges two journals
		if what == "another machine" {
			if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dir, Snapshot: snap, Replace: true}); err != nil {
			t.Fatal(err)
		}
		known(what, false)
	}
}
