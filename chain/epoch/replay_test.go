package epoch

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

func decode(in []byte, v borsh.Decoder) error { return borsh.Unmarshal(in, v) }

// replay runs a Manager on a chain that neard has recorded, and compares its results with those of
// neard.
type replay struct {
	t        *testing.T
	manager  *Manager
	store    *memoryStore
	params   *GenesisParams
	configs  *Configs
	gas      GasPriceRules
	heights  map[primitives.Hash]primitives.Height
	headers  map[primitives.Hash]*recordedHeader
	chunks   map[primitives.Hash][]recordedChunk
	head     *recordedHeader
	updates  int // number of validator accounts that were updated
	failures int
	epochs   int
	kickouts int
	splits   int
}

func (r *replay) differ(height primitives.Height, what string, got, want any) {
	if reflect.DeepEqual(got, want) {
		return
	}
	r.failures++
	if r.failures > 20 {
		r.t.Fatalf("too many differences")
	}
	r.t.Errorf("height %d: %s = %v, want %v", height, what, got, want)
}

func (r *replay) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *replay) genesis(line []byte, files map[string][]byte) {
	var g struct{ Genesis recordedGenesis }
	if err := json.Unmarshal(line, &g); err != nil {
		r.t.Fatal(err)
	}
	r.params = g.Genesis.params()
	configs, err := NewConfigs(r.params, files, 86)
	r.ok(err)
	r.configs = configs
	r.gas = NewGasPriceRules(r.params.ProtocolVersion, g.Genesis.MinGasPrice, g.Genesis.MaxGasPrice, g.Genesis.GasPriceAdjustmentRate)
	r.restart()
}

// restart replaces the Manager by a new one on the same store.
func (r *replay) restart() {
	m, err := NewManager(r.params, r.configs, r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	r.manager = m
}

func (r *replay) block(line []byte) {
	var b struct{ Block recordedBlock }
	if err := json.Unmarshal(line, &b); err != nil {
		r.t.Fatal(err)
	}
	h := &b.Block.Header
	lastFinal := primitives.Height(0)
	if !h.PrevHash.IsZero() {
		lastFinal = r.heights[h.LastFinalBlock] // if there is none: 0, as for the genesis
		r.checkBlock(&b.Block)
	}
	changes, err := r.manager.RecordBlockInfo(h.blockInfo(r.t, lastFinal), h.RandomValue)
	if err != nil {
		r.t.Fatalf("height %d: %v", h.Height, err)
	}
	r.store.apply(changes)
	r.heights[h.Hash] = h.Height
	r.headers[h.Hash], r.chunks[h.Hash], r.head = h, b.Block.Chunks, h
	if last, err := r.manager.IsNextBlockEpochStart(h.Hash); last && !h.PrevHash.IsZero() {
		r.ok(err)
		r.checkRunningEpoch(h)
	}
	if again, err := r.manager.RecordBlockInfo(h.blockInfo(r.t, lastFinal), h.RandomValue); err != nil || again.BlockInfo != nil {
		r.t.Fatalf("height %d: recorded twice: %v, %v", h.Height, again, err)
	}
	if changes.NextNextEpoch != nil {
		var info EpochInfo
		if err := decode(changes.NextNextEpoch.AppendBorsh(nil), &info); err != nil {
			r.t.Fatalf("height %d: EpochInfo: %v", h.Height, err)
		}
	}
}

func (r *replay) checkBlock(b *recordedBlock) {
	m, h := r.manager, &b.Header
	at := func(what string, got any, err error, want any) {
		r.t.Helper()
		r.ok(err)
		r.differ(h.Height, what, got, want)
	}
	id, err := m.EpochIDFromPrev(h.PrevHash)
	at("epoch id", id, err, h.EpochID)
	nextID, err := m.NextEpochIDFromPrev(h.PrevHash)
	at("next epoch id", nextID, err, h.NextEpochID)
	producer, err := m.BlockProducer(h.EpochID, h.Height)
	r.ok(err)
	at("author", producer.AccountID, nil, b.Author)
	bps, err := m.BlockProducersHash(h.NextEpochID)
	at("next_bp_hash", bps, err, h.NextBPHash)
	sync, err := m.EpochSyncDataHash(h.PrevHash)
	at("epoch_sync_data_hash", sync, err, h.EpochSyncDataHash)

	var burnt []primitives.Balance
	var used, limit primitives.Gas
	var headers []*primitives.ChunkHeader
	layout, err := m.ShardLayoutFromPrev(h.PrevHash)
	r.ok(err)
	for i, c := range b.Chunks {
		header := &primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{ShardID: c.ShardID}}
		if s := c.ProposedSplit; s != nil {
			header.ProposedSplit = &primitives.TrieSplit{Boundary: s.Boundary, LeftMemory: s.LeftMemory, RightMemory: s.RightMemory}
		}
		headers = append(headers, header)
		_, _, before, err := m.PrevShard(h.PrevHash, c.ShardID)
		r.ok(err)
		if !h.ChunkMask[i] {
			at("old chunk", c.ChunkHash, nil, r.chunks[h.PrevHash][before].ChunkHash)
			continue
		}
		r.checkProposedSplit(h, &c, before)
		at("shard id", c.ShardID, nil, layout.ShardIDs()[i])
		burnt, used, limit = append(burnt, c.BalanceBurnt), used+c.GasUsed, limit+c.GasLimit
		maker, err := m.CanonicalChunkProducer(h.EpochID, c.ShardID, c.HeightCreated)
		r.ok(err)
		at("chunk signed by "+string(maker.AccountID), c.Signature.Verify(c.ChunkHash[:], maker.PublicKey), nil, true)
		cares, err := m.CaresAboutShard(h.EpochID, maker.AccountID, c.ShardID)
		at("chunk producer cares", cares, err, true)
		if len(r.params.Validators) == 1 { // a sole producer also produces in the next epoch
			cares, err = m.CaresAboutShardNextEpoch(h.PrevHash, maker.AccountID, c.ShardID)
			at("chunk producer cares for the next epoch", cares, err, true)
		}
		fromPrev, err := m.ChunkProducerFromPrev(h.PrevHash, c.ShardID)
		at("chunk producer by parent", fromPrev, err, maker)
		validators, err := m.ChunkValidators(h.EpochID, c.ShardID, c.HeightCreated)
		at("endorsement bytes", (len(validators)+7)/8, err, len(h.ChunkEndorsements[i]))
	}
	prev := r.headers[h.PrevHash]
	minted, err := m.MintedAmount(h.PrevHash)
	r.ok(err)
	supply, err := TotalSupply(prev.TotalSupply, minted, burnt)
	at("total_supply", supply, err, h.TotalSupply)
	price, err := r.gas.Next(prev.GasPrice, used, limit)
	at("gas_price", price, err, h.GasPrice)
	split, err := m.ShardSplit(h.Height, h.PrevHash, h.LastFinalBlock, headers)
	at("shard_split", split, err, h.split(r.t))
	if split != nil {
		r.splits++
	}
	r.checkApprovals(h)
}

