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

// exposureWarning returns a warning about how clients of other machines may control the chain. The
// warning is empty if the RPC listens only on loopback or allows no control.
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
	return fmt.Sprintf("JSON-RPC on %s is open to other machines: %s. To close it: --rpc-addr 127.0.0.1:%d, or rpc.addr",
		tcp, strings.Join(what, "; "), tcp.Port)
}

// sandboxEnabled returns whether the RPC serves the sandbox methods. If config.json does not say
// so, the RPC serves them on forks, and on chains whose keys init derives from known words.
func (h *Daemon) sandboxEnabled(back *backend.Backend) bool {
	if h.replica != nil { // only the writer of a replica can be controlled
		return false
	}
	if on := h.home.Config.RPC.Sandbox; on != nil {
		return *on
	}
	return h.fork != nil || len(h.guessableAccounts(back)) > 0
}

// consoleEnabled returns whether the RPC serves the page at /console. If config.json does not say
// so, the RPC serves the page on sandboxes. The page's list of actors shows the number of clients.
// All other data on the page is available from the RPC. So nodes that are no sandbox serve the page
// only if configured.
func (h *Daemon) consoleEnabled(back *backend.Backend) bool {
	if on := h.home.Config.RPC.Console; on != nil {
		return *on
	}
	return h.sandboxEnabled(back)
}

// guessableAccounts returns the accounts with keys that init derives from known words.
func (h *Daemon) guessableAccounts(back *backend.Backend) (out []primitives.AccountID) {
	accounts := []primitives.AccountID{"near"} // the command init derives this account's key from the word "near"
	if k := h.home.ValidatorKey; k != nil && !slices.Contains(accounts, k.AccountID) {
		accounts = append(accounts, k.AccountID)
	}
	for _, account := range accounts {
		s, err := back.State(view.BlockRef{Kind: view.RefOptimistic}, account)
		if err != nil {
			continue // the account does not exist
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
