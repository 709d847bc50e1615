package daemon

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// exposed says what those may do to the chain who reach this machine's RPC from elsewhere; empty:
// nobody does, or nothing.
func (h *Daemon) exposed(back *backend.Backend) string {
	tcp, ok := h.Addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return ""
	}
	var what []string
	if slices.Contains(h.home.Config.RPC.CORS, "*") {
		what = append(what, "web pages of any origin may call it (rpc.cors_allowed_origins)")
	}
	for _, account := range h.seeded(back) {
		what = append(what, fmt.Sprintf("anybody can sign for %s, whose key is made from a word", account))
	}
	if len(what) == 0 {
		return ""
	}
	if h.steered(back) {
		what = append(what, "anybody can write into its state (troupe.rpc.sandbox)")
	}
	return fmt.Sprintf("JSON-RPC listens on %s, not on this machine alone: %s. To keep it to this machine: --rpc-addr 127.0.0.1:%d, or rpc.addr", tcp, strings.Join(what, "; "), tcp.Port)
}

// steered tells whether there are the methods that steer a sandbox: as the config says, else on a
// chain that is no secret of anybody's, as init makes them.
func (h *Daemon) steered(back *backend.Backend) bool {
	if h.replica != nil { // the writer is
		return false
	}
	if on := h.home.Config.RPC.Sandbox; on != nil {
		return *on
	}
	return h.fork != nil || len(h.seeded(back)) > 0
}

// consoled tells whether there is the page at /console: as the config says, else where the chain is
// a sandbox. The page asks nothing that the RPC does not answer but for the list of actors, which
// tells how many clients there are; so others' nodes have it only where somebody said so.
func (h *Daemon) consoled(back *backend.Backend) bool {
	if on := h.home.Config.RPC.Console; on != nil {
		return *on
	}
	return h.steered(back)
}

// seeded finds accounts whose keys init derives from words that everybody knows.
func (h *Daemon) seeded(back *backend.Backend) (out []primitives.AccountID) {
	accounts := []primitives.AccountID{"near"} // init gives it the key of the word "near"
	if k := h.home.ValidatorKey; k != nil && !slices.Contains(accounts, k.AccountID) {
		accounts = append(accounts, k.AccountID)
	}
	for _, account := range accounts {
		s, err := back.State(view.BlockRef{Kind: view.RefOptimistic}, account)
		if err != nil {
			continue // not on the chain, so nobody's
		}
		for _, word := range []string{string(account), strings.TrimSuffix(string(account), ".near"), "test.near", "test"} {
			key := primitives.SecretKeyFromSeed(primitives.ED25519, word).PublicKey()
			var found primitives.AccessKey
			if ok, err := s.AccessKey(account, key.Handle(), &found); err == nil && ok {
				out = append(out, account)
				break
			}
		}
		s.Release()
	}
	return out
}
