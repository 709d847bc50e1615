package view

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// eachLine runs a test for each line of chains made by neard (nearcore f0c7706f1): the whole
// recordings if they are present, and always the sample, lines of native, four, storm and reshard
// chosen so that every action, change, cause and kickout occurs.
func eachLine(t *testing.T, each func(*testing.T, []byte)) {
	whole := testutil.Data("")
	for _, path := range []string{
		"testdata/sample.jsonl.gz", filepath.Join(whole, "neard/native.jsonl.gz"), filepath.Join(whole, "neard/four.jsonl.gz"),
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			testutil.Need(t, path, "only testdata/sample.jsonl.gz is compared")
			for n, line := range testutil.Lines(t, path) {
				if testing.Short() && n%10 != 0 && path[0] != 't' {
					continue
				}
				each(t, line)
				if t.Failed() {
					t.Fatalf("line %d", n)
				}
			}
		})
	}
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs %s", what, firstDifference(got, want))
	}
}

type line struct {
	Block      json.RawMessage              `json:"block"`
	Chunk      json.RawMessage              `json:"chunk"`
	Effects    []struct{ Type string }      `json:"effects"`
	Changes    map[string][]json.RawMessage `json:"changes"`
	Light      json.RawMessage              `json:"light"`
	Validators json.RawMessage              `json:"validators"`
	Config     json.RawMessage              `json:"protocol_config"`
	SignedTx   string                       `json:"signed_tx_base64"`
	Status     *struct {
		Level           string            `json:"final_execution_status"`
		Status          json.RawMessage   `json:"status"`
		Transaction     json.RawMessage   `json:"transaction"`
		TxOutcome       json.RawMessage   `json:"transaction_outcome"`
		ReceiptsOutcome []json.RawMessage `json:"receipts_outcome"`
		Receipts        []json.RawMessage `json:"receipts"`
	} `json:"status"`
}

func TestRecordedViewsAreReproduced(t *testing.T) {
	t.Parallel()
	eachLine(t, func(t *testing.T, in []byte) {
		var l line
		parse(t, in, &l)
		switch {
		case l.Block != nil:
			var j blockJSON
			parse(t, l.Block, &j)
			same(t, "block", AppendBlock(nil, j.Author, j.value(t)), l.Block)
		case l.Chunk != nil:
			var j struct {
				Author primitives.AccountID `json:"author"`
				Header json.RawMessage      `json:"header"`
			}
			parse(t, l.Chunk, &j)
			var h chunkHeaderJSON
			parse(t, j.Header, &h)
			same(t, "chunk header", AppendChunkHeader(nil, h.value(t)), j.Header)
		case l.Changes != nil:
			for _, list := range l.Changes {
				for _, raw := range list {
					var j changeJSON
					parse(t, raw, &j)
					same(t, "change", AppendChange(nil, j.value(t)), raw)
				}
			}
		case l.Config != nil:
			checkConfig(t, l.Config)
		case l.Light != nil:
			checkLight(t, l.Light)
		case l.Validators != nil:
			checkValidators(t, l.Validators)
		case l.Status != nil && l.Status.Transaction != nil:
			checkTransaction(t, &l)
		}
	})
}

