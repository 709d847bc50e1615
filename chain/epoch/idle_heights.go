package epoch

import "github.com/troupe-chain/troupe/primitives"

// HeightRange is the range of heights from Start to End, excluding End.
type HeightRange struct{ Start, End primitives.Height }

// IdleForecast is the data from which an account's idle heights are computed. It is immutable.
type IdleForecast struct {
	chunks      *ChunkForecast
	id          ValidatorID
	isValidator bool
	first       primitives.Height // height of the block
	end         primitives.Height // first height after the planned end of the block's epoch
}

// ForecastIdle returns the forecast for an account in the epoch of a recorded block. The forecast's
// method Heights takes long, because Heights draws the producers of a whole epoch. Heights does not
// use the Manager, so Heights may run concurrently with the Manager's methods.
func (m *Manager) ForecastIdle(head primitives.Hash, account primitives.AccountID) (*IdleForecast, error) {
	b, err := m.BlockInfo(head)
	if err != nil {
		return nil, err
	}
	f := &IdleForecast{first: b.Height}
	if f.chunks, err = m.ForecastChunks(head, b.EpochID); err != nil {
		return nil, err
	}
	config, err := m.EpochConfig(b.EpochID)
	if err != nil {
		return nil, err
	}
	start, err := m.EpochStartHeight(head)
	if err != nil {
		return nil, err
	}
	f.end = start + primitives.Height(config.EpochLength)
	f.id, f.isValidator = f.chunks.info.ValidatorID(account)
	return f, nil
}

// Heights returns the heights at which the account produces neither a block nor a chunk, from the
// block's height to the planned end of the epoch (nearcore
// chain/client/src/view_client_actor.rs:310 get_maintenance_windows).
//
// From protocol version 87 on, chunk producers come from a ChunkForecast. The result for the next
// height is certain. For the heights after it, the forecast assumes that no height is skipped and
// that no further producer is excluded. An excluded account has no chunks to produce.
func (f *IdleForecast) Heights() (out []HeightRange, err error) {
	for h := f.first; h < f.end; h++ {
		is, err := f.isBusy(h)
		switch n := len(out); {
		case err != nil:
			return nil, err
		case is:
		case n > 0 && out[n-1].End == h:
			out[n-1].End++
		default:
			out = append(out, HeightRange{h, h + 1})
		}
	}
	return out, nil
}

// isBusy returns whether the account produces a block or a chunk at a height.
func (f *IdleForecast) isBusy(h primitives.Height) (bool, error) {
	if !f.isValidator || f.chunks.info.SampleBlockProducer(h) == f.id {
		return f.isValidator, nil
	}
	for i := range f.chunks.layout.NumShards() {
		if p, err := f.chunks.Sample(primitives.ShardIndex(i), h); err != nil || p == f.id {
			return true, err
		}
	}
	return false, nil
}
