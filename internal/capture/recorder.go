package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// Recorder writes a recording. Safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	out    io.Writer
	left   int64 // number of bytes until the recording reaches its limit
	now    func() time.Time
	began  time.Time
	conns  int
	full   bool
	queue  *queue // nil: the goroutine that records a line also writes it
	lost   int    // number of lines dropped since a line was queued last
	err    error
	tap    map[uint64]*Conn
	spread *Conn // connection that stands for gossip; nil: none yet
}

// NewRecorder returns a recorder that writes at most limit bytes to out.
func NewRecorder(out io.Writer, limit int64, now func() time.Time) *Recorder {
	return &Recorder{out: out, left: limit, now: now, began: now(), tap: map[uint64]*Conn{}}
}

// Later writes the recording from a goroutine of its own, so that no connection waits for the disk.
// If the disk is too slow for maxQueued bytes, the recorder drops lines and writes a note with
// their number. done writes the queued lines; after done, nothing is recorded.
func (r *Recorder) Later() (done func() error) { return r.later(maxQueued) }

func (r *Recorder) later(most int) (done func() error) {
	r.queue = newQueue(r.out, most)
	r.out = r.queue
	return func() error {
		r.mu.Lock()
		if r.lost > 0 && !r.full && r.err == nil {
			r.err = r.put(&Line{T: r.since(), Note: missing(r.lost)})
		}
		r.full = true
		r.mu.Unlock()
		return r.queue.end()
	}
}

func missing(n int) string { return fmt.Sprintf("%d lines are missing here: the disk was too slow", n) }

func (r *Recorder) since() float64 { return float64(r.now().Sub(r.began).Microseconds()) / 1e6 }

// Conn is a recorded connection.
type Conn struct {
	r     *Recorder
	n     int
	ends  [2]string // names of the dialler and the listener
	named bool      // ends are the keys that the handshake named
}

// Open starts the recording of a connection between two addresses.
func (r *Recorder) Open(dialler, dialled string) *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Conn{r: r, n: r.conns, ends: [2]string{dialler, dialled}}
	r.conns++
	c.note(fmt.Sprintf("%s connects to %s", dialler, dialled))
	return c
}

// Frame records a frame that the dialler or the listener sent.
func (c *Conn) Frame(ofDialler bool, frame []byte) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	from, to := c.ends[0], c.ends[1]
	if !ofDialler {
		from, to = to, from
	}
	kind := kindOf(frame)
	if len(frame) > maxKept {
		c.note(fmt.Sprintf("%s of %d bytes from %s, which is not kept", kind, len(frame), from))
		return
	}
	if !c.named && strings.HasSuffix(kind, "_handshake") {
		if h, err := wire.Decode(frame); err == nil {
			if h, ok := h.(*wire.Handshake); ok {
				from, to = h.Sender.String(), h.Target.String()
				if c.ends = [2]string{from, to}; !ofDialler {
					c.ends = [2]string{to, from}
				}
				c.named = true
			}
		}
	}
	c.write(&Line{From: from, To: to, Kind: kind, Frame: frame})
}

// Spread records a gossip frame that this node published, or that it received from the named peer.
func (r *Recorder) Spread(sent bool, peer string, frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spread == nil {
		r.spread = &Conn{r: r, n: r.conns, named: true}
		r.conns++
		r.spread.note("what is spread beside connections")
	}
	c, kind := r.spread, kindOf(frame)
	l := &Line{From: "this node", To: "all", Kind: kind, Frame: frame}
	if !sent {
		l.From, l.To = peer, "this node"
	}
	if len(frame) > maxKept {
		l = &Line{Note: fmt.Sprintf("%s of %d bytes from %s, which is not kept", kind, len(frame), l.From)}
	}
	c.write(l)
}

// Note records a text about the connection.
func (c *Conn) Note(text string) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.note(text)
}

func (c *Conn) note(text string) { c.write(&Line{Note: text}) }

// write writes a line. When the recording reaches its limit, write writes a final line that says
// so.
func (c *Conn) write(l *Line) {
	r := c.r
	if r.full || r.err != nil {
		return
	}
	l.T, l.Conn = r.since(), c.n
	if r.queue != nil && !r.queue.room(2*len(l.Frame)+roomForEnd) {
		r.lost++
		return
	}
	if r.lost > 0 {
		r.err = r.put(&Line{T: l.T, Conn: c.n, Note: missing(r.lost)})
		r.lost = 0
	}
	if !r.full && r.err == nil {
		r.err = r.put(l)
	}
}

// roomForEnd is the space, in bytes, reserved for the final line of a full recording.
const roomForEnd = 100

func (r *Recorder) put(l *Line) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return err
	}
	if int64(b.Len())+roomForEnd > r.left {
		r.full = true
		b.Reset()
		if err := enc.Encode(&Line{T: l.T, Conn: l.Conn, Note: "the recording is full"}); err != nil || int64(b.Len()) > r.left {
			return err
		}
	}
	n, err := r.out.Write(b.Bytes())
	r.left -= int64(n)
	return err
}

// State returns whether the recording is full, and the first error of writing it.
func (r *Recorder) State() (full bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full, r.err
}

// Tap records a frame of a node's own connection. ours is set if this node dialled, sent if this
// node sent the frame. A nil frame means that the connection has ended.
func (r *Recorder) Tap(conn uint64, ours, sent bool, remote string, frame []byte) {
	r.mu.Lock()
	c := r.tap[conn]
	r.mu.Unlock()
	if frame == nil {
		if c != nil {
			c.Note("the connection ends")
			r.mu.Lock()
			delete(r.tap, conn)
			r.mu.Unlock()
		}
		return
	}
	if c == nil {
		ends := [2]string{remote, "this node"}
		if ours {
			ends = [2]string{ends[1], ends[0]}
		}
		c = r.Open(ends[0], ends[1])
		r.mu.Lock()
		r.tap[conn] = c
		r.mu.Unlock()
	}
	c.Frame(ours == sent, frame)
}
