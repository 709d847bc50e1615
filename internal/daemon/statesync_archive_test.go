package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/viewstate"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestArchiveBeginsByStateSync: an archival node that may begin by state sync keeps all blocks and
// states from there on, through restarts and for more epochs than another node keeps. It answers for
// lower heights as neard does for blocks that an archive does not have. After an absence beyond the
// horizon it downloads the blocks instead of replacing those that it has.
func TestArchiveBeginsByStateSync(t *testing.T) {
	const epoch = 20
	dirA := shortEpochs(t, epoch)
	a := joined(t, dirA, "")
	defer func() { stop(t, a) }()
	nonce := primitives.Nonce(0)
	run := func(to int) {
		t.Helper()
		for int(a.Engine.Head().Height()) < to {
			nonce++
			signed, _ := encode(draft(a, a.home.ValidatorKey, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), a.home.ValidatorKey)
			var status txStatus
			if got := ask(t, a, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); got != "" {
				t.Fatal(got)
			}
			mineBy(t, a, fmt.Sprintf(`{"blocks":%d}`, min(3, to-int(a.Engine.Head().Height()))))
		}
	}
	boot := fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr())
	open := func(dir string, archive bool) *Daemon {
		t.Helper()
		hm, err := home.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		hm.Config.Archive, hm.Config.ArchiveStart = archive, config.StartStateSync
		hm.Config.GCEpochsToKeep, hm.Config.GCMinAge, hm.Config.GCStepPeriod = 3, 0, time.Millisecond
		on := true
		n := &hm.Config.Network
		n.Enabled, n.Addr, n.BootNodes = &on, "127.0.0.1:0", boot
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	caughtUp := func(h *Daemon) {
		t.Helper()
		eventually(t, "in step", func() bool { return h.Engine.Head().Hash == a.Engine.Head().Hash })
	}

	run(7*epoch + 15)
	dirB, dirC := followerHome(t, dirA), followerHome(t, dirA)
	c := open(dirC, false)
	awaitStateSync(t, c)
	b := open(dirB, true)
	awaitStateSync(t, b)
	b, c = open(dirB, true), open(dirC, false)
	caughtUp(b)
	caughtUp(c)
	for _, x := range []struct {
		h    *Daemon
		want primitives.Height
	}{{b, 3 * epoch}, {c, 0}} { // old blocks come from archival peers only if the node needs them
		var o blocksync.Options
		if err := x.h.limitSync(x.h.home, &o); err != nil || o.Kept != x.want || o.Horizon == 0 {
			t.Errorf("%+v, %v; want %d blocks kept", o, err, x.want)
		}
	}
	first := b.Engine.Store().Tip().Tail
	if first < 6*epoch {
		t.Fatalf("the archive begins at %d", first)
	}
	if _, err := c.Engine.Store().BlockAt(first); err != nil {
		t.Fatalf("block %d of the other node, which began before the archive: %v", first, err)
	}
	hash := hashAt(t, a, first)
	balance := balanceOf(t, a, first+1)

	// keeps is what must hold of the archive at any time.
	keeps := func(when string) {
		t.Helper()
		for _, x := range []struct{ method, params, want string }{
			{"status", `[]`, fmt.Sprintf(`"earliest_block_height":%d,`, first)},
			{"block", `{"sync_checkpoint":"earliest_available"}`, hash},
			{"block", fmt.Sprintf(`{"block_id":%d}`, first), hash},
			{"block", fmt.Sprintf(`{"block_id":%q}`, hash), hash},
			{"query", fmt.Sprintf(`{"block_id":%d,"request_type":"view_account","account_id":"near"}`, first+1), balance},
			{"block", `{"sync_checkpoint":"genesis"}`, a.Engine.Genesis().Hash.String()},
			// heights that this archive never had
			{"block", `{"block_id":10}`, `"name":"UNKNOWN_BLOCK"`},
			{"block", fmt.Sprintf(`{"block_id":%q}`, hashAt(t, a, 10)), `"name":"UNKNOWN_BLOCK"`},
			{"chunk", `{"block_id":10,"shard_id":0}`, `"name":"UNKNOWN_BLOCK"`},
			{"query", `{"block_id":10,"request_type":"view_account","account_id":"near"}`, `"cause":{"info":{"block_reference":{"block_id":10}},"name":"UNKNOWN_BLOCK"}`},
		} {
			if got := replyOf(t, b, x.method, x.params); !strings.Contains(got, x.want) {
				t.Errorf("%s, %s %s: %s, want %s", when, x.method, x.params, got, x.want)
			}
		}
	}
	keeps("after the arrival")
	// the commands of view-state cope with the first blocks, which have no states or no bodies
	for name, r := range map[string]viewstate.Request{
		"chain": {Chain: &viewstate.ChainRequest{Height: &first, Block: true, Chunks: true}}, "epochs": {Epochs: &viewstate.EpochRequest{By: "all"}},
		"validator": {Epochs: &viewstate.EpochRequest{By: "all", Validator: "test.near"}},
		"apply":     {Apply: &viewstate.ApplyRequest{Start: new(primitives.Height), Verbose: true}}, "anchor": {Anchor: &viewstate.AnchorRequest{}},
	} {
		var out lines
		if err := ViewState(t.Context(), b.home, &r, &out); err != nil {
			t.Errorf("view-state %s: %v", name, err)
		}
		text := strings.Join(out.text, "\n")
		for what, want := range map[string]string{"apply": " 0 differ", "chain": hash, "anchor": fmt.Sprintf(`{"height":%d,"hash":%q`, first, hash)} {
			if what == name && !strings.Contains(text, want) {
				t.Errorf("view-state %s: no %s in %s", name, want, text)
			}
		}
	}
	stop(t, b)
	b = open(dirB, true)
	keeps("after a restart")

	run(int(a.Engine.Head().Height()) + 6*epoch) // more epochs than the other node keeps
	caughtUp(b)
	caughtUp(c)
	eventually(t, "the other node collects the block", func() bool { return c.Engine.Store().Tip().Tail > first+epoch })
	if _, err := c.Engine.Store().BlockAt(first); !errors.Is(err, storage.ErrGone) {
		t.Errorf("block %d of the other node: %v", first, err)
	}
	keeps("after many epochs")
	stop(t, c)
	stop(t, b)

	run(int(a.Engine.Head().Height()) + 6*epoch) // beyond the horizon
	b = open(dirB, true)
	defer func() { stop(t, b) }()
	caughtUp(b)
	keeps("after an absence beyond the horizon")
}

