package daemon

import (
	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/internal/otlp"
	"github.com/troupe-chain/troupe/primitives/view"
)

// openTracing exports the spans of one in OneIn transactions if troupe.tracing.endpoint is set.
func (h *Daemon) openTracing(o *node.Options, version view.Version) {
	c := &h.home.Config.Tracing
	if c.Endpoint == "" {
		return
	}
	resource := [][2]string{{"service.name", "troupe"}, {"service.version", version.Version}, {"near.chain_id", h.home.Genesis.ChainID}}
	if k := h.home.ValidatorKey; k != nil {
		resource = append(resource, [2]string{"near.validator", string(k.AccountID)})
	}
	h.tracing = otlp.New(c.Endpoint, resource, func(err error) {
		h.log.WithError(err).Warn("traces are not delivered (troupe.tracing.endpoint); further failures are not logged until one is")
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