// checkTransaction compares the transaction, its outcomes, and the receipts that follow from it:
// the first one, which has its actions.
func checkTransaction(t *testing.T, l *line) {
	tx := new(primitives.SignedTransaction)
	if err := borsh.Unmarshal(decodeTx(t, l.SignedTx), tx); err != nil {
		t.Fatal(err)
	}
	same(t, "transaction", AppendSignedTransaction(nil, tx), l.Status.Transaction)
	for _, raw := range append(l.Status.ReceiptsOutcome, l.Status.TxOutcome) {
		var j outcomeJSON
		parse(t, raw, &j)
		same(t, "outcome", AppendOutcomeProof(nil, j.value(t)), raw)
	}
	for _, raw := range l.Status.Receipts {
		var j struct {
			Predecessor primitives.AccountID `json:"predecessor_id"`
			Receiver    primitives.AccountID `json:"receiver_id"`
			ID          primitives.Hash      `json:"receipt_id"`
			Receipt     struct {
				Action *struct {
					Actions  json.RawMessage      `json:"actions"`
					GasPrice primitives.Balance   `json:"gas_price"`
					Inputs   []primitives.Hash    `json:"input_data_ids"`
					Yield    bool                 `json:"is_promise_yield"`
					RefundTo primitives.AccountID `json:"refund_to"`
					SignerID primitives.AccountID `json:"signer_id"`
					Key      primitives.PublicKey `json:"signer_public_key"`
					Outputs  []struct {
						DataID   primitives.Hash      `json:"data_id"`
						Receiver primitives.AccountID `json:"receiver_id"`
					} `json:"output_data_receivers"`
				}
			} `json:"receipt"`
		}
		parse(t, raw, &j)
		a := j.Receipt.Action
		if a == nil {
			continue
		}
		body := &primitives.ActionReceipt{SignerID: a.SignerID, SignerPublicKey: a.Key, GasPrice: a.GasPrice, InputDataIDs: a.Inputs,
			Yield: a.Yield, RefundTo: a.RefundTo}
		for _, o := range a.Outputs {
			body.OutputDataReceivers = append(body.OutputDataReceivers, primitives.DataReceiver{DataID: o.DataID, ReceiverID: o.Receiver})
		}
		if bytes.Equal(AppendActions(nil, tx.Actions), a.Actions) {
			body.Actions = tx.Actions
		} else if body.Actions = oneTransfer(t, a.Actions); body.Actions == nil {
			continue
		}
		r := &primitives.Receipt{PredecessorID: j.Predecessor, ReceiverID: j.Receiver, ID: j.ID, Body: body}
		same(t, "receipt", AppendReceipt(nil, r), raw)
	}
}

// oneTransfer decodes the actions of a refund; nil if it is not one.
func oneTransfer(t *testing.T, in json.RawMessage) []primitives.Action {
	var one []struct {
		Transfer *struct{ Deposit primitives.Balance }
	}
	if json.Unmarshal(in, &one) != nil || len(one) != 1 || one[0].Transfer == nil {
		return nil
	}
	return []primitives.Action{&primitives.Transfer{Deposit: one[0].Transfer.Deposit}}
}

func checkLight(t *testing.T, in json.RawMessage) {
	var j struct {
		Approvals []*primitives.Signature `json:"approvals_after_next"`
		Inner     struct {
			BlockMerkleRoot primitives.Hash   `json:"block_merkle_root"`
			EpochID         primitives.Hash   `json:"epoch_id"`
			Height          primitives.Height `json:"height"`
			NextBPHash      primitives.Hash   `json:"next_bp_hash"`
			NextEpochID     primitives.Hash   `json:"next_epoch_id"`
			OutcomeRoot     primitives.Hash   `json:"outcome_root"`
			PrevStateRoot   primitives.Hash   `json:"prev_state_root"`
			Timestamp       uint64            `json:"timestamp"`
		} `json:"inner_lite"`
		RestHash  primitives.Hash `json:"inner_rest_hash"`
		NextInner primitives.Hash `json:"next_block_inner_hash"`
		NextBPs   []stakeJSON     `json:"next_bps"`
		PrevHash  primitives.Hash `json:"prev_block_hash"`
	}
	parse(t, in, &j)
	x := &j.Inner
	l := &primitives.LightClientBlock{PrevBlockHash: j.PrevHash, NextBlockInnerHash: j.NextInner, InnerRestHash: j.RestHash,
		NextBPs: stakes(j.NextBPs), InnerLite: primitives.BlockHeaderInnerLite{Height: x.Height, EpochID: x.EpochID,
			NextEpochID: x.NextEpochID, PrevStateRoot: x.PrevStateRoot, PrevOutcomeRoot: x.OutcomeRoot, Timestamp: x.Timestamp,
			NextBPHash: x.NextBPHash, BlockMerkleRoot: x.BlockMerkleRoot}}
	for _, a := range j.Approvals {
		sig := primitives.Signature("")
		if a != nil {
			sig = *a
		}
		l.ApprovalsAfterNext = append(l.ApprovalsAfterNext, sig)
	}
	same(t, "light client block", AppendLightClientBlock(nil, l), in)
}

