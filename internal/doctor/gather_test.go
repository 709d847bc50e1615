package doctor

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
)

// TestPublicChainIsANetwork: a node of mainnet is in a network, although its config.json names no
// peers.
func TestPublicChainIsANetwork(t *testing.T) {
	for id, network := range map[string]bool{"mainnet": true, "sandbox": false} {
		f := &Facts{Home: t.TempDir()}
		if _, err := home.Init(t.Context(), home.InitOptions{Dir: f.Home, ChainID: id, Now: time.Now, Random: rand.Reader}); err != nil {
			t.Fatal(err)
		}
		_, c := gatherFolder(t.Context(), f)
		if d := &f.Folder; c == nil || d.ChainID != id || d.Network != network || c.Network.On() != network {
			t.Errorf("%s: %+v, want Network %v", id, d, network)
		}
	}
}
