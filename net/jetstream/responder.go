package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Responder.
const (
	MaxTransactions = 1024 // maximum number of transactions that Submit processes concurrently
	// maxPieces bounds concurrent snapshot requests. A client repeats a request that gets no
	// answer.
	maxPieces      = 64
	pieceSize      = 512 << 10
	snapshotIdle   = 30 * time.Second // lifetime of a snapshot after its last request
	snapshotFirst  = 10 * time.Second // lifetime of a snapshot before its first piece is requested
	snapshotLast   = 5 * time.Second  // lifetime of a snapshot after its last piece was sent
	requestTimeout = 5 * time.Second
)

// ErrRefused means that the writer rejects the transaction.
var ErrRefused = errors.New("jetstream: the writer refused the transaction")

// errBusy is returned to a client when a bound is reached.
var errBusy = errors.New("the writer is busy: request it again later")

// Opened is a snapshot of the writer's data folder.
type Opened struct {
	End     string // log position at the end of the snapshot
	WriteTo func(io.Writer) error
	Close   func()
}

// ResponderOptions configures a Responder.
type ResponderOptions struct {
	Link
	Names
	// Submit submits an encoded transaction. It returns ErrRefused if this node rejects the
	// transaction.
	Submit       func(ctx context.Context, raw []byte) error
	Snapshot     func() (*Opened, error)
	MaxSnapshots int
	Published    func() Published                  // returns the progress of the stream
	Sign         func([]byte) primitives.Signature // signs snapshots; nil: snapshots are not signed
}

// Responder answers the requests of replicas.
type Responder struct {
	o     ResponderOptions
	conn  *nats.Conn
	slots chan struct{}
	asked chan struct{} // semaphore that bounds concurrent snapshot requests

	mu        sync.Mutex
	transfers map[string]*snapshotTransfer
	last      int
	done      bool
}

// Answer starts a Responder. If the server can't be reached, the Responder starts when the server
// becomes reachable.
func Answer(o ResponderOptions) (*Responder, error) {
	a := &Responder{o: o, slots: make(chan struct{}, MaxTransactions), asked: make(chan struct{}, maxPieces),
		transfers: map[string]*snapshotTransfer{}}
	conn, err := o.connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	a.conn = conn
	if _, err = conn.Subscribe(o.Transactions, a.transaction); err == nil {
		_, err = conn.Subscribe(o.Snapshots, a.snapshots)
	}
	if err == nil { // once the server has both, no request finds no responder
		err = conn.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return a, nil
}

// Close ends the Responder and open snapshots.
func (a *Responder) Close() {
	a.conn.Close()
	a.mu.Lock()
	a.done = true
	list := a.transfers
	a.transfers = map[string]*snapshotTransfer{}
	a.mu.Unlock()
	for _, g := range list {
		g.end()
	}
}

// reply is the response to a request.
type reply struct {
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// These fields belong to an opened snapshot.
	ID  string `json:"id,omitempty"`
	End string `json:"end,omitempty"`
	Log string `json:"log,omitempty"`
	Seq uint64 `json:"seq,omitempty"`
	// Signature covers ID, End, Log and Seq (see snapshotSig).
	Signature string `json:"signature,omitempty"`
}

func respond(m *nats.Msg, r reply) {
	b, _ := json.Marshal(r) // never fails
	_ = m.Respond(b)        // an error is ignored, because the client repeats the request
}

func failure(err error) reply {
	return reply{Error: err.Error(), Refused: errors.Is(err, ErrRefused)}
}

// isRequest returns whether a message expects a response. A client that may read streams can create
// a consumer that delivers stream messages to this subject. These messages are no requests.
func isRequest(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, nats.InboxPrefix) }

func (a *Responder) transaction(m *nats.Msg) {
	if !isRequest(m) {
		return
	}
	select {
	case a.slots <- struct{}{}:
	default:
		respond(m, failure(errBusy))
		return
	}
	go func() {
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		if err := a.o.Submit(ctx, m.Data); err != nil {
			respond(m, failure(err))
			return
		}
		respond(m, reply{})
	}()
}

// snapshotTransfer is a snapshot that a replica fetches piece by piece.
type snapshotTransfer struct {
	mu     sync.Mutex
	opened *Opened
	pipe   *io.PipeReader
	sig    *snapshotSig
	piece  []byte // the last piece that was read from pipe
	signed string // signature of piece
	n      uint64 // number of the piece in field piece; 0: no piece was read
	ended  bool
	idle   *time.Timer
}