func checkValidators(t *testing.T, in json.RawMessage) {
	var j struct {
		Proposals []stakeJSON `json:"current_proposals"`
		Current   []struct {
			AccountID primitives.AccountID `json:"account_id"`
			EB        uint64               `json:"num_expected_blocks"`
			EC        uint64               `json:"num_expected_chunks"`
			ECS       []uint64             `json:"num_expected_chunks_per_shard"`
			EE        uint64               `json:"num_expected_endorsements"`
			EES       []uint64             `json:"num_expected_endorsements_per_shard"`
			PB        uint64               `json:"num_produced_blocks"`
			PC        uint64               `json:"num_produced_chunks"`
			PCS       []uint64             `json:"num_produced_chunks_per_shard"`
			PE        uint64               `json:"num_produced_endorsements"`
			PES       []uint64             `json:"num_produced_endorsements_per_shard"`
			PublicKey primitives.PublicKey `json:"public_key"`
			Shards    []primitives.ShardID `json:"shards"`
			Endorsed  []primitives.ShardID `json:"shards_endorsed"`
			Stake     primitives.Balance   `json:"stake"`
		} `json:"current_validators"`
		EpochHeight uint64            `json:"epoch_height"`
		EpochStart  primitives.Height `json:"epoch_start_height"`
		Next        []struct {
			AccountID primitives.AccountID `json:"account_id"`
			PublicKey primitives.PublicKey `json:"public_key"`
			Shards    []primitives.ShardID `json:"shards"`
			Stake     primitives.Balance   `json:"stake"`
		} `json:"next_validators"`
		Kickouts []struct {
			AccountID primitives.AccountID `json:"account_id"`
			Reason    json.RawMessage      `json:"reason"`
		} `json:"prev_epoch_kickout"`
		Rewards map[primitives.AccountID]primitives.Balance `json:"validator_reward_paid_prev_epoch"`
	}
	parse(t, in, &j)
	v := &Validators{EpochHeight: j.EpochHeight, EpochStartHeight: j.EpochStart, Proposals: stakes(j.Proposals)}
	for _, c := range j.Current {
		v.Current = append(v.Current, CurrentValidator{AccountID: c.AccountID, PublicKey: c.PublicKey, Stake: c.Stake, Shards: c.Shards,
			ProducedBlocks: c.PB, ExpectedBlocks: c.EB, ProducedChunks: c.PC, ExpectedChunks: c.EC, ProducedChunksPerShard: c.PCS,
			ExpectedChunksPerShard: c.ECS, ProducedEndorsements: c.PE, ExpectedEndorsements: c.EE,
			ProducedEndorsementsPerShard: c.PES, ExpectedEndorsementsPerShard: c.EES, ShardsEndorsed: c.Endorsed})
	}
	for _, n := range j.Next {
		v.Next = append(v.Next, NextValidator{AccountID: n.AccountID, PublicKey: n.PublicKey, Stake: n.Stake, Shards: n.Shards})
	}
	for _, k := range j.Kickouts {
		v.PrevKickouts = append(v.PrevKickouts, kickout(t, k.AccountID, k.Reason))
	}
	for a, r := range j.Rewards {
		v.PrevRewards = append(v.PrevRewards, Reward{a, r})
	}
	slices.SortFunc(v.PrevRewards, func(a, b Reward) int { return bytes.Compare([]byte(a.AccountID), []byte(b.AccountID)) })
	same(t, "validators", AppendValidators(nil, v), in)
}

func kickout(t *testing.T, who primitives.AccountID, in json.RawMessage) Kickout {
	k := Kickout{AccountID: who}
	switch string(in) {
	case `"Unstaked"`:
		k.Kind = KickoutUnstaked
	case `"DidNotGetASeat"`:
		k.Kind = KickoutDidNotGetASeat
	case `"_UnusedSlashed"`:
	default:
		var one map[string]struct {
			Produced, Expected uint64
			Stake              primitives.Balance         `json:"stake_u128"`
			Threshold          primitives.Balance         `json:"threshold_u128"`
			Version            primitives.ProtocolVersion `json:"version"`
			NetworkVersion     primitives.ProtocolVersion `json:"network_version"`
		}
		parse(t, in, &one)
		for name, x := range one {
			k.Kind = map[string]KickoutKind{"NotEnoughBlocks": KickoutNotEnoughBlocks, "NotEnoughChunks": KickoutNotEnoughChunks,
				"NotEnoughStake": KickoutNotEnoughStake, "NotEnoughChunkEndorsements": KickoutNotEnoughChunkEndorsements,
				"ProtocolVersionTooOld": KickoutProtocolVersionTooOld}[name]
			k.Produced, k.Expected, k.Stake, k.Threshold = x.Produced, x.Expected, x.Stake, x.Threshold
			k.Version, k.NetworkVersion = x.Version, x.NetworkVersion
		}
	}
	return k
}

