package blocksync

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/troupe-chain/troupe/primitives"
)

// scriptChain is a Chain whose blocks are named by their heights.
type scriptChain struct {
	tip, headers primitives.Height
	apart        bool
}

func (c *scriptChain) Tip() Ref { return Ref{hash(int(c.tip)), c.tip} }
func (c *scriptChain) Headers() (Ref, error) {
	h := max(c.tip, c.headers)
	return Ref{hash(int(h)), h}, nil
}
func (c *scriptChain) Apart() bool { return c.apart }
func (c *scriptChain) Has(h primitives.Hash) bool {
	return heightOf(h) <= c.tip
}

func (c *scriptChain) Path(n int) (list []Ref, err error) {
	for h := c.tip + 1; h <= c.headers && len(list) < n; h++ {
		list = append(list, Ref{hash(int(h)), h})
	}
	return list, nil
}

// heightOf returns the height of a block of scriptChain.
func heightOf(h primitives.Hash) primitives.Height {
	return primitives.Height(binary.BigEndian.Uint64(h[:]) - 1)
}

// TestTranscripts runs the scripts in testdata. A block is named by its height. Peers that are
// equally good are asked in the order of their names. Each command may have after=, the time since
// the previous command. The commands are the events of this package, and:
//
//	new tip=H [horizon=H] [kept=N] [requests=N]
//	                           a machine at a tip; requests is MaxRequests
//	peers NAME=H ... [archives=(NAME, ...)]
//	                           the connected peers and the heights that they claim
//	arrived from=NAME [sent=N taken=N] [bad] [own]
//	                           a header response, which is verified at once
//	proof from=NAME [bad] [used] [headers=H]
//	                           the same with an epoch sync proof
//	block H ...                the blocks arrive
//	imported H                 the block is imported, so that it is the tip
//	refused H from=NAME [copy]
//	wanted H from=NAME         the parent of a received block is unknown
//	tick
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		var m *Machine
		var c *scriptChain
		var now int64
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			num := func(key string) (n int) {
				if d.HasArg(key) {
					d.ScanArgs(t, key, &n)
				}
				return n
			}
			name := func() (id PeerID) {
				var s string
				d.ScanArgs(t, "from", &s)
				return PeerID(s)
			}
			if d.HasArg("after") {
				var s string
				d.ScanArgs(t, "after", &s)
				v, err := time.ParseDuration(s)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				now += v.Milliseconds()
			}
			block := func(arg int) primitives.Height {
				var h primitives.Height
				if _, err := fmt.Sscan(d.CmdArgs[arg].Key, &h); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return h
			}
			var out string
			step := func(ev Event) {
				o, err := m.Step(now, ev)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				out += effects(&o)
			}
			switch d.Cmd {
			case "new":
				c, now = &scriptChain{tip: primitives.Height(num("tip"))}, 0
				m = New(c, Options{Random: func(int) int { return 0 }, Horizon: primitives.Height(num("horizon")),
					Kept: primitives.Height(num("kept")), MaxRequests: num("requests")})
				step(Tick{})
			case "peers":
				var list []Peer
				var archives []string
				if i := slices.IndexFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "archives" }); i >= 0 {
					archives = d.CmdArgs[i].Vals
				}
				for _, a := range d.CmdArgs {
					if a.Key != "after" && a.Key != "archives" {
						p := Peer{ID: PeerID(a.Key), Archival: slices.Contains(archives, a.Key)}
						d.ScanArgs(t, a.Key, (*uint64)(&p.Height))
						list = append(list, p)
					}
				}
				step(Peers{list})
			case "arrived":
				step(Arrived{name()})
				c.headers = max(c.headers, c.tip) + primitives.Height(num("taken"))
				step(HeadersVerified{From: name(), Sent: num("sent"), Taken: num("taken"), Bad: d.HasArg("bad"),
					Own: d.HasArg("own")})
			case "proof":
				step(ProofArrived{name()})
				if d.HasArg("used") {
					c.headers, c.apart = primitives.Height(num("headers")), true
				}
				step(Proved{From: name(), Bad: d.HasArg("bad"), Used: d.HasArg("used")})
			case "block":
				for i := range d.CmdArgs {
					if d.CmdArgs[i].Key != "after" {
						step(Block{hash(int(block(i)))})
					}
				}
			case "imported":
				c.tip = max(c.tip, block(0))
				step(Imported{hash(int(block(0)))})
			case "refused":
				step(Refused{Hash: hash(int(block(0))), From: name(), Copy: d.HasArg("copy")})
			case "wanted":
				step(Wanted{Hash: hash(int(block(0))), From: name()})
			case "tick":
				step(Tick{})
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			if m.Syncing() {
				return out + fmt.Sprintf("syncing to %d\n", m.Best())
			}
			return out + "not syncing\n"
		})
	})
}

// effects returns the lines of an Out.
func effects(o *Out) string {
	var b strings.Builder
	of := func(id PeerID) string { return string(id) }
	for _, x := range o.Ban {
		why := "does not deliver the headers that it claims"
		if x.Bad {
			why = "sent something invalid"
		}
		fmt.Fprintf(&b, "ban %s: %s\n", of(x.Peer), why)
	}
	if o.Proof != "" {
		fmt.Fprintf(&b, "ask %s for a proof\n", of(o.Proof))
	}
	if o.Headers != "" {
		fmt.Fprintf(&b, "ask %s for headers\n", of(o.Headers))
	}
	blocks := map[PeerID][]string{}
	for _, a := range o.Blocks {
		blocks[a.Peer] = append(blocks[a.Peer], fmt.Sprint(heightOf(a.Hash)))
	}
	for _, id := range slices.Sorted(maps.Keys(blocks)) {
		fmt.Fprintf(&b, "ask %s for blocks %s\n", of(id), strings.Join(blocks[id], " "))
	}
	return b.String()
}
