package host

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// shortEpochs is a home of a chain with epochs of so many blocks, in which transactions are valid as long.
func shortEpochs(t *testing.T, length int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := home.Init(t.Context(), home.InitOptions{
		Dir: dir, ChainID: "sandbox", NumShards: 3, Random: rand.Reader, Downloader: home.NewDownloader(), Now: time.Now,
	}); err != nil {
		t.Fatal(err)
	}
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

// again starts a node that begins in the middle of its chain if it is far behind.
func again(t *testing.T, dir, boot string) *Host {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	n := &hm.Config.Network
	n.Enabled, n.Addr, n.BootNodes = &on, "127.0.0.1:0", boot
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Again: true})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestArrive: a node that joins a network long after its genesis begins with a proof of epochs and the state of a later block, also if it is stopped on its way there: it
// goes on with the same roots, answers of what is there, and gives others what it was given itself; away for longer than the horizon it does so again.
func TestArrive(t *testing.T) {
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
	arrives := func(h *Host) {
		t.Helper()
		select {
		case err := <-h.Failed():
			if !errors.Is(err, ErrArrived) {
				t.Fatal(err)
			}
		case <-time.After(60 * time.Second):
			t.Fatal("no state has come")
		}
		stop(t, h)
	}
	inStep := func(h *Host) {
		t.Helper()
		eventually(t, "in step", func() bool { return h.Engine.Head().Hash == a.Engine.Head().Hash })
		for i := range h.Engine.Head().Shards {
			if got, want := h.Engine.Head().Shards[i].Extra.StateRoot, a.Engine.Head().Shards[i].Extra.StateRoot; got != want {
				t.Errorf("shard %d: root %v, want %v", i, got, want)
			}
		}
	}
	run(142) // an epoch has just begun: it has no sync block yet
	dirB := followerHome(t, dirA)
	boot := fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr())
	b := again(t, dirB, boot)
	eventually(t, "at the newest header", func() bool {
		at, err := b.Engine.HeaderHead()
		return err == nil && at.Hash == a.Engine.Head().Hash
	})
	if syncing, best := b.front.Syncing(); !syncing || best != a.Engine.Head().Height() || b.Engine.Head().Height() != 0 {
		t.Errorf("syncing %v, best %d, at %d", syncing, best, b.Engine.Head().Height())
	}
	var said storage.Batch
	row := storage.Raw{5, 0, 0, 0, 0, 0, 0, 0}
	storage.Misc.Put(&said, largestTarget, &row)
	if err := b.store.Write(&said); err != nil {
		t.Fatal(err)
	}
	signed := filepath.Join(b.home.Paths.Data, signedFile+".1")
	if err := os.WriteFile(signed, []byte("this too"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	run(155)
	b = again(t, dirB, boot)
	arrives(b)
	b = again(t, dirB, boot)
	inStep(b)
	if got, err := storage.Misc.Get(b.store.Reader(), largestTarget); err != nil || string(got) != string(row) {
		t.Errorf("what it has said is lost: %q, %v", got, err)
	}
	if got, err := os.ReadFile(signed); err != nil || string(got) != "this too" {
		t.Errorf("what it has signed is lost: %q, %v", got, err)
	}
	for _, left := range []string{".coming", ".old"} {
		if _, err := os.Stat(b.home.Paths.Data + left); err == nil {
			t.Errorf("%s is left over", left)
		}
	}
	if first := b.Engine.Store().Tip().Tail; first < 140 {
		t.Errorf("it has blocks from %d on", first)
	}
	run(200)
	inStep(b)
	var none struct{}
	if f := ask(t, b, "query", map[string]any{"request_type": "view_account", "finality": "final", "account_id": "near"}, &none); f != "" {
		t.Error(f)
	}
	want, err := a.Engine.EpochProof()
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Engine.EpochProof()
	if err != nil || !bytes.Equal(got.AppendBorsh(nil), want.AppendBorsh(nil)) {
		t.Errorf("it makes another proof, %v", err)
	}
	stop(t, b)

	run(335) // beyond the horizon
	b = again(t, dirB, boot)
	arrives(b)
	b = again(t, dirB, boot)
	defer func() { stop(t, b) }()
	inStep(b)
	if first := b.Engine.Store().Tip().Tail; first < 310 {
		t.Errorf("it has blocks from %d on", first)
	}
	dirC := followerHome(t, dirA) // a third begins with what the second gives
	c := again(t, dirC, fmt.Sprintf("%v@%s", b.home.NodeKey.PublicKey(), b.NetworkAddr()))
	run(350)
	arrives(c)
	c = again(t, dirC, fmt.Sprintf("%v@%s", b.home.NodeKey.PublicKey(), b.NetworkAddr()))
	defer func() { stop(t, c) }()
	inStep(c)
}
