package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// shortEpochs returns the home folder of a chain with this epoch length, which is also the
// transaction validity period.
func shortEpochs(t *testing.T, length int) (dir string) {
	t.Helper()
	dir = testnode.Home(t, home.InitOptions{ChainID: "sandbox", NumShards: 3})
	path := filepath.Join(dir, "genesis.json")
	in, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"epoch_length", "transaction_validity_period"} {
		in = regexp.MustCompile(`"`+key+`":\s*\d+`).ReplaceAll(in, fmt.Appendf(nil, `"%s": %d`, key, length))
	}
	if err := os.WriteFile(path, bytes.TrimSpace(in), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// again starts a node that uses state sync if it is far behind.
func again(t *testing.T, dir, boot string) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	n := &hm.Config.Network
	n.Enabled, n.Addr, n.BootNodes = &on, "127.0.0.1:0", boot
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// awaitStateSync waits until a node has synced the state of a later block, and stops it.
func awaitStateSync(t *testing.T, h *Daemon) {
	t.Helper()
	select {
	case err := <-h.Failed():
		if !errors.Is(err, ErrStateSynced) {
			t.Fatal(err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("no state was downloaded")
	}
	stop(t, h)
}

// TestNodeStartsFromEpochSyncProof: a node that joins a network long after its genesis starts with
// an epoch sync proof and the state of a later block, also if it is stopped in between. It then
// computes the same roots, serves reads of the blocks it has, and serves the state and proof to
// others. After an absence longer than the horizon it does so again.
func TestNodeStartsFromEpochSyncProof(t *testing.T) {
	dirA := shortEpochs(t, 20)
	a := joined(t, dirA, "")
	defer func() { stop(t, a) }()
	key := a.home.ValidatorKey
	nonce := primitives.Nonce(0)
	run := func(to int) {
		t.Helper()
		for int(a.Engine.Head().Height()) < to {
			nonce++
			signed, _ := encode(draft(a, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), key)
			var status txStatus
			if got := ask(t, a, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); got != "" {
				t.Fatal(got)
			}
			mineBy(t, a, fmt.Sprintf(`{"blocks":%d}`, min(3, to-int(a.Engine.Head().Height()))))
		}
	}
	caughtUp := func(h *Daemon) {
		t.Helper()
		eventually(t, "in step", func() bool { return h.Engine.Head().Hash == a.Engine.Head().Hash })
		for i := range h.Engine.Head().Shards {
			if got, want := h.Engine.Head().Shards[i].Extra.StateRoot, a.Engine.Head().Shards[i].Extra.StateRoot; got != want {
				t.Errorf("shard %d: root %v, want %v", i, got, want)
			}
		}
	}
	run(142) // a new epoch without a sync block yet
	dirB := followerHome(t, dirA)
	boot := fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr())
	b := again(t, dirB, boot)
	eventually(t, "at the newest header", func() bool {
		at, err := b.Engine.HeaderChain().Head()
		return err == nil && at.Hash == a.Engine.Head().Hash
	})
	if syncing, best := b.front.Syncing(); !syncing || best != a.Engine.Head().Height() || b.Engine.Head().Height() != 0 {
		t.Errorf("syncing %v, best %d, at %d", syncing, best, b.Engine.Head().Height())
	}
	signed := filepath.Join(b.home.Paths.Data, signedFile+".1")
	if err := os.WriteFile(signed, []byte("this too"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	run(155)
	b = again(t, dirB, boot)
	awaitStateSync(t, b)
	b = again(t, dirB, boot)
	caughtUp(b)
	if _, err := storage.Misc.Get(b.store.Reader(), knownPeers); err != nil {
		t.Errorf("the known peers were lost: %v", err)
	}
	if got, err := os.ReadFile(signed); err != nil || string(got) != "this too" {
		t.Errorf("signed messages are lost: %q, %v", got, err)
	}
	for _, left := range []string{".coming", ".before-arrival"} {
		if _, err := os.Stat(b.home.Paths.Data + left); err == nil {
			t.Errorf("%s is left over", left)
		}
	}
	if first := b.Engine.Store().Tip().Tail; first < 140 {
		t.Errorf("the first block is %d", first)
	}
	run(200)
	caughtUp(b)
	var none struct{}
	if f := ask(t, b, "query", map[string]any{"request_type": "view_account", "finality": "final", "account_id": "near"}, &none); f != "" {
		t.Error(f)
	}
	want, err := a.Engine.EpochProofs().Proof()
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Engine.EpochProofs().Proof()
	if err != nil || !bytes.Equal(got.AppendBorsh(nil), want.AppendBorsh(nil)) {
		t.Errorf("the proof differs, %v", err)
	}
	stop(t, b)

	run(335) // beyond the horizon
	b = again(t, dirB, boot)
	awaitStateSync(t, b)
	b = again(t, dirB, boot)
	defer func() { stop(t, b) }()
	caughtUp(b)
	if first := b.Engine.Store().Tip().Tail; first < 310 {
		t.Errorf("the first block is %d", first)
	}
	dirC := followerHome(t, dirA) // a third node syncs from the second
	c := again(t, dirC, fmt.Sprintf("%v@%s", b.home.NodeKey.PublicKey(), b.NetworkAddr()))
	run(350)
	awaitStateSync(t, c)
	c = again(t, dirC, fmt.Sprintf("%v@%s", b.home.NodeKey.PublicKey(), b.NetworkAddr()))
	defer func() { stop(t, c) }()
	caughtUp(c)
}

// copyTree copies a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestDownloadedChainReplacesExistingOne: a downloaded chain replaces the existing one, also if the
// data folder is a symbolic link, which is kept. The old chain is kept until the new one has been
// opened, and an error names it if that fails.
func TestDownloadedChainReplacesExistingOne(t *testing.T) {
	dir, disk := made(t), t.TempDir()
	h := joined(t, dir, "")
	mineBy(t, h, `{"blocks":3}`)
	stop(t, h)
	data, real := h.home.Paths.Data, filepath.Join(disk, "chain")
	if err := os.Rename(data, real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, data); err != nil {
		t.Fatal(err)
	}
	copyTree(t, real, real+".coming")
	h = joined(t, dir, "") // it is not whole: no mark
	mineBy(t, h, `{"blocks":4}`)
	if h.Engine.Head().Height() != 7 {
		t.Fatalf("at %d", h.Engine.Head().Height())
	}
	stop(t, h)
	if err := os.RemoveAll(real + ".coming"); err != nil {
		t.Fatal(err)
	}
	copyTree(t, real, real+".kept")
	h = joined(t, dir, "")
	mineBy(t, h, `{"blocks":1}`)
	stop(t, h)
	mark := func() {
		if err := os.RemoveAll(real + ".coming"); err != nil {
			t.Fatal(err)
		}
		copyTree(t, real+".kept", real+".coming")
		if err := os.WriteFile(filepath.Join(real+".coming", completeFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mark()
	signed := filepath.Join(real, signedFile+".1")
	if err := os.WriteFile(signed, []byte("this too"), 0o600); err != nil {
		t.Fatal(err)
	}
	var synced []string // and where the signing journal was then
	hooks.syncFolder = func(of string) error {
		places := filepath.Base(of)
		for _, at := range []string{real, real + ".coming", real + ".before-arrival"} {
			if _, err := os.Stat(filepath.Join(at, signedFile+".1")); err == nil {
				places += " " + filepath.Base(at)
			}
		}
		synced = append(synced, places)
		return syncFolder(of)
	}
	defer func() { hooks.syncFolder = nil }()
	// folders of an operator, which no start removes
	own := []string{filepath.Join(real+".old", "mine"), filepath.Join(data+".old", "mine")}
	for _, at := range own {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := installIncoming(h.home, h.log); err != nil {
		t.Fatal(err)
	}
	if want := []string{"chain.coming chain chain.coming", filepath.Base(disk) + " chain chain.before-arrival"}; !slices.Equal(synced, want) {
		t.Errorf("synced names %q, want %q", synced, want)
	}
	if !storage.Exists(real+".before-arrival") || !storage.Exists(real) {
		t.Fatal("the old chain was removed before the new one is open")
	}
	if err := withReplaced(h.home, errors.New("it does not open")); !strings.Contains(err.Error(), real+".before-arrival") {
		t.Errorf("error %v", err)
	}
	if err := withReplaced(h.home, storage.ErrFull); !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), real+".before-arrival: remove that folder to make room") {
		t.Errorf("on a full disk: error %v", err)
	}
	if err := errors.Join(os.RemoveAll(real+".coming"), os.Rename(real, real+".coming"), os.WriteFile(filepath.Join(real+".coming", completeFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	h = joined(t, dir, "") // as after a kill between the two renames: the link has no target
	if h.Engine.Head().Height() != 7 {
		t.Errorf("height %d, want the height of the downloaded state", h.Engine.Head().Height())
	}
	stop(t, h)
	for _, left := range []string{real + ".before-arrival", real + ".coming", data + ".before-arrival", data + ".coming", filepath.Join(real, completeFile)} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s is left over", left)
		}
	}
	for _, at := range own {
		if _, err := os.Stat(at); err != nil {
			t.Errorf("an operator's folder: %v", err)
		}
	}
	if to, err := os.Readlink(data); err != nil || to != real {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// TestDiscardedDownloadMarksNoFolder: a marker of an earlier download that was discarded does not
// mark the folder as complete.
func TestDiscardedDownloadMarksNoFolder(t *testing.T) {
	h := joined(t, made(t), "")
	defer func() { stop(t, h) }()
	came := new(engine.BootstrapSync)
	a := &bootstrapFolder{h: h, store: h.store, sync: came}
	if err := a.Ready(new(engine.BootstrapSync)); err == nil || a.store == nil {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(incomingDir(h.home), completeFile)); err == nil {
		t.Error("the folder is marked")
	}
}

// failingBlocks is a list of blocks that cannot be read.
type failingBlocks struct{ err error }

func (f failingBlocks) Len() int                             { return 1 }
func (f failingBlocks) Block(int) (*primitives.Block, error) { return nil, f.err }

// TestUnfinishedStateSyncSurvivesErrors: if a state sync cannot be resumed because the disk is full or a
// read fails, what was downloaded stays. It is removed only if it does not fit.
func TestUnfinishedStateSyncSurvivesErrors(t *testing.T) {
	h := joined(t, made(t), "")
	defer stop(t, h)
	f := &bootstrapFolder{h: h}
	defer f.stop()
	downloaded := filepath.Join(incomingDir(h.home), "downloaded")
	for _, x := range []struct {
		err   error
		stays bool
	}{
		{storage.ErrFull, true},
		{fmt.Errorf("log write: %w", syscall.ENOSPC), true},
		{fmt.Errorf("%w: %w", storage.ErrDamaged, syscall.EDQUOT), true},
		{storage.ErrFailed, true},
		{storage.ErrLocked, true},
		{syscall.EIO, true},
		{syscall.EMFILE, true},
		{chain.InvalidBlockMerkleRoot, true},
		{fmt.Errorf("the blocks of another epoch: %w", storage.ErrOrder), false},
		{storage.ErrDamaged, false},
		{storage.ErrFormat, false},
		{storage.ErrForeign, false},
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(downloaded), 0o755), os.RemoveAll(downloaded)); err != nil {
			t.Fatal(err)
		}
		try := func() error {
			_, err := f.Begin(&engine.BootstrapInput{Blocks: failingBlocks{x.err}})
			return err
		}
		_ = try() // makes a store
		if err := os.WriteFile(downloaded, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := try(); !errors.Is(err, x.err) {
			t.Errorf("%v: error %v", x.err, err)
		}
		if _, err := os.Stat(downloaded); (err == nil) != x.stays {
			t.Errorf("%v: stays %v, expected %v", x.err, err == nil, x.stays)
		}
	}
}

// TestStopDoesNotWaitForEndOfStateSync: a stop closes the node's own store even if the end of a state sync
// takes longer than the stop may take. Then the error is ErrStateSyncUnfinished.
func TestStopDoesNotWaitForEndOfStateSync(t *testing.T) {
	h := joined(t, made(t), "")
	h.bootstrap = &bootstrapFolder{h: h}
	h.bootstrap.mu.Lock() // as while the index is compacted
	defer h.bootstrap.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- h.Stop(ctx) }()
	for open := true; open; time.Sleep(time.Millisecond) {
		s, err := openIncoming(h.home, h.home.Paths.Data, h.log, false)
		if open = errors.Is(err, storage.ErrLocked); err == nil {
			err = s.Close()
		}
		if err != nil && !open {
			t.Error(err)
		}
	}
	cancel()
	if err := <-stopped; err != ErrStateSyncUnfinished {
		t.Errorf("error %v", err)
	}
}
