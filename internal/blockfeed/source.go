package blockfeed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// Source is a block feed.
type Source interface {
	Name() string
	// Block returns the block at a height. If whole is set, the document has all new chunks of the
	// block, otherwise at least those with transactions. ErrNotYet: the feed does not have the
	// block yet; before this reply, the feed may have waited for the block. With a statusError, the
	// feed does not say whether it has the block. ErrSkipped: the chain has no block at that height.
	Block(ctx context.Context, height primitives.Height, whole bool) (*blockdoc.Document, error)
	// Code returns code by its hash: code that the block at a height carries, that the account has,
	// or that the account deploys globally. nil: the feed does not know the code. The caller must
	// check the hash of the result.
	Code(context.Context, primitives.Height, primitives.AccountID, primitives.Hash) ([]byte, error)
}

// Errors of Source.Block.
var (
	ErrNotYet  = errors.New("blockfeed: the feed does not have this block yet")
	ErrSkipped = errors.New("blockfeed: the chain has no block at this height")
)

// maxReply is the maximum size of a reply in bytes.
const maxReply = 64 << 20

// Kinds are the prefixes of a feed's address.
var Kinds = []string{"neardata", "lake", "rpc"}

// Parse returns the feed of KIND:URL. Without a kind, the feed is a server with neardata's layout.
func Parse(text string) (Source, error) {
	kind, rest, _ := strings.Cut(text, ":")
	if strings.HasPrefix(rest, "//") || rest == "" {
		kind, rest = "neardata", text
	}
	u, err := url.Parse(rest)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("feed %q: want KIND:URL, where KIND is one of %s and URL begins with http:// or https://",
			text, strings.Join(Kinds, ", "))
	}
	base := strings.TrimSuffix(rest, "/")
	switch kind {
	case "neardata":
		return &neardata{base: base, http: client()}, nil
	case "lake":
		return &lake{base: base, http: client()}, nil
	case "rpc":
		return &jsonRPC{url: rest, http: client()}, nil
	}
	return nil, fmt.Errorf("feed %q: unknown kind %q, must be one of %s", text, kind, strings.Join(Kinds, ", "))
}

// requestLimit is the maximum duration of a request, including the time for which the feed waits
// for a block before it replies.
const requestLimit = 20 * time.Second

func client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 8
	t.ResponseHeaderTimeout = requestLimit
	return &http.Client{Transport: t, Timeout: 2 * requestLimit, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > 3 {
			return errors.New("blockfeed: the feed redirects more than three times")
		}
		return nil
	}}
}

// statusError is a reply with an unexpected HTTP status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("blockfeed: the feed answers HTTP %d: %s", e.status, e.text)
}

// do sends a request and reads the reply.
func do(c *http.Client, r *http.Request) ([]byte, int, error) {
	a, err := c.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(counted(r.Context(), a.Body), maxReply+1))
	if err == nil && len(body) > maxReply {
		err = fmt.Errorf("blockfeed: the reply has more than %d bytes, the limit", maxReply)
	}
	return body, a.StatusCode, err
}

func get(ctx context.Context, c *http.Client, url string) ([]byte, int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	return do(c, r)
}

// decodeTime is the key of a context's *time.Duration, to which a Source adds the time that it decodes.
type decodeTime struct{}

// decode runs f, which decodes a reply.
func decode(ctx context.Context, f func() error) error {
	begin := time.Now()
	err := f()
	if spent, is := ctx.Value(decodeTime{}).(*time.Duration); is {
		*spent += time.Since(begin)
	}
	return err
}

func clip(body []byte) string {
	if len(body) > 200 {
		body = body[:200]
	}
	return strings.ToValidUTF8(string(body), "?")
}
