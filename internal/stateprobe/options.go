package stateprobe

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a probe.
const (
	MaxPeers  = 30 // maximum number of peers or hosts that are asked
	maxSilent = 3  // requests in a row without an answer after which a peer is asked no more
	maxJudged = 2  // maximum number of parts that are judged at a time
	// maxAnswer is the maximum size of a peer's frame in bytes. A part has 30 MiB of nodes and values, and
	// at most one value more. A peer that sends a longer frame is disconnected.
	maxAnswer = 64 << 20
)

// Errors of a probe.
var (
	ErrNoPeer   = errors.New("no peer is connected")
	ErrNoSync   = errors.New("no sync block is known")
	ErrNoHeader = errors.New("no peer gave a valid state header")
	ErrNoPart   = errors.New("no peer gave a valid part")
)

// Options configure a probe. Chain, Key, Peers and Version are required.
type Options struct {
	Chain           wire.GenesisID
	Key             primitives.SecretKey // node key of the probe, which should be new
	Version, Oldest uint32               // newest and oldest protocol version in handshakes
	Peers           []wire.PeerInfo      // at most MaxPeers
	Shard           primitives.ShardID
	// Sync is the sync block. Zero: that of the newest epoch whose state the peers announce.
	Sync  primitives.Hash
	Parts Selection
	// Routed sends the requests along routes to the hosts that announce the state, which connect to
	// the probe to answer, as neard does. Otherwise the peers are asked on their connections.
	Routed bool
	// Listen is the address on which the probe listens. Peers need it to answer routed requests.
	Listen netip.AddrPort
	// Public is the address under which peers reach Listen. Invalid: the one that a peer reports.
	Public netip.AddrPort

	Connect  time.Duration // time limit for connecting, and for finding hosts and routes; 0: 10 s
	Wait     time.Duration // time limit of a request; 0: 30 s
	Interval time.Duration // pause between two requests to a peer; 0: none
	// Progress is called on any goroutine, one call at a time, when the number of answers or of
	// requests changes. nil: not called.
	Progress func(done, all int)
}

func (o *Options) check() error {
	switch {
	case len(o.Peers) == 0:
		return fmt.Errorf("%w: there is no peer to connect to", ErrNoPeer)
	case len(o.Peers) > MaxPeers:
		return fmt.Errorf("%d peers, at most %d can be asked", len(o.Peers), MaxPeers)
	}
	if o.Connect == 0 {
		o.Connect = 10 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 30 * time.Second
	}
	return nil
}

// Selection selects parts of a state. The zero value selects DefaultSample parts.
type Selection struct {
	All    bool
	List   []PartRange // nil: a sample
	Sample uint64      // number of parts, which are spread evenly over the state; 0: DefaultSample
}

// PartRange contains the parts from First to Last.
type PartRange struct{ First, Last uint64 }

// DefaultSample is the number of parts of a sample.
const DefaultSample = 4

// ParseParts parses a list of parts: "all", or numbers and ranges as in "0,7,20-29".
func ParseParts(text string) (s Selection, err error) {
	if text == "all" {
		return Selection{All: true}, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			last = first
		}
		var r PartRange
		var errs [2]error
		r.First, errs[0] = strconv.ParseUint(first, 10, 64)
		r.Last, errs[1] = strconv.ParseUint(last, 10, 64)
		if errors.Join(errs[:]...) != nil || r.First > r.Last || r.Last >= statesync.MaxParts {
			return s, fmt.Errorf("%q is no part or range of parts; want for example all, 3 or 0,7,20-29", item)
		}
		s.List = append(s.List, r)
	}
	return s, nil
}

// of returns the selected parts of a state with n parts, ascending. Parts that the state does not
// have are left out.
func (s *Selection) of(n uint64) (out []uint64) {
	if s.List != nil {
		for _, r := range s.List {
			for i := r.First; i <= r.Last && i < n; i++ {
				out = append(out, i)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	count := s.Sample
	if count == 0 {
		count = DefaultSample
	}
	if s.All || count > n {
		count = n
	}
	for i := range count { // from the first part to the last
		out = append(out, i*(n-1)/max(count-1, 1))
	}
	return out
}
