package stateprobe

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Verdict is the result of a request.
type Verdict string

// The verdicts.
const (
	Valid        Verdict = "valid"        // the header or part is proven
	Wrong        Verdict = "wrong"        // the header or part contradicts its proof
	Unavailable  Verdict = "unavailable"  // the peer answered that it does not have it now
	Busy         Verdict = "busy"         // the peer answered that it gets too many requests
	Failed       Verdict = "failed"       // the peer answered that it failed
	Silent       Verdict = "silent"       // no answer within the time limit
	Disconnected Verdict = "disconnected" // the peer closed the connection
	Skipped      Verdict = "skipped"      // not asked, because the peer was silent or has disconnected
)

// Answer is the result of a request for a header or part.
type Answer struct {
	Part    *uint64 `json:"part,omitempty"` // nil: the header
	Verdict Verdict `json:"verdict"`
	// Ms is the time from the request to the answer, and Bytes the size of the header or part; both 0
	// without one.
	Ms    int64  `json:"ms"`
	Bytes int    `json:"bytes"`
	Error string `json:"error,omitempty"` // what is wrong
}

// Peer is what a peer has answered.
type Peer struct {
	ID      wire.PeerID `json:"id"`
	Address string      `json:"address,omitempty"` // empty: the address of a distant host is unknown
	// Announces means that the peer announces the state of the shard at the sync block.
	Announces bool `json:"announces"`
	// Error is why the peer was not asked; empty: it was.
	Error   string   `json:"error,omitempty"`
	Answers []Answer `json:"answers"` // the header comes first
}

// Report is the result of a probe.
type Report struct {
	ChainID   string             `json:"chain_id"`
	Shard     primitives.ShardID `json:"shard_id"`
	Sync      primitives.Hash    `json:"sync_hash"`
	Height    primitives.Height  `json:"sync_height"`
	EpochID   primitives.EpochID `json:"epoch_id"`
	StateRoot primitives.Hash    `json:"state_root"` // zero: unknown, or the state is empty
	Parts     uint64             `json:"parts"`
	Memory    uint64             `json:"memory_usage"` // memory usage of the state by nearcore's count
	Routed    bool               `json:"routed"`
	Peers     []Peer             `json:"peers"`
}

// Valid returns the number of peers that gave a valid part, the number of valid parts of all peers,
// and the number of parts that were wanted.
func (r *Report) Valid() (peers, parts, wanted int) {
	for i := range r.Peers {
		n := 0
		for k := range r.Peers[i].Answers {
			if a := &r.Peers[i].Answers[k]; a.Part != nil {
				wanted++
				if a.Verdict == Valid {
					n++
				}
			}
		}
		if parts += n; n > 0 {
			peers++
		}
	}
	return peers, parts, wanted
}

// Write prints the report as a table for each peer.
func (r *Report) Write(w io.Writer) error {
	way := "on its connection"
	if r.Routed {
		way = "by routed messages"
	}
	_, err := fmt.Fprintf(w, "%s, shard %d at sync block %d %v\nstate root %v, memory usage %s, number of parts %d\n",
		r.ChainID, r.Shard, r.Height,
		r.Sync, r.StateRoot, size(r.Memory), r.Parts)
	for i := range r.Peers {
		if err != nil {
			return err
		}
		err = r.Peers[i].write(w, way)
	}
	if err != nil {
		return err
	}
	peers, parts, wanted := r.Valid()
	_, err = fmt.Fprintf(w, "\n%d of %d peers gave valid parts, %d of %d parts are valid\n", peers, len(r.Peers), parts, wanted)
	return err
}

func (p *Peer) write(w io.Writer, way string) error {
	announces := "announces this state"
	if !p.Announces {
		announces = "does not announce this state"
	}
	name := p.ID.String()
	if p.Address != "" {
		name += "@" + p.Address
	}
	if p.Error != "" {
		_, err := fmt.Fprintf(w, "\n%s: %s\n", name, p.Error)
		return err
	}
	if _, err := fmt.Fprintf(w, "\n%s, asked %s, %s\n", name, way, announces); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range p.Answers {
		a := &p.Answers[i]
		item, took, length := "header", "", ""
		if a.Part != nil {
			item = fmt.Sprintf("part %d", *a.Part)
		}
		if a.Bytes > 0 {
			took, length = fmt.Sprintf("%d ms", a.Ms), size(uint64(a.Bytes))
		}
		row := fmt.Sprintf("  %s\t%s", item, a.Verdict)
		if length != "" || a.Error != "" {
			row += "\t" + took + "\t" + length
		}
		if a.Error != "" {
			row += "\t" + a.Error
		}
		if _, err := fmt.Fprintln(t, row); err != nil {
			return err
		}
	}
	return t.Flush()
}

// size prints a number of bytes.
func size(n uint64) string {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && v >= 1024 {
		v, units = v/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
