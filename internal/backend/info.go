package backend

import (
	"context"
	"errors"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ClientConfig returns the JSON of client_config. The caller must not change the result.
func (b *Backend) ClientConfig() ([]byte, error) { return b.Config, nil }

// SplitStorage reports the head of the store in the form of neard's split storage.
func (b *Backend) SplitStorage() (*view.SplitStorage, error) {
	s := &view.SplitStorage{Head: b.Engine.Head().Height(), Final: b.Engine.Final().Height, Kind: "RPC"}
	if b.KeepEpochs == 0 {
		s.Kind = "Archive"
	}
	return s, nil
}

// CongestionLevel returns the congestion level of a chunk's shard. Missed chunks are not counted
// (nearcore core/primitives/src/views.rs:3058).
func (b *Backend) CongestionLevel(ctx context.Context, r view.ChunkRef) (float64, error) {
	_, chunk, err := b.Chunk(ctx, r)
	if err != nil {
		return 0, err
	}
	h, err := b.headerOf(ctx, view.BlockRef{Kind: view.RefHeight, Height: chunk.Header.HeightIncluded})
	if err != nil {
		return 0, err
	}
	v := parameters.Version{Numbering: b.Engine.Chain().Version.Numbering}
	err = b.Engine.Epochs(func(m *epoch.Manager) (err error) { v.Protocol, err = m.ProtocolVersion(h.EpochID); return })
	unknown := errors.Is(err, epoch.ErrEpochOutOfBounds) || err == nil && !v.Supported() && !v.GenesisOnly()
	switch {
	case b.History != nil && unknown:
		return olderCongestion(&chunk.Header, v.Numbering)
	case err != nil:
		return 0, err
	}
	runtime, err := parameters.ForGenesis(v)
	if err != nil {
		return 0, err
	}
	return (&congestion.Control{Config: &runtime.CongestionControl, Info: chunk.Header.CongestionInfo}).Level(), nil
}

// olderCongestion returns the congestion level of a chunk in the history, whose protocol version is
// unknown. The limits are the same in all versions with congestion control, with one exception: before
// 73 a shard was congested by 20 Pgas of delayed receipts (nearcore
// core/parameters/res/runtime_configs/73.yaml). The chunk headers of 68 to 73 have the same form. If
// their versions lead to different levels, the error is ErrUnknownChunk.
func olderCongestion(h *primitives.ChunkHeader, n primitives.Numbering) (float64, error) {
	runtime, err := parameters.Get(parameters.Version{Protocol: parameters.OldestProtocol, Numbering: n})
	if err != nil {
		return 0, err
	}
	config := runtime.CongestionControl // a copy
	c := congestion.Control{Config: &config, Info: h.CongestionInfo}
	level := c.Level()
	if config.MaxCongestionIncomingGas = 20_000_000_000_000_000; h.Version == primitives.ChunkInnerV3 && c.Level() != level {
		return 0, &view.LookupError{Kind: view.ErrUnknownChunk, Hash: h.ChunkHash()}
	}
	return level, nil
}

// ValidatorsOrdered lists the block producers of a block's epoch. A nil r means the head.
func (b *Backend) ValidatorsOrdered(r *view.BlockRef) (out []primitives.ValidatorStake, err error) {
	h := b.Engine.Head().Header()
	if r != nil {
		k, err := b.find(*r)
		if err != nil {
			return nil, err
		}
		if h, err = b.header(k); err != nil {
			return nil, err
		}
	}
	err = b.Engine.Epochs(func(m *epoch.Manager) (err error) { out, err = m.BlockProducersOrdered(h.EpochID); return })
	return out, err
}

// MaintenanceWindows lists the height ranges in which an account produces neither a block nor a
// chunk, from the head to the end of the current epoch (see epoch.IdleForecast).
func (b *Backend) MaintenanceWindows(account primitives.AccountID) ([]view.Window, error) {
	var forecast *epoch.IdleForecast
	err := b.Engine.Epochs(func(m *epoch.Manager) (err error) {
		forecast, err = m.ForecastIdle(b.Engine.Head().Hash, account)
		return err
	})
	if err != nil {
		return nil, err
	}
	idle, err := forecast.Heights() // called outside of Epochs, whose lock delays the import of blocks
	if err != nil {
		return nil, err
	}
	var out []view.Window
	for _, r := range idle {
		out = append(out, view.Window(r))
	}
	return out, nil
}
