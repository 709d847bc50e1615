package consensus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

const genesisTime int64 = 1_800_000_000_000_000_000

// validators are the validators of the chain. Their stakes are equal.
var validators = []primitives.AccountID{"ann", "bob", "cid", "dan"}

// persisting is an engine whose blocks reach the disk between the steps of a node.
type persisting struct {
	*engine.Engine
	list []*engine.Imported
}

func (p *persisting) FinishImport(x *engine.BlockImport, _ func()) (*engine.Imported, error) {
	return p.Engine.FinishImport(x, nil)
}

func (p *persisting) Stored() ([]*engine.Imported, error) {
	list := p.list
	p.list = nil
	return list, nil
}

// script is a validator that a transcript drives. The other validators exist only in the script.
type script struct {
	t      *testing.T
	spec   *engine.ChainSpec
	me     primitives.AccountID
	e      *persisting
	core   *consensus.Node
	maker  *engine.Engine // makes the blocks of the others
	now    int64
	wake   int64
	row    []byte
	blocks map[string]*primitives.Block
	names  map[primitives.Hash]string
	lines  []string

	change   func(*consensus.Options) // changes the options of the next start; nil: no change
	counters *consensus.Counters      // of the last start
	sent     []consensus.Send
	notes    []string
}

func (s *script) fail(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func newScript(t *testing.T, me primitives.AccountID) *script {
	t.Helper()
	s := &script{t: t, me: me, now: genesisTime, blocks: map[string]*primitives.Block{}}
	s.spec = testnode.Localnet(t, genesis.LocalnetOptions{ChainID: "transcript", Time: genesis.Time(genesisTime), Accounts: validators,
		Validators: len(validators), Shards: 1}, nil)
	s.e, s.maker = &persisting{Engine: s.open()}, s.open()
	s.names = map[primitives.Hash]string{s.e.Genesis().Hash: "genesis"}
	s.start()
	return s
}

func (s *script) open() *engine.Engine {
	s.t.Helper()
	e := testnode.Open(s.t, testnode.Options{Chain: s.spec})
	s.t.Cleanup(func() { testnode.Close(s.t, e) })
	return e
}

// start starts the validator with the signatures that it saved last.
func (s *script) start() {
	s.t.Helper()
	s.counters = new(consensus.Counters)
	o := consensus.Options{
		Engine: s.e, HeaderChain: s.e.HeaderChain(), Witnesses: s.e.Witnesses(), Account: s.me, Key: testnode.Key(s.me), Signed: s.row,
		Delays: doomslug.Delays{Endorsement: int64(600 * time.Millisecond), Skip: int64(2 * time.Second), MaxWait: int64(6 * time.Second),
			ChunkWait: [2]uint64{1, 3}},
		Random: func(int) int { return 0 }, Counters: s.counters,
	}
	if s.change != nil {
		s.change(&o)
	}
	var err error
	s.core, err = consensus.New(o, s.now)
	s.fail(err)
	s.do(s.core.Start(s.now))
}

func (s *script) step(ev consensus.Event) { s.do(s.core.Step(s.now, ev)) }

// say adds a line, unless it repeats the last one.
func (s *script) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if at := time.Duration(s.now - genesisTime); at > 0 {
		line = fmt.Sprintf("%v: %s", at, line)
	}
	if len(s.lines) == 0 || s.lines[len(s.lines)-1] != line {
		s.lines = append(s.lines, line)
	}
}