// TestWhereAnArchiveBegins: an archival node begins at the genesis if it can, and by state sync where
// this is the only beginning or the configuration says so.
func TestWhereAnArchiveBegins(t *testing.T) {
	public := made(t)
	mainnet(t, public)
	for _, x := range []struct {
		name, dir, start string
		want             string // "sync", "blocks", or part of the error
	}{
		{"a local chain", made(t), "", "blocks"},
		{"a local chain from its genesis on", made(t), config.StartGenesis, "blocks"},
		{"a local chain by state sync", made(t), config.StartStateSync, "sync"},
		{"mainnet", public, "", "sync"},
		{"mainnet by state sync", public, config.StartStateSync, "sync"},
		{"mainnet from its genesis on", public, config.StartGenesis, "troupe.archive_start"},
	} {
		t.Run(x.name, func(t *testing.T) {
			hm, err := home.Load(x.dir)
			if err != nil {
				t.Fatal(err)
			}
			hm.Config.Archive, hm.Config.ArchiveStart = true, x.start
			on := true
			hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
			h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true})
			if err != nil {
				if !strings.Contains(err.Error(), x.want) {
					t.Errorf("%v, want %s", err, x.want)
				}
				return
			}
			defer stop(t, h)
			var o blocksync.Options
			if err := h.limitSync(hm, &o); err != nil {
				t.Fatal(err)
			}
			got := "blocks"
			if o.Horizon > 0 && o.ProofBelow == h.Engine.Chain().Height+1 {
				got = "sync"
			}
			if got != x.want || (h.bootstrap != nil) != (got == "sync") {
				t.Errorf("the node begins by %s, %+v, want %s", got, o, x.want)
			}
		})
	}
}

// hashAt returns the hash of a block of a node.
func hashAt(t *testing.T, h *Daemon, height primitives.Height) string {
	t.Helper()
	hash, err := h.Engine.Store().HashAt(height)
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// balanceOf returns the balance of the account near after a block, as the RPC writes it.
func balanceOf(t *testing.T, h *Daemon, height primitives.Height) string {
	t.Helper()
	reply := replyOf(t, h, "query", fmt.Sprintf(`{"block_id":%d,"request_type":"view_account","account_id":"near"}`, height))
	_, amount, is := strings.Cut(reply, `"amount":`)
	amount, _, _ = strings.Cut(amount, ",")
	if !is || amount == "" {
		t.Fatalf("no balance at %d: %s", height, reply)
	}
	return `"amount":` + amount
}
