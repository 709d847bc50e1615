package epoch

import "github.com/troupe-chain/troupe/primitives"

// HeightRange is the heights from Start to End, without End.
type HeightRange struct{ Start, End primitives.Height }

// IdleHeights returns the heights of the epoch of a recorded block, from the block's height on, at
// which an account produces neither a block nor a chunk (nearcore
// chain/client/src/view_client_actor.rs:310 get_maintenance_windows). The epoch is taken to end at
// its planned length.
//
// From protocol version 87 on the chunks are a ChunkForecast: certain for the next height, and for
// later ones as if no height were skipped and no further producer were left out. An account that is
// left out has no chunk to produce.
func (m *Manager) IdleHeights(head primitives.Hash, account primitives.AccountID) (out []HeightRange, err error) {
	b, err := m.BlockInfo(head)
	if err != nil {
		return nil, err
	}
	chunks, err := m.ForecastChunks(head, b.EpochID)
	if err != nil {
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
	id, isValidator := chunks.info.ValidatorID(account)
	busy := func(h primitives.Height) (bool, error) {
		if !isValidator || chunks.info.SampleBlockProducer(h) == id {
			return isValidator, nil
		}
		for i := range chunks.layout.NumShards() {
			if p, err := chunks.Sample(primitives.ShardIndex(i), h); err != nil || p == id {
				return true, err
			}
		}
		return false, nil
	}
	for h := b.Height; h < start+primitives.Height(config.EpochLength); h++ {
		is, err := busy(h)
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
