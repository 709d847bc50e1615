package blockfeed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// neardata is a server with a document for each height. The newest blocks are not final.
type neardata struct {
	base string
	http *http.Client
}

// Name returns the feed's address.
func (n *neardata) Name() string { return n.base }

// Block requests a document. The server may hold the request until a block that is due arrives.
func (n *neardata) Block(ctx context.Context, height primitives.Height, _ bool) (d *blockdoc.Document, err error) {
	body, status, err := get(ctx, n.http, fmt.Sprintf("%s/v0/block_opt/%d", n.base, height))
	if err != nil {
		return nil, err
	}
	switch status {
	case http.StatusOK:
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, http.StatusServiceUnavailable:
		// The block may be due, or the server may be too busy.
		return nil, fmt.Errorf("%w: %w", ErrNotYet, &statusError{status, clip(body)})
	case http.StatusNotFound:
		if bytes.Contains(body, []byte("BLOCK_NOT_KEPT")) {
			return nil, &statusError{status, clip(body)}
		}
		return nil, ErrNotYet
	default:
		return nil, &statusError{status, clip(body)}
	}
	if string(bytes.TrimSpace(body)) == "null" {
		return nil, ErrSkipped
	}
	err = decode(ctx, func() (err error) { d, err = blockdoc.Parse(body); return err })
	return d, err
}

// Code requests code over a path that only a troupe serves; neardata has no such path.
func (n *neardata) Code(ctx context.Context, height primitives.Height, _ primitives.AccountID, hash primitives.Hash) (code []byte, err error) {
	body, status, err := get(ctx, n.http, fmt.Sprintf("%s/v0/block_opt/%d/code/%v", n.base, height, hash))
	if err != nil || status != http.StatusOK {
		return nil, err
	}
	if err := json.Unmarshal(body, &code); err != nil {
		return nil, nil // the reply is not JSON, so it does not come from a server with neardata's layout
	}
	return code, nil
}
