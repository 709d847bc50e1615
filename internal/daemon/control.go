package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/internal/dump"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// The control socket is in the data folder of a running node. Other processes of the same user
// connect to it and send requests for work that needs the open store, because only one process can
// open the data folder.

// controlName is the file name of the socket. If a crash left a socket behind, the next node that
// locks the data folder removes it.
const controlName = "control.sock"

// Bounds of requests on the socket.
const (
	maxControls  = 4       // maximum number of concurrent requests; requests beyond it wait
	maxRequest   = 4 << 20 // maximum size of a request in bytes
	controlLimit = time.Minute
	// openLimit is the maximum time until a dump begins. The dump first reads all accounts, some
	// millions per minute.
	openLimit   = 10 * time.Minute
	acceptPause = 100 * time.Millisecond // pause after a failed Accept
)

// control serves the control socket.
type control struct {
	h      *Daemon
	l      net.Listener
	slots  chan struct{}
	mu     sync.Mutex
	open   map[net.Conn]bool // open connections; nil: the socket is closed
	wg     sync.WaitGroup
	ctx    context.Context // ends when the socket closes; cancels the reads of running requests
	cancel context.CancelFunc
}

// listenControl creates the socket and starts to serve it. listenControl fails on systems without
// Unix sockets, and if the path is too long for a socket address.
func (h *Daemon) listenControl() (*control, error) {
	path := filepath.Join(h.home.Paths.Data, controlName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var l net.Listener
	err := shortPath(path, func(short string) error {
		ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		if err != nil {
			return err
		}
		// when the socket closes, the short name under which it was bound is no longer valid
		ul.SetUnlinkOnClose(false)
		l = ul
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		if l != nil {
			_ = l.Close()
		}
		return nil, err
	}
	c := &control{h: h, l: l, slots: make(chan struct{}, maxControls), open: map[net.Conn]bool{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.accept)
	return c, nil
}

// shortPath calls f with a path of the same socket that fits into the 108 bytes of a socket
// address. On Linux a long folder name is replaced by /proc/self/fd.
func shortPath(path string, f func(short string) error) error {
	const room = 100
	if len(path) <= room || runtime.GOOS != "linux" {
		return f(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

func (c *control) accept() {
	for {
		conn, err := c.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example, no file descriptor is free
			time.Sleep(acceptPause)
			continue
		}
		c.slots <- struct{}{}
		c.mu.Lock()
		if c.open == nil {
			c.mu.Unlock()
			_ = conn.Close()
			<-c.slots
			return
		}
		c.open[conn] = true
		c.mu.Unlock()
		c.wg.Go(func() {
			c.serve(conn)
			c.mu.Lock()
			delete(c.open, conn)
			c.mu.Unlock()
			<-c.slots
		})
	}
}

// close stops serving, closes open connections and waits for the goroutines that serve these
// connections.
func (c *control) close() {
	c.cancel()
	_ = c.l.Close()
	_ = os.Remove(filepath.Join(c.h.home.Paths.Data, controlName))
	c.mu.Lock()
	for conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
	c.mu.Unlock()
	c.wg.Wait()
}

// serve handles one request.
func (c *control) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(controlLimit))
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		return
	}
	w := deadlineWriter{conn}
	var r struct {
		dump.Request
		excludeRequest
		viewStateRequest
		Backup *BackupRequest `json:"backup"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		dump.Refuse(w, fmt.Errorf("control: %w", err))
		return
	}
	if r.Backup != nil {
		c.serveBackup(conn, r.Backup)
		return
	}
	if r.Exclude != nil {
		c.serveExclude(w, *r.Exclude)
		return
	}
	if r.View != nil {
		c.serveViewState(conn, w, r.View)
		return
	}
	d, err := dump.Open(c.ctx, c.h.Engine, c.h.home.Genesis, now(), &r.Request)
	if err != nil {
		dump.Refuse(w, err)
		return
	}
	if err := d.Send(w); err != nil {
		c.h.log.WithError(err).Debug("dump not sent completely")
	}
}

func now() genesis.Time { return genesis.Time(time.Now().UnixNano()) }

// deadlineWriter sets a new deadline for each Write.
type deadlineWriter struct{ net.Conn }

func (p deadlineWriter) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(controlLimit))
	return p.Conn.Write(b)
}

// deadlineReader sets a new deadline for each Read. Deadlines are needed because a suspended
// process does not close its socket.
type deadlineReader struct {
	net.Conn
	next, later time.Duration // timeouts: next for the next Read, later for all Reads after that one
}

func (c *deadlineReader) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.next))
	n, err := c.Conn.Read(b)
	c.next = c.later
	return n, err
}

// dialControl sends a request to the node that runs on a data folder. A *net.OpError means that no
// node runs on the data folder, or that the node does not answer.
func dialControl(data string, r any) (conn net.Conn, err error) {
	err = shortPath(filepath.Join(data, controlName), func(short string) (err error) {
		conn, err = net.DialTimeout("unix", short, controlLimit)
		return err
	})
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Dump calls f with a dump of a home's chain. If a node runs on the home, the node creates the
// dump. Otherwise Dump reads the data folder.
func Dump(hm *home.Home, r *dump.Request, f func(*dump.Received) error) error {
	conn, dialed := dialControl(hm.Paths.Data, r)
	if dialed == nil {
		defer func() { _ = conn.Close() }()
		return receive(&deadlineReader{Conn: conn, next: openLimit, later: controlLimit}, f)
	}
	e, done, err := openFolder(hm)
	if err != nil {
		if isLocked(err) {
			return fmt.Errorf("%w; that node does not answer at its control socket: %w", err, dialed)
		}
		return err
	}
	defer done()
	d, err := dump.Open(context.Background(), e, hm.Genesis, now(), r)
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = out.CloseWithError(d.Send(out))
	}()
	err = receive(in, f)
	_ = in.Close() // stops the goroutine that sends the request, if it still runs
	<-sent
	return err
}

func receive(r io.Reader, f func(*dump.Received) error) error {
	d, err := dump.Receive(r)
	if err != nil {
		return err
	}
	return f(d)
}
