package localnet

import "fmt"

// cutOrHeal cuts the network in two, or ends the cut.
func (b *Board) cutOrHeal() {
	switch {
	case b.cut > 0:
		b.cut = 0
		b.say("the cut is healed: the nodes connect again")
	case len(b.rows) < 2:
		b.say("a network of one node cannot be cut")
	default:
		if b.cut = b.selected; b.cut == 0 {
			b.cut = (len(b.rows) + 1) / 2
		}
		for i := range b.rows {
			b.rows[i].cuts = ""
		}
		b.say("the network is cut: %s", b.parts())
	}
}

// parts names the two parts of a cut network.
func (b *Board) parts() string {
	part := func(from, to int) string {
		if to-from == 1 {
			return b.rows[from].Name
		}
		return fmt.Sprintf("%s to %s", b.rows[from].Name, b.rows[to-1].Name)
	}
	return part(0, b.cut) + " | " + part(b.cut, len(b.rows))
}

// Excluded lists the nodes with which a node must have no connection.
func (b *Board) Excluded(node int) (out []int) {
	if b.cut == 0 {
		return nil
	}
	for i := range b.rows {
		if (i < b.cut) != (node < b.cut) {
			out = append(out, i)
		}
	}
	return out
}

// cutFailed records a node that cannot exclude peers. The cut is still effective as long as all
// such nodes are on one side of it. cutFailed does not record a node that does not answer, because
// that node may still be starting.
func (b *Board) cutFailed(ev CutFailed) {
	r := &b.rows[ev.Node]
	if b.cut == 0 || r.phase != Up || r.last.Err != "" || r.cuts == ev.Err {
		return
	}
	if r.cuts = ev.Err; r.cuts == "" {
		return
	}
	b.say("%s does not refuse its peers, which refuse it: %s", r.Name, ev.Err)
	for i := range b.rows {
		if o := &b.rows[i]; o.cuts != "" && (i < b.cut) != (ev.Node < b.cut) {
			b.say("the cut is not complete: %s and %s stay connected", o.Name, r.Name)
			return
		}
	}
}

// Rate returns the rate of the load in transactions per second.
func (b *Board) Rate() int { return loadRates[b.load] }
