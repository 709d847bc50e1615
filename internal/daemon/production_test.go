package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
)

// madeEpochs returns a home folder made by init, with --fast or not, with the given epoch length
// and transaction validity period in blocks; 0: the defaults.
func madeEpochs(t *testing.T, fast bool, length, validity primitives.Height, config string) (dir string) {
	t.Helper()
	dir = testnode.Home(t, home.InitOptions{ChainID: "sandbox", Fast: fast})
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

// TestProductionModesHaveSameInterval: instant mode and interval mode of config.json differ only in
// the mode. Both have the interval of min_block_production_delay, with which chain/production's
// TestInstantIsNeverSlowerThanInterval shows on a simulated clock that instant mode is not slower. On
// each, transactions become final, and blocks follow each other when the chain is idle.
func TestProductionModesHaveSameInterval(t *testing.T) {
	for _, mode := range []string{"instant", "interval"} {
		t.Run(mode, func(t *testing.T) {
			h := mustStart(t, madeEpochs(t, true, 5, 10, fmt.Sprintf(
				`{"troupe":{"block_production":%q},"consensus":{"min_block_production_delay":{"secs":0,"nanos":50000000}}}`, mode)))
			defer stop(t, h)
			var got struct {
				Mode     string
				Interval string `json:"interval_nanosec"`
			}
			if cause := rpcOf(t, h, "sandbox_set_production", `null`, &got); cause != "" || got.Mode != mode || got.Interval != "50000000" {
				t.Errorf("%s, %+v", cause, got)
			}
			key := h.home.ValidatorKey
			for n := range primitives.Nonce(4) {
				signed, _ := encode(draft(h, key, n+1, key.AccountID, &primitives.Transfer{Deposit: primitives.Yocto(1)}), key)
				if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, new(txStatus)); cause != "" {
					t.Fatalf("transaction %d: %s", n+1, cause)
				}
			}
			from := h.Engine.Head().Height()
			eventually(t, "20 idle blocks on", func() bool { return h.Engine.Head().Height() >= from+20 })
		})
	}
}

// TestHeadIsFinalSoonAfterFastForward: after a fast-forward the final block is where it is on a
// chain of neard's init: below the last multiple of 500 or the end of an epoch. Then its head
// becomes final without a transaction, by the blocks that are produced anyway. Each header names
// the final blocks of doomslug, and each epoch begins where the previous one ended.
func TestHeadIsFinalSoonAfterFastForward(t *testing.T) {
	for _, c := range []struct {
		name             string
		fast             bool
		length, validity primitives.Height
		config           string
	}{
		{"init", false, 0, 0, `{}`},
		{"init quiet", false, 0, 0, `{"consensus":{"produce_empty_blocks":false}}`},
		{"init interval", false, 0, 0, `{"troupe":{"block_production":"interval"}}`},
		{"fast", true, 0, 0, `{}`},
		{"fast, epochs of 500", true, 500, 0, `{}`},
		{"fast, epochs of 25", true, 25, 50, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := mustStart(t, madeEpochs(t, c.fast, c.length, c.validity, c.config))
			defer stop(t, h)
			before := h.Engine.Head().Height()
			var none struct{}
			if f := rpcOf(t, h, "sandbox_fast_forward", `[10000]`, &none); f != "" {
				t.Fatal(f)
			}
			after := h.Engine.Head()
			for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if head, final := h.Engine.Head().Height(), h.Engine.Final().Height; head <= final+3 && final >= before+10_000 {
					break
				} else if time.Now().After(limit) {
					t.Fatalf("head %d, final %d, want that within three", head, final)
				}
			}
			at := after.Header() // the first that is so high
			for {
				parent, err := h.Engine.Header(at.PrevHash)
				if err != nil {
					t.Fatal(err)
				}
				if parent.Height < before+10_000 {
					break
				}
				at = parent
			}
			if at.Height > before+10_002 { // one block may have been produced before the request
				t.Errorf("from %d to %d, want 10,000 more or one above", before, at.Height)
			}
			if final, err := h.Engine.Header(at.LastFinalBlock); err != nil || final.Height <= 9_900 || final.Height > 10_000 {
				t.Errorf("block %d has block %+v as the final one, %v, want one of 9901 to 10,000", at.Height, final, err)
			}
			epochs := 1
			for header := h.Engine.Head().Header(); header.Height > 1; {
				parent, err := h.Engine.Header(header.PrevHash)
				if err != nil {
					t.Fatal(err)
				}
				if header.LastFinalBlock != chain.LastFinal(parent, header.Height) || header.LastDSFinalBlock != chain.LastDSFinal(parent, header.Height) {
					t.Errorf("block %d on %d names other final blocks", header.Height, parent.Height)
				}
				if header.Timestamp <= parent.Timestamp {
					t.Errorf("block %d is of %d, the one before it of %d", header.Height, header.Timestamp, parent.Timestamp)
				}
				if header.EpochID != parent.EpochID {
					if epochs++; header.Height != parent.Height+1 {
						t.Errorf("an epoch begins with block %d on %d, a skipped height", header.Height, parent.Height)
					}
				}
				header = parent
			}
			length := int(epochLength(t, h))
			if want := int(after.Height()) / length; epochs < want || epochs > want+2 {
				t.Errorf("%d epochs of %d to height %d", epochs, length, after.Height())
			}
		})
	}
}

// epochLength requests a node's epoch length.
func epochLength(t *testing.T, h *Daemon) primitives.Height {
	t.Helper()
	var config struct {
		Length primitives.Height `json:"epoch_length"`
	}
	if f := rpcOf(t, h, "EXPERIMENTAL_protocol_config", `{"finality":"optimistic"}`, &config); f != "" || config.Length == 0 {
		t.Fatalf("epochs of %d, %s", config.Length, f)
	}
	return config.Length
}
