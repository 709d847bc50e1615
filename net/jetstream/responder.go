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

// Bounds of what a writer answers.
const (
	MaxTransactions = 1024 // that wait for the pools
	maxPieces       = 64   // of snapshots that are asked for at once; who gets no answer asks again
	pieceSize       = 512 << 10
	snapshotIdle    = 30 * time.Second // after which a snapshot that nobody fetches is given up
	snapshotFirst   = 10 * time.Second // the same of one of which nobody has asked for a piece
	snapshotLast    = 5 * time.Second  // the same of one that was given to its end
	requestTimeout  = 5 * time.Second
)

// ErrRefused is what a writer has against a transaction.
var ErrRefused = errors.New("jetstream: the writer refuses it")

// errBusy is told to who asks for more than there is room for.
var errBusy = errors.New("busy: ask again later")

// Opened is a snapshot of a writer's folder.
type Opened struct {
	End     string // where the log ends in it
	WriteTo func(io.Writer) error
	Close   func()
}

// ResponderOptions are what a writer answers with.
type ResponderOptions struct {
	Link
	Names
	Submit       func(ctx context.Context, raw []byte) error // a transaction; ErrRefused
	Snapshot     func() (*Opened, error)
	MaxSnapshots int
	Published    func() Published                  // where the stream is
	Sign         func([]byte) primitives.Signature // snapshots; nil: they are not signed
}

// Responder is a writer's end of what replicas ask.
type Responder struct {
	o     ResponderOptions
	conn  *nats.Conn
	slots chan struct{}
	asked chan struct{} // has whoever answers of snapshots

	mu    sync.Mutex
	given map[string]*giving
	last  int
	done  bool
}

// Answer begins. Where the server is not there it begins when it comes.
func Answer(o ResponderOptions) (*Responder, error) {
	a := &Responder{o: o, slots: make(chan struct{}, MaxTransactions), asked: make(chan struct{}, maxPieces), given: map[string]*giving{}}
	conn, err := o.connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	a.conn = conn
	if _, err = conn.Subscribe(o.Transactions, a.transaction); err == nil {
		_, err = conn.Subscribe(o.Snapshots, a.snapshots)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return a, nil
}

// Close ends it.
func (a *Responder) Close() {
	a.conn.Close()
	a.mu.Lock()
	a.done = true
	list := a.given
	a.given = map[string]*giving{}
	a.mu.Unlock()
	for _, g := range list {
		g.end()
	}
}

// reply is what a request is answered with.
type reply struct {
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Of a snapshot that was opened:
	ID  string `json:"id,omitempty"`
	End string `json:"end,omitempty"`
	Log string `json:"log,omitempty"`
	Seq uint64 `json:"seq,omitempty"`
	// Signature of all of these, for whoever has asked (see vouch).
	Signature string `json:"signature,omitempty"`
}

func respond(m *nats.Msg, r reply) {
	b, _ := json.Marshal(r) // never fails
	_ = m.Respond(b)        // who asks asks again
}

func failure(err error) reply {
	return reply{Error: err.Error(), Refused: errors.Is(err, ErrRefused)}
}

// asked tells whether somebody waits for an answer. What a consumer of a stream delivers to this
// subject, which whoever may read streams can make, is no request.
func asked(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, nats.InboxPrefix) }

