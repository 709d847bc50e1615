//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/testkit/replay"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// reader returns the status of transactions on a chain that does not grow: as far as they have been
// executed.
type reader struct {
	backend.Submitter // nil: no transactions are accepted
	e                 *engine.Engine
}

func (r reader) OpenSession(ctx context.Context) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

func (r reader) Tx(_ context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
	out, err := r.e.Transactions().FullStatus(q.Hash)
	return &out, err
}

// TestEveryReplyMatchesClientSchemas replays recorded chains of neard with several shards, missed
// chunks, contracts, failures and global code, and serves them. Every method's reply about each of
// their blocks, chunks, transactions, receipts and accounts is validated against the schemas from
// which @near-js/jsonrpc-client is generated.
func TestEveryReplyMatchesClientSchemas(t *testing.T) {
	need(t, "node", "npm")
	installed(t, npmInstall)
	for name, least := range map[string]string{ // what the script must have found at least
		"four":    `{"shards":4,"missed":10,"transactions":500,"failures":100,"kinds":10}`,
		"probe":   `{"shards":4,"missed":3,"calls":100,"codes":5,"failures":20}`,
		"globals": `{"shards":4,"missed":3,"calls":100,"failures":100,"kinds":40}`,
		"storm":   `{"shards":4,"missed":3,"codes":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := replay.Open(filepath.Join("..", "replay", "testdata", name+".jsonl.gz"))
			if err != nil {
				t.Fatal(err)
			}
			machine, err := vm.New(vm.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer machine.Close()
			report, err := replay.Run(rec, replay.Options{VM: machine, End: func(e *engine.Engine) error { return serve(t, rec, e, machine, least) }})
			if err != nil || len(report.Findings) > 0 {
				t.Fatalf("error %v, findings %v", err, report.Findings)
			}
		})
	}
}

// serve serves the RPC from an engine and runs the script.
func serve(t *testing.T, rec *replay.Recording, e *engine.Engine, machine *vm.VM, least string) error {
	g, _, err := genesis.ReadConfig(bytes.NewReader(rec.Genesis))
	if err != nil {
		return err
	}
	conf, _, err := config.Parse("config.json", config.Default(true).Format())
	if err != nil {
		return err
	}
	views := viewpool.New(viewpool.Options{})
	defer views.Close()
	version := view.Version{Version: "1", Build: "1"}
	back := backend.New(backend.Options{Engine: e, VM: machine, Genesis: g, Submit: reader{e: e}, Version: version, RPCAddr: "127.0.0.1:3030",
		NodeKey: primitives.SecretKeyFromSeed(primitives.ED25519, "node").PublicKey(), Views: views, Now: time.Now, Config: conf.Client(g, version)})
	server, err := rpc.New(back, rpc.Options{PollingTimeout: time.Second, ViewStateLimit: 50_000})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	script(t, "js", []string{fmt.Sprintf("NEAR_RPC_URL=http://%s", l.Addr()), "REPLIES_LEAST=" + least}, "node", "replies.mjs")
	return errors.Join(server.Shutdown(context.Background()), <-served)
}
