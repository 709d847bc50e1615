package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/viewstate"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// viewStateRequest is the request that ViewState sends to a running node.
type viewStateRequest struct {
	View *viewstate.Request `json:"view_state"`
}

// ViewState runs a command of view-state on a home's chain. If a node runs on the home, the node runs
// the command. Otherwise ViewState reads the data folder.
func ViewState(ctx context.Context, hm *home.Home, r *viewstate.Request, out viewstate.Out) error {
	conn, dialed := dialControl(hm.Paths.Data, viewStateRequest{r})
	if dialed == nil {
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		err := viewstate.Receive(&deadlineReader{Conn: conn, next: openLimit, later: openLimit}, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	e, done, err := openFolder(hm)
	if err != nil {
		if isLocked(err) {
			return fmt.Errorf("%w; that node does not answer at its control socket: %w", err, dialed)
		}
		return err
	}
	defer done()
	s := viewstate.Source{Engine: e, Blocks: backend.New(backend.Options{Engine: e, Genesis: hm.Genesis, Now: time.Now})}
	if r.Apply != nil {
		contracts, err := vm.New(vm.Options{Memory: int64(hm.Config.ContractMemory)})
		if err != nil {
			return err
		}
		defer contracts.Close()
		s.VM = contracts
	}
	return viewstate.Run(ctx, &s, r, out)
}

// serveViewState runs a command of view-state for another process. It ends when that process closes
// the connection.
func (c *control) serveViewState(conn net.Conn, w io.Writer, r *viewstate.Request) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go func() {
		_ = conn.SetReadDeadline(time.Time{})
		_, _ = conn.Read(make([]byte, 1)) // the client sends nothing more
		cancel()
	}()
	blocks := backend.New(backend.Options{Engine: c.h.Engine, Genesis: c.h.home.Genesis, Now: time.Now})
	s := viewstate.Source{Engine: c.h.Engine, Blocks: blocks, VM: c.h.vm}
	if err := viewstate.Serve(w, func(out viewstate.Out) error { return viewstate.Run(ctx, &s, r, out) }); err != nil {
		c.h.log.WithError(err).Debug("reply of view-state not sent completely")
	}
}