func (a *Responder) transaction(m *nats.Msg) {
	if !asked(m) {
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

// giving is a snapshot that a replica fetches, piece by piece.
type giving struct {
	mu     sync.Mutex
	opened *Opened
	pipe   *io.PipeReader
	vouch  *vouch
	piece  []byte // the last one
	signed string // that
	n      uint64 // its number; 0: none was asked for
	ended  bool
	idle   *time.Timer
}

func (g *giving) end() {
	g.idle.Stop()
	_ = g.pipe.CloseWithError(io.ErrClosedPipe)
}

// ask is what a replica asks of a snapshot.
type ask struct {
	ID string `json:"id"` // empty: a new one
	N  uint64 `json:"n"`  // of the piece, from 1; the same as before, or the next
	// Nonce is drawn by who asks for a new one, so that nobody answers with what was signed for
	// another.
	Nonce string `json:"nonce,omitempty"`
}

func (a *Responder) snapshots(m *nats.Msg) {
	if !asked(m) {
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
		respond(m, failure(errors.New("malformed request: a nonce of more than 64 characters")))
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
	g := a.given[q.ID]
	a.mu.Unlock()
	if g == nil {
		respond(m, failure(fmt.Errorf("there is no snapshot %q any more", q.ID)))
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
	g := a.given[id]
	delete(a.given, id)
	a.mu.Unlock()
	if g != nil {
		g.end()
	}
}

func (a *Responder) open(nonce string) (reply, error) {
	p := a.o.Published() // first: what the stream has up to here the snapshot has, too
	if p.Log == "" {
		return reply{}, errors.New("the writer has no stream yet")
	}
	a.mu.Lock()
	if a.done || len(a.given) >= a.o.MaxSnapshots {
		a.mu.Unlock()
		return reply{}, errBusy
	}
	a.last++
	id := fmt.Sprintf("%d-%s", a.last, logName())
	g := &giving{vouch: &vouch{nonce: nonce, id: id, sign: a.o.Sign}}
	a.given[id] = g // its place
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
		_ = w.CloseWithError(opened.WriteTo(w)) // nil: the end
	}()
	out := reply{ID: id, End: opened.End, Log: p.Log, Seq: p.Seq}
	out.Signature = g.vouch.opened(&out)
	return out, nil
}

// next reads piece n: the next one, or the one before again.
func (g *giving) next(n uint64) (piece []byte, signed string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle.Reset(snapshotIdle)
	switch {
	case n == g.n && n > 0:
		return g.piece, g.signed, nil
	case n != g.n+1 || g.ended:
		return nil, "", fmt.Errorf("piece %d behind %d", n, g.n)
	}
	piece = make([]byte, pieceSize)
	k, err := io.ReadFull(g.pipe, piece)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		g.ended, err = true, nil
	}
	if err != nil {
		return nil, "", err
	}
	if g.ended { // its place is another's soon
		g.idle.Reset(snapshotLast)
	}
	g.piece, g.n = piece[:k], n
	g.signed = g.vouch.piece(n, g.ended, g.piece)
	return g.piece, g.signed, nil
}

// Asker asks a writer.
type Asker struct {
	names Names
	conn  *nats.Conn
	by    *primitives.PublicKey
}

// NewAsker connects. by: whose snapshots are taken, and no others; nil: anybody's.
func NewAsker(l Link, n Names, by *primitives.PublicKey) (*Asker, error) {
	conn, err := l.connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	return &Asker{n, conn, by}, nil
}

// Close ends it.
func (a *Asker) Close() { a.conn.Close() }

// Submit passes a transaction on. ErrRefused: the writer does not take it, and would not if it was
// asked again; other errors say nothing of that.
func (a *Asker) Submit(ctx context.Context, tx *primitives.SignedTransaction) error {
	m, err := a.conn.RequestWithContext(ctx, a.names.Transactions, tx.AppendBorsh(nil))
	if err != nil {
		return err
	}
	var r reply
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return fmt.Errorf("jetstream: the writer's answer: %w", err)
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

// Fetched is a snapshot that comes.
type Fetched struct {
	End string // where the log ends in it
	Log string // of which the stream is
	Seq uint64 // a message of the stream, behind which comes all that the snapshot does not have
	io.Reader
}

// Fetch opens a snapshot of the writer's folder, which is read until it ends.
func (a *Asker) Fetch(ctx context.Context) (*Fetched, error) {
	v := &vouch{nonce: logName(), by: a.by}
	q, _ := json.Marshal(ask{Nonce: v.nonce}) // never fails
	opening, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	m, err := a.conn.RequestWithContext(opening, a.names.Snapshots, q)
	if err != nil {
		return nil, fmt.Errorf("jetstream: a snapshot: %w", err)
	}
	var r reply
	if err = json.Unmarshal(m.Data, &r); err == nil {
		err = r.err()
	}
	if v.id = r.ID; err == nil {
		err = v.checkOpened(&r)
	}
	if err != nil {
		return nil, fmt.Errorf("jetstream: a snapshot: %w", err)
	}
	return &Fetched{End: r.End, Log: r.Log, Seq: r.Seq, Reader: &fetching{ctx: ctx, a: a, vouch: v}}, nil
}

// fetching reads pieces.
type fetching struct {
	ctx   context.Context
	a     *Asker
	vouch *vouch
	n     uint64
	rest  bytes.Reader
	last  bool
}

// Read is part of io.Reader.
func (f *fetching) Read(b []byte) (int, error) {
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

// pieceTries is how often a piece is asked for.
const pieceTries = 4

func (f *fetching) piece() error {
	q, _ := json.Marshal(ask{ID: f.vouch.id, N: f.n + 1}) // never fails
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(f.ctx, requestTimeout)
		m, err := f.a.conn.RequestWithContext(ctx, f.a.names.Snapshots, q)
		cancel()
		switch {
		case err != nil && (try >= pieceTries || f.ctx.Err() != nil):
			return fmt.Errorf("jetstream: piece %d of a snapshot: %w", f.n+1, err)
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
				return fmt.Errorf("jetstream: piece %d of a snapshot: %w", f.n+1, err)
			}
			return fmt.Errorf("jetstream: piece %d of a snapshot: %s", f.n+1, r.Error)
		}
		last := m.Header.Get(headKind) == "last"
		if err := f.vouch.checkPiece(f.n+1, last, m.Data, m.Header.Get(headSignature)); err != nil {
			return fmt.Errorf("jetstream: piece %d of a snapshot: %w", f.n+1, err)
		}
		f.n++
		f.last = last
		f.rest.Reset(m.Data)
		return nil
	}
}
