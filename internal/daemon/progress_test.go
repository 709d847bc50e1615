package daemon

import (
	"testing"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// laggingNetwork is a network that is ahead of this node or not.
type laggingNetwork struct {
	is    bool
	parts uint64
}

func (b *laggingNetwork) Info() *view.NetworkInfo            { return new(view.NetworkInfo) }
func (b *laggingNetwork) Syncing() (bool, primitives.Height) { return b.is, 90 }
func (b *laggingNetwork) Progress(p *view.Progress)          { p.Parts, p.PartsHere = 7, b.parts }

func TestProgressIsReportedWhileBehind(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	mine(t, h, 2)
	net := &laggingNetwork{is: true, parts: 3}
	b := h.back.Child(func(o *backend.Options) { o.Network = net })
	s, err := b.Status()
	if err != nil || s.Progress == nil || *s.Progress != (view.Progress{Highest: 90, Headers: h.Engine.Head().Height(), Parts: 7, PartsHere: 3}) {
		t.Fatalf("progress %+v, error %v", s.Progress, err)
	}
	net.is = false
	if s, err = b.Status(); err != nil || s.Progress != nil || s.Sync.Syncing {
		t.Errorf("in step: %+v, %v", s.Progress, err)
	}
}
