package importer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// script is an Importer that a transcript drives. Blocks have names.
type script struct {
	*recorder
	t      *testing.T
	maker  *node // makes the blocks
	blocks map[string]*primitives.Block
	bodies map[string][]*primitives.Chunk
	names  map[primitives.Hash]string // of blocks and chunks
	lines  []string
}

func newScript(t *testing.T) *script {
	t.Helper()
	n := newNodes(t, 2)
	s := &script{t: t, maker: n[0], blocks: map[string]*primitives.Block{}, bodies: map[string][]*primitives.Chunk{},
		names: map[primitives.Hash]string{n[0].Genesis().Hash: "genesis"}}
	s.recorder = newRecorder(n[1])
	s.Importer.o.Emit = func(e Effect) { s.lines = append(s.lines, s.describe(e)) }
	return s
}

// describe returns the line of an effect.
func (s *script) describe(e Effect) string {
	name := func(b *primitives.Block) string { return s.names[b.Hash()] }
	switch e := e.(type) {
	case Rejected:
		return fmt.Sprintf("reject %s of %s: %v", name(e.Block), e.From, e.Err)
	case Dropped:
		return fmt.Sprintf("drop %s of %s: %v", name(e.Block), e.From, e.Err)
	case Ahead:
		return fmt.Sprintf("%s of %s is far ahead", name(e.Block), e.From)
	case Missing:
		line := fmt.Sprintf("%s waits:", name(e.Block))
		if !e.Parent.IsZero() {
			line += " ask " + e.From + " for its parent " + s.names[e.Parent]
		}
		for _, c := range e.Chunks {
			line += " ask for " + s.names[c]
		}
		return line
	case BadBody:
		return fmt.Sprintf("the body of %s of %s is bad", s.names[e.Chunk], e.From)
	case Imported:
		line := fmt.Sprintf("import %s", s.names[e.Imported.Entry.Hash])
		if e.Imported.IsHead {
			line += ", which is the tip"
		}
		return line
	case OwnFailed:
		return fmt.Sprintf("own block of height %d failed: %v", e.Height, e.Err)
	case Failed:
		return fmt.Sprintf("stop: %v", e.Err)
	}
	return fmt.Sprintf("no case for %T", e)
}

// make makes a block. withChunk adds a new chunk of the first shard.
func (s *script) make(name, on string, height primitives.Height, withChunk bool, later uint64) {
	s.t.Helper()
	fail := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	parent := s.maker.Genesis().Hash
	if on != "genesis" {
		parent = s.blocks[on].Hash()
	}
	at := s.maker.Imported(parent)
	if height == 0 {
		height = at.Height() + 1
	}
	inner := primitives.NewApprovalInner(parent, at.Height(), height)
	p := &engine.Proposal{Parent: parent, Height: height, Approvals: []primitives.Signature{s.maker.key.Sign(inner.SignedBytes(height))},
		Timestamp: at.Header().Timestamp + uint64(time.Second) + later, Chunks: make([]*primitives.Chunk, 2),
		Endorsements: make([][]primitives.Signature, 2), Vote: parameters.Newest(primitives.NumberingRelease)}
	if withChunk {
		c, err := s.maker.NewChunk(parent, 0, nil, s.maker.key)
		fail(err)
		list, err := s.maker.ChunkValidators(at, c.Header.ShardID)
		fail(err)
		for range list {
			p.Endorsements[0] = append(p.Endorsements[0], s.maker.key.Sign(primitives.ChunkEndorsementBytes(c.Hash)))
		}
		p.Chunks[0], s.names[c.Hash] = c, "the chunk of "+name
	}
	b, err := s.maker.NewBlock(p, s.maker.key)
	fail(err)
	_, err = s.maker.Process(b, p.Chunks, false)
	fail(err)
	s.blocks[name], s.bodies[name], s.names[b.Hash()] = b, p.Chunks, name
}

// failures are the errors of the engine that a transcript can cause.
var failures = map[string]error{
	"none": nil, "invalid": chain.InvalidApprovals, "future": chain.InvalidBlockFutureTime, "known": engine.ErrKnown, "old": engine.ErrOld,
	"orphan": engine.ErrOrphan, "no-code": engine.ErrNoCode, "bad-copy": fmt.Errorf("%w: %w", engine.ErrPartialBody, chain.InvalidSignature),
	"disk": errors.New("disk error"),
}

// TestTranscripts runs the scripts in testdata. Their commands are:
//
//	new                        an importer at the genesis
//	make NAME on=NAME [height=H] [later=NS] [chunk]
//	                           makes a valid block, which the importer does not get yet
//	take NAME from=PEER [body] a block arrives, with or without the body of its chunk
//	body NAME from=PEER        the body of its chunk arrives alone
//	next                       imports blocks until none is ready
//	fail in=METHOD with=ERROR  the engine's method fails from now on: precheck, begin or finish
//	produce                    this node makes and imports a block on its tip
//	reset                      the chain was rolled back
//	after T                    time passes
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *script
		var now uint64
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arg := func(key string) (v string) {
				if d.HasArg(key) {
					d.ScanArgs(t, key, &v)
				}
				return v
			}
			num := func(key string) (n uint64) {
				if d.HasArg(key) {
					d.ScanArgs(t, key, &n)
				}
				return n
			}
			first := func() string { return d.CmdArgs[0].Key }
			if s != nil {
				s.lines = nil
			}
			switch d.Cmd {
			case "new":
				s, now = newScript(t), 0
			case "make":
				s.make(first(), arg("on"), primitives.Height(num("height")), d.HasArg("chunk"), num("later"))
				return ""
			case "take":
				b := blockpool.Block{Block: s.blocks[first()], From: arg("from")}
				if d.HasArg("body") {
					b.Chunks = s.bodies[first()]
				}
				_, _ = s.Take(b, now)
			case "body":
				if err := s.TakeBody(s.bodies[first()][0], arg("from")); err != nil {
					s.lines = append(s.lines, err.Error())
				}
			case "next":
				for run := s.Next(now); run != nil; run = s.Next(now) {
					s.work(run)
				}
			case "fail":
				err, known := failures[arg("with")]
				if !known {
					d.Fatalf(t, "no error %q", arg("with"))
				}
				*map[string]*error{"precheck": &s.precheck, "begin": &s.begin, "finish": &s.finish}[arg("in")] = err
				return ""
			case "produce":
				b := s.propose(t)
				s.names[b.Hash()] = "own"
				run, err := s.Produced(b, make([]*primitives.Chunk, 2))
				if err != nil {
					return err.Error()
				}
				s.work(run)
			case "reset":
				s.Reset(s.node.Tip().Height(), s.node.TipFinal().Height)
			case "after":
				v, err := time.ParseDuration(first())
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				now += uint64(v)
				return ""
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			if n, _ := s.Pool().Len(); n > 0 {
				s.lines = append(s.lines, fmt.Sprintf("pool: %d", n))
			}
			out := strings.Join(s.lines, "\n")
			for hash, name := range s.names { // errors contain hashes
				out = strings.ReplaceAll(out, hash.String(), name)
			}
			return out
		})
	})
}
