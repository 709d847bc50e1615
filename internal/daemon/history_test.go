package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/history"
)

// TestArchiveImportsItsHistory: an archive that began by state sync imports all older blocks from a
// feed, through a kill and an absence of the feed, and afterwards finds each block, transaction and
// receipt. Without the feed it serves what it has. With another data folder it says what is wrong.
func TestArchiveImportsItsHistory(t *testing.T) {
	const epoch = 20
	dirA := shortEpochs(t, epoch)
	a := joined(t, dirA, "")
	defer func() { stop(t, a) }()
	nonce := primitives.Nonce(0)
	for int(a.Engine.Head().Height()) < 7*epoch+15 {
		nonce++
		signed, _ := encode(draft(a, a.home.ValidatorKey, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), a.home.ValidatorKey)
		var status txStatus
		if got := ask(t, a, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); got != "" {
			t.Fatal(got)
		}
		mineBy(t, a, `{"blocks":3}`)
	}

	// feed is the first node's layout of neardata. It fails after some blocks until it is repaired.
	at, err := url.Parse("http://" + a.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(at)
	feed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) < 0 {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer feed.Close()

	boot := fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr())
	dirB := followerHome(t, dirA)
	var said bytes.Buffer
	open := func(source string) *Daemon {
		t.Helper()
		hm, err := home.Load(dirB)
		if err != nil {
			t.Fatal(err)
		}
		hm.Config.Archive, hm.Config.ArchiveStart = true, config.StartStateSync
		hm.Config.History.Source, hm.Config.History.Percent, hm.Config.History.Reserve = source, 800, 1
		on := true
		n := &hm.Config.Network
		n.Enabled, n.Addr, n.BootNodes = &on, "127.0.0.1:0", boot
		log := logrus.New()
		log.SetOutput(&said)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	awaitStateSync(t, open("neardata:"+feed.URL))
	left.Store(30)
	b := open("neardata:" + feed.URL)
	eventually(t, "without a feed", func() bool { return left.Load() < -3 })
	first := b.Engine.Store().Tip().Tail
	if first < 6*epoch {
		t.Fatalf("the archive begins at %d", first)
	}

	// A kill: the folder is copied while the node has it open.
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(b.home.Paths.History)); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	if err := os.RemoveAll(b.home.Paths.History); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(killed, b.home.Paths.History); err != nil {
		t.Fatal(err)
	}
	left.Store(1 << 30)
	b = open("neardata:" + feed.URL)
	eventually(t, "imported", func() bool { return b.imports.Status().State == blockfeed.ImportDone })
	has := func() {
		t.Helper()
		low, high, ok := b.history.Bounds()
		if st := b.history.Stats(); !ok || low != 1 || high != first || st.Blocks != uint64(first) {
			t.Fatalf("%d to %d, %v, %+v; want 1 to %d", low, high, ok, st, first)
		}
		outcomes := 0
		for h := primitives.Height(1); h <= first; h++ {
			d, err := b.history.Document(h)
			if err != nil || d.Hash.String() != hashAt(t, a, h) {
				t.Fatalf("block %d: %v", h, err)
			}
			for i := range d.Shards {
				s := &d.Shards[i]
				for j := range s.Outcomes {
					find := b.history.Receipt
					if j < len(s.Transactions) {
						find = b.history.Transaction
					}
					if p, has, err := find(s.Outcomes[j].ID); err != nil || !has || p != (history.Place{Height: h, Shard: s.ID}) {
						t.Errorf("outcome %v of block %d: %+v, %v, %v", s.Outcomes[j].ID, h, p, has, err)
					}
					outcomes++
				}
			}
		}
		if outcomes < 50 {
			t.Errorf("only %d outcomes", outcomes)
		}
	}
	has()
	m := b.imports.Status()
	if m.Check.Unproven != 0 || m.Check.Blocks != uint64(first) || !m.Check.Done || m.Share() != 1 {
		t.Errorf("%+v", m)
	}
	text := string(b.appendMetrics(nil))
	for _, want := range []string{
		fmt.Sprintf("troupe_history_blocks %d\n", first), "troupe_history_lowest_height 1\n", fmt.Sprintf("troupe_history_highest_height %d\n", first),
		"troupe_history_progress 1\n", "troupe_history_unproven_outcomes 0\n", `troupe_history_state{state="done"} 1`, `troupe_history_state{state="importing"} 0`,
		"troupe_history_seconds_left 0\n", "troupe_history_errors 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	stop(t, b)

	b = open("") // serves what it has
	has()
	if b.imports != nil {
		t.Error("a job without a feed")
	}
	sameReplies(t, a, b, first)
	stop(t, b)

	// A snapshot leaves the older blocks out, and its restore leaves them as they are.
	check := func() (*Checked, error) { return CheckDB(t.Context(), b.home, func(float64, string) {}) }
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if _, _, err := CreateSnapshot(t.Context(), b.home, "", &BackupRequest{Dir: snapshot}, nil); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(snapshot, "*", "history")); err != nil || len(names) != 0 {
		t.Errorf("the snapshot contains %v, %v", names, err)
	}
	if _, err := RestoreSnapshot(t.Context(), RestoreOptions{Home: dirB, Snapshot: snapshot, Replace: true}); err != nil {
		t.Fatal(err)
	}
	if c, err := check(); err != nil || c.History == nil || c.History.Blocks != uint64(first) || c.History.IDs == 0 {
		t.Errorf("check: %+v, %v", c, err)
	}

	// Damage does not keep the node from its own blocks.
	segments, err := filepath.Glob(filepath.Join(b.home.Paths.History, "log", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	whole, err := os.ReadFile(segments[len(segments)-1])
	if err == nil {
		err = os.Truncate(segments[len(segments)-1], 10)
	}
	if err != nil {
		t.Fatal(err)
	}
	b = open("neardata:" + feed.URL)
	if b.history != nil || b.imports != nil || !strings.Contains(said.String(), "the imported older blocks are not served") || !strings.Contains(said.String(), "remove the folder") {
		t.Errorf("a damaged history: %v", b.history)
	}
	stop(t, b)
	if c, err := check(); err == nil || c == nil || !c.States || !strings.Contains(err.Error(), "troupe.history.path") {
		t.Errorf("check of damaged older blocks: %+v, %v", c, err)
	}
	if err := os.WriteFile(segments[len(segments)-1], whole, 0o600); err != nil {
		t.Fatal(err)
	}

	// The data folder is begun anew, at a later block.
	if err := os.RemoveAll(b.home.Paths.Data); err != nil {
		t.Fatal(err)
	}
	for int(a.Engine.Head().Height()) < 14*epoch+15 {
		mineBy(t, a, `{"blocks":3}`)
	}
	awaitStateSync(t, open("neardata:"+feed.URL))
	b = open("neardata:" + feed.URL)
	eventually(t, "refused", func() bool { return b.imports.Status().State == blockfeed.ImportStopped })
	if r := b.imports.Status().Reason; !strings.Contains(r, "do not adjoin") || !strings.Contains(r, "remove "+b.home.Paths.History) {
		t.Error(r)
	}
	stop(t, b)
	if c, err := check(); err == nil || c == nil || !c.States || !strings.Contains(err.Error(), "do not adjoin") {
		t.Errorf("check of foreign older blocks: %+v, %v", c, err)
	}
	for _, want := range []string{"import of history: blocks", "import of history: done", "do not adjoin"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
}

// sameReplies checks that two nodes give the same replies about the blocks up to a height.
func sameReplies(t *testing.T, a, b *Daemon, top primitives.Height) {
	t.Helper()
	replies := 0
	same := func(method string, params map[string]any) {
		t.Helper()
		want, got := rawReply(t, a, method, params), rawReply(t, b, method, params)
		if replies++; !bytes.Equal(want, got) || bytes.Contains(want, []byte(`"error":{`)) {
			t.Errorf("%s %v\n%.1000s\nwant\n%.1000s", method, params, got, want)
		}
	}
	for h := primitives.Height(1); h <= top; h++ {
		same("block", map[string]any{"block_id": h})
		same("block", map[string]any{"block_id": hashAt(t, a, h)})
		same("gas_price", map[string]any{"block_id": h})
		d, err := b.history.Document(h)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Shards {
			s := &d.Shards[i]
			same("chunk", map[string]any{"block_id": h, "shard_id": s.ID})
			for j := range s.Outcomes {
				id := s.Outcomes[j].ID.String()
				if j < len(s.Transactions) {
					same("tx", map[string]any{"tx_hash": id, "sender_account_id": s.Transactions[j].SignerID, "wait_until": "FINAL"})
					same("EXPERIMENTAL_tx_status", map[string]any{"tx_hash": id, "sender_account_id": s.Transactions[j].SignerID})
				} else {
					same("EXPERIMENTAL_receipt", map[string]any{"receipt_id": id})
				}
			}
		}
	}
	if replies < 500 {
		t.Errorf("only %d replies", replies)
	}
}

func rawReply(t *testing.T, h *Daemon, method string, params map[string]any) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post("http://"+h.Addr.String(), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
