package doctor

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/history"
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

// TestFolderOfOlderBlocksIsFound: the folder is reported if it exists or a feed is configured, also
// while a node has it open.
func TestFolderOfOlderBlocksIsFound(t *testing.T) {
	c, _, err := config.Parse("config.json", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	p := home.PathsOf(t.TempDir(), c)
	if h := gatherHistory(&p, c); h != (History{}) {
		t.Errorf("without a folder and a feed: %+v", h)
	}
	c.History.Source = "lake:lake"
	if h := gatherHistory(&p, c); h.Path != p.History || h.Exists || h.Free == 0 || h.FreeErr != "" || h.Reserve != c.History.Reserve {
		t.Errorf("before the import: %+v", h)
	}
	s, err := history.Open(p.History, history.Options{Genesis: primitives.HashBytes(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if h := gatherHistory(&p, c); !h.Exists || !h.Locked || h.Err != "" {
		t.Errorf("while a node runs: %+v", h)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.History.Source = ""
	if h := gatherHistory(&p, c); h.Path != p.History || !h.Exists || h.Locked || h.Err != "" || h.Stats.Blocks != 0 {
		t.Errorf("after the import: %+v", h)
	}
}
