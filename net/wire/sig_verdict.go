package wire

import "github.com/troupe-chain/troupe/primitives"

// verdict is the cached result of a signature check.
type verdict int8

const (
	unproven verdict = iota
	right
	wrong
)

// or returns the verdict. If v is no verdict yet, or returns the result of check.
func (v verdict) or(check func() bool) bool {
	if v == unproven {
		return check()
	}
	return v == right
}

func (v *verdict) set(ok bool) {
	if *v = wrong; ok {
		*v = right
	}
}

// Bounds of lists. Handlers ignore a longer list, or its elements beyond the bound.
const (
	MaxEdges = 50_000 // maximum number of edges in a message
	MaxHosts = 1000   // maximum number of snapshot hosts in a message and in memory
)

// Prove verifies the signatures of a message that was just decoded, and stores the results for
// Verify. Prove runs in the goroutine that reads the connection. So the goroutine that handles all
// connections does not wait for verifications. Prove skips lists above their bound. After Prove,
// signed fields must not be changed. keys caches the decoded keys of authors, because few authors
// send most messages.
func Prove(m Message, keys *primitives.Verifier) {
	switch m := m.(type) {
	case *Routed:
		m.prove(keys)
	case *RoutingTable:
		if len(m.Edges) > MaxEdges {
			return
		}
		for _, e := range m.Edges {
			e.proven.set(e.verify())
		}
	case *SnapshotHosts:
		if len(m.Hosts) > MaxHosts {
			return
		}
		for _, s := range m.Hosts {
			if len(s.Shards) <= MaxHostShards {
				s.proven.set(s.verify())
			}
		}
	}
}
