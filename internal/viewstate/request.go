package viewstate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
)

var (
	// ErrUsage means that a request is invalid.
	ErrUsage = errors.New("view-state")
	// ErrDiffers means that the result of a chunk differs from the stored result.
	ErrDiffers = errors.New("view-state: the results differ from the stored ones")
	// ErrBroken means that a stream ended before the command did.
	ErrBroken = errors.New("view-state: the node closed the connection before the end of its reply")
)

// Request selects a command. Exactly one member is not nil.
type Request struct {
	Chain  *ChainRequest  `json:"view_chain,omitempty"`
	Epochs *EpochRequest  `json:"epoch_info,omitempty"`
	Apply  *ApplyRequest  `json:"apply_range,omitempty"`
	Anchor *AnchorRequest `json:"anchor,omitempty"`
}

// Blocks reads blocks and chunks as the RPC returns them.
type Blocks interface {
	Block(context.Context, view.BlockRef) (author primitives.AccountID, b *primitives.Block, err error)
	Chunk(context.Context, view.ChunkRef) (author primitives.AccountID, c *primitives.Chunk, err error)
}

// Source is what a command reads.
type Source struct {
	Engine *engine.Engine
	Blocks Blocks
	VM     action.VM // runs the contracts of ApplyRequest
}

// Out receives what a command prints. An error of Out ends the command.
type Out interface {
	Line(text string) error // a line of text, without its end
	Row(text string) error  // a row of the CSV file
	Progress(done, all uint64) error
}

// Run runs a command. Cancelling ctx ends it.
func Run(ctx context.Context, s *Source, r *Request, out Out) error {
	switch {
	case r.Chain != nil:
		return viewChain(s, r.Chain, out)
	case r.Epochs != nil:
		return epochInfo(ctx, s.Engine, r.Epochs, out)
	case r.Apply != nil:
		return applyRange(ctx, s, r.Apply, out)
	case r.Anchor != nil:
		return anchor(s, r.Anchor, out)
	}
	return fmt.Errorf("%w: the request names no command", ErrUsage)
}

// message is one element of a stream.
type message struct {
	Line    *string `json:"line,omitempty"`
	Row     *string `json:"row,omitempty"`
	Done    uint64  `json:"done,omitempty"`
	All     uint64  `json:"all,omitempty"`
	Error   string  `json:"error,omitempty"`
	Differs bool    `json:"differs,omitempty"`
	End     bool    `json:"end,omitempty"`
}

// stream implements Out as JSON messages. It flushes at each Progress, so that a client that waits
// for the next message with a time limit sees that the command is alive.
type stream struct {
	b *bufio.Writer
	e *json.Encoder
}

func (s *stream) Line(text string) error { return s.e.Encode(message{Line: &text}) }
func (s *stream) Row(text string) error  { return s.e.Encode(message{Row: &text}) }

func (s *stream) Progress(done, all uint64) error {
	if err := s.e.Encode(message{Done: done, All: all}); err != nil {
		return err
	}
	return s.b.Flush()
}

// Serve calls run with an Out that writes to w, and then writes the result of run. Its error is that
// of w.
func Serve(w io.Writer, run func(Out) error) error {
	b := bufio.NewWriter(w)
	s := &stream{b, json.NewEncoder(b)}
	last := message{End: true}
	if err := run(s); err != nil {
		last = message{Error: err.Error(), Differs: errors.Is(err, ErrDiffers)}
	}
	return errors.Join(s.e.Encode(last), b.Flush())
}

// Receive passes to out what Serve wrote, and returns the error of Serve's run.
func Receive(r io.Reader, out Out) error {
	d := json.NewDecoder(r)
	for {
		var m message
		if err := d.Decode(&m); err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		var err error
		switch {
		case m.End:
			return nil
		case m.Differs:
			return remoteError{m.Error, ErrDiffers}
		case m.Error != "":
			return errors.New(m.Error)
		case m.Line != nil:
			err = out.Line(*m.Line)
		case m.Row != nil:
			err = out.Row(*m.Row)
		default:
			err = out.Progress(m.Done, m.All)
		}
		if err != nil {
			return err
		}
	}
}

// remoteError is an error of the node at the other end of a stream.
type remoteError struct {
	text string
	is   error
}

func (e remoteError) Error() string { return e.text }
func (e remoteError) Unwrap() error { return e.is }
