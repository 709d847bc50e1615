package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// publishing publishes the node's records to replicas and answers the replicas' requests.
type publishing struct {
	followed      func()            // ends the notifications of new blocks
	server        *jetstream.Server // nil: an external server is used
	publisher     *jetstream.Publisher
	answers       *jetstream.Responder
	blocksOptions *jetstream.BlocksOptions  // options of the blocks stream for indexers; nil: there is no such stream
	blocks        *jetstream.BlockPublisher // nil until the backend exists
}

// storeBytes is the disk space in bytes that an embedded server needs in addition to the stream.
// This space holds the index, and old messages that the server can only remove in whole files.
const storeBytes = 256 << 20

// publish starts to publish once the node runs. If an external server is unreachable or full,
// publish returns no error, and the node continues without the server.
func (h *Daemon) publish(hm *home.Home, track engine.Track) (p *publishing, err error) {
	c := &hm.Config.JetStream
	switch {
	case track != nil:
		return nil, errors.New("troupe.jetstream needs all shards: set tracked_shards_config to \"AllShards\"")
	case h.fork != nil:
		return nil, errors.New("troupe.jetstream: a fork cannot be published, because its records do not contain the whole state")
	}
	p = &publishing{}
	link := jetstream.Link{URL: c.URL, Token: c.Token, Name: "troupe writer"}
	if c.URL == "" {
		dir := filepath.Join(hm.Paths.Dir, "jetstream")
		if c.Dir != "" {
			dir = inHome(hm, c.Dir)
		}
		room := int64(min(c.MaxBytes, 1<<60)) + storeBytes
		if c.Blocks {
			room *= 2
		}
		p.server, err = jetstream.StartServer(jetstream.ServerOptions{Dir: dir, Listen: c.Listen, Token: c.Token, MaxBytes: room})
		if err != nil {
			return nil, err
		}
		link.Server = p.server
	}
	names := jetstream.NamesOf(hm.Genesis.ChainID, h.Engine.Genesis().Hash)
	o := jetstream.PublisherOptions{
		Link: link, Names: names, Source: logSource{h.store, int64(min(c.MaxBytes, 1<<60))},
		MaxBytes: int64(min(c.MaxBytes, 1<<60)), MaxAge: c.MaxAge, Replicas: int(c.Copies),
		Said: func(err error) {
			if err != nil {
				h.log.WithError(err).Warn("records are not published; the chain continues, and publishing will resume where it stopped")
				return
			}
			h.log.Info("records are published")
		},
	}
	if hm.NodeKey != nil {
		o.Sign = hm.NodeKey.SecretKey.Sign
	}
	p.publisher = jetstream.NewPublisher(o)
	p.answers, err = jetstream.Answer(jetstream.ResponderOptions{
		Link: link, Names: names, Submit: h.submitForReplica, Snapshot: h.snapshotForReplica, MaxSnapshots: int(c.Snapshots),
		Published: p.publisher.Published, Sign: o.Sign,
	})
	if err != nil {
		p.close()
		return nil, err
	}
	if c.Blocks {
		p.blocksOptions = &jetstream.BlocksOptions{
			Link: link, Names: names, MaxBytes: o.MaxBytes, MaxAge: c.MaxAge, Replicas: o.Replicas,
			Said: func(err error) {
				if err != nil {
					h.log.WithError(err).Warn("blocks for indexers are not published; the chain continues, and publishing will resume where it stopped")
					return
				}
				h.log.Info("blocks for indexers are published")
			},
		}
	}
	return p, nil
}

// close stops publishing. The next start resumes at the same position. A nil receiver is allowed.
func (p *publishing) close() {
	if p == nil {
		return
	}
	if p.followed != nil {
		p.followed()
	}
	if p.answers != nil {
		p.answers.Close()
	}
	if p.blocks != nil {
		p.blocks.Close()
	}
	if p.publisher != nil {
		p.publisher.Close()
	}
	if p.server != nil {
		p.server.Close()
	}
}

// submitForReplica adds a transaction from a replica to the pool.
func (h *Daemon) submitForReplica(ctx context.Context, raw []byte) error {
	tx := new(primitives.SignedTransaction)
	if err := borsh.Unmarshal(raw, tx); err != nil {
		return fmt.Errorf("%w: %w", jetstream.ErrRefused, err)
	}
	for _, r := range h.Node.SubmitFromPeers("replicas", []*primitives.SignedTransaction{tx}) {
		select {
		case <-r.Done():
			answers := r.Answers()
			if len(answers) == 0 {
				continue
			}
			err := answers[0].Err // there is one answer, because one transaction was submitted
			if invalid := (*primitives.InvalidTxError)(nil); errors.As(err, &invalid) {
				return fmt.Errorf("%w: %w", jetstream.ErrRefused, err)
			}
			return err
		case <-r.Lost():
			return errors.New("the mempool was restarted; retry")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the node accepts no transactions")
}

// snapshotForReplica opens a stream of the store's contents.
func (h *Daemon) snapshotForReplica() (*jetstream.Opened, error) {
	c, err := h.store.SnapshotStream()
	if err != nil {
		return nil, err
	}
	h.log.Info("a replica fetches a snapshot")
	return &jetstream.Opened{End: c.End.String(), Close: c.Close, WriteTo: func(w io.Writer) error {
		_, err := c.WriteTo(w)
		return err
	}}, nil
}

// logSource reads the store's log for the publisher.
type logSource struct {
	s    *storage.Store
	most int64 // size limit of the stream in bytes
}

// Beginning returns the position at which an empty stream starts. The position is the start of the
// log or, if the log is long, the position above the flat head. In the second case a replica needs
// a snapshot.
func (x logSource) Beginning() (string, error) {
	at, size, err := x.s.Log().Start()
	if err != nil {
		return "", err
	}
	if size > x.most/4 || at.Segment > 0 {
		at = x.s.AboveFlatHead()
	}
	return at.String(), nil
}

// Records calls f for the records of the log from a position on, and returns the next position.
func (x logSource) Records(from string, f func(jetstream.Record) bool) (string, error) {
	at, err := storage.ParseLogPlace(from)
	if err != nil {
		return from, fmt.Errorf("%w: %w", jetstream.ErrSource, err)
	}
	next, err := x.s.Log().Records(at, func(s storage.LogRecord) bool {
		return f(jetstream.Record{At: s.At.String(), Next: s.Next.String(), Height: s.Ref.Height, Hash: s.Ref.Hash,
			Prev: s.Prev.Hash, Back: s.Rewind, Payload: s.Payload})
	})
	if errors.Is(err, storage.ErrGone) || errors.Is(err, storage.ErrDamaged) {
		err = fmt.Errorf("%w: %w", jetstream.ErrSource, err)
	}
	return next.String(), err
}

// blockObserver returns a callback that notifies the publisher and the replica of a persisted block
// before it calls the callback other.
func (h *Daemon) blockObserver(other func(*messages.BlockAccepted)) func(*messages.BlockAccepted) {
	return func(m *messages.BlockAccepted) {
		if p := h.publishing.Load(); p != nil {
			p.publisher.Wake()
		}
		if r := h.replica; r != nil {
			r.included(m)
		}
		if other != nil {
			other(m)
		}
	}
}
