//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

var browserInstall = sync.OnceValues(func() (string, error) {
	if upToDate("browser/node_modules/.package-lock.json", "browser/package-lock.json") {
		return "", nil
	}
	return install(5*time.Minute, "browser", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
})

// chromium returns the path of a browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	need(t, "node", "npm")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			installed(t, browserInstall)
			return path
		}
	}
	t.Skip("skipped: chromium is not installed (apt-get install chromium)")
	return ""
}

// act signs actions of the validator with the next nonce, sends them, and waits until all receipts
// have been executed.
func (p *process) act(s *signer, receiver primitives.AccountID, actions ...primitives.Action) (out struct {
	Block struct {
		Hash string `json:"block_hash"`
	} `json:"transaction_outcome"`
	Receipts []struct {
		ID      string
		Outcome struct{ Status map[string]any }
	} `json:"receipts_outcome"`
	Transaction struct{ Hash string }
}) {
	p.t.Helper()
	s.nonce++
	tx := primitives.Transaction{SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: s.nonce},
		ReceiverID: receiver, BlockHash: s.base, Actions: actions}
	hash := tx.Hash()
	signed := primitives.NewSignedTransaction(tx, s.key.SecretKey.Sign(hash[:]))
	p.get("send_tx", map[string]any{"signed_tx_base64": base64.StdEncoding.EncodeToString(signed.AppendBorsh(nil)), "wait_until": "EXECUTED"}, &out)
	return out
}

// scene creates the chain contents that the console displays: a token, a transfer to a contract
// with a script as its memo, and a script as a stored value.
func (p *process) scene() string {
	p.t.Helper()
	s := p.signer()
	code := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("../contracts/c", name+".wasm"))
		if err != nil {
			p.t.Fatal(err)
		}
		return b
	}
	call := func(method string, args any, near uint64) primitives.Action {
		b, err := json.Marshal(args)
		if err != nil {
			p.t.Fatal(err)
		}
		return &primitives.FunctionCall{Method: method, Args: b, Gas: 100_000_000_000_000, Deposit: primitives.Yocto(near)}
	}
	const token, shop = "token.test.near", "zdefi.test.near"
	rich := &primitives.Transfer{Deposit: primitives.NEAR(100)}
	p.act(s, token, &primitives.CreateAccount{}, rich, &primitives.DeployContract{Code: code("ft")}, call("new", map[string]any{
		"owner_id": token, "total_supply": "1000000", "metadata": map[string]any{"spec": "ft-1.0.0", "name": "Troupe", "symbol": "TRP", "decimals": 6}}, 0))
	p.act(s, shop, &primitives.CreateAccount{}, rich, &primitives.DeployContract{Code: code("defi")})
	var none struct{}
	p.get("sandbox_set_storage", []any{token, base64.StdEncoding.EncodeToString([]byte("A<b>key</b>")), base64.StdEncoding.EncodeToString([]byte("<script>hacked=2</script>"))}, &none)
	for _, account := range []string{"test.near", shop} {
		p.act(s, token, &primitives.FunctionCall{Method: "storage_deposit", Args: []byte(`{"account_id":"` + account + `"}`), Gas: 100_000_000_000_000, Deposit: primitives.NEAR(1)})
	}
	p.get("sandbox_deal", []any{token, "test.near", "5000"}, &none)
	out := p.act(s, token, call("ft_transfer_call", map[string]any{"receiver_id": shop, "amount": "7", "memo": "<script>hacked=1</script>", "msg": "refund:3"}, 1))
	var block struct {
		Header struct{ Height uint64 }
		Chunks []struct {
			Hash string `json:"chunk_hash"`
		}
	}
	p.get("block", map[string]any{"block_id": out.Block.Hash}, &block)
	b, err := json.Marshal(map[string]any{"tx": out.Transaction.Hash, "signer": "test.near", "token": token, "block": out.Block.Hash, "height": block.Header.Height,
		"chunk": block.Chunks[0].Hash, "receipt": out.Receipts[0].ID, "receipts": len(out.Receipts)})
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// shownConsole starts a node with a scene and traffic, and returns what the browser's scripts need.
// The node and the traffic end with the test.
func shownConsole(t *testing.T) []string {
	t.Helper()
	browser := chromium(t)
	p := start(t, newHome(t, "--num-shards", "2", "--chain-id", "sandbox"))
	scene := p.scene()
	s, done := p.signer(), make(chan struct{})
	var traffic sync.WaitGroup
	traffic.Go(func() { // so that the console has something to display
		for tick := time.NewTicker(120 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				encoded, _ := s.next()
				_, _ = p.call("broadcast_tx_async", []string{encoded})
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		traffic.Wait()
	})
	return append(p.env(), "CHROMIUM="+browser, "SCENE="+scene)
}

// TestConsoleWorksInBrowser runs browser/console.mjs.
func TestConsoleWorksInBrowser(t *testing.T) {
	script(t, "browser", shownConsole(t), "node", "console.mjs")
}

// TestConsoleFitsDesktopAndPhone: every page of the console at the widths of a desktop and a phone,
// in both colour schemes (browser/layouts.mjs).
func TestConsoleFitsDesktopAndPhone(t *testing.T) {
	env := shownConsole(t)
	for _, width := range []string{"1280", "390"} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(width+" "+scheme, func(t *testing.T) {
				script(t, "browser", append(env[:len(env):len(env)], "WIDTH="+width, "SCHEME="+scheme), "node", "layouts.mjs")
			})
		}
	}
}

// TestConsolePictures writes the pictures of the console into the folder TROUPE_SCREENSHOTS
// (browser/pictures.mjs); make screenshots runs it.
func TestConsolePictures(t *testing.T) {
	dir := os.Getenv("TROUPE_SCREENSHOTS")
	if dir == "" {
		t.Skip("skipped: TROUPE_SCREENSHOTS names no folder")
	}
	script(t, "browser", append(shownConsole(t), "PICTURES="+dir), "node", "pictures.mjs")
}

// TestConsoleDrawsActorsAt60FramesASecond: 10,000 actors are drawn (browser/actors.mjs).
func TestConsoleDrawsActorsAt60FramesASecond(t *testing.T) {
	browser := chromium(t)
	p := start(t, newHome(t, "--chain-id", "sandbox"))
	script(t, "browser", append(p.env(), "CHROMIUM="+browser), "node", "actors.mjs")
}

// TestGuideShowsEveryScreenshot: docs/guide/console contains exactly the expected pictures, and
// they are small.
func TestGuideShowsEveryScreenshot(t *testing.T) {
	dir := "../../../docs/guide/console"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../docs/guide/console.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Size() > 200<<10 {
			t.Errorf("%s: %v, %d bytes", e.Name(), err, info.Size())
		}
		if !strings.Contains(string(text), "console/"+e.Name()) {
			t.Errorf("docs/guide/console.md does not show %s", e.Name())
		}
	}
	if len(entries) < 6 {
		t.Errorf("%d pictures", len(entries))
	}
}
