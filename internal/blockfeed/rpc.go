package blockfeed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// jsonRPC is the feed of a node's JSON-RPC. The node may be a neard or a troupe.
type jsonRPC struct {
	url  string
	http *http.Client
	head atomic.Uint64 // highest block height that the feed has reported
}

// Name returns the feed's address as configured.
func (j *jsonRPC) Name() string { return "rpc:" + j.url }

// refusal is an error that the node has replied.
type refusal struct {
	Name  string `json:"name"`
	Cause struct {
		Name string `json:"name"`
	} `json:"cause"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (r *refusal) Error() string {
	return fmt.Sprintf("blockfeed: the feed answers %s %s: %s", r.Cause.Name, r.Message, clip(r.Data))
}

func (j *jsonRPC) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "feed", "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, j.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	reply, status, err := do(j.http, r)
	if err != nil {
		return nil, err
	}
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  *refusal        `json:"error"`
	}
	switch err := json.Unmarshal(reply, &a); {
	case err != nil:
		return nil, &statusError{status, clip(reply)}
	case a.Error != nil:
		return nil, a.Error
	case len(a.Result) == 0:
		return nil, &statusError{status, clip(reply)}
	}
	return a.Result, nil
}

// Block requests a block and its chunks: all new chunks if whole is set, else the new chunks with
// transactions.
func (j *jsonRPC) Block(ctx context.Context, height primitives.Height, whole bool) (*blockdoc.Document, error) {
	text, err := j.call(ctx, "block", map[string]any{"block_id": height})
	if e := (*refusal)(nil); errors.As(err, &e) && e.Cause.Name == "UNKNOWN_BLOCK" {
		return nil, j.absent(ctx, height)
	}
	if err != nil {
		return nil, err
	}
	d, err := blockdoc.ParseBlock(text)
	if err != nil {
		return nil, err
	}
	j.raise(d.Block.Header.Height)
	for _, h := range d.Block.Body.Chunks {
		if h.HeightIncluded != d.Block.Header.Height || h.TxRoot.IsZero() && !whole {
			continue
		}
		text, err := j.call(ctx, "chunk", map[string]any{"chunk_id": h.ChunkHash()})
		if err != nil {
			return nil, err
		}
		if err := d.AddChunk(text); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// absent distinguishes a skipped height from one that the node does not have yet.
func (j *jsonRPC) absent(ctx context.Context, height primitives.Height) error {
	if primitives.Height(j.head.Load()) > height {
		return ErrSkipped
	}
	text, err := j.call(ctx, "block", map[string]any{"finality": "optimistic"})
	if err != nil {
		return err
	}
	d, err := blockdoc.ParseBlock(text)
	if err != nil {
		return err
	}
	if j.raise(d.Block.Header.Height); d.Block.Header.Height > height {
		return ErrSkipped
	}
	return ErrNotYet
}

func (j *jsonRPC) raise(h primitives.Height) {
	for {
		was := j.head.Load()
		if uint64(h) <= was || j.head.CompareAndSwap(was, uint64(h)) {
			return
		}
	}
}

// Code requests the code in the block (only a troupe serves such code), the account's current code,
// and global code.
func (j *jsonRPC) Code(ctx context.Context, height primitives.Height, account primitives.AccountID, hash primitives.Hash) (code []byte, err error) {
	text, err := j.call(ctx, "troupe_block_document", map[string]any{"height": height, "finality": "optimistic", "part": "code", "code_hash": hash})
	if err == nil && json.Unmarshal(text, &code) == nil && code != nil && primitives.HashBytes(code) == hash {
		return code, nil
	}
	for _, q := range []map[string]any{
		{"request_type": "view_code", "finality": "optimistic", "account_id": account},
		{"request_type": "view_global_contract_code", "finality": "optimistic", "code_hash": hash},
		{"request_type": "view_global_contract_code_by_account_id", "finality": "optimistic", "account_id": account},
	} {
		var text json.RawMessage
		if text, err = j.call(ctx, "query", q); err != nil {
			continue
		}
		var a struct {
			Code []byte `json:"code_base64"`
		}
		if err = json.Unmarshal(text, &a); err == nil && primitives.HashBytes(a.Code) == hash {
			return a.Code, nil
		}
	}
	return nil, err
}

// Send forwards a transaction to the node.
func (j *jsonRPC) Send(ctx context.Context, signed []byte) error {
	_, err := j.call(ctx, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"})
	return err
}
