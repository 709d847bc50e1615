package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestFastForwardEndsInTheRightEpoch: a fast-forward ends at the right height and epoch for any
// epoch length and production mode, also over many more heights than the block delays allow. Blocks
// continue one by one and become final, also after a restart.
func TestFastForwardEndsInTheRightEpoch(t *testing.T) {
	for _, c := range []struct {
		mode          string
		length, delta uint64
	}{
		{"instant", 4, 50}, {"manual", 5, 83}, {"interval", 7, 200}, {"manual", 10, 95}, {"manual", 2_000_000, 1_200_000}, {"instant", 1_000_000, 2_400_000},
	} {
		t.Run(fmt.Sprint(c.mode, c.length), func(t *testing.T) {
			dir := made(t)
			path := filepath.Join(dir, "genesis.json")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = regexp.MustCompile(`"epoch_length": *\d+`).ReplaceAll(text, fmt.Appendf(nil, `"epoch_length": %d`, c.length))
			text = regexp.MustCompile(`"transaction_validity_period": *\d+`).ReplaceAll(text, fmt.Appendf(nil, `"transaction_validity_period": %d`, min(100, 2*c.length)))
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			setTracked(t, dir, fmt.Sprintf(`{"troupe": {"block_production": %q}}`, c.mode))
			h := mustStart(t, dir)
			var none struct{}
			for range 2 {
				before, begun := uint64(h.Engine.Head().Height()), time.Now()
				if f := rpcOf(t, h, "sandbox_fast_forward", fmt.Sprintf(`[%d]`, c.delta), &none); f != "" {
					t.Fatal(f)
				}
				// the block at that height or the next; one more may be produced, or one more in each 600 ms
				if got := uint64(h.Engine.Head().Height()); got < before+c.delta || got > before+c.delta+2+uint64(time.Since(begun)/(600*time.Millisecond)) {
					t.Errorf("from %d to %d, want %d more", before, got, c.delta)
				}
				stop(t, h)
				h = mustStart(t, dir)
			}
			defer stop(t, h)
			from := uint64(h.Engine.Head().Height())
			if c.mode == "manual" {
				var at struct{ Height uint64 }
				if f := rpcOf(t, h, "sandbox_mine", `[4]`, &at); f != "" || at.Height != from+4 {
					t.Errorf("4 blocks after %d: %d %s", from, at.Height, f)
				}
			} else if f := rpcOf(t, h, "sandbox_patch_state", `[[{"Data":{"account_id":"near","data_key":"","value":""}}]]`, &none); f != "" {
				t.Error(f)
			}
			for limit := time.Now().Add(time.Minute); uint64(h.Engine.Final().Height) <= from; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("head %d, final %d, want more than %d", h.Engine.Head().Height(), h.Engine.Final().Height, from)
				}
			}
		})
	}
}
