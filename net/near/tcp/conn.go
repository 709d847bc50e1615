package tcp

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// link is one connection with its write queue.
type link struct {
	id   near.ConnID
	conn net.Conn
	// handshakeDone means that the peer's handshake is complete. The reader verifies signatures
	// from then on.
	handshakeDone atomic.Bool
	outbound      bool        // this node dialled the connection
	peer          wire.PeerID // the peer that a Transport has authenticated; empty: not authenticated
	reported      bool        // Transport.Met was called; only the stepping goroutine uses this field
	tier          wire.Tier   // tier of the handshake
	dialled       wire.PeerID // the peer that this node dialled; empty unless the connection is an outbound socket
	bare          bool        // this node's messages to the peer need no signature if the peer is their target
	// routed is the last routed message written to a Transport's connection. Only the stepping
	// goroutine uses it.
	routed *wire.Routed

	running atomic.Int32 // number of the link's running goroutines

	mu       sync.Mutex
	wake     *sync.Cond
	queue    near.Queue
	finished bool // the connection is closed once the queue is empty
	closed   bool
}

func newLink(id near.ConnID, conn net.Conn) *link {
	l := &link{id: id, conn: conn}
	l.wake = sync.NewCond(&l.mu)
	return l
}

// put queues a frame. put returns false if the queue is full. It drops a frame above MaxFrame,
// because the peer would ban this node for such a frame.
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

// finish closes the connection after the queued frames are written, within finishLimit.
func (l *link) finish() {
	l.mu.Lock()
	l.finished = true
	l.wake.Signal()
	l.mu.Unlock()
	_ = l.conn.SetDeadline(time.Now().Add(finishLimit))
}

const finishLimit = 5 * time.Second

// waiting returns how many bytes are queued.
func (l *link) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Bytes()
}

// close closes the connection at once.
func (l *link) close() {
	l.mu.Lock()
	l.closed, l.queue = true, near.Queue{}
	l.wake.Signal()
	l.mu.Unlock()
	_ = l.conn.Close()
}

// Bounds of one write call, in addition to its first frame.
const (
	maxBatch      = 32
	maxBatchBytes = 64 << 10
)

// next waits for frames and appends them to batch. An empty result means that no more frames will
// follow.
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

// tap reports a frame to Server.Tap.
func (l *link) tap(h *Server, sent bool, frame []byte) {
	if h.Tap != nil {
		h.Tap(Tapped{l.id, l.outbound, sent, l.conn.RemoteAddr().String(), frame})
	}
}

// exit ends a goroutine of the link. The last goroutine to end reports the end of the connection to
// Tap.
func (l *link) exit(h *Server) {
	if l.running.Add(-1) == 0 {
		l.tap(h, false, nil)
	}
	h.group.Done()
}

// write writes frames, several in one call, until the queue is closed. At the end write closes the
// connection, which also ends the reader.
func (l *link) write(h *Server) {
	defer l.exit(h)
	defer l.close()
	defer h.alarm()
	var (
		room    [maxBatch][]byte
		heads   [maxBatch][4]byte
		buffers [2 * maxBatch][]byte
		all     net.Buffers
		// joined is for a Transport, which encrypts and sends each call as one message. joined is
		// nil for a socket, which takes all buffers in one call.
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

// writeAll writes all buffers, through joined unless it is nil.
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

// read reads with a new routedVerifier.
func (l *link) read(h *Server) {
	words := h.newRoutedVerifier(l.peer)
	l.readWith(h, &words)
}

// readWith decodes frames and posts the messages. At the end it posts Closed. It has no deadline,
// because a peer may be silent. It also ends when the peer of a Transport's connection closes its
// sending side.
func (l *link) readWith(h *Server, words *routedVerifier) {
	defer l.exit(h)
	defer h.Post(near.Closed{Conn: l.id})
	paced, _ := l.conn.(Conn)
	in := bufio.NewReaderSize(l.conn, readSize)
	if paced != nil {
		defer l.close()
	}
	defer h.alarm()
	told, admission := newEdgeLimiter(), h.node.NewAdmission(time.Now())
	var head [4]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > cmp.Or(h.MaxFrame, wire.MaxFrame) || n > longHandshake && !l.handshakeDone.Load() {
			h.Post(near.TooLong{Conn: l.id})
			return
		}
		// No timer is needed for a frame that is buffered already.
		awaited := paced != nil && int64(in.Buffered()) < int64(n)
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
		h.node.Meter.Arrived(len(frame))
		m, err := wire.Decode(frame)
		if err != nil {
			continue
		}
		h.node.Meter.Received(m, len(frame))
		if !admission.Admit(time.Now(), m) { // before a signature is verified
			continue
		}
		if s, ok := m.(*wire.Handshake); ok {
			if l.peer != "" && s.Sender != l.peer {
				return // the sender is not the peer that the transport authenticated
			}
			// The answer to an outbound handshake has the nonce that this node chose, so the edge
			// is fresh.
			words.setPeer(s.Sender, l.outbound || s.PartialEdge.Nonce >= h.begun)
		}
		table, isTable := m.(*wire.RoutingTable)
		if isTable && !told.AllowN(time.Now(), len(table.Edges)) {
			table.Edges = nil
		}
		if l.handshakeDone.Load() {
			words.verify(m, h.authors, h.node.IsFull)
		} else if _, ok := m.(*wire.Handshake); ok && l.outbound {
			l.handshakeDone.Store(true)
		}
		ev := near.Received{Conn: l.id, Msg: m, Admitted: true}
		if len(frame) > longFrame || isTable && len(table.Accounts) > 0 {
			h.postAndWait(ev)
		} else {
			h.Post(ev)
		}
	}
}

// readSize is the size of the read buffer, in bytes. Most consensus frames fit into the buffer,
// together with the frames that follow. Larger frames bypass the buffer.
const readSize = 8 << 10

// joinSize is the number of bytes that are joined for one write call of a Transport. Larger frames
// bypass the buffer.
const joinSize = 16 << 10

// longFrame is a frame size in bytes. After a longer frame, the next frame of the connection is
// read only once the long frame was processed. This rule bounds the bytes that wait for the
// PeerManager.
const longFrame = 64 << 10

// frameFirst is the initial buffer of a frame, in bytes.
const frameFirst = 64 << 10

// longHandshake is the maximum size of a frame before the handshake is complete, in bytes. An
// unidentified peer gets no memory for a longer frame.
const longHandshake = 1 << 20