// checkProposedSplit checks that a chunk proposes a split only if this was allowed in the block
// before, in which its shard had a new chunk.
func (r *replay) checkProposedSplit(h *recordedHeader, c *recordedChunk, before primitives.ShardIndex) {
	prev := r.headers[h.PrevHash]
	if prev.PrevHash.IsZero() || !prev.ChunkMask[before] {
		return
	}
	rules, err := r.manager.MayProposeSplit(prev.Height, prev.PrevHash)
	r.ok(err)
	if c.ProposedSplit != nil {
		r.differ(h.Height, "may propose a split", rules != nil, true)
	}
}

// checkRunningEpoch checks that the statistics as of the last block of an epoch are the final ones.
func (r *replay) checkRunningEpoch(h *recordedHeader) {
	running, err := r.manager.ValidatorInfoOfBlock(h.Hash)
	r.ok(err)
	final, err := r.manager.ValidatorInfoOfEpoch(h.EpochID)
	r.ok(err)
	for i, v := range running.CurrentValidators {
		w := final.CurrentValidators[i]
		r.differ(h.Height, "stats of "+string(v.AccountID), [3]Stats{v.Blocks, v.Chunks, v.Endorsements}, [3]Stats{w.Blocks, w.Chunks, w.Endorsements})
		var sum uint64
		for _, n := range v.ProducedEndorsementsPerShard {
			sum += n
		}
		r.differ(h.Height, "endorsements per shard", sum, v.Endorsements.Produced)
	}
	running.CurrentValidators, final.CurrentValidators = nil, nil
	r.differ(h.Height, "validators but the current", running, final)
}

