package daemon

import (
	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/internal/otlp"
	"github.com/troupe-chain/troupe/primitives/view"
)

// traces has one in so many transactions traced and sent, where troupe.tracing.endpoint says where
// to.
func (h *Daemon) traces(o *node.Options, version view.Version) {
	c := &h.home.Config.Tracing
	if c.Endpoint == "" {
		return
	}
	whose := [][2]string{{"service.name", "troupe"}, {"service.version", version.Version}, {"near.chain_id", h.home.Genesis.ChainID}}
	if k := h.home.ValidatorKey; k != nil {
		whose = append(whose, [2]string{"near.validator", string(k.AccountID)})
	}
	h.tracing = otlp.New(c.Endpoint, whose, func(err error) {
		h.log.WithError(err).Warn("traces do not arrive (troupe.tracing.endpoint); more of the same is not said until one does")
	})
	o.OneIn = c.OneIn
	o.Traced = func(t *node.Trace) {
		x := &otlp.Trace{ID: [16]byte(t.ID[:16])}
		for _, s := range t.Spans {
			x.Spans = append(x.Spans, otlp.Span(s))
		}
		h.tracing.Add(x)
	}
}
