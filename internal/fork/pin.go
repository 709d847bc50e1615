package fork

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Spec names the block to fork: URL (the newest final block), URL@height, URL@block hash,
// URL@final, or URL@tx:HASH, the block before the one that includes the transaction.
type Spec struct {
	URL    string
	Height primitives.Height
	Block  primitives.Hash
	Tx     primitives.Hash
}

// ParseSpec parses a spec.
func ParseSpec(text string) (s Spec, err error) {
	s.URL = text
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		if at, ok := parseAt(text[i+1:]); ok {
			s, s.URL = at, text[:i]
		}
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return s, fmt.Errorf("%q is not a URL", s.URL)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return s, fmt.Errorf("%q is not an http:// or https:// URL, optionally followed by @HEIGHT, @BLOCK_HASH, @final or @tx:HASH", s.URL)
	case isPort(u.User) && !strings.ContainsAny(u.Host, ".:"): // host:port@x, and not user:password@host
		return s, fmt.Errorf("%q is none of HEIGHT, BLOCK_HASH, final and tx:HASH, one of which may follow the @", u.Host)
	}
	return s, nil
}

// isPort returns whether the password of a URL is a port. u may be nil.
func isPort(u *url.Userinfo) bool {
	password, _ := u.Password()
	_, err := strconv.ParseUint(password, 10, 16)
	return err == nil
}

func parseAt(text string) (s Spec, ok bool) {
	if text == "final" {
		return s, true
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		s.Height = primitives.Height(n)
		return s, n > 0
	}
	at := &s.Block
	if hash, is := strings.CutPrefix(text, "tx:"); is {
		text, at = hash, &s.Tx
	}
	h, err := primitives.ParseHash(text)
	*at = h
	return s, err == nil
}

// any returns whether the spec names no block, so that the newest final one is taken.
func (s *Spec) any() bool { return s.Height == 0 && s.Block.IsZero() && s.Tx.IsZero() }

// Pin is the block that a fork was made of, and the data of the fork's first block. Pin is stored
// in the fork's home.
type Pin struct {
	URL      string                     `json:"url"`
	ChainID  string                     `json:"chain_id"`
	Hash     primitives.Hash            `json:"block_hash"`
	Height   primitives.Height          `json:"block_height"`
	Time     uint64                     `json:"timestamp_nanosec"`
	Tx       *primitives.Hash           `json:"before_tx,omitempty"`
	Protocol primitives.ProtocolVersion `json:"protocol_version"`
	GasPrice primitives.Balance         `json:"gas_price"`
	MaxPrice primitives.Balance         `json:"max_gas_price"`
	GasLimit primitives.Gas             `json:"gas_limit"`
	Layout   primitives.ShardLayout     `json:"shard_layout"`
	// null: when the fork was made, the forked chain had no block after the pinned one
	Confirmed *Confirmed `json:"confirmed_by"`
}

// Confirmed are the state roots after a block, from the header of the next block.
type Confirmed struct {
	Hash  primitives.Hash                        `json:"block_hash"`
	Roots map[primitives.ShardID]primitives.Hash `json:"state_roots"` // state roots of shards with a new chunk in the next block
}

// Errors of Check. ErrChain: the remote node's chain ID is not the one in the Pin. ErrBlockGone:
// the remote node does not have the pinned block, or has a different block at that height. Reads of
// the state also return ErrBlockGone if the node has deleted the state.
var (
	ErrChain     = errors.New("the remote node serves another chain")
	ErrBlockGone = errors.New("the remote node no longer has the forked block")
)

type status struct {
	ChainID string `json:"chain_id"`
}

// forkable are the fields of EXPERIMENTAL_protocol_config that a fork uses.
type forkable struct {
	ChainID  string                     `json:"chain_id"`
	Protocol primitives.ProtocolVersion `json:"protocol_version"`
	MaxPrice primitives.Balance         `json:"max_gas_price"`
	Layout   primitives.ShardLayout     `json:"shard_layout"`
}

// Resolve finds the block that a spec names, and returns the pin of a new fork.
func (c *Client) Resolve(s Spec) (*Pin, error) {
	p := &Pin{URL: s.URL}
	b, err := c.pinned(s)
	if err != nil {
		return nil, err
	}
	h, hash := b.Header, b.Hash()
	p.Hash, p.Height, p.Time, p.GasPrice, p.GasLimit = hash, h.Height, h.Timestamp, h.NextGasPrice, b.Body.Chunks[0].GasLimit
	if !s.Tx.IsZero() {
		p.Tx = &s.Tx
	}
	in, err := c.Call("EXPERIMENTAL_protocol_config", map[string]any{"block_id": hash})
	if err != nil {
		return nil, fmt.Errorf("get the protocol config of block %v: %w", hash, err)
	}
	var f forkable
	if err := json.Unmarshal(in, &f); err != nil {
		return nil, fmt.Errorf("get the protocol config of block %v: %w", hash, err)
	}
	p.ChainID, p.Protocol, p.MaxPrice, p.Layout = f.ChainID, f.Protocol, f.MaxPrice, f.Layout
	if err := sameShards(b, p.Layout); err != nil {
		return nil, err
	}
	if p.ChainID == "" {
		return nil, fmt.Errorf("%w: the protocol config of block %v has no chain_id", errReply, hash)
	}
	if p.MaxPrice.Less(p.GasPrice) {
		return nil, fmt.Errorf("%w: the protocol config of block %v has max_gas_price %v, must be at least %v, the gas price of the block",
			errReply, hash, p.MaxPrice, p.GasPrice)
	}
	p.Confirmed, err = c.confirm(hash, h.Height, p.Layout)
	return p, err
}

