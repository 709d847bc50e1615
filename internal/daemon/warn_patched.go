package daemon

// sayPatched warns, where others may follow this chain, that they cannot execute all of it.
func (h *Daemon) sayPatched() {
	ref, patched, err := h.Engine.LastPatched()
	switch {
	case err != nil:
		h.log.WithError(err).Warn("which blocks were patched cannot be read")
	case patched:
		h.log.Warnf("the state of this chain was patched, last with block %d (%v): no other node can execute that block, and one that follows from below it halts there. "+
			"A follower begins behind it with a copy of this node: `troupe snapshot create` here, `troupe snapshot restore` there", ref.Height, ref.Hash)
	}
}