func (g *snapshotTransfer) end() {
	g.idle.Stop()
	_ = g.pipe.CloseWithError(io.ErrClosedPipe)
}

// ask is a snapshot request.
type ask struct {
	ID string `json:"id"` // id of the snapshot; empty: open a new snapshot
	N  uint64 `json:"n"`  // number of the requested piece, from 1: the last sent piece again, or the next
	// Nonce is a random value that the client chooses for a new snapshot. Nonce prevents the replay
	// of signatures for other requests.
	Nonce string `json:"nonce,omitempty"`
}

func (a *Responder) snapshots(m *nats.Msg) {
	if !isRequest(m) {
		return
	}
	select {
	case a.asked <- struct{}{}:
		go func() {
			defer func() { <-a.asked }()
			a.snapshot(m)
		}()
	default:
	}
}

func (a *Responder) snapshot(m *nats.Msg) {
	var q ask
	if err := json.Unmarshal(m.Data, &q); err != nil {
		respond(m, failure(fmt.Errorf("malformed request: %w", err)))
		return
	}
	if len(q.Nonce) > 64 {
		respond(m, failure(errors.New("malformed request: the nonce has more than 64 characters")))
		return
	}
	if q.ID == "" {
		r, err := a.open(q.Nonce)
		if err != nil {
			r = failure(err)
		}
		respond(m, r)
		return
	}
	a.mu.Lock()
	g := a.transfers[q.ID]
	a.mu.Unlock()
	if g == nil {
		respond(m, failure(fmt.Errorf("snapshot %q does not exist any more", q.ID)))
		return
	}
	piece, signed, err := g.next(q.N)
	if err != nil {
		a.drop(q.ID)
		respond(m, failure(err))
		return
	}
	out := nats.NewMsg(m.Reply)
	out.Data = piece
	out.Header.Set(headPart, fmt.Sprint(q.N))
	if signed != "" {
		out.Header.Set(headSignature, signed)
	}
	if len(piece) < pieceSize {
		out.Header.Set(headKind, "last")
	}
	_ = m.RespondMsg(out)
}

func (a *Responder) drop(id string) {
	a.mu.Lock()
	g := a.transfers[id]
	delete(a.transfers, id)
	a.mu.Unlock()
	if g != nil {
		g.end()
	}
}

func (a *Responder) open(nonce string) (reply, error) {
	// Read this before the snapshot is taken. So the snapshot includes everything that the stream
	// contains up to this point.
	p := a.o.Published()
	if p.Log == "" {
		return reply{}, errors.New("the writer has no stream yet")
	}
	a.mu.Lock()
	if a.done || len(a.transfers) >= a.o.MaxSnapshots {
		a.mu.Unlock()
		return reply{}, errBusy
	}
	a.last++
	id := fmt.Sprintf("%d-%s", a.last, logName())
	g := &snapshotTransfer{sig: &snapshotSig{nonce: nonce, id: id, sign: a.o.Sign}}
	// Store the transfer before the snapshot is created, so that the transfer counts toward
	// MaxSnapshots.
	a.transfers[id] = g
	g.mu.Lock()
	defer g.mu.Unlock()
	r, w := io.Pipe()
	g.pipe = r
	g.idle = time.AfterFunc(snapshotIdle, func() { a.drop(id) })
	a.mu.Unlock()
	opened, err := a.o.Snapshot()
	if err != nil {
		a.drop(id)
		return reply{}, err
	}
	g.opened = opened
	g.idle.Reset(snapshotFirst)
	go func() {
		defer opened.Close()
		_ = w.CloseWithError(opened.WriteTo(w)) // a nil error ends the pipe with io.EOF
	}()
	out := reply{ID: id, End: opened.End, Log: p.Log, Seq: p.Seq}
	out.Signature = g.sig.opened(&out)
	return out, nil
}

// next returns piece n. n must be the number of the next piece or of the last piece.
func (g *snapshotTransfer) next(n uint64) (piece []byte, signed string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle.Reset(snapshotIdle)
	switch {
	case n == g.n && n > 0:
		return g.piece, g.signed, nil
	case n != g.n+1 || g.ended:
		return nil, "", fmt.Errorf("piece %d was requested, expected piece %d, after which the next is prepared", n, g.n+1)
	}
	piece = make([]byte, pieceSize)
	k, err := io.ReadFull(g.pipe, piece)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		g.ended, err = true, nil
	}
	if err != nil {
		return nil, "", err
	}
	if g.ended { // the snapshot is complete, so keep the transfer only briefly
		g.idle.Reset(snapshotLast)
	}
	g.piece, g.n = piece[:k], n
	g.signed = g.sig.piece(n, g.ended, g.piece)
	return g.piece, g.signed, nil
}