// pinned finds the block that a spec names.
func (c *Client) pinned(s Spec) (*primitives.Block, error) {
	id := map[string]any{}
	switch {
	case !s.Tx.IsZero():
		block, err := c.blockOfTx(s.Tx)
		if err != nil {
			return nil, fmt.Errorf("find the block that includes transaction %v: %w", s.Tx, err)
		}
		if s.Block = block.Header.PrevHash; s.Block.IsZero() {
			return nil, fmt.Errorf("no block precedes the one that includes transaction %v", s.Tx)
		}
		id["block_id"] = s.Block
	case !s.Block.IsZero():
		id["block_id"] = s.Block
	case s.Height > 0:
		id["block_id"] = s.Height
	default:
		id["finality"] = "final"
	}
	in, err := c.Call("block", id)
	if err != nil {
		return nil, fmt.Errorf("get the block to fork: %w", err)
	}
	b, err := parseBlock(in)
	switch {
	case err != nil:
		return nil, err
	case !s.Block.IsZero() && b.Hash() != s.Block, s.Height > 0 && b.Header.Height != s.Height:
		return nil, fmt.Errorf("%w: the remote node returned block %d (%v) instead of the requested block", errReply, b.Header.Height, b.Hash())
	case len(b.Body.Chunks) == 0:
		return nil, fmt.Errorf("%w: block %v has no shards", errReply, b.Hash())
	}
	return b, nil
}

// blockOfTx finds the block that includes a transaction.
func (c *Client) blockOfTx(tx primitives.Hash) (*primitives.Block, error) {
	// Nodes that hold all shards don't look at the sender.
	in, err := c.Call("tx", map[string]any{"tx_hash": tx, "sender_account_id": "near", "wait_until": "INCLUDED"})
	if err != nil {
		return nil, err
	}
	var t struct {
		Outcome struct {
			ID    primitives.Hash `json:"id"`
			Block primitives.Hash `json:"block_hash"`
		} `json:"transaction_outcome"`
	}
	if err := json.Unmarshal(in, &t); err != nil || t.Outcome.ID != tx {
		return nil, fmt.Errorf("%w: the status is not that of transaction %v", errReply, tx)
	}
	if in, err = c.Call("block", map[string]any{"block_id": t.Outcome.Block}); err != nil {
		return nil, err
	}
	b, err := parseBlock(in)
	if err == nil && b.Hash() != t.Outcome.Block {
		err = fmt.Errorf("%w: it returned block %v instead of %v", errReply, b.Hash(), t.Outcome.Block)
	}
	return b, err
}

// sameShards returns an error if a block's shards are not the shards of a layout.
func sameShards(b *primitives.Block, layout primitives.ShardLayout) error {
	ids := make([]primitives.ShardID, len(b.Body.Chunks))
	for i := range b.Body.Chunks {
		ids[i] = b.Body.Chunks[i].ShardID
	}
	if layout.IsZero() || !slices.Equal(ids, layout.ShardIDs()) {
		return fmt.Errorf("%w: block %v has shards %v, which are not those of the shard layout of its protocol version", errReply, b.Hash(), ids)
	}
	return nil
}

// gap is the number of heights above a block at which the next block is searched for.
const gap = 8

// confirm returns the hash of the next block and the state roots in that block. It returns nil if
// there is no next block yet.
func (c *Client) confirm(hash primitives.Hash, height primitives.Height, layout primitives.ShardLayout) (*Confirmed, error) {
	for next := height + 1; next <= height+gap; next++ {
		in, err := c.Call("block", map[string]any{"block_id": next})
		if isCause(err, "UNKNOWN_BLOCK") {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get the block after block %v: %w", hash, err)
		}
		b, err := parseBlock(in)
		switch {
		case err != nil:
			return nil, err
		case b.Header.Height != next || b.Header.PrevHash != hash:
			return nil, fmt.Errorf("%w: the next block %d (%v) has parent %v, not %v",
				ErrBlockGone, next, b.Hash(), b.Header.PrevHash, hash)
		}
		out := &Confirmed{Hash: b.Hash(), Roots: map[primitives.ShardID]primitives.Hash{}}
		// from that block on the chain has a different layout, so the state roots are of different
		// shards
		if sameShards(b, layout) != nil {
			return out, nil
		}
		for i, x := range b.Body.Chunks {
			if b.Header.ChunkMask[i] {
				out.Roots[x.ShardID] = x.PrevStateRoot
			}
		}
		return out, nil
	}
	return nil, nil
}

// Check checks that the remote node has the pinned block and belongs to the chain of that block.
func (c *Client) Check(p *Pin) error {
	in, err := c.Call("status", []any{})
	if err != nil {
		return fmt.Errorf("get the status of the remote node: %w", err)
	}
	var s status
	if err := json.Unmarshal(in, &s); err != nil {
		return fmt.Errorf("get the status of the remote node: %w", err)
	}
	if s.ChainID != p.ChainID {
		return fmt.Errorf("%w: %q, but this is a fork of %q", ErrChain, s.ChainID, p.ChainID)
	}
	if in, err = c.Call("block", map[string]any{"block_id": p.Height}); err != nil {
		if isCause(err, "UNKNOWN_BLOCK") {
			return fmt.Errorf("%w %d (%v): use the URL of an archival node", ErrBlockGone, p.Height, p.Hash)
		}
		return fmt.Errorf("get block %d: %w", p.Height, err)
	}
	b, err := parseBlock(in)
	if err != nil {
		return err
	}
	if b.Hash() != p.Hash {
		return fmt.Errorf("%w: block %d is now %v, it was %v", ErrBlockGone, p.Height, b.Hash(), p.Hash)
	}
	return nil
}
