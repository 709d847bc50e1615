package wire

import "github.com/troupe-chain/troupe/primitives"

// verdict is what came of the check of a signature.
type verdict int8

const (
	unproven verdict = iota
	right
	wrong
)

// or returns the verdict, or what check says if there is none.
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

// Above these a list is not looked at by who takes it, or not whole.
const (
	MaxEdges = 50_000 // in a message
	MaxHosts = 1000   // in a message, and known
)

// Prove checks the signatures of a message that was just decoded, so that Verify costs nothing. It
// is for the goroutine that reads a connection: one that takes messages from all does not wait for
// what one of them has to be checked for. A list that is too long is left alone. After it nothing
// that is signed may be changed. keys remembers the keys of authors, of which few write most.
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
