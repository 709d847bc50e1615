package localnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	askLimit  = 2 * time.Second // timeout of one request to a node
	maxReply  = 64 << 20        // maximum size of a reply in bytes; a chunk has at most 4 MiB of transactions
	maxBlocks = 16              // maximum number of blocks that are read at a time
	noRoot    = "11111111111111111111111111111111"
)

// client sends the requests to the nodes. A node may also be a neard.
var client = &http.Client{}

// call calls a method of the JSON-RPC at url.
func call(ctx context.Context, url, method string, params, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Cause struct{ Name string } }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return errors.New(reply.Error.Cause.Name)
	}
	return json.Unmarshal(reply.Result, result)
}

// ask queries a node's status.
func ask(ctx context.Context, url string) Answer {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var status struct {
		Info struct {
			Height  uint64 `json:"latest_block_height"`
			Syncing bool
		} `json:"sync_info"`
	}
	var network struct {
		Peers int `json:"num_active_peers"`
	}
	if err := errors.Join(call(ctx, url, "status", []any{}, &status), call(ctx, url, "network_info", []any{}, &network)); err != nil {
		return Answer{Err: "no answer"}
	}
	return Answer{Height: status.Info.Height, Syncing: status.Info.Syncing, Peers: network.Peers}
}

// blockView contains the fields of a block that look reads.
type blockView struct {
	Header struct {
		Height     uint64
		PrevHeight uint64 `json:"prev_height"`
		Ordinal    uint64 `json:"block_ordinal"`
		PrevHash   string `json:"prev_hash"`
		Time       string `json:"timestamp_nanosec"`
	}
	Chunks []struct {
		Hash     string `json:"chunk_hash"`
		Included uint64 `json:"height_included"`
		Root     string `json:"tx_root"`
	}
}

// look reads the validators and at most maxBlocks blocks above height after. The first look reads
// one block. urls are nodes, best first. look requests each chunk from one node after another,
// because not every node has every shard.
func look(ctx context.Context, urls []string, after uint64) (out []any) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var seen []Block
	params := map[string]any{"finality": "optimistic"}
	for len(seen) < maxBlocks {
		var b blockView
		if err := call(ctx, urls[0], "block", params, &b); err != nil || b.Header.Height <= after {
			break
		}
		block, err := summarize(ctx, urls, &b)
		if err != nil {
			break
		}
		seen = append(seen, block)
		if after == 0 || b.Header.PrevHeight <= after {
			break
		}
		params = map[string]any{"block_id": b.Header.PrevHash}
	}
	if len(seen) > 0 {
		slices.Reverse(seen)
		out = append(out, Seen{seen})
	}
	if e, err := duties(ctx, urls[0]); err == nil {
		out = append(out, e)
	}
	return out
}

func summarize(ctx context.Context, urls []string, b *blockView) (Block, error) {
	h := &b.Header
	nanos, err := strconv.ParseInt(h.Time, 10, 64)
	if err != nil {
		return Block{}, fmt.Errorf("timestamp_nanosec of block %d: %w", h.Height, err)
	}
	out := Block{Height: h.Height, Ordinal: h.Ordinal, At: time.Unix(0, nanos), Skipped: gap(h.Height, h.PrevHeight+1)}
	for _, c := range b.Chunks {
		if out.Chunks++; c.Included != h.Height {
			out.MissedChunks++
			continue
		}
		if c.Root == noRoot {
			continue
		}
		var chunk struct{ Transactions []json.RawMessage }
		for _, url := range urls {
			if call(ctx, url, "chunk", map[string]any{"chunk_id": c.Hash}, &chunk) == nil {
				break
			}
		}
		out.Transactions += len(chunk.Transactions)
	}
	return out, nil
}

func duties(ctx context.Context, url string) (Epoch, error) {
	var v struct {
		Height  uint64 `json:"epoch_height"`
		Current []struct {
			AccountID       string `json:"account_id"`
			Shards          []uint64
			Blocks          uint64 `json:"num_produced_blocks"`
			ExpectedBlocks  uint64 `json:"num_expected_blocks"`
			Chunks          uint64 `json:"num_produced_chunks"`
			ExpectedChunks  uint64 `json:"num_expected_chunks"`
			Endorsed        uint64 `json:"num_produced_endorsements"`
			ExpectedEndorse uint64 `json:"num_expected_endorsements"`
		} `json:"current_validators"`
	}
	if err := call(ctx, url, "validators", []any{nil}, &v); err != nil {
		return Epoch{}, err
	}
	e := Epoch{Height: v.Height, Duties: map[string]Duty{}}
	for _, c := range v.Current {
		e.Duties[c.AccountID] = Duty{Shards: c.Shards, Blocks: c.Blocks, ExpectedBlocks: c.ExpectedBlocks, Chunks: c.Chunks,
			ExpectedChunks: c.ExpectedChunks, Endorsed: c.Endorsed, ExpectedEndorsements: c.ExpectedEndorse}
	}
	return e, nil
}
