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

// A node that runs answers other processes of its user at a socket in its data folder, for what
// can't be done beside it: the folder belongs to one process.

// controlName is the socket's. It is as old as the lock: who has that removes what a crash has
// left.
const controlName = "control.sock"

// Bounds of the socket.
const (
	maxControls  = 4       // that are answered at once; the others wait
	maxRequest   = 4 << 20 // bytes
	controlLimit = time.Minute
	// until a dump begins: all accounts are read before that, millions of them in a minute
	openLimit   = 10 * time.Minute
	acceptPause = 100 * time.Millisecond // behind one that failed
)

// control answers at the socket.
type control struct {
	h     *Daemon
	l     net.Listener
	turns chan struct{}
	mu    sync.Mutex
	open  map[net.Conn]bool // nil: closed
	all   sync.WaitGroup
	ctx   context.Context // ends with it, and what is being read for an answer with that
	end   context.CancelFunc
}

// listenControl begins to answer. A system that has no such sockets, or no room for the name of
// this one, gives nil with the reason.
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
		ul.SetUnlinkOnClose(false) // by the short name, which is nobody's by then
		l = ul
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		if l != nil {
			_ = l.Close()
		}
		return nil, err
	}
	c := &control{h: h, l: l, turns: make(chan struct{}, maxControls), open: map[net.Conn]bool{}}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.all.Go(c.accept)
	return c, nil
}

// shortPath calls f with a name for a socket that a system's 108 bytes have room for: on Linux that
// of a folder may be said by its number.
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
		if err != nil { // there may be no file left for it, until others are closed
			time.Sleep(acceptPause)
			continue
		}
		c.turns <- struct{}{}
		c.mu.Lock()
		if c.open == nil {
			c.mu.Unlock()
			_ = conn.Close()
			<-c.turns
			return
		}
		c.open[conn] = true
		c.mu.Unlock()
		c.all.Go(func() {
			c.serve(conn)
			c.mu.Lock()
			delete(c.open, conn)
			c.mu.Unlock()
			<-c.turns
		})
	}
}

// close ends it; who is being answered is cut off.
func (c *control) close() {
	c.end()
	_ = c.l.Close()
	_ = os.Remove(filepath.Join(c.h.home.Paths.Data, controlName))
	c.mu.Lock()
	for conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
	c.mu.Unlock()
	c.all.Wait()
}

// serve answers one request.
func (c *control) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(controlLimit))
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		return
	}
	w := patient{conn}
	var r struct {
		dump.Request
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
	d, err := dump.Open(c.ctx, c.h.Engine, c.h.home.Genesis, now(), &r.Request)
	if err != nil {
		dump.Refuse(w, err)
		return
	}
	if err := d.Send(w); err != nil {
		c.h.log.WithError(err).Debug("a dump was not sent to its end")
	}
}

func now() genesis.Time { return genesis.Time(time.Now().UnixNano()) }

// patient gives each piece that is written some time.
type patient struct{ net.Conn }

func (p patient) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(controlLimit))
	return p.Conn.Write(b)
}

// timely waits for what is read so long, and no longer: one that has stopped does not close its
// socket.
type timely struct {
	net.Conn
	next, later time.Duration // behind the first piece it is later
}

func (c *timely) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.next))
	n, err := c.Conn.Read(b)
	c.next = c.later
	return n, err
}

// dialControl asks the node that runs on a data folder; an error of the kind net.OpError: none
// does, or it doesn't answer.
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

// Dump calls f with a dump of the chain of a home: of the node that runs on it, else of its folder.
func Dump(hm *home.Home, r *dump.Request, f func(*dump.Received) error) error {
	conn, dialed := dialControl(hm.Paths.Data, r)
	if dialed == nil {
		defer func() { _ = conn.Close() }()
		return receive(&timely{Conn: conn, next: openLimit, later: controlLimit}, f)
	}
	e, done, err := openFolder(hm)
	if err != nil {
		if isLocked(err) {
			return fmt.Errorf("%w, and does not answer there: %w", err, dialed)
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
	_ = in.Close() // a sender that is not done ends
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