func checkConfig(t *testing.T, in json.RawMessage) {
	type ratio [2]int32
	var j struct {
		A  uint64                     `json:"block_producer_kickout_threshold"`
		B  string                     `json:"chain_id"`
		C  uint64                     `json:"chunk_producer_kickout_threshold"`
		D  uint64                     `json:"chunk_validator_only_kickout_threshold"`
		E  bool                       `json:"dynamic_resharding"`
		F  uint64                     `json:"epoch_length"`
		G  primitives.Balance         `json:"fishermen_threshold"`
		H  primitives.Gas             `json:"gas_limit"`
		I  ratio                      `json:"gas_price_adjustment_rate"`
		J  primitives.Height          `json:"genesis_height"`
		K  primitives.Balance         `json:"max_gas_price"`
		L  ratio                      `json:"max_inflation_rate"`
		M  uint64                     `json:"max_kickout_stake_perc"`
		N  primitives.Balance         `json:"min_gas_price"`
		O  uint64                     `json:"minimum_stake_divisor"`
		P  ratio                      `json:"minimum_stake_ratio"`
		Q  uint64                     `json:"minimum_validators_per_shard"`
		R  uint64                     `json:"num_block_producer_seats"`
		S  uint64                     `json:"num_blocks_per_year"`
		T  ratio                      `json:"online_max_threshold"`
		U  ratio                      `json:"online_min_threshold"`
		V  ratio                      `json:"protocol_reward_rate"`
		W  primitives.AccountID       `json:"protocol_treasury_account"`
		X  ratio                      `json:"protocol_upgrade_stake_threshold"`
		Y  primitives.ProtocolVersion `json:"protocol_version"`
		Z  json.RawMessage            `json:"runtime_config"`
		AA primitives.ShardLayout     `json:"shard_layout"`
		AB bool                       `json:"shuffle_shard_assignment_for_chunk_producers"`
		AC uint64                     `json:"target_validator_mandates_per_shard"`
		AD uint64                     `json:"transaction_validity_period"`
		AE time.Time                  `json:"genesis_time"`
	}
	parse(t, in, &j)
	of := func(r ratio) Ratio { return Ratio{r[0], r[1]} }
	c := &ProtocolConfig{BlockProducerKickoutThreshold: j.A, ChainID: j.B, ChunkProducerKickoutThreshold: j.C,
		ChunkValidatorOnlyKickout: j.D, DynamicResharding: j.E, EpochLength: j.F, FishermenThreshold: j.G, GasLimit: j.H,
		GasPriceAdjustmentRate: of(j.I), GenesisHeight: j.J, MaxGasPrice: j.K, MaxInflationRate: of(j.L), MaxKickoutStakePercent: j.M,
		MinGasPrice: j.N, MinimumStakeDivisor: j.O, MinimumStakeRatio: of(j.P), MinimumValidatorsPerShard: j.Q,
		NumBlockProducerSeats: j.R, NumBlocksPerYear: j.S, OnlineMaxThreshold: of(j.T), OnlineMinThreshold: of(j.U),
		ProtocolRewardRate: of(j.V), ProtocolTreasuryAccount: j.W, ProtocolUpgradeStakeThreshold: of(j.X), ProtocolVersion: j.Y,
		RuntimeConfig: raw(j.Z), ShardLayout: j.AA, ShuffleShardAssignment: j.AB, TargetValidatorMandates: j.AC,
		TransactionValidityPeriod: j.AD, GenesisTime: uint64(j.AE.UnixNano())}
	same(t, "protocol config", AppendProtocolConfig(nil, c), in)
}
