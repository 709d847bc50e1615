package blockfeed

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// lake is a bucket in the layout of NEAR Lake: a folder for each block, named by the block's height
// in twelve digits, with block.json and a file for each shard.
type lake struct {
	base string
	http *http.Client
	// folder is the path of a local folder, if http reads one.
	folder string
}

// Name returns the feed's address as configured.
func (l *lake) Name() string {
	if l.folder != "" {
		return "lake:" + l.folder
	}
	return "lake:" + l.base
}

func (l *lake) file(ctx context.Context, height primitives.Height, name string) ([]byte, error) {
	body, status, err := get(ctx, l.http, fmt.Sprintf("%s/%012d/%s", l.base, height, name))
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return body, nil
	// If the client may not list objects, S3 answers 403 for a missing object.
	case status == http.StatusNotFound, status == http.StatusForbidden:
		return nil, ErrNotYet
	}
	return nil, &statusError{status, clip(body)}
}

// errNoShard means that the bucket has a block, but not the file of a shard.
var errNoShard = errors.New("blockfeed: the bucket has the block, but no file of shard")

// Block reads a block, and for each new chunk of the block the file of its shard. Unless whole is
// set, shards whose chunk has no transactions are left out.
func (l *lake) Block(ctx context.Context, height primitives.Height, whole bool) (d *blockdoc.Document, err error) {
	text, err := l.file(ctx, height, "block.json")
	if errors.Is(err, ErrNotYet) {
		return nil, l.absent(ctx, height)
	}
	if err != nil {
		return nil, err
	}
	if err := decode(ctx, func() (err error) { d, err = blockdoc.ParseBlock(text); return err }); err != nil {
		return nil, err
	}
	for i, h := range d.Block.Body.Chunks {
		if h.HeightIncluded != d.Block.Header.Height || h.TxRoot.IsZero() && !whole {
			continue
		}
		text, err := l.file(ctx, height, fmt.Sprintf("shard_%d.json", h.ShardID))
		add := func() error { return d.AddShard(text) }
		if err != nil && !errors.Is(err, ErrNotYet) {
			return nil, err // the file of the index may be absent, which would hide that the request failed
		}
		before := len(d.Shards)
		if err == nil && decode(ctx, add) == nil && d.Shards[before].ID == h.ShardID {
			continue
		}
		// In older buckets a shard's file is named by its index, not by its ID. Then the file that was read may be
		// that of another shard.
		d.Shards = d.Shards[:before]
		text, err = l.file(ctx, height, fmt.Sprintf("shard_%d.json", i))
		if errors.Is(err, ErrNotYet) {
			return nil, fmt.Errorf("%w: %w %d", err, errNoShard, h.ShardID)
		}
		if err != nil {
			return nil, err
		}
		if err := decode(ctx, add); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// absent distinguishes a skipped height from a height whose block is not stored yet: the height was
// skipped if the bucket has a block above it.
func (l *lake) absent(ctx context.Context, height primitives.Height) error {
	if l.folder != "" { // a folder has no list
		return ErrNotYet
	}
	q := url.Values{"list-type": {"2"}, "delimiter": {"/"}, "max-keys": {"2"}, "start-after": {fmt.Sprintf("%012d/~", height)}}
	body, status, err := get(ctx, l.http, l.base+"/?"+q.Encode())
	if err != nil {
		return err
	}
	switch status {
	case http.StatusOK:
	case http.StatusForbidden, http.StatusNotFound: // the client may not list objects, or the bucket has no list
		return ErrNotYet
	default:
		return fmt.Errorf("%w: list of the bucket's blocks: %w", ErrNotYet, &statusError{status, clip(body)})
	}
	var list struct {
		Prefixes []struct {
			Prefix string `xml:"Prefix"`
		} `xml:"CommonPrefixes"`
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("blockfeed: parse the list of the bucket's blocks: %w", err)
	}
	for _, p := range list.Prefixes {
		parts := strings.Split(strings.TrimSuffix(p.Prefix, "/"), "/")
		if n, err := strconv.ParseUint(parts[len(parts)-1], 10, 64); err == nil && primitives.Height(n) > height {
			return ErrSkipped
		}
	}
	return ErrNotYet
}

// Code returns nil: a bucket cannot be asked for code.
func (l *lake) Code(context.Context, primitives.Height, primitives.AccountID, primitives.Hash) ([]byte, error) {
	return nil, nil
}
