package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
)

// TestStateSnapshotsAreTimed: /metrics has the time that state snapshots took, once one was made.
func TestStateSnapshotsAreTimed(t *testing.T) {
	hm := loaded(t, testnode.Home(t, home.InitOptions{ChainID: "sandbox"}))
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	hm.Genesis.EpochLength, hm.Genesis.TransactionValidityPeriod = 10, 20
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	if text := string(h.appendMetrics(nil)); strings.Contains(text, makeSnapshot) {
		t.Error("there is a time before the first snapshot")
	}
	must(t, h, "sandbox_mine", `[60]`)
	// The flat head follows the blocks on a goroutine of its own. The deadline of go test ends a wait for nothing.
	for !strings.Contains(string(h.appendMetrics(nil)), makeSnapshot+"_count ") {
		time.Sleep(5 * time.Millisecond)
	}
}
