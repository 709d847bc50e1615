package host

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// madeEpochs makes a home as init does, fast or not, with epochs of a length and transactions that are valid for so many blocks; 0: as init has them.
func madeEpochs(t *testing.T, fast bool, length, validity primitives.Height, config string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := home.Init(t.Context(), home.InitOptions{
		Dir: dir, ChainID: "sandbox", Fast: fast, Random: rand.Reader, Downloader: home.NewDownloader(), Now: time.Now,
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for key, n := range map[string]primitives.Height{"epoch_length": length, "transaction_validity_period": validity} {
		if n > 0 {
			text = regexp.MustCompile(`"`+key+`": *\d+`).ReplaceAll(text, fmt.Appendf(nil, `"%s": %d`, key, n))
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	setTracked(t, dir, config)
	return dir
}

// TestInstantBesideInterval runs two nodes beside each other that differ in how they make blocks alone. Once the credit of instant blocks is used up, and
// on an idle chain, the one is as fast as the other; 1.5 is for what the machine does meanwhile.
func TestInstantBesideInterval(t *testing.T) {
	for _, c := range []struct{ length, validity primitives.Height }{{5, 10}, {60, 100}} {
		t.Run(fmt.Sprint(c.length), func(t *testing.T) {
			var took, idle [2]time.Duration
			var modes = [2]string{"instant", "interval"}
			ends := make(chan error, len(modes))
			for i, mode := range modes {
				h := mustStart(t, madeEpochs(t, true, c.length, c.validity, fmt.Sprintf(
					`{"troupe":{"block_production":%q},"consensus":{"min_block_production_delay":{"secs":0,"nanos":50000000}}}`, mode)))
				defer stop(t, h)
				go func() (err error) {
					defer func() { ends <- err }()
					key, nonce := h.home.ValidatorKey, primitives.Nonce(1)
					for begun, n := time.Now(), 0; n < 28; n++ {
						if n == 20 { // 50 instant blocks have been made long since
							begun = time.Now()
						}
						signed, _ := encode(draft(h, key, nonce, key.AccountID, &primitives.Transfer{Deposit: primitives.Yocto(1)}), key)
						var status txStatus
						if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status); cause != "" {
							return fmt.Errorf("%s, transaction %d: %s", mode, n, cause)
						}
						nonce++
						took[i] = time.Since(begun)
					}
					begun, from := time.Now(), h.Engine.Head().Height()
					for h.Engine.Head().Height() < from+20 {
						if time.Since(begun) > time.Minute {
							return fmt.Errorf("%s: %d blocks in a minute", mode, h.Engine.Head().Height()-from)
						}
						time.Sleep(time.Millisecond)
					}
					idle[i] = time.Since(begun)
					return nil
				}()
			}
			for range modes {
				if err := <-ends; err != nil {
					t.Error(err)
				}
			}
			t.Logf("8 transfers until FINAL: %v, interval %v; 20 idle blocks: %v, interval %v", took[0], took[1], idle[0], idle[1])
			if 2*took[0] > 3*took[1] || 2*idle[0] > 3*idle[1] {
				t.Error("instant mode is slower than interval mode")
			}
		})
	}
}
