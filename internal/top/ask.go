package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/internal/prom"
)

// Bounds of a query to a node.
const (
	askLimit = 5 * time.Second
	askBytes = 32 << 20
)

// Ask queries a node. The node may be a troupe or a neard.
func Ask(ctx context.Context, url string) (*Look, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	url = strings.TrimSuffix(url, "/")
	l := &Look{}
	var s struct {
		Chain   string `json:"chain_id"`
		Uptime  int64  `json:"uptime_sec"`
		Version *struct{ Version, Build string }
		Halted  *struct{ Reason string }
	}
	err := read(ctx, url+"/status", func(r io.Reader) error { return json.NewDecoder(r).Decode(&s) })
	if err != nil {
		return nil, err
	}
	if s.Version == nil {
		return nil, fmt.Errorf("%s/status: the reply has no version: this is not a NEAR node", url)
	}
	l.Chain, l.Version, l.Uptime = s.Chain, s.Version.Version, time.Duration(s.Uptime)*time.Second
	if s.Halted != nil {
		l.Halted = s.Halted.Reason
	}
	err = read(ctx, url+"/metrics", func(r io.Reader) (err error) {
		l.Metrics, err = prom.Read(r)
		return err
	})
	l.At = time.Now()
	return l, err
}

func read(ctx context.Context, url string, take func(io.Reader) error) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return fmt.Errorf("no reply: start the node, or give its address with --url: %w", err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, r.Status)
	}
	if err := take(io.LimitReader(r.Body, askBytes)); err != nil {
		return fmt.Errorf("%s: the reply is not that of a NEAR node: %w", url, err)
	}
	return nil
}
