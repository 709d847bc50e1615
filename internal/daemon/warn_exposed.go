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

// exposureWarning returns a warning about what clients of other machines may do to the chain;
// empty: the RPC listens only on loopback, or allows nothing.
func (h *Daemon) exposureWarning(back *backend.Backend) string {
	tcp, ok := h.Addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return ""
	}
	var what []string
	if slices.Contains(h.home.Config.RPC.CORS, "*") {
		what = append(what, "web pages of any origin may call it (rpc.cors_allowed_origins)")
	}
	for _, account := range h.guessableAccounts(back) {
		what = append(what, fmt.Sprintf("any client can sign for %s, because its key is derived from a known word", account))
	}
	if len(what) == 0 {
		return ""
	}
	if h.sandboxEnabled(back) {
		what = append(what, "any client can change its state (troupe.rpc.sandbox)")
	}
	return fmt.Sprintf("JSON-RPC on %s is open to other machines: %s. To close it: --rpc-addr 127.0.0.1:%d, or rpc.addr", tcp, strings.Join(what, "; "), tcp.Port)
}

// sandboxEnabled reports whether the sandbox methods are served: as configured, or else on forks
// and on chains with keys that are derived from known words, as init creates them.
func (h *Daemon) sandboxEnabled(back *backend.Backend) bool {
	if h.replica != nil { // only the writer can be controlled
		return false
	}
	if on := h.home.Config.RPC.Sandbox; on != nil {
		return *on
	}
	return h.fork != nil || len(h.guessableAccounts(back)) > 0
}

// consoleEnabled reports whether the page at /console is served: as configured, or else on
// sandboxes. Apart from its list of actors, the page shows only what the RPC returns. That list
// shows the number of clients, so nodes that are no sandbox serve the page only if configured.
func (h *Daemon) consoleEnabled(back *backend.Backend) bool {
	if on := h.home.Config.RPC.Console; on != nil {
		return *on
	}
	return h.sandboxEnabled(back)
}

// guessableAccounts returns the accounts with keys that init derives from known words.
func (h *Daemon) guessableAccounts(back *backend.Backend) (out []primitives.AccountID) {
	accounts := []primitives.AccountID{"near"} // init gives it the key of the word "near"
	if k := h.home.ValidatorKey; k != nil && !slices.Contains(accounts, k.AccountID) {
		accounts = append(accounts, k.AccountID)
	}
	for _, account := range accounts {
		s, err := back.State(view.BlockRef{Kind: view.RefOptimistic}, account)
		if err != nil {
			continue // not on the chain
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
