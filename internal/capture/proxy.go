package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// MaxConns bounds the connections of a Proxy. Connections beyond this number wait in the system's
// accept queue.
const MaxConns = 256

const (
	dialLimit  = 5 * time.Second
	acceptWait = 50 * time.Millisecond
)

// Proxy forwards connections to a node and records the frames of these connections.
type Proxy struct {
	To       string // address of the node
	Recorder *Recorder
}

// Run accepts connections from l until ctx ends. It returns after all connections have ended.
func (p *Proxy) Run(ctx context.Context, l net.Listener) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	places := make(chan struct{}, MaxConns)
	for {
		places <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			<-places
			select { // wait after an error, for example too many open files
			case <-time.After(acceptWait):
			case <-ctx.Done():
			}
			continue
		}
		group.Go(func() {
			defer func() { <-places }()
			p.pass(ctx, conn)
		})
	}
}

// pass forwards one connection.
func (p *Proxy) pass(ctx context.Context, a net.Conn) {
	defer func() { _ = a.Close() }()
	c := p.Recorder.Open(a.RemoteAddr().String(), p.To)
	d := net.Dialer{Timeout: dialLimit}
	b, err := d.DialContext(ctx, "tcp", p.To)
	if err != nil {
		c.Note("connecting to the node failed: " + err.Error())
		return
	}
	defer func() { _ = b.Close() }()
	defer context.AfterFunc(ctx, func() { _ = a.Close(); _ = b.Close() })()
	var both sync.WaitGroup
	for i, way := range [2][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			s := splitter{frame: func(f []byte) { c.Frame(i == 0, f) }, note: c.Note}
			_, _ = io.Copy(io.MultiWriter(way[1], &s), way[0])
			_ = way[1].(*net.TCPConn).CloseWrite() // the opposite direction may still have data to send
		})
	}
	both.Wait()
	c.Note("the connection ends")
}

// splitter splits a stream into frames. A splitter never fails: at an invalid frame it records a
// note and ignores the rest of the stream.
type splitter struct {
	frame func([]byte)
	note  func(string)

	head  [4]byte
	have  int // bytes in head
	left  int // bytes of the frame that are missing
	skip  bool
	buf   []byte
	ended bool
}

// Write processes the next bytes of the stream.
func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !s.ended {
		if s.have < len(s.head) {
			k := copy(s.head[s.have:], p)
			s.have, p = s.have+k, p[k:]
			if s.have == len(s.head) {
				s.begin(int(binary.LittleEndian.Uint32(s.head[:])))
			}
			continue
		}
		k := min(s.left, len(p))
		if !s.skip {
			s.buf = append(s.buf, p[:k]...)
		}
		if s.left, p = s.left-k, p[k:]; s.left == 0 {
			s.end()
		}
	}
	return n, nil
}

func (s *splitter) begin(size int) {
	s.left, s.skip, s.buf = size, size > maxKept, nil
	switch {
	case size > wire.MaxFrame:
		s.note(fmt.Sprintf("a frame of %d bytes is announced, which is too long: what follows is not kept", size))
		s.ended = true
	case s.skip:
		s.note(fmt.Sprintf("a frame of %d bytes is not kept", size))
	case size == 0:
		s.end()
	}
}

func (s *splitter) end() {
	if !s.skip {
		s.frame(s.buf)
	}
	s.have, s.buf = 0, nil
}