// Asker sends requests to a writer. Safe for concurrent use.
type Asker struct {
	names Names
	conn  *nats.Conn
	by    *primitives.PublicKey
}

// NewAsker connects to a server. `by` is the node key that must have signed snapshots; nil:
// signatures are not verified.
func NewAsker(l Link, n Names, by *primitives.PublicKey) (*Asker, error) {
	conn, err := l.connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	return &Asker{n, conn, by}, nil
}

// Close closes the connection.
func (a *Asker) Close() { a.conn.Close() }

// Submit forwards a transaction. ErrRefused: the writer rejects the transaction, and would reject
// it again. After any other error it is unknown whether the writer has accepted the transaction.
func (a *Asker) Submit(ctx context.Context, tx *primitives.SignedTransaction) error {
	m, err := a.conn.RequestWithContext(ctx, a.names.Transactions, tx.AppendBorsh(nil))
	if err != nil {
		return err
	}
	var r reply
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return fmt.Errorf("jetstream: read the writer's answer: %w", err)
	}
	return r.err()
}

func (r *reply) err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Refused:
		return fmt.Errorf("%w: %s", ErrRefused, r.Error)
	}
	return errors.New(r.Error)
}

// Fetched is a snapshot being fetched.
type Fetched struct {
	End string // log position at the end of the snapshot
	Log string // name of the stream's log
	// Seq is a sequence number in the stream. All records that are not in the snapshot follow that
	// message.
	Seq uint64
	io.Reader
}

// Fetch opens a snapshot of the writer's data folder. Read it until io.EOF.
func (a *Asker) Fetch(ctx context.Context) (*Fetched, error) {
	v := &snapshotSig{nonce: logName(), by: a.by}
	q, _ := json.Marshal(ask{Nonce: v.nonce}) // never fails
	opening, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	m, err := a.conn.RequestWithContext(opening, a.names.Snapshots, q)
	if err != nil {
		return nil, fmt.Errorf("jetstream: fetch a snapshot: %w", err)
	}
	var r reply
	if err = json.Unmarshal(m.Data, &r); err == nil {
		err = r.err()
	}
	if v.id = r.ID; err == nil {
		err = v.checkOpened(&r)
	}
	if err != nil {
		return nil, fmt.Errorf("jetstream: fetch a snapshot: %w", err)
	}
	return &Fetched{End: r.End, Log: r.Log, Seq: r.Seq, Reader: &snapshotReader{ctx: ctx, a: a, sig: v}}, nil
}

// snapshotReader reads pieces.
type snapshotReader struct {
	ctx  context.Context
	a    *Asker
	sig  *snapshotSig
	n    uint64
	rest bytes.Reader
	last bool
}

// Read implements io.Reader.
func (f *snapshotReader) Read(b []byte) (int, error) {
	for f.rest.Len() == 0 {
		if f.last {
			return 0, io.EOF
		}
		if err := f.piece(); err != nil {
			return 0, err
		}
	}
	return f.rest.Read(b)
}

// maxPieceTries is how often a piece is requested.
const maxPieceTries = 4

func (f *snapshotReader) piece() error {
	q, _ := json.Marshal(ask{ID: f.sig.id, N: f.n + 1}) // never fails
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(f.ctx, requestTimeout)
		m, err := f.a.conn.RequestWithContext(ctx, f.a.names.Snapshots, q)
		cancel()
		switch {
		case err != nil && (try >= maxPieceTries || f.ctx.Err() != nil):
			return fmt.Errorf("jetstream: fetch piece %d of a snapshot: %w", f.n+1, err)
		case err != nil:
			select {
			case <-time.After(firstPause << try):
			case <-f.ctx.Done():
			}
			continue
		}
		if m.Header.Get(headPart) != fmt.Sprint(f.n+1) {
			var r reply
			if err := json.Unmarshal(m.Data, &r); err != nil {
				return fmt.Errorf("jetstream: fetch piece %d of a snapshot: %w", f.n+1, err)
			}
			return fmt.Errorf("jetstream: fetch piece %d of a snapshot: %s", f.n+1, r.Error)
		}
		last := m.Header.Get(headKind) == "last"
		if err := f.sig.checkPiece(f.n+1, last, m.Data, m.Header.Get(headSignature)); err != nil {
			return fmt.Errorf("jetstream: fetch piece %d of a snapshot: %w", f.n+1, err)
		}
		f.n++
		f.last = last
		f.rest.Reset(m.Data)
		return nil
	}
}