// do carries out the effects of a step, as the package comment says.
func (s *script) do(out consensus.Out) {
	if out.Save != nil {
		s.row = slices.Clone(out.Save)
	}
	for _, acc := range out.Imported {
		if s.names[acc.Entry.Hash] == "" {
			s.names[acc.Entry.Hash] = fmt.Sprintf("%s%d", s.me, acc.Entry.Height())
		}
		s.say("import %s", s.names[acc.Entry.Hash])
	}
	for _, err := range out.Refused {
		text := err.Error()
		for hash, name := range s.names {
			text = strings.ReplaceAll(text, hash.String()[:8], name)
		}
		s.say("reject: %s", text)
	}
	s.sent = append(s.sent, out.Send...)
	for _, n := range out.Notes {
		s.notes = append(s.notes, n.What)
	}
	s.send(out.Send)
	if out.Fatal != nil {
		s.say("stop: %v", out.Fatal)
		return
	}
	s.wake = out.Wake
	for _, j := range out.Jobs {
		j.Run()
		s.step(consensus.Done{Job: j.ID})
	}
	list, err := s.e.Flush()
	s.fail(err)
	if len(list) > 0 {
		s.e.list = append(s.e.list, list...)
		s.step(consensus.Persisted{})
	}
}

// send describes messages. Messages about one chunk to several validators are one line.
func (s *script) send(list []consensus.Send) {
	others := map[string][]string{}
	var order []string
	add := func(what string, to primitives.AccountID) {
		if others[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(others[what], string(to)) {
			others[what] = append(others[what], string(to))
		}
	}
	for _, x := range list {
		switch m := x.Message.(type) {
		case *primitives.Approval:
			if m.Inner.Skip {
				add(fmt.Sprintf("skip from %d to %d", m.Inner.SkipHeight, m.Target), x.To)
			} else {
				add(fmt.Sprintf("approval of %s for %d", s.names[m.Inner.Endorsement], m.Target), x.To)
			}
		case *primitives.Block:
			if s.names[m.Hash()] == "" {
				s.names[m.Hash()] = fmt.Sprintf("%s%d", s.me, m.Header.Height)
			}
			n := 0
			for _, a := range m.Header.Approvals {
				if a != "" {
					n++
				}
			}
			if x.Again {
				s.say("send all the block %s again", s.names[m.Hash()])
				continue
			}
			s.say("send all the block %s: height %d on %s, %d approvals", s.names[m.Hash()], m.Header.Height, s.names[m.Header.PrevHash], n)
		case *primitives.OptimisticBlock:
			for _, to := range x.Receivers {
				add(fmt.Sprintf("optimistic block %d on %s", m.Height, s.names[m.PrevBlockHash]), to)
			}
		case consensus.BlockRequest:
			s.say("ask %s for the block %s", x.Peer, s.names[m.Hash])
		case consensus.HeadersRequest:
			s.say("ask %s for headers", x.Peer)
		case *primitives.PartialChunk:
			add(fmt.Sprintf("parts of the chunk of %d", m.Header.HeightCreated), x.To)
		case *primitives.ChunkEndorsement:
			add(fmt.Sprintf("endorsement of the chunk of %d", m.Metadata.HeightCreated), x.To)
		case *primitives.PartialWitness:
			add(fmt.Sprintf("witness of the chunk of %d", m.HeightCreated), x.To)
		case consensus.Forwarded:
			add(fmt.Sprintf("own part of the witness of the chunk of %d", m.HeightCreated), x.To)
		default:
			add(fmt.Sprintf("%T", m), x.To)
		}
	}
	for _, what := range order {
		slices.Sort(others[what])
		s.say("send %s: %s", strings.Join(others[what], " "), what)
	}
}

// wait lets time pass and ticks the node whenever it wants.
func (s *script) wait(d time.Duration) {
	end := s.now + int64(d)
	for s.wake > 0 && s.wake <= end {
		s.now = max(s.now, s.wake)
		s.step(consensus.Tick{})
	}
	s.now = end
}

// block makes a block of another validator, without chunks.
func (s *script) block(name, on string, height primitives.Height, approvers []string) {
	s.t.Helper()
	parent := s.node(on)
	list, err := s.maker.Approvers(parent.Hash)
	s.fail(err)
	inner := primitives.NewApprovalInner(parent.Hash, parent.Height(), height)
	p := &engine.Proposal{Parent: parent.Hash, Height: height, Timestamp: uint64(s.now) + 1, Chunks: make([]*primitives.Chunk, 1),
		Endorsements: make([][]primitives.Signature, 1)}
	for _, a := range list {
		var sig primitives.Signature
		if slices.Contains(approvers, string(a.AccountID)) {
			sig = testnode.Key(a.AccountID).Sign(inner.SignedBytes(height))
		}
		p.Approvals = append(p.Approvals, sig)
	}
	by, err := s.maker.BlockProducer(parent.Hash, height)
	s.fail(err)
	b, err := s.maker.NewBlock(p, testnode.Key(by.AccountID))
	s.fail(err)
	if len(approvers) > 2 {
		_, err = s.maker.Process(b, p.Chunks, false)
		s.fail(err)
	}
	s.blocks[name], s.names[b.Hash()] = b, name
}

func (s *script) node(name string) *engine.BlockNode {
	if name == "genesis" {
		return s.maker.Genesis()
	}
	return s.maker.Imported(s.blocks[name].Hash())
}

// TestTranscripts runs the scripts in testdata, about one validator of four. The effects of each
// command follow it, with the time since the genesis. The commands are:
//
//	new account=NAME            the validator at the genesis
//	producers of=H,...          the producers of blocks and of the chunk
//	block NAME on=NAME height=H from=NAME [approvals=NAME,...]
//	                            a block without chunks arrives; approvals: by default of all
//	make ...                    the same, but the block does not arrive yet
//	take NAME from=PEER         a block arrives that was made before
//	approval from=NAME of=NAME for=H
//	                            an approval arrives
//	skip from=NAME height=H for=H
//	                            an approval arrives that skips the heights between
//	wait T                      time passes
//	restart                     the validator restarts with the signatures that it saved
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arg := func(key string) (v string) {
				if d.HasArg(key) {
					d.ScanArgs(t, key, &v)
				}
				return v
			}
			num := func(key string) (h primitives.Height) {
				d.ScanArgs(t, key, (*uint64)(&h))
				return h
			}
			if s != nil {
				s.lines = nil
			}
			from := consensus.Peer(arg("from"))
			switch d.Cmd {
			case "new":
				s = newScript(t, primitives.AccountID(arg("account")))
			case "producers":
				for _, h := range d.CmdArgs[0].Vals {
					var height primitives.Height
					_, err := fmt.Sscan(h, &height)
					s.fail(err)
					by, err := s.maker.BlockProducer(s.maker.Genesis().Hash, height)
					s.fail(err)
					s.lines = append(s.lines, fmt.Sprintf("%d: %s", height, by.AccountID))
				}
			case "block", "make":
				list := []string{"ann", "bob", "cid", "dan"}
				for _, a := range d.CmdArgs {
					if a.Key == "approvals" {
						list = a.Vals
					}
				}
				s.block(d.CmdArgs[0].Key, arg("on"), num("height"), list)
				if d.Cmd == "block" {
					s.step(consensus.Received{From: from, Message: s.blocks[d.CmdArgs[0].Key]})
				}
			case "take":
				s.step(consensus.Received{From: from, Message: s.blocks[d.CmdArgs[0].Key]})
			case "approval", "skip":
				a := &primitives.Approval{Target: num("for"), AccountID: primitives.AccountID(from)}
				if d.Cmd == "skip" {
					a.Inner = primitives.ApprovalInner{Skip: true, SkipHeight: num("height")}
				} else {
					a.Inner = primitives.ApprovalInner{Endorsement: s.node(arg("of")).Hash}
				}
				a.Signature = testnode.Key(a.AccountID).Sign(a.Inner.SignedBytes(a.Target))
				s.step(consensus.Received{From: from, Message: a})
			case "wait":
				v, err := time.ParseDuration(d.CmdArgs[0].Key)
				s.fail(err)
				s.wait(v)
			case "restart":
				s.start()
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			return strings.Join(s.lines, "\n")
		})
	})
}
