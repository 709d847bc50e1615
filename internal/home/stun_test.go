package home

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestStunServersOfInitAreForPublicChains: a node of a chain of its own asks no server on the
// internet, unless config.json names servers other than those of init.
func TestStunServersOfInitAreForPublicChains(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, chain string
		servers     string // replaces the first server of init; empty: init's
		want        string // the first server; empty: none
	}{
		{"mainnet", "mainnet", "", "stun.l.google.com:19302"},
		{"own chain", "own", "", ""},
		{"own chain, own server", "own", "127.0.0.1:3478", "127.0.0.1:3478"},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Init(t.Context(), InitOptions{Dir: dir, ChainID: x.chain, Random: rand.Reader, Now: time.Now}); err != nil {
				t.Fatal(err)
			}
			if x.servers != "" {
				replaceOnce(t, filepath.Join(dir, "config.json"), `"stun.l.google.com:19302"`, `"`+x.servers+`"`)
			}
			h, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Config.Network.Stun; x.want == "" && got != nil || x.want != "" && !slices.Contains(got, x.want) {
				t.Errorf("servers %v, want %q", got, x.want)
			}
		})
	}
}
