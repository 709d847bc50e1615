package daemon

import (
	"errors"
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

// TestInstantModeIsAsFastAsInterval compares two nodes that differ only in the production mode. On
// an idle chain, and after the burst of instant blocks is used up, both produce blocks at the same
// rate. Other load of the machine may delay one of them, so the comparison is repeated until the
// instant mode is not slower by half.
func TestInstantModeIsAsFastAsInterval(t *testing.T) {
	for _, c := range []struct{ length, validity primitives.Height }{{5, 10}, {60, 100}} {
		t.Run(fmt.Sprint(c.length), func(t *testing.T) {
			var modes [2]*modeRun
			for i, mode := range []string{"instant", "interval"} {
				h := mustStart(t, madeEpochs(t, true, c.length, c.validity, fmt.Sprintf(
					`{"troupe":{"block_production":%q},"consensus":{"min_block_production_delay":{"secs":0,"nanos":50000000}}}`, mode)))
				defer stop(t, h)
				modes[i] = &modeRun{name: mode, h: h, nonce: 1}
			}
			for tries := 10; ; tries-- {
				ends := make(chan error, len(modes))
				for _, m := range modes {
					warm := 0
					if m.nonce == 1 {
						warm = 20 // until the burst of 50 instant blocks is over
					}
					go func() { ends <- m.run(t, warm) }()
				}
				if err := errors.Join(<-ends, <-ends); err != nil {
					t.Fatal(err)
				}
				a, b := modes[0], modes[1]
				t.Logf("8 transfers until FINAL: %v, interval %v; 20 idle blocks: %v, interval %v", a.took, b.took, a.idle, b.idle)
				if 2*a.took <= 3*b.took && 2*a.idle <= 3*b.idle {
					return
				}
				if tries == 0 {
					t.Fatal("instant mode is slower than interval mode, again and again")
				}
			}
		})
	}
}

// modeRun is a node in one production mode, and how long its last run took.
type modeRun struct {
	name       string
	h          *Daemon
	nonce      primitives.Nonce
	took, idle time.Duration // of 8 transfers until FINAL, and of 20 blocks of the idle chain
}

// run measures the node, after as many transfers as warm says.
func (m *modeRun) run(t *testing.T, warm int) error {
	key := m.h.home.ValidatorKey
	begun := time.Now()
	for n := range warm + 8 {
		if n == warm {
			begun = time.Now()
		}
		signed, _ := encode(draft(m.h, key, m.nonce, key.AccountID, &primitives.Transfer{Deposit: primitives.Yocto(1)}), key)
		var status txStatus
		if cause := ask(t, m.h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status); cause != "" {
			return fmt.Errorf("%s, transaction %d: %s", m.name, m.nonce, cause)
		}
		m.nonce++
	}
	m.took = time.Since(begun)
	from := m.h.Engine.Head().Height()
	begun = time.Now()
	for m.h.Engine.Head().Height() < from+20 {
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("%s: %d blocks in a minute", m.name, m.h.Engine.Head().Height()-from)
		}
		time.Sleep(time.Millisecond)
	}
	m.idle = time.Since(begun)
	return nil
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