// changes compares the stakes that stay locked at the end of an epoch with the accounts that neard
// has updated.
func (r *replay) changes(line []byte) {
	var c struct {
		Changes struct {
			AccountChanges []struct {
				Cause  struct{ Type string }
				Change struct {
					AccountID primitives.AccountID `json:"account_id"`
					Locked    primitives.Balance   `json:"locked"`
				}
			} `json:"account_changes"`
		}
	}
	if err := json.Unmarshal(line, &c); err != nil {
		r.t.Fatal(err)
	}
	var stakes AccountMap[primitives.Balance]
	for _, a := range c.Changes.AccountChanges {
		if a.Cause.Type != "validator_accounts_update" {
			continue
		}
		if stakes == nil {
			var err error
			stakes, _, err = r.manager.StakeInfo(r.head.PrevHash)
			r.ok(err)
		}
		want, _ := stakes.Get(a.Change.AccountID)
		r.differ(r.head.Height, "locked stake of "+string(a.Change.AccountID), want, a.Change.Locked)
		r.updates++
	}
}

func (r *replay) checkApprovals(h *recordedHeader) {
	approvers, err := r.manager.BlockApprovers(h.PrevHash)
	r.ok(err)
	r.differ(h.Height, "approvals", len(h.Approvals) <= len(approvers), true)
	inner := primitives.NewApprovalInner(h.PrevHash, h.PrevHeight, h.Height)
	for i, a := range h.Approvals {
		if a != nil {
			r.differ(h.Height, "approval of "+string(approvers[i].AccountID), a.Verify(inner.SignedBytes(h.Height), approvers[i].PublicKey), true)
		}
	}
}

func (r *replay) validators(line []byte) {
	var v struct {
		EpochID    primitives.EpochID `json:"epoch_id"`
		Validators map[string]any     `json:"validators"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		r.t.Fatal(err)
	}
	info, err := r.manager.ValidatorInfoOfEpoch(v.EpochID)
	r.ok(err)
	got := validatorInfoJSON(r.t, info)
	for _, key := range slices.Sorted(maps.Keys(v.Validators)) {
		r.differ(info.EpochStartHeight, key, got[key], v.Validators[key])
	}
	r.epochs++
	r.kickouts += len(info.PrevEpochKickout)
}

// TestReplayMatchesRecordedChains compares the results of this package with chains that neard has
// recorded: the producer of each block, the signers of each chunk and approval, epoch IDs,
// next_bp_hash, epoch_sync_data_hash (so all bytes of EpochInfo and BlockInfo), total_supply, gas
// price, shard_split, and the validators query. Several times a new Manager replaces the old one.
func TestReplayMatchesRecordedChains(t *testing.T) {
	for _, c := range []struct {
		name                              string
		configs                           string
		epochs, kickouts, splits, updates int // at least these numbers must occur
	}{
		{"four", "", 17, 4, 0, 88},
		{"native", "", 61, 0, 0, 61},
		{"reshard", "reshard-epoch-configs", 36, 0, 4, 36},
		{"storm", "", 4, 0, 0, 4}, // has changes of the gas price
		{"probe", "", 38, 0, 0, 38},
		{"index", "", 21, 0, 0, 0}, // the account changes are in another recording
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var files map[string][]byte
			if c.configs != "" {
				files = readDir(t, filepath.Join(data, "neard", c.configs))
			}
			r := &replay{
				t: t, store: newMemoryStore(),
				heights: map[primitives.Hash]primitives.Height{}, headers: map[primitives.Hash]*recordedHeader{},
				chunks: map[primitives.Hash][]recordedChunk{},
			}
			var answers [][]byte
			lines(t, c.name+".jsonl.gz", func(key string, line []byte) {
				switch key {
				case "genesis":
					r.genesis(line, files)
				case "block":
					r.block(line)
					if len(r.heights)%97 == 0 {
						r.restart()
					}
				case "height":
					if bytes.Contains(line, []byte("validator_accounts_update")) {
						r.changes(line)
					}
				case "epoch_id":
					answers = append(answers, bytes.Clone(line))
				}
			})
			for _, line := range answers { // recorded at the epoch's end, stored with its first block
				r.validators(line)
			}
			t.Logf("%d blocks, %d epochs, %d kickouts, %d splits, %d accounts updated", len(r.heights), r.epochs, r.kickouts, r.splits, r.updates)
			if r.updates < c.updates || r.epochs < c.epochs || r.kickouts < c.kickouts || r.splits < c.splits {
				t.Errorf("saw %d epochs, %d kickouts, %d splits, want %d, %d, %d", r.epochs, r.kickouts, r.splits, c.epochs, c.kickouts, c.splits)
			}
		})
	}
}

func readDir(t *testing.T, dir string) map[string][]byte {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Skipf("no recorded data: %v", err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
