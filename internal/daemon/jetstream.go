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

// publishing brings the node's records to replicas, and answers what they ask.
type publishing struct {
	followed  func()            // it tells of blocks no more
	server    *jetstream.Server // nil: it is elsewhere
	publisher *jetstream.Publisher
	answers   *jetstream.Responder
	told      *jetstream.BlocksOptions  // nil: indexers are told nothing there
	blocks    *jetstream.BlockPublisher // as soon as there is what answers for the chain
}

// storeBytes is what a server inside may have beside the stream's bytes: its index, and what is
// removed in whole files.
const storeBytes = 256 << 20

// publish begins, once the node runs. Where the server is not there, or full, the node goes on all
// the same.
func (h *Daemon) publish(hm *home.Home, track engine.Track) (p *publishing, err error) {
	c := &hm.Config.JetStream
	switch {
	case track != nil:
		return nil, errors.New("troupe.jetstream is for nodes that hold all shards: of this one tracked_shards_config says otherwise")
	case h.fork != nil:
		return nil, errors.New("troupe.jetstream: the records of a fork are no whole chain, and no replica could follow them")
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
		Link: link, Names: names, Source: shipped{h.store, int64(min(c.MaxBytes, 1<<60))}, MaxBytes: int64(min(c.MaxBytes, 1<<60)), MaxAge: c.MaxAge, Replicas: int(c.Copies),
		Said: func(err error) {
			if err != nil {
				h.log.WithError(err).Warn("records do not get to replicas; the chain goes on, and they will from where they ended")
				return
			}
			h.log.Info("records get to replicas")
		},
	}
	if hm.NodeKey != nil {
		o.Sign = hm.NodeKey.SecretKey.Sign
	}
	p.publisher = jetstream.NewPublisher(o)
	p.answers, err = jetstream.Answer(jetstream.ResponderOptions{
		Link: link, Names: names, Submit: h.submitOthers, Snapshot: h.snapshotForReplica, MaxSnapshots: int(c.Snapshots), Published: p.publisher.Published, Sign: o.Sign,
	})
	if err != nil {
		p.close()
		return nil, err
	}
	if c.Blocks {
		p.told = &jetstream.BlocksOptions{
			Link: link, Names: names, MaxBytes: o.MaxBytes, MaxAge: c.MaxAge, Replicas: o.Replicas,
			Said: func(err error) {
				if err != nil {
					h.log.WithError(err).Warn("blocks do not get to indexers by JetStream; the chain goes on, and they will from where they ended")
					return
				}
				h.log.Info("blocks get to indexers by JetStream")
			},
		}
	}
	return p, nil
}

// close ends it; what is not published is when it begins again.
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

// submitOthers puts a transaction of a replica into its pool.
func (h *Daemon) submitOthers(ctx context.Context, raw []byte) error {
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
			err := answers[0].Err // it is one transaction
			if invalid := (*primitives.InvalidTxError)(nil); errors.As(err, &invalid) {
				return fmt.Errorf("%w: %w", jetstream.ErrRefused, err)
			}
			return err
		case <-r.Lost():
			return errors.New("the mempool was made anew")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the node takes no transactions")
}

// snapshotForReplica takes a clone of the folder.
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

// shipped is the store's log for who publishes it.
type shipped struct {
	s    *storage.Store
	most int64 // bytes of the stream
}

// Beginning is the log's, or what is not folded if it is much: who begins then fetches a snapshot.
func (x shipped) Beginning() (string, error) {
	at, size, err := x.s.LogStart()
	if err != nil {
		return "", err
	}
	if size > x.most/4 || at.Segment > 0 {
		at = x.s.AboveFlatHead()
	}
	return at.String(), nil
}

// Records reads the log.
func (x shipped) Records(from string, f func(jetstream.Record) bool) (string, error) {
	at, err := storage.ParseLogPlace(from)
	if err != nil {
		return from, fmt.Errorf("%w: %w", jetstream.ErrSource, err)
	}
	next, err := x.s.LogRecords(at, func(s storage.LogRecord) bool {
		return f(jetstream.Record{At: s.At.String(), Next: s.Next.String(), Height: s.Ref.Height, Hash: s.Ref.Hash, Prev: s.Prev.Hash, Back: s.Rewind, Payload: s.Payload})
	})
	if errors.Is(err, storage.ErrGone) || errors.Is(err, storage.ErrDamaged) {
		err = fmt.Errorf("%w: %w", jetstream.ErrSource, err)
	}
	return next.String(), err
}

// observes has who publishes told of blocks that are on disk, before whoever else is.
func (h *Daemon) observes(other func(*messages.BlockAccepted)) func(*messages.BlockAccepted) {
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
