package tcp

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// link is one connection: what waits to be written, and whether more is to come.
type link struct {
	id      near.ConnID
	conn    net.Conn
	shaken  atomic.Bool  // the other side's handshake is done: from now on the reader checks signatures
	ours    bool         // dialled
	peer    wire.PeerID  // whom a Way has proven to be at the other end; "": nobody has
	met     bool         // the Way was told that the peer's handshake is done; used by the stepping goroutine alone
	tier    wire.Tier    // of that handshake
	dialled wire.PeerID  // who was to answer at a socket of ours
	bare    bool         // what is this node's own, and for the peer, goes without its signature
	routed  *wire.Routed // the last one that was written over a Way; used by the stepping goroutine alone

	running atomic.Int32 // its goroutines

	mu       sync.Mutex
	wake     *sync.Cond
	queue    near.Queue
	finished bool // close once the queue is empty
	closed   bool
}

func newLink(id near.ConnID, conn net.Conn) *link {
	l := &link{id: id, conn: conn}
	l.wake = sync.NewCond(&l.mu)
	return l
}

// put has a frame written; false if too much waits already. One that is too long is dropped: for it
// the other side would ban us.
func (l *link) put(frame []byte, p near.Priority) bool {
	if len(frame) > wire.MaxFrame {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	l.wake.Signal()
	return l.queue.Put(frame, p)
}

// finish closes the connection when all that waits is written, which may take finishLimit.
func (l *link) finish() {
	l.mu.Lock()
	l.finished = true
	l.wake.Signal()
	l.mu.Unlock()
	_ = l.conn.SetDeadline(time.Now().Add(finishLimit))
}

const finishLimit = 5 * time.Second

// waiting is how many bytes wait to be written.
func (l *link) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Bytes()
}

// close closes it now.
func (l *link) close() {
	l.mu.Lock()
	l.closed, l.queue = true, near.Queue{}
	l.wake.Signal()
	l.mu.Unlock()
	_ = l.conn.Close()
}

// The most that is written at once, beyond the first frame.
const (
	maxBatch      = 32
	maxBatchBytes = 64 << 10
)

// next waits for frames to write, and appends those to batch that there are; none: there will be
// none.
func (l *link) next(batch [][]byte) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.closed {
			return batch[:0]
		}
		for bytes := 0; len(batch) < maxBatch && bytes < maxBatchBytes; {
			f := l.queue.Next()
			if f == nil {
				break
			}
			batch = append(batch, f)
			bytes += len(f)
		}
		if len(batch) > 0 {
			if !l.finished {
				_ = l.conn.SetWriteDeadline(time.Now().Add(writeLimit))
			}
			return batch
		}
		if l.finished {
			return batch
		}
		l.wake.Wait()
	}
}

// tap shows a frame to who listens.
func (l *link) tap(h *Server, sent bool, frame []byte) {
	if h.Tap != nil {
		h.Tap(Tapped{l.id, l.ours, sent, l.conn.RemoteAddr().String(), frame})
	}
}

// leave ends a goroutine; with the last one the connection has ended.
func (l *link) leave(h *Server) {
	if l.running.Add(-1) == 0 {
		l.tap(h, false, nil)
	}
	h.group.Done()
}

// write writes frames until there are none, those that wait together in one call. It ends the
// connection, upon which the reader ends.
func (l *link) write(h *Server) {
	defer l.leave(h)
	defer l.close()
	defer h.alarm()
	var (
		room    [maxBatch][]byte
		heads   [maxBatch][4]byte
		buffers [2 * maxBatch][]byte
		all     net.Buffers
		// of a Way, where each call is a message of its own, hidden and sent by itself; nil: a
		// socket takes all in one call
		joined *bufio.Writer
	)
	if _, of := l.conn.(Conn); of {
		joined = bufio.NewWriterSize(l.conn, joinSize)
	}
	for batch := l.next(room[:0]); len(batch) > 0; batch = l.next(room[:0]) {
		all = buffers[:0]
		for i, frame := range batch {
			l.tap(h, true, frame)
			binary.LittleEndian.PutUint32(heads[i][:], uint32(len(frame)))
			all = append(all, heads[i][:], frame)
		}
		n, err := writeAll(&all, l.conn, joined)
		if err != nil {
			return
		}
		h.Sent.Add(uint64(n))
		clear(room[:len(batch)])
	}
}

// writeAll writes what there is, through joined if there is one.
func writeAll(all *net.Buffers, to io.Writer, joined *bufio.Writer) (n int64, err error) {
	if joined == nil {
		return all.WriteTo(to)
	}
	for _, b := range *all {
		k, err := joined.Write(b)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, joined.Flush()
}

// read reads frames and tells the Node of those that can be decoded; at the end it tells that the
// connection is gone. There is no deadline: a peer may be silent. One of a Way, which its sender
// has ended, takes nothing more.
func (l *link) read(h *Server) {
	defer l.leave(h)
	defer h.Post(near.Closed{Conn: l.id})
	paced, _ := l.conn.(Conn)
	in := bufio.NewReaderSize(l.conn, readSize)
	if paced != nil {
		defer l.close()
	}
	defer h.alarm()
	words := h.words(l.peer)
	told := newEdgesTold()
	var head [4]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > wire.MaxFrame || n > longHandshake && !l.shaken.Load() {
			h.Post(near.TooLong{Conn: l.id})
			return
		}
		awaited := paced != nil && int64(in.Buffered()) < int64(n) // else it is all here, and no timer is needed
		if awaited {
			paced.Within(int(n))
		}
		frame, err := wire.ReadGrowing(in, nil, int(n), frameFirst)
		if err != nil {
			return
		}
		if awaited {
			paced.Within(-1)
		}
		h.Received.Add(uint64(4 + len(frame)))
		l.tap(h, false, frame)
		m, err := wire.Decode(frame)
		if err != nil {
			continue
		}
		if s, ok := m.(*wire.Handshake); ok {
			if l.peer != "" && s.Sender != l.peer {
				return // somebody else than who has proven himself
			}
			// to one of ours the answer has the nonce that the Node has chosen
			words.of(s.Sender, l.ours || s.PartialEdge.Nonce >= h.begun)
		}
		table, isTable := m.(*wire.RoutingTable)
		if isTable && !told.AllowN(time.Now(), len(table.Edges)) {
			table.Edges = nil
		}
		if l.shaken.Load() {
			words.prove(m, h.authors)
		} else if _, ok := m.(*wire.Handshake); ok && l.ours {
			l.shaken.Store(true)
		}
		ev := near.Received{Conn: l.id, Msg: m}
		if len(frame) > longFrame || isTable && len(table.Accounts) > 0 {
			h.postAndWait(ev)
		} else {
			h.Post(ev)
		}
	}
}

// readSize is how much of a connection is read at once: most frames of consensus with what comes
// behind them. What is longer goes past that memory.
const readSize = 8 << 10

// joinSize is how much is joined to be written by a Way in one call; the rest of what is longer
// goes past that memory.
const joinSize = 16 << 10

// longFrame is above how many bytes a message must have been taken before the next of its
// connection is read, so that what waits for the Node is bounded in bytes too.
const longFrame = 64 << 10

// frameFirst is the memory that a frame has before any of it has come.
const frameFirst = 64 << 10

// longHandshake is how long a frame may be before the handshake is done: who has said nothing of
// himself gets no memory for more.
const longHandshake = 1 << 20
