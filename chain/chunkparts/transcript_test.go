package chunkparts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// scriptChunk is a chunk of a transcript.
type scriptChunk struct {
	*primitives.Chunk
	coded *chain.EncodedBody
	parts []primitives.ChunkPart
}

// TestTranscripts runs the scripts in testdata, about the pool of one of four validators, or of a
// node that does not validate. Chunks are of shard 0, have ten parts, and three parts restore them.
// Validator i owns the parts i, i+4 and i+8. Each command may have after=, the time since the
// previous command. The commands are:
//
//	new node=NAME                the pool of node0 to node3, or of follower
//	make NAME height=H           a chunk, which the pool does not get yet. Its previous block is known
//	forget NAME                  its previous block is unknown
//	made NAME                    this validator has made the chunk
//	partial NAME parts=(N,...)   its producer sends parts
//	forward NAME parts=(N,...)   another validator forwards parts
//	response NAME parts=(N,...) [receipts]
//	                             parts arrive that were requested
//	request NAME parts=(N,...) from=NAME
//	                             another node requests parts
//	wanted NAME [by=NAME]        a block needs the chunk
//	arrived NAME                 its previous block arrives
//	head height=H                the head moves
//	tick
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		var n *network
		var me primitives.AccountID
		var now int64
		var chunks map[string]*scriptChunk
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arg := func(key string) (v string) {
				if d.HasArg(key) {
					d.ScanArgs(t, key, &v)
				}
				return v
			}
			height := func() (h primitives.Height) {
				d.ScanArgs(t, "height", (*uint64)(&h))
				return h
			}
			if d.HasArg("after") {
				v, err := time.ParseDuration(arg("after"))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				now += v.Milliseconds()
			}
			var c *scriptChunk
			var parts []primitives.ChunkPart
			var numbers []uint64
			if len(d.CmdArgs) > 0 {
				c = chunks[d.CmdArgs[0].Key]
			}
			for _, a := range d.CmdArgs {
				for _, v := range a.Vals {
					if a.Key == "parts" {
						var i uint64
						if _, err := fmt.Sscan(v, &i); err != nil {
							d.Fatalf(t, "%v", err)
						}
						numbers, parts = append(numbers, i), append(parts, c.parts[i])
					}
				}
			}
			var ev Event
			switch d.Cmd {
			case "new":
				if me = primitives.AccountID(arg("node")); me == "follower" {
					me = ""
				}
				n, now, chunks = newNetwork(t, 1, 10, 0), 0, map[string]*scriptChunk{}
				n.nodes[me].random = func(int) int { return 0 }
				return ""
			case "make":
				h := height()
				built, list := one(t, n, h, nil)
				coded, err := chain.EncodeBody(&built.ChunkBody, n.rs)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				chunks[d.CmdArgs[0].Key] = &scriptChunk{built, coded, list}
				return ""
			case "forget":
				n.views[me].known[c.Header.PrevBlockHash] = false
				return ""
			case "made":
				ev = Made{c.Chunk, c.coded}
			case "partial":
				ev = Partial{&primitives.PartialChunk{Header: c.Header, Parts: parts,
					Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}}
			case "forward":
				ev = Forward{primitives.NewChunkForward(&c.Header, parts)}
			case "response":
				r := &primitives.ChunkResponse{ChunkHash: c.Hash, Parts: parts}
				if d.HasArg("receipts") {
					r.Receipts = chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)
				}
				ev = Response{r}
			case "request":
				ev = Request{&primitives.ChunkRequest{ChunkHash: c.Hash, Ords: numbers}, arg("from")}
			case "wanted":
				ev = Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash, By: primitives.AccountID(arg("by"))}
			case "arrived":
				n.views[me].known[c.Header.PrevBlockHash] = true
				ev = BlockArrived{c.Header.PrevBlockHash}
			case "head":
				h := height()
				n.views[me].known[primitives.Hash{byte(h + 1)}] = true
				ev = Head{Hash: primitives.Hash{byte(h + 1)}, Prev: primitives.Hash{byte(h)}, Height: h}
			case "tick":
				ev = Tick{}
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			out, err := n.nodes[me].Step(now, ev)
			text := effects(&out, chunks)
			if err != nil {
				text += "drop: " + err.Error() + "\n"
			}
			if due := n.nodes[me].Due(); due > 0 {
				text += fmt.Sprintf("tick in %d ms\n", due-now)
			}
			for name, c := range chunks {
				text = strings.ReplaceAll(text, c.Hash.String(), name)
			}
			return text
		})
	})
}

// effects returns the lines of an Out.
func effects(o *Out, chunks map[string]*scriptChunk) string {
	var b strings.Builder
	name := func(hash primitives.Hash) string {
		for n, c := range chunks {
			if c.Hash == hash {
				return n
			}
		}
		return "?"
	}
	numbers := func(list []primitives.ChunkPart) (out []uint64) {
		for _, p := range list {
			out = append(out, p.Ord)
		}
		return out
	}
	for _, s := range o.Send {
		switch m := s.Body.(type) {
		case *primitives.PartialChunk:
			fmt.Fprintf(&b, "send %s: parts %v of %s\n", s.To, numbers(m.Parts), name(m.Header.ChunkHash()))
		case *primitives.ChunkForward:
			fmt.Fprintf(&b, "forward to %s: parts %v of %s\n", s.To, numbers(m.Parts), name(m.ChunkHash))
		}
	}
	for _, a := range o.Ask {
		to := string(a.Account)
		switch {
		case to == "":
			to = "a peer with the shard"
		case a.PreferPeer:
			to += " or a peer with the shard"
		}
		fmt.Fprintf(&b, "ask %s for parts %v of %s\n", to, a.Request.Ords, name(a.Request.ChunkHash))
		if len(a.Request.Shards) > 0 {
			fmt.Fprintf(&b, "ask %s for the receipts to shards %v of %s\n", to, a.Request.Shards, name(a.Request.ChunkHash))
		}
	}
	for _, a := range o.Answer {
		fmt.Fprintf(&b, "answer %v: parts %v of %s\n", a.To, numbers(a.Body.Parts), name(a.Body.ChunkHash))
	}
	for _, h := range o.Ready {
		fmt.Fprintf(&b, "%s is ready for a block\n", name(h.ChunkHash()))
	}
	for _, c := range o.Complete {
		fmt.Fprintf(&b, "%s is complete\n", name(c.Chunk.Hash))
	}
	for _, h := range o.Bad {
		fmt.Fprintf(&b, "%s is bad\n", name(h.ChunkHash()))
	}
	return b.String()
}
